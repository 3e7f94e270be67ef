"""A full disk: a small tmpfs, made larger when the run has stopped."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.chaos.checks import journal_of, must_be_one_line, must_be_readable, must_equal, must_keep
from tests.chaos.program import Broken, Program

PAGE = 4096
ENOUGH = "64m"


@cache
def missing():
    """Why no disk can be filled here; empty where one can."""
    if not sys.platform.startswith("linux"):
        return "a full disk needs tmpfs, which is Linux"
    try:
        with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder), PAGE):
            return ""
    except (OSError, subprocess.CalledProcessError):
        return "a full disk needs the right to mount a tmpfs, which root has outside containers"


@contextmanager
def small_disk(folder, size):
    """A disk of ``size`` bytes in place of ``folder`` while the block runs."""
    _mount("-t", "tmpfs", "-o", f"size={size}", "pleasingly-chaos", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


def disturb(workload, truth, folder, rng, number):
    """Carry out a run on a disk that is too small, then on one that is not.

    Raises
    ------
    Broken
        It does not say in one line that the disk is full, or does not end as the other.
    """
    size = draw(rng, number, truth)
    folder.mkdir()
    with small_disk(folder, size):
        run = folder / "run"
        program = Program(workload.begin(run), run)
        status = program.wait()
        program.must_vanish()
        if status == 0:
            raise Broken(f"finished on a disk of {size} bytes, which cannot hold it")
        if status != 1:
            raise Broken(f"exit status {status}: {program.complained}")
        must_be_one_line(program.complained, f"{workload.command}: ", "No space left on device")
        must_be_readable(run)
        before = journal_of(run)
        _mount("-o", f"remount,size={ENOUGH}", str(folder))
        begun = (run / "run.json").exists()
        again = Program(workload.resume(run) if begun else workload.begin(run), run)
        again.must_end_well()
        must_keep(before, run)
        must_equal(workload, run, truth)
    return [f"a disk of {size >> 10} KiB was full after {before.count(10)} tasks"]


def draw(rng, number, truth):
    """Bytes of a disk that is too small for a run; full under the journal in each second run."""
    whole = sum(_on_disk(path) for path in truth.rglob("*"))
    journal = _on_disk(truth / "journal.jsonl")
    most = journal + 2 * PAGE if number % 2 == 0 else whole
    return int(rng.integers(2, most // PAGE - 1)) * PAGE


def _on_disk(path):
    return -(-path.stat().st_size // PAGE) * PAGE if path.is_file() else 0


def _mount(*words):
    subprocess.run(["mount", *words], check=True, capture_output=True)
