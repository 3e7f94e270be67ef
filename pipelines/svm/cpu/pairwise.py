"""One-vs-one beyond memory: the kernel block of one pair of classes at a time."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pipelines.svm.cpu.beyond_memory import open_rows
from pipelines.svm.cpu.blocks import mark_support
from pipelines.svm.cpu.exact import ExactKernel
from pipelines.svm.cpu.in_memory import drop_scratch, open_block
from pipelines.svm.cpu.kernels import cross_products, kernel_values, shared_products
from pipelines.svm.cpu.score import score_pairs
from pipelines.svm.cpu.smo import MAX_ROWS
from pipelines.svm.cpu.solve import longest_first, solve_pair
from pipelines.svm.cpu.threads import Resources
from pipelines.svm.kernel import Kernel
from pipelines.svm.path_result import Scores
from pipelines.svm.search import Search
from pipelines.svm.solutions import Solutions

# For each gamma and fold, places among the validation rows and their scores.
_Pieces = list[list[list[tuple[np.ndarray, Scores]]]]


def _gammas_at_once(search: Search, n: int, memory_bytes: int) -> int:
    """Return for how many gammas the multipliers fit in half of the memory."""
    one = 4 * n * search.layout.n_classes * search.settings.Cs.size * len(search.weights)
    return max(1, int(0.5 * memory_bytes // one))


def _rows_at_once(n: int, memory_bytes: int) -> int:
    """Return for how many rows products and kernel against all rows fit in a quarter of it."""
    return int(max(64, min(4096, 0.25 * memory_bytes // (3 * 4 * n))))


@dataclass(frozen=True)
class _Pairs:
    """The search, its rows and its output: the arguments of ``solve_pairwise``."""

    search: Search
    rows: np.ndarray
    kernels: Sequence[Kernel]
    resources: Resources
    solutions: list[Solutions]

    def solve(self, number: int) -> None:
        """Solve a pair for every gamma and fold, from products made once."""
        search, kernels = self.search, self.kernels
        members = search.problems[number].pair_rows(search.layout)
        shared = shared_products(np.ascontiguousarray(self.rows[members]), search.kernel)
        transform = None
        if len(kernels) == 1:  # no other gamma needs the products
            kernel_values(shared, kernels[0], out=shared)
        for kernel, out in zip(kernels, self.solutions, strict=True):
            if len(kernels) > 1:
                transform = partial(_kernel_in_place, kernel=kernel)
            for fold in search.folds:
                places = np.flatnonzero(search.weights[fold][members])
                exact = self.resources.exact_kernel(self.rows, kernel)
                better = None if exact is None else partial(exact.of, members[places])
                open_kernel = partial(open_block, shared, places, transform, better)
                solve_pair(search, number, fold, members[places], open_kernel, out)
        drop_scratch()

    def solve_by_rows(self, number: int) -> None:
        """Solve a pair whose block exceeds memory, for every gamma and fold."""
        search = self.search
        members = search.problems[number].pair_rows(search.layout)
        for kernel, out in zip(self.kernels, self.solutions, strict=True):
            for fold in search.folds:
                some = members[search.weights[fold][members] > 0]
                open_kernel = partial(open_rows, self.rows[some], kernel, self.resources)
                solve_pair(search, number, fold, some, open_kernel, out)

    def scores(self) -> tuple[_Pieces, np.ndarray]:
        """Return scores of every gamma and fold, a block of rows at a time."""
        search, rows, resources, kernels = self.search, self.rows, self.resources, self.kernels
        n, n_folds, clock = len(rows), len(search.weights), resources.clock
        pieces: _Pieces = [[[] for _ in range(n_folds)] for _ in kernels]
        seconds = np.zeros((len(kernels), n_folds))
        step = _rows_at_once(n, resources.memory_bytes)
        for first in range(0, n, step):
            shared = cross_products(rows[first : first + step], rows, search.kernel)
            values = np.empty_like(shared)
            clock.lap("distances")
            for g, kernel in enumerate(kernels):
                kernel_values(shared, kernel, values, resources.pool)
                clock.lap("kernel")
                exact = resources.exact_kernel(rows, kernel)
                score = partial(_score_fold, search, values, first, exact, self.solutions[g])
                scored = resources.pool.map(score, search.folds)
                for fold, (at, found, spent) in zip(search.folds, scored, strict=True):
                    pieces[g][fold].append((at, found))
                    seconds[g, fold] += spent
                clock.lap("score")
        return pieces, seconds


def _kernel_in_place(block: np.ndarray, kernel: Kernel) -> None:
    kernel_values(block, kernel, out=block)


def _pair_bytes(search: Search, number: int, one_gamma: bool) -> int:
    """Return memory of a pair's kernel, and of its products where gammas or folds share them.

    Beyond any for more rows than an inner solve can number.
    """
    n = len(search.problems[number].pair_rows(search.layout))
    if n > MAX_ROWS:
        return sys.maxsize
    whole = one_gamma and all(weight.all() for weight in search.weights)
    return 4 * n * n * (1 if whole else 2)


def solve_pairwise(
    search: Search,
    rows: np.ndarray,
    kernels: Sequence[Kernel],
    resources: Resources,
    solutions: list[Solutions] | None = None,
) -> list[Solutions]:
    """Solve every pair for every gamma and fold, within memory for pairs' blocks.

    Pairs that fit beside each other are solved on the pool's threads, others one
    after another, and those that do not fit from kernel rows.

    Parameters
    ----------
    rows : float array of shape (n, n_features), sorted, from ``prepare_rows``
    kernels : one for each gamma
    solutions : of each gamma, empty; by default new ones

    Returns
    -------
    Solutions of each gamma, with ``coefficients``
    """
    pool, memory_bytes = resources.pool, resources.memory_bytes
    solutions = solutions or [search.empty_solutions() for _ in kernels]
    for out in solutions:
        out.coefficients = search.empty_coefficients()
    numbers = longest_first(search.layout, search.problems)
    needed = [_pair_bytes(search, number, len(kernels) == 1) for number in numbers]
    pairs = _Pairs(search, rows, kernels, resources, solutions)
    beside, n_solved = [], 0
    for number, size in zip(numbers, needed, strict=True):
        if size * resources.n_threads <= 0.8 * memory_bytes:
            beside.append(number)
        elif size <= 0.8 * memory_bytes:
            pairs.solve(number)
        else:
            pairs.solve_by_rows(number)
        n_solved += number not in beside[-1:]
        resources.on_progress(n_solved / len(numbers))
    for n_beside, _ in enumerate(pool.map(pairs.solve, beside), 1):
        resources.on_progress((n_solved + n_beside) / len(numbers))
    for out in solutions:
        list(pool.map(mark_support, out.pairs, out.support))
    return solutions


def solve_and_score_pairwise(
    search: Search, rows: np.ndarray, kernels: Sequence[Kernel], resources: Resources
) -> Iterator[tuple[tuple[int, int], Solutions, tuple[Scores, float]]]:
    """Solve and score like the search in memory, with a pair's block per thread.

    A pair's products are made once for all gammas and folds; the products of
    validation rows with all rows once more, for scoring.

    Yields
    ------
    Number of a gamma and of a fold, the gamma's solutions, the fold's scores and their seconds.
    """
    batch = _gammas_at_once(search, len(rows), resources.memory_bytes)
    for at in range(0, len(kernels), batch):
        some = kernels[at : at + batch]
        solutions = solve_pairwise(search, rows, some, resources)
        resources.clock.lap("solve")
        pieces, seconds = _Pairs(search, rows, some, resources, solutions).scores()
        for g, out in enumerate(solutions):
            for fold in search.folds:
                places, scored = zip(*pieces[g][fold], strict=True)
                scores = Scores.of(scored, np.argsort(np.concatenate(places)))
                yield (at + g, fold), out, (scores, seconds[g, fold])


def _score_fold(
    search: Search,
    values: np.ndarray,
    first: int,
    exact: ExactKernel | None,
    solutions: Solutions,
    fold: int,
) -> tuple[np.ndarray, Scores, float]:
    """Return scores of the fold's validation rows among the rows of ``values``."""
    began, validation = time.perf_counter(), search.validation[fold]
    at = np.flatnonzero((validation >= first) & (validation < first + len(values)))
    between = None if exact is None else lambda some: exact.between(first + some)
    found = score_pairs(values, validation[at] - first, fold, solutions, search, between)
    return at, found, time.perf_counter() - began
