"""Random graphs, drawn in blocks of edges; equal arguments give equal edges."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.errors import InputError, opt
from pipelines.graph.edges import Piece, check_choice, check_node_count

KINDS = ("erdos", "rmat")

# Probabilities that an R-MAT edge falls into the upper left, upper right and lower left quarter of
# the adjacency matrix: those of the Graph 500 benchmark.
QUARTERS = (0.57, 0.19, 0.19)
BLOCK_EDGES = 1 << 20

Pairs = tuple[NDArray[np.int32], NDArray[np.int32]]


@dataclass(frozen=True)
class RandomGraph:
    """A random directed graph, for ``compute_pagerank``.

    It is drawn block by block when its edges are needed, so that a graph may be larger than memory.

    Parameters
    ----------
    kind : {"erdos", "rmat"}
        "erdos": each of the n (n - 1) edges exists with the same probability, degree / (n - 1)
        (Erdős and Rényi 1959; Gilbert 1959); "rmat": n × degree edges by recursive halving of the
        adjacency matrix (Chakrabarti et al. 2004), with the self-loops and repeated edges that
        occur.
    n_nodes : int
        The number of nodes, at least 2.
    degree : float
        Mean number of edges that leave a node, at least 1 and below ``n_nodes``.
    seed : int, default 0
        The seed of the random numbers.

    Raises
    ------
    InputError
        A parameter is out of its range.

    References
    ----------
    P. Erdős and A. Rényi, On random graphs I, Publicationes Mathematicae 6, 1959.

    E. N. Gilbert, Random graphs, Annals of Mathematical Statistics 30, 1959.

    D. Chakrabarti, Y. Zhan and C. Faloutsos, R-MAT: a recursive model for graph mining, SIAM
    International Conference on Data Mining, 2004.

    Examples
    --------
    >>> from pipelines import RandomGraph, compute_pagerank
    >>> graph = RandomGraph("rmat", n_nodes=1000, degree=8, seed=1)
    >>> ranks = compute_pagerank(graph)
    >>> ranks.n_edges, ranks.values.shape, ranks.converged
    (8000, (1000, 1), True)
    """

    kind: str
    n_nodes: int
    degree: float
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("random", self.kind, KINDS)
        if self.n_nodes < 2:
            raise InputError(
                f"{opt('nodes')} must be at least 2, got {self.n_nodes}; make it larger"
            )
        check_node_count(self.n_nodes)
        if not 1 <= self.degree < self.n_nodes:
            raise InputError(
                f"{opt('degree')} must be at least 1 and below nodes ({self.n_nodes}), got "
                f"{self.degree}; change one of them"
            )

    @property
    def name(self) -> str:
        return f"{self.kind} of {self.n_nodes:,} nodes, degree {self.degree:g}"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the parameters, in hexadecimal."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Metadata of the graph, JSON-serialisable."""
        return {"name": self.name, "fingerprint": self.fingerprint}

    @property
    def nodes(self) -> pd.Index:
        """The names of all nodes: the integers from 0 on."""
        return pd.RangeIndex(self.n_nodes)

    @property
    def n_blocks(self) -> int:
        """The number of blocks, of about 2^20 edges each, in which the graph is drawn."""
        return max(1, math.ceil(self.n_nodes * self.degree / BLOCK_EDGES))

    def block(self, i: int) -> Pairs:
        """Draw the sources and targets of block i, int32; blocks are independent of their order."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(i,)))
        if self.kind == "rmat":
            total = round(self.n_nodes * self.degree)
            return _rmat(self.n_nodes, _part(total, i, self.n_blocks)[1], rng)
        begin, n_sources = _part(self.n_nodes, i, self.n_blocks)
        return _erdos(self.n_nodes, self.degree, begin, n_sources, rng)

    def parts(self, part_bytes: int = 0) -> list[int]:
        """The numbers of the blocks; ``part_bytes`` is for files and not used."""
        return list(range(self.n_blocks))

    def piece(self, part: int, nodes: pd.Index) -> Piece:
        """The edges of a block, without weights; ``nodes`` is for files and not used."""
        return (*self.block(part), None)

    def edge_notes(self, undirected: bool) -> list[str]:
        """Notes on the edges; there are none."""
        return []

    def edges(self, nodes: pd.Index | None = None) -> tuple[Piece, pd.Index, list[str]]:
        """All edges, the names of all nodes, and notes (there are none)."""
        blocks = (self.block(i) for i in self.parts())
        sources, targets = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return (sources, targets, None), self.nodes, []


def _part(total: int, i: int, n: int) -> tuple[int, int]:
    """The beginning and the length of part i of n equal parts."""
    begin = total * i // n
    return begin, total * (i + 1) // n - begin


def _rmat(n_nodes: int, n_edges: int, rng: np.random.Generator) -> Pairs:
    levels = max(1, math.ceil(math.log2(n_nodes)))
    a, b, c = QUARTERS
    source, target = np.empty(n_edges, np.int32), np.empty(n_edges, np.int32)
    remaining = np.arange(n_edges)
    while len(remaining):
        rows, columns = np.zeros(len(remaining), np.int64), np.zeros(len(remaining), np.int64)
        for _ in range(levels):
            draws = rng.random(len(remaining), dtype=np.float32)
            rows = 2 * rows + (draws >= a + b)
            columns = 2 * columns + (((draws >= a) & (draws < a + b)) | (draws >= a + b + c))
        source[remaining], target[remaining] = rows, columns
        # Unless the number of nodes is a power of two, some edges fall outside: they are redrawn.
        remaining = remaining[(rows >= n_nodes) | (columns >= n_nodes)]
    return source, target


def _erdos(
    n_nodes: int, degree: float, begin: int, n_sources: int, rng: np.random.Generator
) -> Pairs:
    """Draw the edges of a range of sources, without self-loops and repeated edges."""
    n_others = n_nodes - 1
    n_edges = rng.binomial(n_sources * n_others, min(1.0, degree / n_others))
    pair_codes = np.empty(0, np.int64)
    while len(pair_codes) < n_edges:
        new_draws = rng.integers(
            n_sources * n_others, size=int(1.1 * (n_edges - len(pair_codes))) + 16
        )
        pair_codes = np.unique(np.concatenate([pair_codes, new_draws]))
    pair_codes = np.sort(rng.permutation(pair_codes)[:n_edges])
    source, target = begin + pair_codes // n_others, pair_codes % n_others
    target += target >= source  # skips the self-loop
    return source.astype(np.int32), target.astype(np.int32)
