"""Python's resource tracker may be killed: nothing is printed, nothing is leaked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# A semaphore is what multiprocessing registers for each queue and lock of a worker.
PROGRAM = """
import gc, os, signal
from multiprocessing import get_context, resource_tracker
from cluster_setup.on_this_machine.startup import keep_tracker_informed

if __name__ == "__main__":
    keep_tracker_informed()
    locks = [get_context("spawn").Lock() for _ in range(3)]
    tracker = resource_tracker._resource_tracker
    os.kill(tracker._pid, signal.SIGKILL)
    os.waitid(os.P_PID, tracker._pid, os.WEXITED | os.WNOWAIT)
    locks.append(get_context("spawn").Lock())  # by the second tracker
    {end}
"""


def run(tmp_path: Path, end: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(PROGRAM.replace("{end}", end))
    return subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True
    )


def test_its_successor_knows_what_is_let_go(tmp_path: Path) -> None:
    ended = run(tmp_path, "del locks; gc.collect()")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_its_successor_cleans_up_after_a_program_that_is_killed(tmp_path: Path) -> None:
    ended = run(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert ended.returncode == -9
    assert "4 leaked semaphore objects" in ended.stderr  # those of the first, too
