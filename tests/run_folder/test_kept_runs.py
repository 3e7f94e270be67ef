"""Run folders made by an earlier version can be read, reported, compared and resumed.

``kept/`` holds a finished and an interrupted run of each command, as version 0.1.0
(commit 4b24d4b) left them; the interrupted one had the same options as the finished one.
Their figures and pages were taken out, and the name of the host.
"""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from pipelines.report import write_report
from pipelines.report.comparison import compare_table, write_comparison
from tests.command_runs import cells, record
from tests.report.page_reader import Page

KEPT = Path(__file__).with_name("kept")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
EACH = ("svm_grid", pytest.param("nn_bagging", marks=pytest.mark.slow))
ANSWERS = {"svm_grid": ("best", "test_error"), "nn_bagging": ("vote_test_error", "members")}
# What an equal fit gives on any machine.
EXACT = {
    "svm_grid": ["C", "gamma", "fold", "n_train", "n_validation", "n_errors", "status"],
    "nn_bagging": [
        "member",
        "candidate",
        "fold",
        "network",
        "n_conv_layer",
        "kernel_size",
        "n_hidden_layer",
        "learning_rate",
        "momentum",
        "n_train",
        "status",
    ],
}


@pytest.fixture
def kept(tmp_path):
    """A copy of the kept runs, to write in."""
    return shutil.copytree(KEPT, tmp_path / "kept")


@pytest.mark.parametrize(
    "page", sorted(RESULTS.glob("*/report.html")), ids=lambda page: page.parent.name
)
def test_a_kept_page_lists_the_files_that_are_kept_beside_it(page):
    listed = [link["href"] for link in Page(page).all("a") if link.get("class") is None]
    files = [name for name in listed if name and not name.startswith("#")]
    assert [name for name in files if not (page.parent / name).is_file()] == []


@pytest.mark.parametrize("command", EACH)
@pytest.mark.parametrize("state", ["finished", "interrupted"])
def test_its_page_has_the_answer_that_the_run_had(kept, command, state):
    words = {
        ("svm_grid", "finished"): ["cv error", "13.01 %", "15 of 180 test samples", "All 9"],
        ("svm_grid", "interrupted"): ["was stopped (stopped on request)", "18 fits"],
        ("nn_bagging", "finished"): ["test error of the vote", "8.89 %", "16 of 180"],
        ("nn_bagging", "interrupted"): ["was stopped (stopped on request)", "6 fits"],
    }[command, state]
    page = write_report(kept / f"{command}-{state}").read_text()
    for phrase in words:
        assert phrase in page
    assert 'href="timeline.svg"' in page


def test_finished_and_interrupted_ones_are_compared(kept):
    folders = [
        kept / name for name in ("svm_grid-finished", "svm_grid-interrupted", "nn_bagging-finished")
    ]
    table = compare_table(folders)
    assert table["status"].tolist() == ["finished", "stopped", "finished"]
    assert table["test_error"].tolist() == pytest.approx(
        [15 / 180, float("nan"), 16 / 180], nan_ok=True
    )
    assert "3 runs compared" in write_comparison(folders, kept / "page.html").read_text()


@pytest.mark.parametrize("command", EACH)
def test_a_finished_one_needs_nothing_when_it_is_resumed(kept, command):
    folder = kept / f"{command}-finished"
    before = record(folder), (folder / "journal.jsonl").read_bytes()
    assert main_of(command)(["--resume", str(folder), "--quiet"]) == 0
    for name in ANSWERS[command]:
        assert record(folder)[name] == before[0][name]
    assert (folder / "journal.jsonl").read_bytes() == before[1]
    assert (folder / "report.html").is_file()


@pytest.mark.parametrize("command", EACH)
def test_an_interrupted_one_is_resumed_and_ends_as_the_finished_one(kept, command):
    folder, finished = kept / f"{command}-interrupted", kept / f"{command}-finished"
    before = (folder / "journal.jsonl").read_bytes()
    done = [row for line in before.splitlines() for row in json.loads(line)["rows"]]
    assert main_of(command)(["--resume", str(folder), "--quiet"]) == 0
    after = (folder / "journal.jsonl").read_bytes()
    assert after.startswith(before), "a finished row was lost or computed anew"
    # A task that takes its time, as where it compiles, has a line for each fold.
    assert n_rows(after) == n_rows((finished / "journal.jsonl").read_bytes())
    resumed_cells, expected = cells(folder), cells(finished)
    pd.testing.assert_frame_equal(resumed_cells[EXACT[command]], expected[EXACT[command]])
    key_columns = EXACT[command][:3]
    was = pd.DataFrame([row for row in done if row["fold"] >= 0])
    both = was.merge(resumed_cells, on=key_columns, suffixes=("_before", ""))
    assert (both["error"] == both["error_before"]).all()
    assert len(both) == len(was)
    assert resumed_cells["error"].to_numpy() == pytest.approx(
        expected["error"].to_numpy(), abs=0.05
    )


def n_rows(journal):
    return sum(len(json.loads(line)["rows"]) for line in journal.splitlines())


def main_of(command):
    if command == "nn_bagging":
        pytest.importorskip("torch", reason="networks need torch, which comes with the extra nn")
    return importlib.import_module(f"pipelines.{command}").main
