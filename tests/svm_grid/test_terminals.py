"""Whatever becomes of the terminal, nothing is lost and there is no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.command_runs import command_line, record, start, wait_for_tasks

from .conftest import LONGER

DRY = ["--dry-run", "--cluster", "local"]


def in_shell(line: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of bash; ``"$@"`` in it is the command."""
    words = ["bash", "-o", "pipefail", "-c", line, "bash", *command_line("svm_grid", *options)]
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.slow
def test_a_stdout_that_is_closed(tmp_path: Path) -> None:
    tiny = ["--limit", "100", "--n-c", "1", "--n-gamma", "1", "--folds", "2", "--workers", "1"]
    done = in_shell('"$@" >&-', *tiny, "--cluster", "local", "--results", str(tmp_path / "run"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("line", ['"$@" | true', '"$@" >&- 2>&-'])
def test_a_reader_that_goes_away(line: str, finished: tuple[Path, str]) -> None:
    done = in_shell(line, "--resume", str(finished[0]))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_an_ascii_terminal(finished: tuple[Path, str]) -> None:
    done = in_shell('"$@"', "--resume", str(finished[0]), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert " % ? " in done.stdout  # for the sign of plus and minus
    assert "report.html" in done.stdout


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    done = in_shell(f'mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone; "$@"', *DRY,
                    PYTHONPATH=os.getcwd())  # fmt: skip
    assert done.returncode == 2
    assert "the working directory no longer exists" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_closed_session_stops_the_run_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # Under nohup the tests, and so what they start, ignore it.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    program = start("svm_grid", *LONGER, "--results", str(folder))
    signal.signal(signal.SIGHUP, before)
    wait_for_tasks(folder, 3, program)
    program.send_signal(signal.SIGHUP)
    _, said = program.communicate()
    assert program.returncode == 1
    assert said.startswith("svm_grid: stopped on request; finished fits are saved in")
    assert record(folder)["status"] == "stopped"
