"""Exactness on every family of graphs, against a dense solve and against networkx."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from pipelines.graph import compute_pagerank
from tests.graph.families import FAMILIES, reference


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


@pytest.mark.parametrize("dangling", ["uniform", "none"])
def test_ranks_are_those_of_a_dense_solve(dangling):
    for name, (n, edges) in FAMILIES.items():
        ranks = compute_pagerank(edges, nodes=n, dangling=dangling, tol=1e-12)
        error = np.abs(ranks.values[:, 0] - reference(n, edges, dangling=dangling)).sum()
        assert ranks.converged, name
        assert error < 2e-10, name


@pytest.mark.parametrize("dangling", ["uniform", "personalised", "none"])
def test_several_personal_vectors_at_once(dangling):
    for family, (n, edges) in FAMILIES.items():
        vectors = pd.DataFrame({"one": {0: 1.0}, "three": {0: 1.0, 1: 2.0, n - 1: 5.0}}).fillna(0)
        ranks = compute_pagerank(edges, nodes=n, dangling=dangling, personalise=vectors, tol=1e-12)
        assert ranks.vectors == ["one", "three"]
        for column, name in enumerate(ranks.vectors):
            jump = np.zeros(n)
            jump[vectors.index] = vectors[name] / vectors[name].sum()
            expected = reference(n, edges, jump=jump, dangling=dangling)
            assert np.abs(ranks.values[:, column] - expected).sum() < 2e-10, family


@pytest.mark.parametrize("alpha", [0.5, 0.85, 0.99])
def test_single_precision_stays_within_the_bound(family, alpha):
    n, edges = family
    ranks = compute_pagerank(edges, nodes=n, alpha=alpha, tol=1e-6)
    error = np.abs(ranks.values[:, 0] - reference(n, edges, alpha)).sum()
    assert ranks.converged
    assert ranks.change <= 1e-6
    assert error <= ranks.bound
    # What remains is also bounded by the residual, which float64 has measured.
    assert error <= ranks.residual / (1 - alpha) + 1e-12


@pytest.mark.parametrize("personal", [None, {0: 1.0, 5: 3.0}])
def test_agrees_with_networkx_at_a_tight_tolerance(family, personal):
    n, edges = family
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(n))
    weight = edges[2] if len(edges) == 3 else np.ones(len(edges[0]))
    graph.add_weighted_edges_from(zip(edges[0].tolist(), edges[1].tolist(), weight, strict=True))
    # networkx ends at L1 < n tol, and spreads what dangling nodes hold as it jumps.
    theirs = nx.pagerank(graph, personalization=personal, tol=1e-13 / n, max_iter=2000)
    ours = compute_pagerank(
        edges, nodes=n, personalise=personal, dangling="personalised", tol=1e-12
    )
    assert np.abs(ours.values[:, 0] - [theirs[node] for node in range(n)]).sum() < 1e-10


def test_ranks_do_not_depend_on_threads_or_on_the_order_of_edges():
    n, (source, target) = 20_000, _random_edges(20_000)
    serial = compute_pagerank((source, target), nodes=n, n_jobs=1)
    three = compute_pagerank((source, target), nodes=n, n_jobs=3)
    assert (serial.values == three.values).all()
    turned = compute_pagerank((source[::-1], target[::-1]), nodes=n)
    assert np.abs(serial.values - turned.values).sum() < 1e-8


def test_a_number_of_iterations_gives_those_of_the_plain_iteration():
    n, (source, target) = FAMILIES["R-MAT"]
    ours = compute_pagerank((source, target), nodes=n, tol=None, iterations=7)
    matrix = np.zeros((n, n))
    np.add.at(matrix, (target, source), 1)
    out = matrix.sum(axis=0)
    matrix = np.where(out > 0, matrix / np.maximum(out, 1), 1 / n)
    plain, changes = np.full(n, 1 / n), []
    for _ in range(7):
        before, plain = plain, 0.85 * matrix @ plain + 0.15 / n
        changes.append(np.abs(plain - before).sum())
    assert not ours.converged
    assert np.abs(ours.values[:, 0] - plain).max() < 1e-15
    assert ours.changes == pytest.approx(changes, rel=1e-9)
    assert ours.nbytes > 0


def test_the_change_shrinks_by_alpha_and_ends_the_iteration():
    n, edges = FAMILIES["R-MAT"]
    called = []
    ranks = compute_pagerank(
        edges, nodes=n, tol=1e-9, callback=lambda *progress: called.append(progress)
    )
    changes = [change for _, change in called]
    assert [number for number, _ in called] == list(range(1, len(changes) + 1))
    assert changes == ranks.changes
    assert all(after <= 0.85 * before * 1.0001 for before, after in pairwise(changes))
    assert changes[-1] <= 1e-9 < changes[-2]


def _random_edges(n):
    rng = np.random.default_rng(1)
    return rng.integers(n, size=200_000), rng.integers(n // 2, size=200_000)


def test_the_residual_is_the_change_of_one_more_iteration():
    n, edges = FAMILIES["R-MAT"]
    seven, eight = (compute_pagerank(edges, nodes=n, tol=None, iterations=k) for k in (7, 8))
    assert seven.residual == pytest.approx(np.abs(eight.values - seven.values).sum(), rel=1e-9)
