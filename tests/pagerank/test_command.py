"""The command: what it leaves, what it refuses, how it goes on."""

from __future__ import annotations

import json
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest

from pipelines.graph import compute_pagerank
from pipelines.graph.random_graphs import RandomGraph
from pipelines.pagerank import main
from tests.command_runs import record, start

SMALL = ["--nodes", "500", "--degree", "4", "--cluster", "local", "--dashboard", "off"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main([*SMALL, "--results", str(folder), "--quiet"]) == 0
    return folder


def test_ranks_are_those_of_the_function(finished):
    ranks = pd.read_parquet(finished / "ranks.parquet")
    expected = compute_pagerank(RandomGraph("rmat", 500, 4, 0))
    assert (ranks["node"] == np.arange(500)).all()
    assert (ranks["rank"] == expected.values[:, 0]).all()
    run = record(finished)
    assert run["solver"] == "pull"
    assert run["n_nodes"] == 500
    assert run["n_edges"] == 2000
    assert run["memory_bytes"] > 0
    steps = pd.read_parquet(finished / "iterations.parquet")
    assert steps["change"].tolist() == expected.changes
    assert run["residual"] == expected.residual
    assert run["bound"] == expected.bound
    assert [node["rank"] for node in run["top"][:10]] == expected.top(10).tolist()
    assert sum(run["distribution"]["counts"]) == 500


def test_the_page_shows_convergence_and_ranks(finished):
    page = (finished / "report.html").read_text()
    for words in (
        "PageRank",
        "Highest scores",
        "Iterations and memory",
        "solver pull",
        "error at mo",
    ):
        assert words in page
    for figure in ("convergence", "distribution"):
        assert (finished / f"{figure}.svg").exists()
        assert "mathdefault" not in (finished / f"{figure}.svg").read_text()


def test_a_finished_run_is_not_run_again(finished, tmp_path):
    journal = (finished / "journal.jsonl").read_text().splitlines()
    assert main(["--resume", str(finished), "--quiet"]) == 0
    assert (finished / "journal.jsonl").read_text().splitlines() == journal


def test_a_run_begins_with_the_ranks_of_another(finished, tmp_path):
    results, ranks = tmp_path / "begun", tmp_path / "ranks.csv"
    pd.read_parquet(finished / "ranks.parquet").to_csv(ranks, index=False)
    for start_of in (finished, ranks):
        options = [*SMALL, "--start", str(start_of), "--results", str(results), "--quiet"]
        assert main(options) == 0
        assert record(results)["n_iterations"] <= 2 < record(finished)["n_iterations"]
        results = tmp_path / "begun again"


def test_a_run_begins_with_nothing_else(tmp_path, capsys):
    for wrong in (tmp_path, tmp_path / "none.csv"):
        assert main([*SMALL, "--start", str(wrong), "--results", str(tmp_path / "run")]) == 2
        (line,) = capsys.readouterr().err.splitlines()[-1:]
        assert "--start must be an existing" in line


def test_a_file_with_personal_vectors(tmp_path):
    edges, jump = tmp_path / "edges.csv", tmp_path / "jump.csv"
    edges.write_text("from,to,w\na,b,1\nb,c,2\nc,a,1\na,c,0.5\n")
    jump.write_text("page,one,two\na,1,0\nc,1,3\n")
    options = [
        "--edges",
        str(edges),
        "--weight",
        "w",
        "--personalise",
        str(jump),
        "--tol",
        "1e-10",
        "--cluster",
        "local",
        "--dashboard",
        "off",
        "--quiet",
    ]
    assert main([*options, "--results", str(tmp_path / "first")]) == 0
    ranks = pd.read_parquet(tmp_path / "first" / "ranks.parquet").set_index("node")
    expected = compute_pagerank(edges, weight="w", personalise=jump, tol=1e-10).frame()
    assert list(ranks.columns) == ["one", "two"]
    assert np.allclose(ranks, expected, atol=1e-15)


def test_what_a_worker_refuses_leaves_no_folder(tmp_path, capsys):
    edges = tmp_path / "edges.csv"
    edges.write_text("from,to,w\na,b,1\nb,c,nan\n")
    options = [
        "--edges",
        str(edges),
        "--weight",
        "w",
        "--distributed",
        "--workers",
        "1",
        "--cluster",
        "local",
        "--dashboard",
        "off",
    ]
    assert main([*options, "--results", str(tmp_path / "run")]) == 2
    assert "--weight must be finite and at least 0, got nan in line 3" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_dataset_is_called_edges_here(capsys):
    assert main(["--dataset", "edges.txt"]) == 2
    assert "--dataset is not an option of this command; did you mean --edges?" in (
        capsys.readouterr().err
    )


@pytest.mark.slow
def test_distributed_and_killed_it_goes_on_where_it_was(tmp_path):
    folder = tmp_path / "run"
    options = [
        "--nodes",
        "3000",
        "--distributed",
        "--workers",
        "2",
        "--tol",
        "0",
        "--iterations",
        "200",
        "--checkpoint-every",
        "5",
        "--cluster",
        "local",
        "--dashboard",
        "off",
        "--results",
        str(folder),
    ]
    program = start("pagerank", *options)
    state = folder / "partitions" / "state.json"
    while not state.exists() or json.loads(state.read_text())["iteration"] < 10:
        assert program.poll() is None, program.communicate()
        time.sleep(0.05)
    os.kill(program.pid, signal.SIGKILL)
    program.communicate()
    reached = json.loads(state.read_text())["iteration"]
    assert 10 <= reached < 200
    assert main(["--resume", str(folder), "--quiet"]) == 0
    ranks = pd.read_parquet(folder / "ranks.parquet")["rank"]
    expected = compute_pagerank(RandomGraph("rmat", 3000, 8, 0), tol=None, iterations=200)
    assert np.abs(ranks - expected.values[:, 0]).sum() < 1e-12
    assert record(folder)["n_iterations"] == 200
    assert not (folder / "partitions").exists()
