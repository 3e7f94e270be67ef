"""A program in a process of its own: how long, how much memory, and what it found."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
LOOK_EVERY = 0.2  # seconds
OURS = "ours"


def programs(job: str) -> list[Path]:
    """Those that do a job, ours first."""
    found = sorted((FOLDER / job).glob("*.py"))
    return sorted(found, key=lambda path: path.stem != OURS)


def about(program: Path) -> str:
    """What its first line says of it."""
    return (ast.get_docstring(ast.parse(program.read_text())) or program.stem).rstrip(".")


def lines_of(program: Path) -> int:
    """Lines a user writes: those that are neither empty, nor a comment, nor the docstring."""
    tree = ast.parse(program.read_text())
    docstring = tree.body[0].end_lineno or 0
    lines = program.read_text().splitlines()[docstring:]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


def run(python: str, program: Path, problem: Path) -> dict[str, Any]:
    """From the start of Python to the answer.

    Memory is what the process and those that it started hold together, what they share counted
    once, at its highest of five looks a second.

    Returns
    -------
    dict with ``seconds``, ``peak_bytes`` and what the program says of itself; or ``missing``: why
    it did not end
    """
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile("w+") as said:
        # Ours is imported from here, whatever the folder it is run in.
        root = str(FOLDER.parents[1])
        path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
        began = time.perf_counter()
        process = subprocess.Popen(
            [python, str(program), str(problem)], stdout=said, stderr=subprocess.STDOUT, cwd=place,
            env=os.environ | {"PYTHONPATH": path if program.stem == OURS else ""},
        )  # fmt: skip
        peak = 0
        while process.poll() is None:
            peak = max(peak, _held_by(process.pid))
            time.sleep(LOOK_EVERY)
        seconds = time.perf_counter() - began
        said.seek(0)
        text = said.read().strip()
    if process.returncode:
        return {"missing": (text.splitlines() or [f"exit status {process.returncode}"])[-1]}
    answers = [line for line in text.splitlines() if line.startswith('{"')]
    answer: dict[str, Any] = json.loads(answers[-1])
    return {"seconds": seconds, "peak_bytes": peak} | answer


def _held_by(pid: int) -> int:
    import psutil

    total = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):
                total += one.memory_full_info().pss
    return total
