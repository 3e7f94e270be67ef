"""A scheduler of somebody else that dies in the midst of a run."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import pytest

from pipelines.graph.distributed import iterations_kept
from tests.command_runs import LONGER, record, start

pytest.importorskip("torch", reason="networks are torch's")

OUTER = """
import time
from distributed import LocalCluster
options = dict(n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://")
cluster = LocalCluster(host="127.0.0.1", dashboard_address=":0", **options)
print(cluster.scheduler_address, flush=True)
time.sleep(3600)
"""
RUNS = {
    **LONGER,
    "pagerank": ["--distributed", "--nodes", "3000", "--tol", "0", "--iterations", "100000"],
    "data_parallel": ["--epochs", "1000", "--batch-size", "16", "--checkpoint-seconds", "0.2"],
}
SAVED = {
    "pagerank": r"ranks after [\d,]+ iterations are saved in",
    "data_parallel": r"every-step, 2 ranks, repeat 1 up to step [\d,]+ are saved in",
}


@pytest.fixture
def outer():
    """A scheduler and two workers in a process."""
    program = subprocess.Popen([sys.executable, "-c", OUTER], stdout=subprocess.PIPE, text=True)
    yield program
    program.kill()
    program.communicate()


def has_saved(folder, command):
    if command == "pagerank":
        return iterations_kept(folder / "partitions") > 0
    if command == "data_parallel":
        return any((folder / "checkpoints").glob("*.safetensors"))
    journal = folder / "journal.jsonl"
    return journal.exists() and journal.stat().st_size > 0


@pytest.mark.parametrize("command", RUNS)
def test_a_command_ends_in_a_line_that_says_what_is_saved(command, outer, tmp_path):
    assert outer.stdout is not None
    address, folder = outer.stdout.readline().strip(), tmp_path / "run"
    where = ["--cluster", address, "--results", str(folder), "--dashboard", "off"]
    program = start(command, *RUNS[command], *where)
    while not has_saved(folder, command):
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)
    outer.send_signal(signal.SIGKILL)
    _, errors = program.communicate()
    assert program.returncode == 1
    assert errors.count("\n") == 1, errors
    saved = SAVED.get(command, "finished fits are saved in")
    reason = f"the scheduler at {address} no longer responds"
    typed = command.replace("_", "-")
    assert re.match(f"{typed}: {reason}; {saved} {folder}; resume with ", errors)
    run = record(folder)
    assert (run["status"], run["reason"]) == ("stopped", reason)
    assert run.get("best") is None
