"""A run whose folder is deleted, renamed or replaced meanwhile ends at once, and says so."""

from __future__ import annotations

import json
import shutil
from importlib import import_module

import pytest

from pipelines.run_folder.journal import Journal

SMALL = {
    "svm_grid": "--limit 200 --n-c 2 --n-gamma 3 --folds 2",
    "cross_validate": "--limit 200 --folds 2 --estimator tree --param max_depth=1,2,3",
    "nn_bagging": "--limit 200 --n-bootstrap 2 --n-tuning 2 --folds 2 --max-epochs 1",
    "pagerank": "--random erdos --nodes 50",
    "data_parallel": "--network mlp --limit 200 --ranks 1 --epochs 1 --repeats 2 --workers 1",
}
KIND = dict.fromkeys(SMALL, "threads") | {"data_parallel": "local"}  # whose ranks are processes
FOREIGN = {"run.json": "somebody else's", "cv_results.parquet": "of another run"}


def delete(folder):
    shutil.rmtree(folder)


def rename(folder):
    folder.rename(folder.with_name("elsewhere"))


def replace(folder):
    shutil.rmtree(folder)
    folder.mkdir()
    for name, content in FOREIGN.items():
        (folder / name).write_text(content)


def run(
    command,
    what,
    folder,
    monkeypatch,
):
    """Run a command whose folder that happens to when its last record is written."""
    monkeypatch.setattr("pipelines.run_folder.journal.SECONDS_BETWEEN_LOOKS", 0.0)
    store, n = Journal._store, 0

    def disturbed(self, line):
        nonlocal n
        store(self, line)
        n += 1
        if n == 1:
            what(folder)

    monkeypatch.setattr(Journal, "_store", disturbed)
    words = [*SMALL[command].split(), "--cluster", KIND[command], "--results", str(folder)]
    status = import_module(f"pipelines.{command}").main(words)
    assert n == 1, "it computed on"
    return status


COMMANDS = [
    pytest.param(command_name, marks=pytest.mark.slow)
    if command_name in ("nn_bagging", "data_parallel")
    else command_name
    for command_name in SMALL
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("what", [delete, replace])
def test_what_is_lost_is_said_and_nothing_written_in_its_place(
    command,
    what,
    tmp_path,
    monkeypatch,
    capsys,
):
    folder = tmp_path / "run"
    assert run(command, what, folder, monkeypatch) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{folder / 'journal.jsonl'} was deleted or replaced while the run wrote it" in line
    assert "what it had computed is lost; start it again with --results" in line
    assert "saved" not in line
    assert "resume" not in line
    if what is delete:
        assert list(tmp_path.iterdir()) == []
    else:
        assert {path.name: path.read_text() for path in folder.iterdir()} == FOREIGN


@pytest.mark.parametrize("command", COMMANDS)
def test_a_renamed_folder_is_where_it_goes_on(
    command,
    tmp_path,
    monkeypatch,
    capsys,
):
    folder, now = tmp_path / "run", tmp_path / "elsewhere"
    assert run(command, rename, folder, monkeypatch) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"the folder {folder} was renamed to {now} during the run" in line
    assert f"finished fits are saved in {now}; resume with" in line
    assert line.endswith(f"--resume {now}")
    assert list(tmp_path.iterdir()) == [now]
    assert json.loads((now / "run.json").read_text())["status"] == "stopped"
    monkeypatch.undo()
    main = import_module(f"pipelines.{command}").main
    assert main(["--resume", str(now), "--cluster", KIND[command], "--quiet"]) == 0


def test_a_folder_put_there_before_the_first_task_stays(tmp_path, monkeypatch):
    """What ends a run that has not begun removes the folder that it made, and no other."""
    from pipelines import svm_grid

    monkeypatch.setattr("pipelines.run_folder.journal.SECONDS_BETWEEN_LOOKS", 0.0)
    folder = tmp_path / "run"

    def interrupted(*_, **__):
        replace(folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(svm_grid.SVMSearchJob, "load", interrupted)
    assert svm_grid.main(["--results", str(folder), "--cluster", "threads"]) == 1
    assert {path.name: path.read_text() for path in folder.iterdir()} == FOREIGN
