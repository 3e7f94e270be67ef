"""Binary problems of more rows than a kernel in memory can have."""

import threading
from concurrent.futures import Executor
from functools import partial

import numpy as np

from .blocks import class_pulls
from .kernels import Kernel
from .layout import Layout, Problem
from .row_cache import KernelRows
from .row_walk import largest_working_set, walk_rows
from .solve import Settings, Solutions, longest_first, pair_labels, solve_one_rest, write_pair

# Kernel values that one thread makes at once for the sums over classes.
_BLOCK_BYTES = 1 << 25


def pulls_by_rows(
    source: KernelRows, starts: np.ndarray, weights: np.ndarray, pool: Executor
) -> np.ndarray:
    """Kernel times weights over each class, without keeping the kernel.

    starts : int64 (n_classes + 1,), where each class begins
    weights : float64 (n_folds, n)

    Returns float64 (n_folds, n_classes, n).
    """
    n = source.diagonal.size
    pulls = np.empty((len(weights), len(starts) - 1, n))
    step = int(max(16, min(n, _BLOCK_BYTES // (8 * n))))

    def work(first: int) -> None:
        some = np.arange(first, min(first + step, n))
        found = np.empty((*pulls.shape[:2], some.size))
        class_pulls(source.block(some, slice(0, n)), starts, weights, 0, some.size, found)
        pulls[:, :, some] = found

    list(pool.map(work, range(0, n, step)))
    return pulls


def _open_rows(
    rows: np.ndarray, kernel: Kernel, gamma: float, memory_bytes: int, pool: Executor
) -> tuple[KernelRows, int]:
    """Kernel rows in five eighths of the memory, and the size of a working set."""
    source = KernelRows(rows, kernel, gamma, memory_bytes // 8 * 5, pool)
    return source, largest_working_set(len(rows), memory_bytes)


def solve_rest_by_rows(
    rows: np.ndarray,
    kernel: Kernel,
    gamma: float,
    layout: Layout,
    problems: list[Problem],
    weights: np.ndarray,
    settings: Settings,
    out: Solutions,
    pool: Executor,
    memory_bytes: int,
) -> None:
    """As ``solve_rest``, one problem after another, its folds in sequence.

    rows : float (n, n_features), sorted, from ``prepare_rows``
    """
    n, n_C = len(rows), settings.Cs.size
    out.decisions = np.empty((len(weights), len(problems), n_C, n), np.float32)
    if len(weights) == 1:
        out.multipliers = np.zeros((1, len(problems), n_C, n), np.float32)
    source, largest = _open_rows(rows, kernel, gamma, memory_bytes, pool)
    pulls = pulls_by_rows(source, layout.starts, weights, pool)
    walker, guard = partial(walk_rows, source, largest), threading.Lock()
    for number in longest_first(layout, problems):
        for fold, weight in enumerate(weights):
            solve_one_rest(walker, layout, problems[number], number, fold, weight, pulls[fold],
                           settings, out, guard)  # fmt: skip


def solve_pair_by_rows(
    rows: np.ndarray,
    kernel: Kernel,
    gamma: float,
    members: np.ndarray,
    layout: Layout,
    problem: Problem,
    number: int,
    fold: int,
    weight: np.ndarray,
    settings: Settings,
    out: Solutions,
    pool: Executor,
    memory_bytes: int,
) -> None:
    """As ``solve_pair`` for a pair whose kernel does not fit.

    rows : float (n, n_features), sorted, from ``prepare_rows``
    members : int64, the pair's training rows, sorted numbers
    """
    found = pair_labels(members, layout, problem, number, fold, weight, settings, out)
    if found is None:
        return
    y, bounds, n_first = found
    source, largest = _open_rows(rows[members], kernel, gamma, memory_bytes, pool)
    starts = np.array([0, n_first, members.size])
    pulls = pulls_by_rows(source, starts, bounds[None], pool)
    betas = np.empty((settings.Cs.size, members.size), np.float32)
    write_pair(
        partial(walk_rows, source, largest), y, bounds, pulls[0], betas, members, n_first,
        problem, number, fold, settings, out,
    )  # fmt: skip
