"""What the command survives, and how it goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from pipelines.nn_bagging import main
from tests.command_runs import cells, record, tasks_of
from tests.test_interruption import assert_equal_runs


def test_a_member_whose_file_is_gone_is_made_again(tmp_path, finished):
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    before = tasks_of(folder)
    (folder / "members" / "member-02.safetensors").unlink()
    (folder / "run.json").write_text(json.dumps(record(folder) | {"status": "running"}))
    assert main(["--resume", str(folder), "--quiet", "--cluster", "threads"]) == 0
    *kept, last = tasks_of(folder)
    assert kept == before
    assert last["task"] == "refit-member=2"
    assert_equal_runs(folder, finished[0])


def test_a_finished_run_has_nothing_to_resume_but_may_explain_more(tmp_path, finished, monkeypatch):
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    monkeypatch.setattr("pipelines.run.cluster.open_cluster", None)  # needs no cluster
    assert main(["--resume", str(folder), "--quiet", "--explain", "11"]) == 0
    with np.load(folder / "explained.npz", allow_pickle=False) as arrays:
        assert arrays["name"].tolist()[6:] == ["test sample 11", "mine.png"]
    assert_equal_runs(folder, finished[0])
    assert record(folder)["wall_seconds"] == record(finished[0])["wall_seconds"]


def test_too_little_memory_is_said_and_more_goes_on(tmp_path, capsys):
    folder = str(tmp_path / "run")
    tiny = [
        "--limit",
        "100",
        "--n-bootstrap",
        "2",
        "--n-tuning",
        "1",
        "--folds",
        "2",
        "--max-epochs",
        "2",
        "--cluster",
        "threads",
    ]
    assert main([*tiny, "--memory", "0.0001", "--results", folder]) == 1
    message = capsys.readouterr().err
    assert message.startswith("nn-bagging: no member could be trained: ")
    assert len(message.splitlines()) == 1
    assert record(Path(folder))["status"] == "stopped"
    assert main(["--resume", folder, "--quiet", "--memory", "4"]) == 0
    assert set(cells(Path(folder)).status) == {"ok"}
