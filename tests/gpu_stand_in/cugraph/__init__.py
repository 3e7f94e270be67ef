"""numpy in cuGraph's place."""

from __future__ import annotations

import numpy as np
import pandas as pd
from cudf import DataFrame
from cupy import note

note("import-cugraph")


class MultiGraph:
    """Edges as cuGraph is given them; a node is known by its edges alone."""

    def __init__(self, directed):
        assert directed

    def from_cudf_edgelist(
        self,
        edges,
        *,
        source,
        destination,
        edge_attr,
        renumber,
        store_transposed,
    ):
        assert renumber
        assert store_transposed
        self.edges = edges[[source, destination, edge_attr]].to_numpy().T

    from_dask_cudf_edgelist = from_cudf_edgelist


def pagerank(
    graph,
    *,
    alpha,
    personalization,
    nstart,
    max_iter,
    tol,
    fail_on_nonconvergence,
):
    """The power iteration by cuGraph's rules, dense."""
    assert not fail_on_nonconvergence
    source, target, weight = graph.edges
    nodes = np.unique(np.concatenate([source, target]).astype(int))
    start = pd.Series(nstart["values"].to_numpy(), nstart["vertex"].to_numpy())
    matrix = np.zeros((len(nodes), len(nodes)))
    at = np.searchsorted(nodes, target), np.searchsorted(nodes, source)
    np.add.at(matrix, at, weight)
    out = matrix.sum(axis=0)
    jump = np.full(len(nodes), 1 / len(nodes))
    if personalization is not None:
        jump = np.zeros(len(nodes))
        jump[np.searchsorted(nodes, personalization["vertex"])] = personalization["values"]
    ranks, change = start[nodes].to_numpy(), np.inf
    for _ in range(max_iter):
        handed = np.divide(ranks, out, out=np.zeros_like(ranks), where=out > 0)
        lost = ranks[out == 0].sum()
        new = alpha * (matrix @ handed + lost * jump) + (1 - alpha) * jump
        change, ranks = np.abs(new - ranks).sum(), new
        if change < tol:
            break
    # Not in the order of nodes, as from several GPUs.
    return DataFrame({"vertex": nodes[::-1], "pagerank": ranks[::-1]}), bool(change < tol)
