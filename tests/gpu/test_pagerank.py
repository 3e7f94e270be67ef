"""PageRank on a GPU, by cuGraph and by the study's variants, gives the CPU's ranks."""

import numpy as np
import pytest

from benchmarks.gpu.figures import note


def test_cugraph_agrees_with_pull():
    pytest.importorskip("cugraph")
    from pipelines.graph import compute_pagerank
    from pipelines.graph.random_graphs import RandomGraph

    graph = RandomGraph("rmat", 3000, 8, 0)
    for personalise in (None, {3: 1.0, 700: 2.0}):
        common = {"personalise": personalise, "dangling": "personalised", "tol": 1e-10}
        ranks, expected = (
            compute_pagerank(graph, device="gpu", **common),
            compute_pagerank(graph, **common),
        )
        assert ranks.converged
        assert np.abs(ranks.values - expected.values).sum() < 1e-8


def test_variants_on_a_gpu_agree_with_pull():
    from benchmarks.pagerank_study import variants
    from pipelines.graph import compute_pagerank
    from pipelines.graph.graph import graph_of
    from pipelines.graph.iteration import StoppingRule
    from pipelines.graph.random_graphs import RandomGraph

    graph = graph_of(RandomGraph("rmat", 3000, 8, 0))
    expected = compute_pagerank(graph, tol=1e-10)
    able, left_out = variants("gpu")
    assert able
    for name, variant in able.items():
        done = variant(graph, StoppingRule(1e-10))
        assert done.converged, name
        assert np.abs(done.values - expected.values).sum() < 1e-8, name
    note(f"{', '.join(able)}; left out {', '.join(left_out)}")
