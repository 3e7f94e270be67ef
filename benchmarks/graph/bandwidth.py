"""How fast this machine reads its memory, measured beside what is held against it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from pipelines.graph.graph import Graph

ARRAY_BYTES = 1 << 28  # larger than any cache


@njit(nogil=True, fastmath=True)  # type: ignore[untyped-decorator]
def _total(values: np.ndarray) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def read_bandwidth(n_threads: int, repeats: int = 5) -> float:
    """Bytes a second that ``n_threads`` read together from arrays of their own, the best turn."""
    arrays = [np.ones(ARRAY_BYTES // 8) for _ in range(n_threads)]
    _total(arrays[0][:8])
    best = 0.0
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in range(repeats):
            began = time.perf_counter()
            list(pool.map(_total, arrays))
            best = max(best, n_threads * ARRAY_BYTES / (time.perf_counter() - began))
    return best


def iteration_bytes(graph: Graph) -> int:
    """What an iteration of ``pull`` must read and write at least, each byte once.

    For an edge its source (int32); for a node where its row begins (int64), 1 / weight (float64),
    its rank, read and written (float64), what it handed out and hands out (float32).
    """
    return 4 * graph.n_edges + (8 + 8 + 16 + 8) * graph.n_nodes
