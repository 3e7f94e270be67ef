"""A run's folder: made once, described by ``run.json``, never two runs in one."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from pipelines.data.errors import InputError
from pipelines.run.journal import NAME as JOURNAL_NAME
from pipelines.run.journal import Journal

RECORD = "run.json"


class RunFolder:
    """The folder of one run, and the record that describes it."""

    def __init__(self, path: Path, record: dict[str, Any]) -> None:
        self.path = path
        self.record = record

    @classmethod
    def create(cls, results: str | None, command: str) -> RunFolder:
        """Make the folder of a new run.

        Parameters
        ----------
        results : str, optional
            The folder, new or empty; by default ``results/COMMAND-TIME``.

        Raises
        ------
        InputError
            The folder cannot be written, or is not empty.
        """
        path = Path(results) if results else _unused(Path("results"), command)
        try:
            path.mkdir(parents=True, exist_ok=True)
            content = sorted(entry.name for entry in path.iterdir())
            if RECORD in content:
                raise InputError(
                    f"--results must be a new or empty folder, got {path}, which holds a run; "
                    f"finish that one with --resume {path}, or name another folder"
                )
            if content:
                raise InputError(
                    f"--results must be a new or empty folder, got {path}, which holds "
                    f"{content[0]}; name another folder"
                )
            probe = path / ".probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InputError(
                f"--results must be a folder that can be written, got {path}: {error.strerror}; "
                "name another folder"
            ) from None
        return cls(path, {"command": command})

    @classmethod
    def open(cls, path: Path, command: str) -> RunFolder:
        """Open the folder of an earlier run of the same command.

        Raises
        ------
        InputError
            It holds no run, or one of another command.
        """
        try:
            record = json.loads((path / RECORD).read_text())
            found = record["command"]
        except OSError as error:
            raise InputError(
                f"--resume must be the folder of a run, got {path}: {RECORD}: {error.strerror}; "
                "start a new run with --results"
            ) from None
        except (ValueError, TypeError, KeyError):
            raise InputError(
                f"--resume must be the folder of a run, got {path}, whose {RECORD} is damaged; "
                "start a new run with --results"
            ) from None
        if found != command:
            raise InputError(
                f"--resume must be the folder of a {command} run, got {path}, which holds a run "
                f"of {found}; use python -m pipelines.{found} --resume {path}"
            )
        if "options" not in record:
            raise InputError(
                f"--resume must be a run that has begun, got {path}, which was stopped before; "
                "start a new run with --results"
            )
        return cls(path, record)

    def update(self, **facts: Any) -> None:
        """Add facts to ``run.json``, which is replaced in one step."""
        self.record.update(facts)
        temporary = self.path / f"{RECORD}.new"
        temporary.write_text(json.dumps(self.record, indent=2) + "\n")
        os.replace(temporary, self.path / RECORD)

    def journal(self) -> Journal:
        """The journal of the run, opened for more records."""
        return Journal(self.path / JOURNAL_NAME)


def _unused(parent: Path, command: str) -> Path:
    stem = f"{command}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = parent / stem, 2
    while path.exists():
        path, number = parent / f"{stem}-{number}", number + 1
    return path
