"""The command: what it leaves, what it refuses, how it goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.graph import compute_pagerank
from pipelines.graph.random_graphs import RandomGraph
from pipelines.pagerank import main
from tests.command_runs import command_line, record, start

SMALL = ["--nodes", "500", "--degree", "4", "--cluster", "local", "--dashboard", "off"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    assert steps["change"].tolist() == expected.iterated.changes
    assert run["residual"] == expected.residual
    assert run["bound"] == expected.bound
    assert [one["rank"] for one in run["top"][:10]] == expected.top(10).tolist()
    assert sum(run["distribution"]["counts"]) == 500


def test_the_page_shows_convergence_and_ranks(finished):
    page = (finished / "report.html").read_text()
    for words in ("PageRank", "Highest ranks", "Time and memory", "solver pull", "error at mo"):
        assert words in page
    for figure in ("convergence", "distribution"):
        assert (finished / f"{figure}.svg").exists()
        assert "mathdefault" not in (finished / f"{figure}.svg").read_text()


def test_a_finished_run_is_not_run_again(finished, tmp_path):
    journal = (finished / "journal.jsonl").read_text().splitlines()
    assert main(["--resume", str(finished), "--quiet"]) == 0
    assert (finished / "journal.jsonl").read_text().splitlines() == journal


def test_a_file_with_personal_vectors(tmp_path):
    edges, jump = tmp_path / "edges.csv", tmp_path / "jump.csv"
    edges.write_text("from,to,w\na,b,1\nb,c,2\nc,a,1\na,c,0.5\n")
    jump.write_text("page,one,two\na,1,0\nc,1,3\n")
    options = ["--edges", str(edges), "--weight", "w", "--personalise", str(jump), "--tol", "1e-10",
               "--cluster", "local", "--dashboard", "off", "--quiet"]  # fmt: skip
    assert main([*options, "--results", str(tmp_path / "first")]) == 0
    ranks = pd.read_parquet(tmp_path / "first" / "ranks.parquet").set_index("node")
    expected = compute_pagerank(edges, weight="w", personalise=jump, tol=1e-10).frame()
    assert list(ranks.columns) == ["one", "two"]
    assert np.allclose(ranks, expected, atol=1e-15)


@pytest.mark.slow
def test_distributed_and_killed_it_goes_on_where_it_was(tmp_path):
    folder = tmp_path / "run"
    options = ["--nodes", "3000", "--distributed", "--workers", "2", "--tol", "0", "--iterations",
               "200", "--checkpoint-every", "5", "--cluster", "local", "--dashboard", "off",
               "--results", str(folder)]  # fmt: skip
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


BAD = {
    "alpha": (["--alpha", "1"], "--alpha must be between 0 and 1, got 1.0"),
    "alpha of NaN": (["--alpha", "nan"], "--alpha must be between 0 and 1, got nan"),
    "file": (["--edges", "none.csv"], "--edges must be an existing file"),
    "nodes": (["--nodes", "3000000000"], "--nodes must be at most 2147483647"),
    "degree": (["--nodes", "5", "--degree", "9"], "--degree must be at least 1 and below nodes"),
    "no end": (["--tol", "0"], "--tol or --iterations must be given, got neither"),
    "personalise": (["--personalise", "none.csv"], "--personalise must be an existing .csv"),
    "variant": (["--variant", "pull"], "--variant is not an option of this command"),
    "checkpoint": (["--checkpoint-every", "0"], "--checkpoint-every must be at least 1, got 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_status_2(name, tmp_path, capsys):
    options, message = BAD[name]
    folder = tmp_path / "run"
    assert main([*SMALL, *options, "--results", str(folder)]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert re.search(f"^pagerank: {message}", line)
    assert not folder.exists()


@pytest.mark.parametrize("distributed", [[], ["--distributed", "--workers", "2"]])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,w\n1,2,-3\n", "--weight must be finite and at least 0, got -3.0"),
        ("a,b,w\n1,2,nan\n", "--weight must be finite and at least 0, got nan"),
        ("a,b,w\n", "--edges must hold at least one edge"),
    ],
)
def test_bad_rows_of_a_file_are_one_line(tmp_path, capsys, text, message, distributed):
    path = tmp_path / "edges.csv"
    path.write_text(text)
    options = ["--edges", str(path), "--weight", "w", "--results", str(tmp_path / "run")]
    assert main([*SMALL, *options, *distributed]) == 2
    assert re.search(f"^pagerank: {message}", capsys.readouterr().err)


def test_a_dry_run_says_the_graph_and_runs_nothing(tmp_path, capsys):
    folder = tmp_path / "run"
    assert main([*SMALL, "--dry-run", "--results", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "500 nodes, 2,000 edges" in said
    assert "nothing was run" in said
    assert not folder.exists()


def test_help_answers_without_numba_or_dask():
    code = (
        "import sys\n"
        "from pipelines.pagerank import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "slow = ('numba', 'distributed', 'torch', 'pyarrow', 'pandas')\n"
        "print([name for name in slow if name in sys.modules])"
    )
    python = command_line("pagerank")[0]
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--personalise" in done.stdout
