"""A run's folder: made once, described by ``run.json``, and never shared by two runs."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pipelines.errors import InputError, program
from pipelines.run_folder.digests import FileDigest, changes_of
from pipelines.run_folder.journal import FolderLost, Journal
from pipelines.run_folder.names import JOURNAL, RECORD, replacing
from pipelines.run_folder.record import Record, read_record
from pipelines.run_folder.rows import Row

PROBE = ".probe"  # prefix of a file that shows whether the folder can be written


class RunFolder:
    """The folder of one run, and the record that describes it.

    Attributes
    ----------
    path : Path
    record : dict
        The content of ``run.json``.
    files : mapping of str to FileDigest
        Digests of the files that the last session left.
    changed : mapping of str to str
        Files that were removed because they had changed, and how they differed.
    wall_before : float
        Seconds of earlier sessions, once the clock has been started.
    session_started : str
    """

    def __init__(
        self, path: Path, record: dict[str, Any], files: Mapping[str, FileDigest] | None = None
    ) -> None:
        self.path = path
        self.record = record
        self.files = files or {}  # as the last session left them
        self.changed: Mapping[str, str] = {}  # set by ``remove_changed``
        self.wall_before = 0.0  # set by ``start_clock``
        self._clock = 0.0
        self.session_started = iso_now()

    @classmethod
    def create(cls, results: str | None, command: str, write: bool = True) -> RunFolder:
        """Make the folder of a new run.

        Parameters
        ----------
        results : str, optional
            The folder, new or empty; by default ``results/COMMAND-TIME``.
        command : str
        write : bool
            False only checks that the folder could be made.

        Raises
        ------
        InputError
            The folder is not empty, or cannot be written.
        """
        if not write:
            if results:
                refuse_taken(Path(results))
            return cls(Path(results or "results"), {"command": command})
        stem = f"{command}-{time.strftime('%Y%m%d-%H%M%S')}"
        path = Path(results) if results else unused(Path("results", stem))
        try:
            path.mkdir(parents=True, exist_ok=True)
            refuse_taken(path)
            with NamedTemporaryFile(prefix=PROBE, dir=path):
                pass
        except OSError as error:
            raise _unwritable(path, error) from None
        return cls(path, {"command": command})

    @classmethod
    def open(
        cls, path: Path, command: str, option: str = "--resume", record_class: type[Record] = Record
    ) -> RunFolder:
        """Open the folder of an earlier run of the same command.

        Parameters
        ----------
        path : Path
        command : str
        option : str
            The option that named the folder, for messages.
        record_class : type of Record
            Schema of its ``run.json``.

        Raises
        ------
        InputError
            The folder contains no run, a run of another command, a run that never began, or a
            damaged ``run.json``.
        """
        if not (path / RECORD).is_file():
            raise InputError(
                f"{option} must be the folder of a run, got {path}, which has no {RECORD}; "
                "start a new run with --results"
            )
        _, typed_record = read_record(path, Record, option)
        if typed_record.command != command:
            raise InputError(
                f"{option} must be the folder of a run of {command}, got {path}, a run "
                f"of {typed_record.command}; use {program(typed_record.command)} --resume {path}"
            )
        record, typed_record = read_record(path, record_class, option)
        if "options" not in record:
            raise InputError(
                f"{option} must be a run that has started, got {path}, which stopped before its "
                "first task; start a new run with --results"
            )
        if missing := typed_record.missing():
            raise InputError(
                f"{option} must be a run whose {RECORD} is whole, got {path}, which is finished "
                f"and has no {', '.join(missing)}; start a new run with --results"
            )
        return cls(path, record, typed_record.files)

    def update(self, **metadata: Any) -> None:
        """Add entries to ``run.json``, which is replaced in one step.

        Raises
        ------
        OSError
            The entries could not be stored; ``record`` then still equals the file.
        """
        # An entry that a full disk did not store must not count, above all a status "finished".
        record = self.record | metadata
        with replacing(self.path / RECORD) as file:
            file.write_text(json.dumps(record, indent=2) + "\n")
        self.record = record

    @property
    def has_begun(self) -> bool:
        """Whether a session of this run reached its first task."""
        return "options" in self.record

    def journal(self, row_class: type[Row] = Row, write: bool = True) -> Journal:
        """Open the journal of the run, to append to it as the only process, or to read it."""
        return Journal(self.path / JOURNAL, row_class, self.record.get("fingerprint"), write)

    def remove_changed(self, journal: Journal) -> None:
        """Remove files that are not as the run left them, so that this session makes them again.

        A session that was killed left no digests except the digests of tasks' files in its journal.
        The journal itself stays: each of its lines has a checksum.

        Raises
        ------
        InputError
            A file cannot be removed, for example because a folder is in its place.
        """
        of_tasks = {
            name: FileDigest.model_validate(digest)
            for record in journal.records
            for name, digest in record.get("files", {}).items()
        }
        self.changed = changes_of(self.path, {**of_tasks, **self.files})
        for name in self.changed:
            try:
                if name != JOURNAL:
                    (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                raise InputError(
                    f"--resume must be a run whose damaged files can be removed, got "
                    f"{self.path / name}: {error.strerror}; remove it"
                ) from None

    def sign(self, journal: Journal, **metadata: Any) -> None:
        """Set the fingerprint of a new run, a digest of everything that decides its results.

        A run that was begun by a version without fingerprints continues without one.
        """
        if not self.has_begun:
            content = json.dumps(metadata, sort_keys=True).encode()
            journal.fingerprint = hashlib.sha256(content).hexdigest()
            self.record["fingerprint"] = journal.fingerprint

    def start_clock(self, journal: Iterable[Mapping[str, Any]]) -> None:
        """Start to count this session's wall time, on top of the time of earlier sessions.

        A session that was killed did not record its end; it counts up to its last record in the
        journal.
        """
        before = self.record.get("wall_seconds", 0.0)
        if self.record.get("status") == "running":
            ends = [record["started"] + record["seconds"] for record in journal]
            began = self.record.get("session_began", math.inf)
            before += max(0.0, max(ends, default=0.0) - began)
        self.wall_before, self._clock = before, time.perf_counter()
        self.session_started = iso_now()

    @property
    def wall_seconds(self) -> float:
        """Wall time of all sessions up to now."""
        return self.wall_before + time.perf_counter() - self._clock


@contextmanager
def hold(
    command: str,
    results: str | None,
    resume: str | None,
    write: bool = True,
    row_class: type[Row] = Row,
    record_class: type[Record] = Record,
) -> Iterator[tuple[RunFolder, Journal]]:
    """Hold a run's folder, before anything else is done, until the end of the block.

    A folder that was made for a run which then never began is removed at the end.

    Parameters
    ----------
    command : str
    results : str or None
        Path of a new folder; None for one with the time in its name.
    resume : str or None
        Path of an earlier run's folder, in place of a new one.
    write : bool
        False only looks at the folder: nothing is made, locked or removed.
    row_class, record_class : type of Row, type of Record
        Schemas of a row of its journal, and of its ``run.json``.

    Yields
    ------
    folder : RunFolder
    journal : Journal

    Raises
    ------
    InputError
        The folder cannot be used, or another process holds it.
    """
    folder = (
        RunFolder.open(Path(resume), command, record_class=record_class)
        if resume
        else RunFolder.create(results, command, write)
    )
    try:
        if write:
            refuse_links(folder.path, "--resume" if resume else "--results")
        journal = folder.journal(row_class, write)
    except OSError as error:
        raise _unwritable(folder.path, error) from None
    with journal:
        # Another process may have changed it before the lock was taken.
        if resume and write:
            folder = RunFolder.open(folder.path, command, record_class=record_class)
            folder.remove_changed(journal)
        elif write:
            refuse_taken(folder.path)
        folder.start_clock(journal.records)
        keep = True
        try:
            yield folder, journal
        except InputError as error:  # perhaps from a worker, the only process that read the data
            status = folder.record.get("status")
            keep = bool(resume or journal.records or status == "finished")
            if keep and write and status == "running" and _is_there(journal):
                folder.update(status="stopped", reason=str(error))
            raise
        finally:
            if write and not (keep and folder.has_begun) and _is_there(journal):
                with suppress(OSError):
                    if not keep:
                        shutil.rmtree(folder.path)  # the folder of a new run, empty before
                    else:  # files that others have put there since stay
                        (folder.path / JOURNAL).unlink(missing_ok=True)
                        folder.path.rmdir()
                    if folder.path.parent == Path("results"):
                        folder.path.parent.rmdir()  # if there is nothing else in it


def refuse_links(path: Path, option: str) -> None:
    """Refuse a folder with a link that would make a run write, or remove, files elsewhere.

    A file is replaced in one step, and a link with it; but the journal and folders are not
    replaced.
    """
    for entry in path.iterdir():
        if entry.is_symlink() and (entry.name == JOURNAL or entry.is_dir()):
            raise InputError(
                f"{option} must be a folder whose journal and folders are no links, got {entry}, "
                f"a link to {os.readlink(entry)}; move what it points to in its place"
            )


def _is_there(journal: Journal) -> bool:
    """Whether the folder is still where the journal was opened."""
    try:
        journal.check()
    except FolderLost:
        return False
    return True


def refuse_taken(path: Path) -> None:
    """Refuse a folder for a new run that is not empty.

    Raises
    ------
    InputError
        It is not a folder, or not empty. A folder that does not exist counts as empty.
    """
    try:
        # A run that was killed before its first task leaves at most an empty journal.
        content = sorted(
            entry.name
            for entry in path.iterdir()
            if not (entry.name == JOURNAL and entry.stat().st_size == 0)
            and not entry.name.startswith((PROBE, f".{RECORD}."))
        )
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unwritable(path, error) from None
    if RECORD in content:
        raise InputError(
            f"--results must be a new or empty folder, but {path} already holds a run; "
            f"continue it with --resume {path}, or name another folder"
        )
    if content:
        raise InputError(
            f"--results must be a new or empty folder, got {path}, which holds "
            f"{content[0]}; name another folder"
        )


def _unwritable(path: Path, error: OSError) -> InputError:
    """The error for a folder that cannot be written."""
    return InputError(
        f"--results must be a folder that can be written, got {path}: {error.strerror}; "
        "name another folder"
    )


def iso_now() -> str:
    """The current time, in ISO 8601 and UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def unused(path: Path) -> Path:
    """``path``, with a number added if it exists."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
    return next(name for name in itertools.chain([path], numbered) if not os.path.lexists(name))
