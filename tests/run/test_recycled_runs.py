"""Commands whose worker processes are replaced: the same rows, and it is said."""

from __future__ import annotations

import json
from importlib import import_module

import pandas as pd
import pytest

from pipelines.report import write_report
from pipelines.run.cluster import planned_kind
from pipelines.run_folder.record import recycled_in_words
from pipelines.svm_grid import Options
from tests.command_runs import finished_run, said_by

OF_THE_WORKERS = ["worker", "fit_seconds", "score_seconds"]
RECYCLED = ("svm_grid", "cross_validate", "nn_bagging")


def cells(run):
    table = pd.read_parquet(run / "cv_results.parquet")
    return table.drop(columns=[name for name in OF_THE_WORKERS if name in table])


@pytest.mark.parametrize("command", ["cross_validate", "nn_bagging"])
def test_rows_are_those_of_a_run_without(command, tmp_path, finished_of):
    options = "--workers", "1", "--tasks-per-worker", "3"
    run, output = finished_run(command, tmp_path / "run", *options)
    pd.testing.assert_frame_equal(cells(run), cells(finished_of(command)[0]), check_exact=True)
    record = json.loads((run / "run.json").read_text())
    assert record["recycled"]
    assert all(
        replacement["n_tasks"] >= 2 and replacement["memory"] is None
        for replacement in record["recycled"]
    )
    line = f"recycled   {recycled_in_words(record)}"
    assert line in output.splitlines()
    assert "warning" not in output
    assert f"Recycled: {recycled_in_words(record)}." in write_report(run).read_text()
    if command == "cross_validate":  # whole, it says it again
        assert line in said_by(command, "--resume", str(run)).splitlines()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("0", "must be auto, never or a number of at least 1, got 0"),
        ("-2", "must be auto, never or a number of at least 1, got -2"),
        ("often", "must be auto, never or a number of at least 1, got often"),
        ("1.5", "must be auto, never or a number of at least 1, got 1.5"),
        (
            "5 --cluster threads",
            "replaces processes, and the workers of --cluster threads are threads of one, got 5; "
            "use --cluster local, or leave it out",
        ),
    ],
)
@pytest.mark.parametrize("command", RECYCLED)
def test_what_cannot_be_is_refused(command, options, message, capsys):
    main = import_module(f"pipelines.{command}").main
    assert main(["--dry-run", "--tasks-per-worker", *options.split()]) == 2
    assert f"--tasks-per-worker {message}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["pagerank", "data_parallel"])
def test_commands_whose_tasks_need_one_another_have_no_such_option(command, capsys):
    assert import_module(f"pipelines.{command}").main(["--tasks-per-worker", "5"]) == 2
    assert "is not an option of this command" in capsys.readouterr().err


def test_a_short_run_whose_workers_are_to_be_replaced_has_processes():
    for rule, kind in ((5, "local"), ("auto", "threads"), ("never", "threads")):
        assert planned_kind(Options(tasks_per_worker=rule), "local", lambda: True) == kind


def test_the_reason_is_said():
    def entry(n_tasks, memory=None):
        return {"n_tasks": n_tasks, "memory": memory}

    for recycled, words in (
        ([], ""),
        ([entry(1)], "1 worker process after 1 task"),
        ([entry(50), entry(50)], "2 worker processes after 50 tasks each"),
        ([entry(50), entry(1250)], "2 worker processes after 50 to 1,250 tasks each"),
        (
            [entry(31, [1000, 1250])],
            "1 worker process after 31 tasks: the memory held had grown by 25 %",
        ),
        (
            [entry(31, [1000, 1250]), entry(40, [1000, 1300])],
            "2 worker processes after 31 to 40 tasks each: the memory held had grown by 25 to 30 %",
        ),
    ):
        assert recycled_in_words({"recycled": recycled}) == words
