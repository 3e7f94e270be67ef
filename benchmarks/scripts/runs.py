"""One run of a script, in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.scripts.notebooks import code_of
from benchmarks.scripts.sources import Script

ROOT = Path(__file__).parents[2]
PLAIN: tuple[str, ...] = ()
ACCELERATED = ("-m", "pipelines.accelerate")


@dataclass(frozen=True)
class Run:
    """What a run of a script took and found.

    Attributes
    ----------
    seconds : float
        CPU seconds of the script's process and of all it started.
    searches : list of dict
        See ``benchmarks.scripts.recording``.
    status : int
        The exit status.
    says : str
        The end of what it wrote on stderr.
    """

    seconds: float
    searches: list[dict[str, Any]]
    status: int
    says: str

    @property
    def search_seconds(self) -> float:
        """CPU seconds inside the searches alone."""
        return float(sum(search["seconds"] for search in self.searches))


def run_script(script: Script, folder: Path, through: tuple[str, ...]) -> Run:
    """Run a script on one thread, with figures drawn into no window.

    Parameters
    ----------
    script : Script
    folder : Path
        Where the checkouts lie.
    through : tuple of str
        ``PLAIN`` or ``ACCELERATED``: what stands between ``python`` and the script.
    """
    path = folder / script.checkout_path
    with tempfile.TemporaryDirectory() as scratch:
        program = path
        if path.suffix == ".ipynb":
            program = Path(scratch) / f"{path.stem}.py"
            program.write_text(code_of(path, script.cells))
        records = Path(scratch) / "searches.json"
        began = _cpu_seconds()
        process = subprocess.run(
            [sys.executable, *through, str(program)],
            cwd=path.parent,
            env=_environment(script, folder, path.parent, records),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = _cpu_seconds() - began
        searches = json.loads(records.read_text()) if records.exists() else []
    return Run(seconds, searches, process.returncode, process.stderr[-2000:])


def _cpu_seconds() -> float:
    """CPU seconds of the processes that this one started and that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _environment(script: Script, folder: Path, beside: Path, records: Path) -> dict[str, str]:
    """The environment of a run; ``beside`` is the folder that a notebook imports from."""
    paths = [str(Path(__file__).parent / "probe"), str(ROOT), str(beside)]
    paths += [str(folder / path) for path in script.imports]
    inherited = os.environ.get("PYTHONPATH")
    addresses = {address: str(folder / path) for address, path in script.addresses.items()}
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([*paths, inherited] if inherited else paths),
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "SCRIPT_SEARCHES": str(records),
        "SCRIPT_ADDRESSES": json.dumps(addresses),
    }
