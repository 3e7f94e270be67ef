"""Twelve families of graphs, and PageRank in the plainest way there is, to hold others against."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.graph.random_graphs import RandomGraph

Arrays = tuple[Any, ...]  # sources, targets, and weights in one of them


def _pairs(edges):
    return tuple(np.array(edges, np.int64).T)


def _drawn(kind, n_nodes, degree, seed):
    graph = RandomGraph(kind, n_nodes, degree, seed)
    blocks = [graph.block(i) for i in graph.parts()]
    return tuple(np.concatenate(column) for column in zip(*blocks, strict=True))


def _weighted():
    rng = np.random.default_rng(5)
    source, target = _drawn("erdos", 80, 5, 5)
    weight = rng.exponential(size=len(source))
    weight[source == 3] = 0.0  # a node that only edges of no weight leave
    return source, target, weight


# name -> number of nodes, edges
FAMILIES: dict[str, tuple[int, Arrays]] = {
    "chain": (40, _pairs([(i, i + 1) for i in range(39)])),
    "star, inwards": (30, _pairs([(i, 0) for i in range(1, 30)])),
    "star, outwards": (30, _pairs([(0, i) for i in range(1, 30)])),
    "cycle": (25, _pairs([(i, (i + 1) % 25) for i in range(25)])),
    "complete": (20, _pairs([(i, j) for i in range(20) for j in range(20) if i != j])),
    "disconnected": (
        40,
        _pairs([(i, (i + 1) % 9) for i in range(9)] + [(i, 10) for i in range(11, 30)]),
    ),
    "mostly dangling": (200, _pairs([(i % 3, i) for i in range(200)])),
    "repeated edges": (10, _pairs([(i, (i * i + 1) % 10) for i in range(10)] * 3 + [(0, 7)] * 5)),
    "self-loops": (12, _pairs([(i, i) for i in range(6)] + [(i, (i + 5) % 12) for i in range(9)])),
    "two-sided": (30, _pairs([(i, 15 + (i * j) % 15) for i in range(15) for j in range(4)])),
    "R-MAT": (300, _drawn("rmat", 300, 6, 1)),
    "weighted": (80, _weighted()),
}


def reference(
    n,
    edges,
    alpha=0.85,
    jump=None,
    dangling="uniform",
):
    """PageRank as the solution of its dense linear system, in float64."""
    weight = edges[2] if len(edges) == 3 else np.ones(len(edges[0]))
    matrix = np.zeros((n, n))
    np.add.at(matrix, (edges[1], edges[0]), weight)
    out = matrix.sum(axis=0)
    matrix[:, out > 0] /= out[out > 0]
    everywhere = np.full(n, 1 / n)
    jump = everywhere if jump is None else jump
    instead = {"uniform": everywhere, "personalised": jump, "none": np.zeros(n)}[dangling]
    matrix += np.outer(instead, out == 0)
    return np.linalg.solve(np.eye(n) - alpha * matrix, (1 - alpha) * jump)
