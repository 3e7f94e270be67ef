"""Random graphs by seed, made in blocks: equal arguments, equal edges."""

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

# Of an R-MAT edge to fall into the upper left, upper right and lower left quarter: Graph 500's.
QUARTERS = (0.57, 0.19, 0.19)
BLOCK_EDGES = 1 << 20

Pairs = tuple[NDArray[np.int32], NDArray[np.int32]]


@dataclass(frozen=True)
class RandomGraph:
    """A graph that is drawn, not read.

    Parameters
    ----------
    kind : {"erdos", "rmat"}
        "erdos": each of the n (n - 1) edges with the same probability, degree / (n - 1)
        (Erdős and Rényi; Gilbert 1959); "rmat": n × degree edges by recursive halving
        (Chakrabarti, Zhan and Faloutsos 2004), self-loops and repeated edges as they fall.
    n_nodes : int
        At least 2.
    degree : float
        Mean number of edges that leave a node, at least 1 and below n_nodes.
    seed : int, default 0
        What random numbers come from.
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
        """SHA-256 of the numbers that decide it."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Return the JSON-serialisable metadata of the graph."""
        return {"name": self.name, "fingerprint": self.fingerprint}

    @property
    def nodes(self) -> pd.Index:
        """The names of all nodes: from 0 on."""
        return pd.RangeIndex(self.n_nodes)

    @property
    def n_blocks(self) -> int:
        """The number of blocks it is drawn in, of about 2^20 edges."""
        return max(1, math.ceil(self.n_nodes * self.degree / BLOCK_EDGES))

    def block(self, i: int) -> Pairs:
        """Draw sources and targets of block i, int32; the same in any order of blocks."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(i,)))
        if self.kind == "rmat":
            total = round(self.n_nodes * self.degree)
            return _rmat(self.n_nodes, _part(total, i, self.n_blocks)[1], rng)
        begin, n_sources = _part(self.n_nodes, i, self.n_blocks)
        return _erdos(self.n_nodes, self.degree, begin, n_sources, rng)

    def parts(self, part_bytes: int = 0) -> list[int]:
        """Return the numbers of the blocks."""
        return list(range(self.n_blocks))

    def piece(self, part: int, nodes: pd.Index) -> Piece:
        """Return sources and targets of a block; every edge counts 1."""
        return (*self.block(part), None)

    def edge_notes(self, undirected: bool) -> list[str]:
        """Return what was noticed: nothing."""
        return []

    def edges(self, nodes: pd.Index | None = None) -> tuple[Piece, pd.Index, list[str]]:
        """Return all edges, nodes and notes, of which there are none."""
        blocks = (self.block(i) for i in self.parts())
        sources, targets = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return (sources, targets, None), self.nodes, []


def _part(total: int, i: int, n: int) -> tuple[int, int]:
    """Return the beginning and the length of part i of n."""
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
        # Of a number of nodes that is no power of two, what falls outside is drawn again.
        remaining = remaining[(rows >= n_nodes) | (columns >= n_nodes)]
    return source, target


def _erdos(
    n_nodes: int, degree: float, begin: int, n_sources: int, rng: np.random.Generator
) -> Pairs:
    """Draw the edges of some sources: none twice and none from a node to itself."""
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
    target += target >= source  # its own place is skipped
    return source.astype(np.int32), target.astype(np.int32)
