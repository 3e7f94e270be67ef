"""Every variant of PageRank that a GPU can run gives the CPU's ranks."""

import numpy as np

from benchmarks.gpu.figures import note


def test_variants_on_a_gpu_agree_with_pull():
    from pipelines.graph import pagerank
    from pipelines.graph.random_graphs import RandomGraph
    from pipelines.graph.variants import choose_variants

    graph = RandomGraph("rmat", 3000, 8, 0)
    expected = pagerank(graph, tol=1e-10)
    chosen, left_out = choose_variants("all", "gpu", 3000, None)
    assert chosen
    for name in chosen:
        ranks = pagerank(graph, tol=1e-10, variant=name, device="gpu")
        assert ranks.converged, name
        assert np.abs(ranks.values - expected.values).sum() < 1e-8, name
    note(f"{', '.join(chosen)}; left out {', '.join(left_out)}")


def test_personal_vectors_on_a_gpu_agree_with_pull():
    from pipelines.graph import pagerank
    from pipelines.graph.random_graphs import RandomGraph
    from pipelines.graph.variants import choose_variants

    graph = RandomGraph("erdos", 2000, 4, 1)
    common = {"personalise": {3: 1.0, 700: 2.0}, "dangling": "personalised", "tol": 1e-10}
    expected = pagerank(graph, **common)
    for name in choose_variants("all", "gpu", 2000, None)[0]:
        ranks = pagerank(graph, variant=name, device="gpu", **common)
        assert np.abs(ranks.values - expected.values).sum() < 1e-8, name
