"""PageRank by cuGraph without a GPU: modules that stand in note what they are given.

What they cannot show is that cuGraph takes it; ``tests/gpu`` does on a card.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import InputError
from pipelines.graph import compute_pagerank, cugraph
from pipelines.graph.distributed import distributed_pagerank
from pipelines.graph.files import open_edges
from pipelines.graph.iteration import Stop
from pipelines.graph.random_graphs import RandomGraph


class Frame(pd.DataFrame):
    """A frame of a GPU, or of many."""

    @property
    def _constructor(self) -> type:
        return Frame

    def to_pandas(self) -> pd.DataFrame:
        return pd.DataFrame(self)

    def compute(self) -> Frame:
        return self


class MultiGraph:
    """Edges as cuGraph is given them; a node is known by its edges alone."""

    def __init__(self, directed: bool):
        assert directed

    def from_cudf_edgelist(
        self, edges: Frame, *, source: str, destination: str, edge_attr: str, renumber: bool,
        store_transposed: bool,
    ) -> None:  # fmt: skip
        assert renumber
        assert store_transposed
        self.edges = edges[[source, destination, edge_attr]].to_numpy().T

    from_dask_cudf_edgelist = from_cudf_edgelist


def stand_in_pagerank(
    graph: MultiGraph, *, alpha: float, personalization: Any, nstart: Any, max_iter: int,
    tol: float, fail_on_nonconvergence: bool,
) -> tuple[Frame, bool]:  # fmt: skip
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
    return Frame({"vertex": nodes[::-1], "pagerank": ranks[::-1]}), bool(change < tol)


@pytest.fixture
def comms(monkeypatch):
    """The modules in place; what was opened and closed."""
    heard: list[str] = []
    modules = {name: ModuleType(name) for name in (
        "cudf", "dask_cudf", "cugraph", "cugraph.dask", "cugraph.dask.comms",
        "cugraph.dask.comms.comms",
    )}  # fmt: skip
    modules["cudf"].DataFrame = Frame
    modules["dask_cudf"].from_delayed = lambda futures: pd.concat(
        [future.result() for future in futures]
    )
    modules["cugraph"].MultiGraph = MultiGraph
    modules["cugraph"].pagerank = stand_in_pagerank
    modules["cugraph"].dask = modules["cugraph.dask"]
    modules["cugraph.dask"].pagerank = stand_in_pagerank
    modules["cugraph.dask.comms"].comms = modules["cugraph.dask.comms.comms"]
    modules["cugraph.dask.comms.comms"].initialize = lambda p2p: heard.append("open")
    modules["cugraph.dask.comms.comms"].destroy = lambda: heard.append("closed")
    for name, module in modules.items():
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    return heard


def test_ranks_of_nodes_without_edges_and_of_edges_that_repeat(comms, in_process, tmp_path):
    graph = RandomGraph("erdos", 300, 2, 3)
    ours = distributed_pagerank(in_process, graph, tmp_path, device="gpu", stop=Stop(1e-11))
    assert np.abs(ours.values - compute_pagerank(graph, tol=1e-12).values).sum() < 1e-10
    assert ours.converged
    assert ours.residual < 1e-10
    assert comms == ["open", "closed"]


def test_weights_and_personal_vectors(comms, in_process, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "edges.csv"
    frame = pd.DataFrame({"a": rng.integers(80, size=300), "b": rng.integers(80, size=300)})
    frame.assign(w=rng.random(300)).to_csv(path, index=False)
    vectors = pd.DataFrame({"x": {3: 1.0}, "y": {4: 1.0, 5: 3.0}}).fillna(0)
    common: dict[str, Any] = {"personalise": vectors, "dangling": "personalised"}
    ours = distributed_pagerank(
        in_process, open_edges(path, weight="w"), tmp_path / "work", device="gpu",
        stop=Stop(1e-11), part_bytes=1000, **common,
    )  # fmt: skip
    alone = compute_pagerank(path, weight="w", tol=1e-12, **common)
    assert ours.vectors == ["x", "y"]
    assert np.abs(ours.values - alone.values).sum() < 1e-10


@pytest.mark.parametrize("personalise", [None, {3: 1.0, 7: 2.0}])
def test_one_gpu(comms, personalise):
    graph = RandomGraph("erdos", 300, 2, 3)
    common: dict[str, Any] = {"personalise": personalise, "dangling": "personalised"}
    ours = compute_pagerank(graph, device="gpu", tol=1e-11, **common)
    assert ours.converged
    assert np.abs(ours.values - compute_pagerank(graph, tol=1e-12, **common).values).sum() < 1e-10
    assert comms == []


def test_what_did_not_converge_is_said(comms, in_process, tmp_path):
    graph = RandomGraph("erdos", 300, 2, 3)
    ours = distributed_pagerank(in_process, graph, tmp_path, device="gpu", stop=Stop(1e-11, 3))
    assert not ours.converged
    assert ours.residual > 1e-4


def test_another_rule_for_dangling_nodes_is_refused(comms):
    cugraph.check("uniform", False)
    cugraph.check("personalised", True)
    with pytest.raises(InputError, match="dangling must be personalised for cuGraph"):
        cugraph.check("uniform", True)
    with pytest.raises(InputError, match=r"dangling must be personalised.*got none"):
        cugraph.check("none", False)


def test_it_is_refused_where_it_is_not_installed(tmp_path):
    with pytest.raises(InputError, match="got gpu: cugraph is not installed; leave it out"):
        distributed_pagerank(None, RandomGraph("erdos", 10, 1), tmp_path, device="gpu")
