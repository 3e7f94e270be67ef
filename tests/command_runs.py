"""Runs of a command as a person starts them, and what they leave."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd


def command_line(command: str, *options: str) -> list[str]:
    """``python -m pipelines.COMMAND`` with this Python."""
    return [sys.executable, "-m", f"pipelines.{command}", *options]


def start(command: str, *options: str) -> subprocess.Popen[str]:
    """The command, in a session of its own."""
    return subprocess.Popen(
        command_line(command, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_tasks(folder: Path, n_tasks: int, program: subprocess.Popen[str]) -> None:
    """Wait until so many tasks are in the journal of a run that goes on."""
    journal = folder / "journal.jsonl"
    while not journal.exists() or journal.read_bytes().count(b"\n") < n_tasks:
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)


def tasks_of(folder: Path) -> list[dict]:
    """The lines of a journal, without checksums: a test that changes one signs nothing."""
    lines = (folder / "journal.jsonl").read_text().splitlines()
    return [{name: one for name, one in json.loads(line).items() if name != "crc32"}
            for line in lines]  # fmt: skip


def summary(said: str, n_lines: int) -> list[str]:
    """The last lines of a run's output but for the phase that a busy machine names."""
    return [line for line in said.splitlines() if not line.startswith("page ")][-n_lines:]


def record(folder: Path) -> dict:
    """The content of ``run.json``."""
    return json.loads((folder / "run.json").read_text())


def cells(folder: Path) -> pd.DataFrame:
    """The table of a run, less what says where and how fast."""
    table = pd.read_parquet(folder / "cv_results.parquet")
    return table.drop(columns=["fit_seconds", "score_seconds", "worker"])
