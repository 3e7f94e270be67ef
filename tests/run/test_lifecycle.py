from __future__ import annotations

import errno

import pytest

from pipelines.console import quiet_echo
from pipelines.data_parallel import DataParallel
from pipelines.errors import InputError
from pipelines.run.errors import RunStopped
from pipelines.run.groups import RunOptions
from pipelines.run.job import exit_status
from pipelines.run.lifecycle import open_session
from pipelines.run_folder.folder import RunFolder
from pipelines.run_folder.names import JOURNAL
from pipelines.svm_grid import SVMSearchJob

SVM_GRID = SVMSearchJob()


def options_of(path):
    return RunOptions(results=str(path))


def test_a_second_start_in_the_same_folder_leaves_the_first_alone(tmp_path):
    """Refused at any time of the first: before its first task, in its midst, at its end."""
    path = tmp_path / "run"
    with open_session(SVM_GRID, options_of(path), quiet_echo) as first:
        for _ in range(2):
            with (
                pytest.raises(InputError, match="is in use by another process"),
                open_session(SVM_GRID, options_of(path), quiet_echo),
            ):
                raise AssertionError("it has the folder, too")
            assert (first.folder.path / JOURNAL).exists()
        first.folder.update(options={}, status="running")
        first.journal.append(
            {"task": "a", "worker": "tcp://w", "started": 1.0, "seconds": 1.0, "rows": []}
        )
        with pytest.raises(InputError), open_session(SVM_GRID, options_of(path), quiet_echo):
            pass
    with first.folder.journal() as journal:
        assert len(journal.records) == 1
    assert (path / "run.json").exists()


def test_a_folder_made_in_vain_is_gone_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options in (options_of(tmp_path / "run"), RunOptions()):
        with pytest.raises(InputError, match="no"), open_session(SVM_GRID, options, quiet_echo):
            raise InputError("no")
        with (
            pytest.raises(RunStopped, match="nothing was computed"),
            open_session(SVM_GRID, options, quiet_echo),
        ):
            raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def begin_and_stop(path):
    with open_session(SVM_GRID, options_of(path), quiet_echo) as session:
        session.folder.update(options={}, status="running")
        raise KeyboardInterrupt


def begin_and_import(path, cause):
    with open_session(SVM_GRID, options_of(path), quiet_echo) as session:
        session.folder.update(options={}, status="running")
        raise ImportError("initialization failed") from cause


def test_a_run_that_is_stopped_while_it_imports_is_stopped_in_order(tmp_path):
    with pytest.raises(RunStopped, match=r"^stopped on request; nothing has finished yet in "):
        begin_and_import(tmp_path / "run", KeyboardInterrupt())
    with pytest.raises(ImportError, match="initialization"):
        begin_and_import(tmp_path / "other", None)


def test_no_rows_are_promised_where_nothing_is_finished(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(
        RunStopped, match=r"^stopped on request; nothing has finished yet in "
    ) as none:
        begin_and_stop(path)
    assert "rows are in" not in str(none.value)
    line = {"task": "a", "worker": "tcp://w", "started": 1.0, "seconds": 1.0, "rows": []}

    def go_on(*lines):
        with open_session(SVM_GRID, RunOptions(resume=str(path)), quiet_echo) as session:
            for entry in lines:
                session.journal.append(entry)
            raise KeyboardInterrupt

    for lines in ([line], []):  # written now, and found there
        with pytest.raises(RunStopped, match=r"^stopped on request; finished fits are saved in "):
            go_on(*lines)


def test_fits_that_failed_are_not_said_to_be_finished(tmp_path, monkeypatch):
    row = {"strategy": "never", "ranks": 1, "repeat": 0, "epoch": 0, "status": "failed: OSError"}
    line = {"task": "a", "worker": "tcp://w", "started": 1.0, "seconds": 1.0, "rows": [row]}

    def stop(name, unfinished):
        monkeypatch.setattr(DataParallel, "unfinished", lambda job, path, done: unfinished)
        with open_session(DataParallel(), options_of(tmp_path / name), quiet_echo) as session:
            session.folder.update(options={}, status="running")
            session.journal.append(line)
            raise RunStopped("no training gave a network")

    with pytest.raises(RunStopped, match=r"^no training gave a network; nothing has finished yet"):
        stop("nothing", "")
    with pytest.raises(RunStopped, match=r"; never on 1 up to step 7 are saved in "):
        stop("some", "never on 1 up to step 7")


def test_the_command_that_goes_on_can_be_pasted_into_a_shell(tmp_path):
    path = tmp_path / "my run"
    with pytest.raises(RunStopped, match=f"pleasingly svm-grid --resume '{path}'$"):
        begin_and_stop(path)
    assert RunFolder.open(path, "svm_grid").record["reason"] == "stopped on request"


def test_a_finished_run_stays_finished_and_forgets_why_it_once_stopped(tmp_path):
    path = tmp_path / "run"
    with open_session(SVM_GRID, options_of(path), quiet_echo) as session:
        session.folder.update(options={}, status="stopped", reason="stopped on request")
        session.finish(
            {
                "best": {"C": 1.0, "gamma": 0.1},
                "test_error": 0.0,
                "n_test_errors": 0,
                "n_cells": 1,
                "dataset": {"n_test": 1},
            }
        )
    assert "reason" not in session.record
    with (
        pytest.raises(
            RunStopped, match=r"the run in .* is finished; if its page is missing, draw it with"
        ),
        open_session(SVM_GRID, RunOptions(resume=str(path)), quiet_echo),
    ):
        raise KeyboardInterrupt
    assert RunFolder.open(path, "svm_grid").record["status"] == "finished"


def test_a_full_disk_does_not_make_a_run_look_finished(tmp_path, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    def finish(path):
        with open_session(SVM_GRID, options_of(path), quiet_echo) as session:
            session.folder.update(options={}, status="running")
            monkeypatch.setattr("os.fsync", full)
            session.finish({"n_cells": 1})

    with pytest.raises(RunStopped, match=r"No space left on device; .* resume with .* --resume"):
        finish(tmp_path / "run")
    assert RunFolder.open(tmp_path / "run", "svm_grid").record["status"] == "running"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError("Could not find/load shared object file 'libllvmlite.so'"),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_lack_of_memory_is_one_line_however_it_is_said(error, capsys):
    def action():
        raise error

    assert exit_status("pagerank", action) == 1
    assert capsys.readouterr().err.startswith("pagerank: out of memory: a limit of this process")
