from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.errors import InputError
from pipelines.run_folder import names
from pipelines.run_folder.folder import RunFolder, hold


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    folder = RunFolder.create(str(tmp_path / "a" / "b"), "svm_grid")
    folder.update(seed=3)
    folder.update(status="finished")
    assert json.loads((tmp_path / "a" / "b" / "run.json").read_text()) == {
        "command": "svm_grid",
        "seed": 3,
        "status": "finished",
    }
    assert [path.name for path in folder.path.iterdir()] == ["run.json"]


def test_the_default_folder_is_new_each_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = (RunFolder.create(None, "svm_grid") for _ in range(2))
    assert first.path != second.path
    assert first.path.parent == second.path.parent == Path("results")


def test_a_folder_with_a_run_is_refused(tmp_path):
    RunFolder.create(str(tmp_path), "svm_grid").update(seed=1)
    with pytest.raises(InputError, match="already holds a run; continue it with --resume"):
        RunFolder.create(str(tmp_path), "svm_grid")


def test_a_folder_with_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"holds thesis\.tex; name another folder"):
        RunFolder.create(str(tmp_path), "svm_grid")


def test_a_folder_whose_run_never_began_is_taken(tmp_path):
    for name in ("journal.jsonl", ".run.json.1.part", ".probe"):  # a launcher killed at its start
        (tmp_path / name).touch()
    assert RunFolder.create(str(tmp_path), "svm_grid").path == tmp_path
    (tmp_path / "journal.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"holds journal\.jsonl; name another folder"):
        RunFolder.create(str(tmp_path), "svm_grid")


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--results must be a folder that can be written"):
        RunFolder.create(str(tmp_path / "file" / "below"), "svm_grid")


def test_only_a_run_of_the_same_command_is_opened(tmp_path):
    with pytest.raises(InputError, match=r"--resume must be the folder of a run.*no run\.json"):
        RunFolder.open(tmp_path, "svm_grid")
    RunFolder.create(str(tmp_path), "nn_bagging").update(seed=1)
    with pytest.raises(InputError, match=r"a run of svm_grid, got .*, a run of nn_bagging"):
        RunFolder.open(tmp_path, "svm_grid")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json, which is damaged|which is damaged"):
        RunFolder.open(tmp_path, "svm_grid")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "values.npy"
    path.write_bytes(b"whole")

    def fails():
        with names.replacing(path) as unfinished:
            unfinished.write_bytes(b"half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fails()
    assert [(file, file.read_bytes()) for file in tmp_path.iterdir()] == [(path, b"whole")]


@pytest.mark.parametrize("status", ["running", "finished"])
def test_what_a_run_refuses_goes_unless_it_is_finished(tmp_path, status):
    def refused():
        with hold("pagerank", str(tmp_path / "run"), None) as (folder, _):
            folder.update(options={}, status=status)
            raise InputError("the page cannot be drawn")

    with pytest.raises(InputError):
        refused()
    assert (tmp_path / "run").exists() == (status == "finished")


def test_a_run_with_finished_tasks_is_stopped_by_what_it_refuses(tmp_path):
    def refused():
        with hold("pagerank", str(tmp_path / "run"), None) as (folder, journal):
            folder.update(options={}, status="running")
            journal.append({"task": "iterations"})
            raise InputError("edges must have a positive weight")

    with pytest.raises(InputError):
        refused()
    record = json.loads((tmp_path / "run" / names.RECORD).read_text())
    assert (record["status"], record["reason"]) == ("stopped", "edges must have a positive weight")
