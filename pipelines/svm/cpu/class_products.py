"""Products of all rows in half the memory: one block for each pair of classes, for all gammas."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from itertools import combinations, pairwise

import numpy as np

from pipelines.svm.cpu.blocks import as_runs
from pipelines.svm.cpu.kernels import cross_products, shared_products
from pipelines.svm.cpu.smo import MAX_ROWS
from pipelines.svm.cpu.solver_threads import Resources
from pipelines.svm.kernel import Kernel
from pipelines.svm.search import PathSearch

_TILE = 128  # rows and columns: both sides of a transposition stay in cache


def _transpose(source: np.ndarray, target: np.ndarray) -> None:
    for i in range(0, target.shape[0], _TILE):
        for j in range(0, target.shape[1], _TILE):
            target[i : i + _TILE, j : j + _TILE] = source[j : j + _TILE, i : i + _TILE].T


class ClassProducts:
    """The values that ``shared_products`` of all rows would hold, in half the memory.

    The two blocks of a pair of classes are each other's transpose; only one is kept.

    Parameters
    ----------
    rows : float array of shape (n, n_features)
        Sorted by class, from ``prepare_rows``.
    kernel : Kernel
    starts : int64 array of shape (n_classes + 1,)
        Where each class begins.
    pool : Executor
        Its threads each compute some of the blocks.
    """

    def __init__(
        self, rows: np.ndarray, kernel: Kernel, starts: np.ndarray, pool: Executor
    ) -> None:
        self._starts = starts
        classes = [rows[lo:hi] for lo, hi in pairwise(starts)]

        def between(pair: tuple[int, int]) -> np.ndarray:
            return cross_products(classes[pair[0]], classes[pair[1]], kernel)

        def within(class_rows: np.ndarray) -> np.ndarray:
            return shared_products(class_rows, kernel)

        pairs = list(combinations(range(len(classes)), 2))
        self._blocks = dict(zip(pairs, pool.map(between, pairs), strict=True))
        for code, block in enumerate(pool.map(within, classes)):
            self._blocks[code, code] = block

    def between(self, row_numbers: np.ndarray, other_numbers: np.ndarray, out: np.ndarray) -> None:
        """Write the products of some rows with others to ``out``.

        Parameters
        ----------
        row_numbers, other_numbers : int64 arrays, ascending
        out : float32 array of shape (len(row_numbers), len(other_numbers))
            Output.
        """
        columns = list(self._pieces(other_numbers))
        for code, of_class, row_slice in self._pieces(row_numbers):
            for other, of_other, column_slice in columns:
                if code <= other:
                    out[row_slice, column_slice] = self._blocks[code, other][of_class, of_other]
                else:
                    _transpose(
                        self._blocks[other, code][of_other, of_class], out[row_slice, column_slice]
                    )

    def _pieces(self, rows: np.ndarray) -> Iterator[tuple[int, slice, slice]]:
        """Yield runs of rows within a class: the class, the slice of it, the slice of ``rows``."""
        at = 0
        for code, (first, last) in enumerate(pairwise(self._starts)):
            of_class = rows[slice(*np.searchsorted(rows, (first, last)))]
            for start, stop in as_runs(of_class):
                yield code, slice(start - first, stop - first), slice(at, at + stop - start)
                at += stop - start


def memory_needed(sizes: np.ndarray, n_threads: int) -> float:
    """The memory limit in bytes from which products by class are kept, for classes of these sizes.

    Infinite if two classes together have more rows than a dense problem may have.
    """
    sizes = np.sort(sizes.astype(np.float64))
    largest = sizes[-2:].sum()
    if largest > MAX_ROWS:
        return float("inf")
    products = (sizes.sum() ** 2 + (sizes**2).sum()) / 2
    return float(4 * (products + n_threads * largest**2) / 0.8)


def products_by_class(
    search: PathSearch, rows: np.ndarray, resources: Resources
) -> ClassProducts | None:
    """The products of a one-vs-one search, computed once for all its gammas.

    None if they do not fit in memory beside a pair's kernel for every thread.
    """
    if "by class" not in search.cache:
        needed = memory_needed(np.diff(search.layout.starts), resources.n_threads)
        if needed > resources.memory_bytes:
            return None
        search.cache["by class"] = ClassProducts(
            rows, search.kernel, search.layout.starts, resources.pool
        )
    products: ClassProducts = search.cache["by class"]
    return products
