"""One-vs-one beyond memory: the kernel block of one pair of classes at a time, fold by fold."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

import numpy as np

from pipelines.data.fits import Progress
from pipelines.svm.cpu.beyond_memory import open_rows
from pipelines.svm.cpu.blocks import mark_support
from pipelines.svm.cpu.by_fold import solve_by_fold
from pipelines.svm.cpu.class_products import ClassProducts
from pipelines.svm.cpu.in_memory import open_block
from pipelines.svm.cpu.kernels import cross_products, kernel_values, shared_products
from pipelines.svm.cpu.score import score_pairs
from pipelines.svm.cpu.smo import MAX_ROWS
from pipelines.svm.cpu.solve import longest_first, solve_pair
from pipelines.svm.cpu.solver_threads import Resources, scratch
from pipelines.svm.grid_cells import Scores
from pipelines.svm.search import PathSearch
from pipelines.svm.solutions import Solutions

Found = TypeVar("Found")


def solve_pairwise(
    search: PathSearch,
    rows: np.ndarray,
    products: ClassProducts | None,
    out: Solutions,
    finish: Callable[[int], Found],
    resources: Resources,
) -> Iterator[tuple[int, Found] | Progress]:
    """Solve all pairs of classes on every fold; see ``solve_by_fold``.

    Pairs of which one for each thread fits in memory are solved side by side, larger pairs one
    after another, and pairs that do not fit at all from kernel rows.

    Parameters
    ----------
    search : PathSearch
    rows : float array of shape (n, n_features), sorted, from ``prepare_rows``
    products : ClassProducts or None
        Products of all rows; None if they do not fit: the products of a pair's training rows are
        then computed for each fold.
    out : Solutions
        Output.
    finish : callable of a fold
    resources : Resources
    """
    out.coefficients = search.empty_coefficients()
    numbers = longest_first(search.layout, search.problems)
    room = 0.8 * resources.memory_bytes

    def solve(number: int, fold: int, pool: Executor | None = None) -> None:
        """Solve a pair on a fold; the threads of ``pool``, if there is one, compute the kernel."""
        members = search.problems[number].pair_rows(search.layout)
        train_rows = members[search.weights[fold][members] > 0]
        if len(train_rows) > MAX_ROWS or 4 * len(train_rows) ** 2 > room:
            opened = partial(open_rows, rows[train_rows], search.kernel, resources)
        else:
            if products is None:
                block = shared_products(rows[train_rows], search.kernel, pool)
            else:
                block = scratch("block", len(train_rows), len(train_rows), np.float32)
                products.between(train_rows, train_rows, block)
            kernel_values(block, search.kernel, block, pool)
            exact = resources.exact_kernel(rows, search.kernel)
            opened = partial(open_block, block, np.arange(len(train_rows)), exact, train_rows)
        solve_pair(search, number, fold, train_rows, opened, out)

    def with_support(fold: int) -> Found:
        mark_support(out.pairs[fold], out.support[fold])
        return finish(fold)

    sizes = [len(problem.pair_rows(search.layout)) for problem in search.problems]
    concurrent_problems = [n for n in numbers if resources.n_threads * 4 * sizes[n] ** 2 <= room]
    sequential_problems = [n for n in numbers if n not in concurrent_problems]
    if not sequential_problems:
        jobs = [[(number, fold)] for fold in search.folds for number in numbers]
        yield from solve_by_fold(jobs, solve, with_support, resources.pool)
        return
    for turn, fold in enumerate(search.folds):
        for done, number in enumerate(sequential_problems, 1):
            solve(number, fold, resources.pool)
            yield Progress((turn + done / len(numbers)) / len(search.folds))
        list(resources.pool.map(partial(solve, fold=fold), concurrent_problems))
        yield Progress((turn + 1) / len(search.folds))
        yield fold, with_support(fold)


def score_pairwise(
    search: PathSearch,
    rows: np.ndarray,
    products: ClassProducts | None,
    solutions: Solutions,
    resources: Resources,
    fold: int,
) -> Scores:
    """Score the validation rows of a fold, so few at a time that their kernel with all rows takes
    a small part of the memory.

    Parameters
    ----------
    search : PathSearch
    rows, products : as for ``solve_pairwise``
    solutions : Solutions
    resources : Resources
    fold : int
    """
    n, kernel, exact = len(rows), search.kernel, resources.exact_kernel(rows, search.kernel)
    in_order = np.argsort(search.validation[fold])
    validation, scores = search.validation[fold][in_order], []
    step = int(max(64, min(1024, 0.03 * resources.memory_bytes // (4 * n))))
    for at in range(0, max(1, len(validation)), step):
        part = validation[at : at + step]
        if products is None:
            values = cross_products(rows[part], rows, kernel)
        else:
            values = np.empty((len(part), n), np.float32)
            products.between(part, np.arange(n), values)
        kernel_values(values, kernel, out=values)
        exact_values = (
            None
            if exact is None
            else lambda at, other_numbers, part=part: exact.between(part[at], other_numbers)
        )
        scores.append(
            score_pairs(values, np.arange(len(part)), fold, solutions, search, exact_values)
        )
    return Scores.of(scores, np.argsort(in_order))
