"""Binary problems of more rows than a kernel in memory can have."""

from concurrent.futures import Executor
from functools import partial

import numpy as np

from pipelines.svm.cpu.blocks import class_pulls
from pipelines.svm.cpu.row_cache import KernelRows
from pipelines.svm.cpu.row_walk import largest_working_set, walk_rows
from pipelines.svm.cpu.solve import Walker
from pipelines.svm.cpu.threads import Resources
from pipelines.svm.kernel import Kernel

# Kernel values that one thread makes at once for the sums over classes.
_BLOCK_BYTES = 1 << 25


def _pulls(
    source: KernelRows, starts: np.ndarray, weights: np.ndarray, pool: Executor
) -> np.ndarray:
    """Return kernel times weights over each class, without keeping the kernel.

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


def open_rows(
    rows: np.ndarray, kernel: Kernel, resources: Resources, starts: np.ndarray, weights: np.ndarray
) -> tuple[Walker, np.ndarray]:
    """Return ``OpenKernel`` of rows that are kept in five eighths of the memory.

    rows : float (n, n_features), sorted, from ``prepare_rows``
    """
    source = KernelRows(rows, kernel, resources.memory_bytes // 8 * 5, resources.pool)
    largest = largest_working_set(len(rows), resources.memory_bytes)
    return partial(walk_rows, source, largest), _pulls(source, starts, weights, resources.pool)
