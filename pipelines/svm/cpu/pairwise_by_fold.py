"""One-vs-one beyond memory, fold by fold: the kernel block of one pair at a time."""

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np

from pipelines.svm.cpu.beyond_memory import open_rows
from pipelines.svm.cpu.blocks import mark_support
from pipelines.svm.cpu.by_fold import solve_by_fold
from pipelines.svm.cpu.class_products import ClassProducts
from pipelines.svm.cpu.in_memory import open_block, scratch
from pipelines.svm.cpu.kernels import cross_products, kernel_values, shared_products
from pipelines.svm.cpu.pairwise import solve_pairwise
from pipelines.svm.cpu.score import score_pairs
from pipelines.svm.cpu.smo import MAX_ROWS
from pipelines.svm.cpu.solve import longest_first, solve_pair
from pipelines.svm.cpu.threads import Resources
from pipelines.svm.path_result import Scores
from pipelines.svm.search import Search
from pipelines.svm.solutions import Solutions

Scored = tuple[Scores, float]  # and their seconds

# Multiplications from which one gamma takes more than about a minute on two cores.
PRODUCTS_OF_A_MINUTE = 3e12


def solve_and_score_by_fold(
    search: Search,
    rows: np.ndarray,
    products: ClassProducts | None,
    out: Solutions,
    resources: Resources,
) -> Iterator[tuple[int, Scored]]:
    """Solve one gamma; yield each fold with its scores and their seconds.

    With products that are there, or where it takes long, folds are solved one after another,
    and each is given as soon as it is done. Without them a pair's are then made for each
    fold, of the rows that train, with five folds three times what they cost where they are
    made once.

    Parameters
    ----------
    rows : float array of shape (n, n_features), sorted, from ``prepare_rows``
    products : of all rows, or None where they have no room
    out : Solutions, output
    """
    one = _OneGamma(search, rows, products, out, resources)
    if products is None and _n_products(search) * rows.shape[1] < PRODUCTS_OF_A_MINUTE:
        solve_pairwise(search, rows, [search.kernel], resources, [out])
        yield from zip(search.folds, resources.pool.map(one.score, search.folds), strict=True)
    else:
        out.coefficients = search.empty_coefficients()
        yield from one.by_fold()
    resources.clock.lap("solve and score")


def _n_products(search: Search) -> int:
    """Return products of rows: of each pair's with each other, half of them, and all with all."""
    layout = search.layout
    pairs = sum(len(problem.pair_rows(layout)) ** 2 for problem in search.problems)
    return pairs // 2 + len(layout.order) ** 2


def _rows_at_once(n: int, memory_bytes: int) -> int:
    """Return for how many rows the kernel against all rows fits in a small share of memory."""
    return int(max(64, min(1024, 0.03 * memory_bytes // (4 * n))))


@dataclass(frozen=True)
class _OneGamma:
    """The search, its rows and its output: the arguments of ``solve_and_score_by_fold``."""

    search: Search
    rows: np.ndarray
    products: ClassProducts | None
    out: Solutions
    resources: Resources

    def by_fold(self) -> Iterator[tuple[int, Scored]]:
        """Solve pair after pair of each fold, and score it."""
        search, resources = self.search, self.resources
        numbers = longest_first(search.layout, search.problems)
        alone = [number for number in numbers if not self._fits_beside(number)]
        beside = [number for number in numbers if self._fits_beside(number)]
        if not alone:
            jobs = [[(number, fold)] for fold in search.folds for number in numbers]
            yield from solve_by_fold(
                jobs, self._solve, self._finish, resources.pool, resources.on_progress
            )
            return
        for turn, fold in enumerate(search.folds):
            for done, number in enumerate(alone, 1):
                self._solve(number, fold, resources.pool)
                resources.on_progress((turn + done / len(numbers)) / len(search.folds))
            list(resources.pool.map(partial(self._solve, fold=fold), beside))
            resources.on_progress((turn + 1) / len(search.folds))
            yield fold, self._finish(fold)

    def _fits_beside(self, number: int) -> bool:
        """Return whether every thread may hold a kernel of a pair's rows at once."""
        n = len(self.search.problems[number].pair_rows(self.search.layout))
        return self.resources.n_threads * 4 * n**2 <= 0.8 * self.resources.memory_bytes

    def _finish(self, fold: int) -> Scored:
        mark_support(self.out.pairs[fold], self.out.support[fold])
        return self.score(fold)

    def _solve(self, number: int, fold: int, pool: Executor | None = None) -> None:
        """Solve a pair on a fold; the threads of ``pool``, if given, make the kernel."""
        search, resources = self.search, self.resources
        members = search.problems[number].pair_rows(search.layout)
        some = members[search.weights[fold][members] > 0]
        if len(some) > MAX_ROWS or 4 * len(some) ** 2 > 0.8 * resources.memory_bytes:
            opened = partial(open_rows, self.rows[some], search.kernel, resources)
        else:
            if self.products is None:
                block = shared_products(self.rows[some], search.kernel, pool)
            else:
                block = scratch(len(some))
                self.products.between(some, some, block)
            kernel_values(block, search.kernel, block, pool)
            exact = resources.exact_kernel(self.rows, search.kernel)
            better = None if exact is None else partial(exact.of, some)
            opened = partial(open_block, block, np.arange(len(some)), None, better)
        solve_pair(search, number, fold, some, opened, self.out)

    def _values(self, some: np.ndarray) -> np.ndarray:
        """Return the kernel of some rows, increasing, with all."""
        if self.products is None:
            values = cross_products(self.rows[some], self.rows, self.search.kernel)
        else:
            values = np.empty((len(some), len(self.rows)), np.float32)
            self.products.between(some, np.arange(len(self.rows)), values)
        return kernel_values(values, self.search.kernel, out=values)

    def score(self, fold: int) -> Scored:
        """Return scores of a fold's validation rows, a few at a time, and their seconds."""
        began, search = time.perf_counter(), self.search
        exact = self.resources.exact_kernel(self.rows, search.kernel)
        in_order = np.argsort(search.validation[fold])
        validation = search.validation[fold][in_order]
        step = _rows_at_once(len(self.rows), self.resources.memory_bytes)
        found = []
        for at in range(0, max(1, len(validation)), step):
            some = validation[at : at + step]
            between = None if exact is None else lambda at, some=some: exact.between(some[at])
            found.append(
                score_pairs(
                    self._values(some), np.arange(len(some)), fold, self.out, search, between
                )
            )
        return Scores.of(found, np.argsort(in_order)), time.perf_counter() - began
