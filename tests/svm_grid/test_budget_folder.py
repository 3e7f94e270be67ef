"""What a run leaves that its time budget ended, and how it goes on."""

from __future__ import annotations

import pandas as pd

from pipelines.search.budget import Budget
from pipelines.search.tasks import Task
from pipelines.svm_grid import main
from tests.command_runs import record

# Eight tasks of three C and a fold, each without work that it shares with others.
GRID = ["--n-c", "3", "--n-gamma", "4", "--folds", "2"]
HERE = ["--limit", "120", "--solver", "sklearn", "--cluster", "threads"]


def ends_after(n_tasks):
    """A choice of tasks that begins so many, as if time ended then."""
    chosen, begun = Budget.chosen, list[Task]()

    def first_tasks(self, queue, n, n_workers):
        for task in chosen(self, queue, n, n_workers):
            if len(begun) == n_tasks:
                queue.insert(0, task)
                return
            begun.append(task)
            yield task

    return first_tasks


def test_what_was_not_tried_is_said_and_a_resumed_run_goes_on(tmp_path, monkeypatch, capsys):
    folder, whole = tmp_path / "run", tmp_path / "whole"
    with monkeypatch.context() as patched:
        patched.setattr(Budget, "chosen", ends_after(3))
        assert main([*GRID, *HERE, "--time-budget", "1h", "--results", str(folder)]) == 0
    output, spent = capsys.readouterr().out, record(folder)["strategy"]
    n_part, n_none = spent["n_out_of_time"], spent["n_not_tried"]
    assert n_part + n_none > 0
    table = pd.read_parquet(folder / "candidates.parquet")
    assert len(table) == spent["n_candidates"] == 12
    assert (table["stopped"] == "not tried").sum() == n_none
    assert table["stopped"].str.startswith("out of time after ").sum() == n_part
    assert f"not tried  {n_none} of 12 candidates" in output
    assert "the time budget of 1:00 h ended" in output
    assert f"--resume {folder}" in (folder / "report.html").read_text()

    assert main(["--resume", str(folder), "--dry-run"]) == 0
    assert f"{spent['fits']} of 24 fits done" in capsys.readouterr().out
    assert main(["--resume", str(folder)]) == 0
    assert "not tried" not in capsys.readouterr().out
    assert record(folder)["strategy"] is None
    assert main([*GRID, *HERE, "--results", str(whole)]) == 0
    tables = [pd.read_parquet(run_folder / "candidates.parquet") for run_folder in (folder, whole)]
    pd.testing.assert_frame_equal(*tables)
    assert "n_splits" not in record(folder)["best"]
