"""PageRank by cuGraph without a GPU: modules of ``tests/gpu_stand_in`` are in its place.

What they cannot show is that cuGraph takes it; ``tests/gpu`` does on a card.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from cluster_setup import open_cluster
from pipelines.errors import InputError
from pipelines.graph import compute_pagerank, cugraph
from pipelines.graph.distributed import distributed_pagerank
from pipelines.graph.edge_files import open_edges
from pipelines.graph.iteration import StoppingRule
from pipelines.graph.random_graphs import RandomGraph

Touches = Callable[[], list[tuple[int, str, int]]]


def test_ranks_of_nodes_without_edges_and_of_edges_that_repeat(gpu_stand_in, in_process, tmp_path):
    graph = RandomGraph("erdos", 300, 2, 3)
    ours = distributed_pagerank(in_process, graph, tmp_path, device="gpu", stop=StoppingRule(1e-11))
    assert np.abs(ours.values - compute_pagerank(graph, tol=1e-12).values).sum() < 1e-10
    assert ours.converged
    assert ours.residual < 1e-10
    counts = Counter(what for _, what, _ in gpu_stand_in())
    assert counts["nccl"] == counts["nccl-destroyed"] == 2


@pytest.mark.slow
def test_the_client_leaves_the_gpus_to_the_workers(gpu_stand_in, tmp_path):
    """A context beside a worker's may not even be allowed."""
    graph = RandomGraph("erdos", 300, 2, 3)
    with open_cluster("local", 2) as client:
        ours = distributed_pagerank(client, graph, tmp_path / "work", device="gpu")
        workers = set(client.run(os.getpid).values())
    assert np.abs(ours.values - compute_pagerank(graph).values).sum() < 1e-5
    touches = gpu_stand_in()
    assert {process for process, _, _ in touches} == workers
    assert Counter(what for _, what, _ in touches)["nccl"] == 2
    ((_, _, nbytes),) = (touch for touch in touches if touch[1] == "to-host")  # ranks alone
    assert nbytes < 300 * 20


def test_weights_and_personal_vectors(gpu_stand_in, in_process, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "edges.csv"
    frame = pd.DataFrame({"a": rng.integers(80, size=300), "b": rng.integers(80, size=300)})
    frame.assign(w=rng.random(300)).to_csv(path, index=False)
    vectors = pd.DataFrame({"x": {3: 1.0}, "y": {4: 1.0, 5: 3.0}}).fillna(0)
    common = {"personalise": vectors, "dangling": "personalised"}
    ours = distributed_pagerank(
        in_process,
        open_edges(path, weight="w"),
        tmp_path / "work",
        device="gpu",
        stop=StoppingRule(1e-11),
        part_bytes=1000,
        **common,
    )
    alone = compute_pagerank(path, weight="w", tol=1e-12, **common)
    assert ours.vectors == ["x", "y"]
    assert np.abs(ours.values - alone.values).sum() < 1e-10


@pytest.mark.parametrize("personalise", [None, {3: 1.0, 7: 2.0}])
def test_one_gpu(gpu_stand_in, personalise):
    graph = RandomGraph("erdos", 300, 2, 3)
    common = {"personalise": personalise, "dangling": "personalised"}
    ours = compute_pagerank(graph, device="gpu", tol=1e-11, **common)
    assert ours.converged
    assert np.abs(ours.values - compute_pagerank(graph, tol=1e-12, **common).values).sum() < 1e-10
    assert "nccl" not in {what for _, what, _ in gpu_stand_in()}


def test_what_did_not_converge_is_said(gpu_stand_in, in_process, tmp_path):
    graph = RandomGraph("erdos", 300, 2, 3)
    ours = distributed_pagerank(
        in_process, graph, tmp_path, device="gpu", stop=StoppingRule(1e-11, 3)
    )
    assert not ours.converged
    assert ours.residual > 1e-4


def test_another_rule_for_dangling_nodes_is_refused(gpu_stand_in):
    cugraph.check("uniform", False)
    cugraph.check("personalised", True)
    with pytest.raises(InputError, match="dangling must be personalised for cuGraph"):
        cugraph.check("uniform", True)
    with pytest.raises(InputError, match=r"dangling must be personalised.*got none"):
        cugraph.check("none", False)


def test_it_is_refused_where_it_is_not_installed(tmp_path):
    with pytest.raises(
        InputError, match=r"got gpu: cugraph is not installed; run .*\[gpu\]., or leave it out"
    ):
        distributed_pagerank(None, RandomGraph("erdos", 10, 1), tmp_path, device="gpu")
