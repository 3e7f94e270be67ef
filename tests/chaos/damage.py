"""A run's folder with a file that is damaged: cut, overwritten, or of other types than it says."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.chaos.checks import must_be_one_line, must_equal
from tests.chaos.journal import copy_as_killed
from tests.chaos.program import Broken, Program
from tests.chaos.workloads import Workload


def disturb(
    workload: Workload, truth: Path, folder: Path, rng: np.random.Generator, number: int
) -> list[str]:
    """Damage ``run.json`` or the journal of a run that was killed half way; resume and report it.

    Raises
    ------
    Broken
        The folder was neither refused in one line nor resumed to the end of the other.
    """
    copy_as_killed(truth, folder)
    lines = (truth / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join(lines[: len(lines) // 2]))
    victim = folder / str(rng.choice(["run.json", "journal.jsonl"]))
    name = str(rng.choice(list(DAMAGES)))
    victim.write_bytes(DAMAGES[name](victim.read_bytes(), rng))
    resumed = Program(workload.resume(folder), folder)
    if _refused(resumed, workload.command):
        ended = "refused"
    else:
        must_equal(workload, folder, truth)
        ended = "resumed"
    report = Program([sys.executable, "-m", "pipelines.report", str(folder)], folder)
    if not _refused(report, "report") and not (folder / "report.html").exists():
        raise Broken("neither a page nor a word why there is none")
    return [f"{victim.name}: {name}; {ended}"]


def _refused(program: Program, command: str) -> bool:
    status = program.wait()
    program.must_vanish()
    if status == 0 and not program.complained:
        return False
    if status not in (1, 2):
        raise Broken(f"exit status {status}: {program.complained or program.said}")
    must_be_one_line(program.complained, f"{command}: ")
    return True


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: int(rng.integers(0, len(content)))]


def _overwrite(content: bytes, rng: np.random.Generator) -> bytes:
    """Bytes of no meaning somewhere in the file."""
    at = int(rng.integers(0, len(content)))
    return content[:at] + rng.bytes(20) + content[at + 20 :]


def _other_types(content: bytes, rng: np.random.Generator) -> bytes:
    """In every line some value takes another type, or goes."""
    strange: list[Any] = [None, -1, "x", [], {}, 1e308, True, {"a": [{}]}]
    lines = []
    for line in content.splitlines() if content.count(b"\n{") else [content]:
        record = json.loads(line)
        key = str(rng.choice(sorted(record)))
        record[key] = strange[int(rng.integers(len(strange)))]
        if rng.integers(4) == 0:
            del record[key]
        lines.append(json.dumps(record).encode())
    return b"\n".join(lines) + b"\n"


def _deep(content: bytes, rng: np.random.Generator) -> bytes:
    """Nested deeper than a parser that calls itself can follow."""
    return b"[" * 100_000 + b"\n" + content


DAMAGES: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "cut": _cut,
    "overwritten": _overwrite,
    "other types": _other_types,
    "nested deeply": _deep,
}
