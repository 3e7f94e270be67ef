"""Binary problems solved from a kernel in memory, of all rows or of a pair's rows."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np

from pipelines.data.fits import Progress
from pipelines.svm.cpu.blocks import class_pulls, copy_block, mark_support
from pipelines.svm.cpu.by_fold import Job, jobs_in_order, solve_by_fold
from pipelines.svm.cpu.exact import ExactKernel
from pipelines.svm.cpu.small_pairs import has_small_pairs, shares_of_classes, walk_small_pairs
from pipelines.svm.cpu.solve import Walker, longest_first, solve_pair, solve_rest
from pipelines.svm.cpu.solver_threads import Resources, scratch
from pipelines.svm.cpu.walk import walk
from pipelines.svm.search import PathSearch
from pipelines.svm.solutions import Solutions

Found = TypeVar("Found")


def _open_whole(
    kernel: np.ndarray,
    exact: ExactKernel | None,
    resources: Resources,
    starts: np.ndarray,
    weights: np.ndarray,
) -> tuple[Walker, np.ndarray]:
    """``OpenKernel`` for a whole kernel; the pool's threads compute its sums over classes."""
    n = len(kernel)
    pulls = np.empty((len(weights), len(starts) - 1, n))
    step = max(1, (1 << 19) // (4 * n))

    def run(first: int) -> None:
        class_pulls(kernel, starts, weights, first, min(first + step, n), pulls)

    list(resources.pool.map(run, range(0, n, step)))
    return partial(walk, kernel, np.diagonal(kernel).copy(), exact, None), pulls


def open_block(
    source: np.ndarray,
    places: np.ndarray,
    exact: ExactKernel | None,
    rows: np.ndarray,
    starts: np.ndarray,
    weights: np.ndarray,
) -> tuple[Walker, np.ndarray]:
    """``OpenKernel`` for some rows of ``source``, copied to a contiguous block.

    Parameters
    ----------
    source : float32 array of shape (m, m)
        Kernel of some rows.
    places : int64 array
        The rows' numbers in ``source``, ascending.
    exact : ExactKernel or None
        The kernel in double precision.
    rows : int64 array
        The rows' numbers in ``exact``, as for ``walk``.
    starts, weights : see ``OpenKernel``
    """
    n, block = places.size, source
    if n < len(source):
        block = scratch("block", n, n, np.float32)
        copy_block(source, places, block)
    pulls = np.empty((len(weights), len(starts) - 1, n))
    class_pulls(block, starts, weights, 0, n, pulls)
    return partial(walk, block, np.diagonal(block).copy(), exact, rows), pulls


def solve_in_memory(
    kernel: np.ndarray,
    exact: ExactKernel | None,
    search: PathSearch,
    out: Solutions,
    finish: Callable[[int], Found],
    resources: Resources,
) -> Iterator[tuple[int, Found] | Progress]:
    """Solve every problem on every fold, from the kernel of all rows; see ``solve_by_fold``.

    With two classes, nothing is copied: the rows that a fold leaves out stay in the problem with a
    bound of 0. Their decision values come for free, and the folds share the sums over classes and
    the kernel rows in double precision.

    Parameters
    ----------
    kernel : float32 array of shape (n, n)
    exact : ExactKernel or None
        The same kernel in double precision, computed on demand; None for a kernel that is not
        positive definite.
    search : PathSearch
    out : Solutions
        Output.
    finish : callable of a fold
    resources : Resources
    """
    open_kernel = partial(_open_whole, kernel, exact, resources)
    if not search.one_vs_one:
        return solve_rest(search, open_kernel, out, finish, resources, resources.pool)
    out.coefficients = search.empty_coefficients()
    if search.of_two:
        if search.validation:
            out.decisions = search.empty_decisions()
        bounds = [search.bounds(0, fold) for fold in range(len(search.weights))]
        walker, pulls = open_kernel(search.layout.starts, np.stack(bounds))

    def solve(number: int, fold: int) -> None:
        if number < 0:
            for pair in walk_small_pairs(search, kernel, exact, fold, class_ranges[number], out):
                solve(pair, fold)
            return
        rows = search.problems[number].pair_rows(search.layout)
        if search.of_two:
            solve_pair(search, number, fold, rows, lambda *_: (walker, pulls[[fold]]), out)
            return
        rows = rows[search.weights[fold, rows] > 0]
        solve_pair(search, number, fold, rows, partial(open_block, kernel, rows, exact, rows), out)

    def with_support(fold: int) -> Found:
        mark_support(out.pairs[fold], out.support[fold])
        return finish(fold)

    if out.pairs.dtype == np.float64 and has_small_pairs(search):
        class_ranges = shares_of_classes(search, resources.n_threads)
        # A number below 0 in place of a problem's is an index of ``class_ranges``, whose pairs are
        # solved in one call.
        jobs: list[Job] = [[(-n, f)] for f in search.folds for n in range(len(class_ranges), 0, -1)]
    else:
        numbers = longest_first(search.layout, search.problems)
        jobs = jobs_in_order(numbers, search.folds, len(kernel))
    return solve_by_fold(jobs, solve, with_support, resources.pool)
