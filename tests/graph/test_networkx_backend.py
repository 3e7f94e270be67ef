"""networkx's PageRank by the backend: its scores, its errors, and its own tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pipelines.errors import InputError

nx = pytest.importorskip("networkx", reason="networkx is not installed")
from pipelines.graph.networkx_backend import backend  # noqa: E402  without networkx there is none

ROOT = Path(__file__).parents[2]
GRAPHS = {
    "directed": nx.gnp_random_graph(300, 0.02, directed=True, seed=1),
    "undirected": nx.barabasi_albert_graph(100, 3, seed=0),
    "multigraph": nx.MultiDiGraph([(1, 2), (1, 2), (2, "a"), (4, 4)]),
    "weighted": nx.DiGraph([(1, 2, {"weight": 2.5}), (1, 3), (3, 1, {"weight": 0.0})]),
    "no edge": nx.empty_graph(4),
    "empty": nx.DiGraph(),
}


def ranks_of(graph, weight="weight", **options):
    converted = backend.convert_from_nx(graph, edge_attrs={weight: 1} if weight else None)
    return backend.pagerank(converted, weight=weight, **options)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("case", ["default", "strict", "personal", "dangling", "start"])
def test_scores_are_those_of_networkx(name, case):
    graph = GRAPHS[name]
    rising = {node: i + 1.0 for i, node in enumerate(graph)}
    options = {
        "default": {},
        "strict": {"alpha": 0.5, "tol": 1e-12},
        "personal": {"personalization": rising},
        "dangling": {"dangling": rising},
        "start": {"nstart": rising, "weight": None},
    }[case]
    expected, ranks = nx.pagerank(graph, **options), ranks_of(graph, **options)
    assert list(ranks) == list(expected)
    # Each ends within alpha / (1 - alpha) times its last change of the ranks.
    most = 2 * len(graph) * options.get("tol", 1e-6) * 0.85 / 0.15
    assert sum(abs(ranks[node] - expected[node]) for node in graph) <= most


@pytest.mark.parametrize(
    "options",
    [{"max_iter": 2}, {"max_iter": 0}, {"tol": 0}, {"nstart": {0: 0}}, {"dangling": {0: 0}}],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_does_not_converge_raises_as_networkx(options):
    graph = nx.DiGraph([(0, 1), (1, 2), (0, 3)])
    for rank in (nx.pagerank, ranks_of):
        with pytest.raises(nx.PowerIterationFailedConvergence):
            rank(graph, **options)


def test_a_jump_to_nowhere_raises_as_networkx():
    with pytest.raises(ZeroDivisionError):
        ranks_of(nx.path_graph(3), personalization={0: 0})


def test_negative_weights_are_refused():
    graph = nx.DiGraph()
    graph.add_edge("a", "b", weight=-1)
    with pytest.raises(InputError, match="weight"):
        ranks_of(graph)


def test_what_it_cannot_do_it_says():
    graph = nx.path_graph(3)
    assert backend.can_run("pagerank", (graph,), {}) is True
    assert "alpha" in str(backend.can_run("pagerank", (graph, 1.0), {}))
    assert "nstart" in str(backend.can_run("pagerank", (graph,), {"nstart": {0: -1}}))
    assert "not hits" in str(backend.can_run("hits", (graph,), {}))
    assert backend.should_run("pagerank", (graph,), {}) == "fewer than 10,000 edges"
    assert backend.should_run("pagerank", (nx.complete_graph(150),), {}) is True


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Where networkx finds the entry points of this checkout, whatever is installed."""
    folder = tmp_path_factory.mktemp("installed")
    info = folder / "pleasingly-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pleasingly\nVersion: 0.1.0\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {k: v for k, v in project["entry-points"].items() if k.startswith("networkx.")}
    (info / "entry_points.txt").write_text(
        "\n".join(
            line
            for group, points in groups.items()
            for line in (f"[{group}]", *(f"{name} = {target}" for name, target in points.items()))
        )
    )
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def test_networkx_finds_it_and_loads_nothing_heavy(environment):
    program = """
import sys
import networkx as nx
assert not {"numba", "sklearn", "pandas", "dask", "torch", "matplotlib"} & {*sys.modules}
assert nx.utils.backends.backend_info["pleasingly"]["functions"].keys() == {"pagerank"}
graph = nx.star_graph(5)
ranks = nx.pagerank(graph, backend="pleasingly")
assert "pipelines.graph.networkx_backend" in sys.modules
assert abs(sum(ranks.values()) - 1) < 1e-6 and max(ranks, key=ranks.get) == 0
try:
    nx.pagerank(graph, alpha=1.0, backend="pleasingly")
except NotImplementedError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_networkx_s_own_tests_pass_on_it(environment, tmp_path):
    words = ["-q", "-p", "no:cacheprovider", "--pyargs"]
    module = "networkx.algorithms.link_analysis.tests.test_pagerank"
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *words, module],
        env={
            **environment,
            "NETWORKX_TEST_BACKEND": "pleasingly",
            "NETWORKX_FALLBACK_TO_NX": "True",  # of google_matrix, which it does not have
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout
