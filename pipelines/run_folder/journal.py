"""The journal of a run: what is done, stored on disk as soon as it is known.

It has one JSON object per line. A record is one task with its rows, and holds the checksum of its
line. A line that a kill or a full disk cut short, or that was changed since, is dropped when the
journal is opened again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
import zlib
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from pydantic import Field
from pydantic_core import from_json

from pipelines.errors import InputError
from pipelines.run_folder.digests import FileDigest, FileName
from pipelines.run_folder.names import RECORD
from pipelines.run_folder.rows import Row
from pipelines.run_folder.schema import Count, Number, RecordPart, Seconds

AnyRow = TypeVar("AnyRow", bound=Row)


class TaskRecord(RecordPart, Generic[AnyRow]):
    """A line: a task, where and when it was done, and its rows (none if it failed as a whole).

    ``cost`` is the predicted cost, in any unit of time; ``run`` the fingerprint of the run;
    ``session`` counts from 1; ``files`` are the files that the task left beside the journal. Older
    runs have none of these fields. ``peak_memory`` and ``peak_gpu_memory`` are the most bytes in
    use during the task, by the worker's process and on its GPU.
    """

    task: str
    worker: str = ""
    started: Number
    seconds: Seconds
    compile_seconds: Seconds = 0.0
    cost: Seconds | None = None
    peak_memory: Count | None = None
    peak_gpu_memory: Count | None = None
    rows: list[AnyRow]
    run: str | None = None
    session: Count = 0
    files: dict[FileName, FileDigest] = Field(default_factory=dict)


MEMORY = "peak_memory", "peak_gpu_memory"  # fields of a record
CHECKSUM = b', "crc32": '  # the last entry of a line: checksum of the bytes before it

# On a network file system a file may seem missing, or have another inode, for a moment.
TIMES_TO_LOOK = 3
SECONDS_BETWEEN_LOOKS = 1.0


class FolderLost(OSError):
    """A run's folder is no longer where it was: it was deleted, renamed or replaced.

    Attributes
    ----------
    now : Path or None
        Where it is now, if it was renamed and the system knows.
    """

    def __init__(self, journal: Path, now: Path | None) -> None:
        self.now = now
        if now is None:
            super().__init__(f"{journal} was deleted or replaced while the run wrote it")
        else:
            super().__init__(f"the folder {journal.parent} was renamed to {now} during the run")


class Journal:
    """An append-only file of records.

    Parameters
    ----------
    path : Path
        The file; made if it does not exist. A partial last line is cut off.
    row_class : type of Row
        Schema of the rows of its records.
    fingerprint : str, optional
        Fingerprint of the run, added to every record; records of other runs are ignored.
    write : bool
        False only reads the file, which another process may be writing.

    Attributes
    ----------
    records : list of dict
        Records that were in the file when it was opened, without damaged and foreign lines, and
        those appended since.
    n_foreign : int
        Number of records of other runs.

    Raises
    ------
    InputError
        Another process is writing the journal.
    """

    def __init__(
        self,
        path: Path,
        row_class: type[Row] = Row,
        fingerprint: str | None = None,
        write: bool = True,
    ) -> None:
        self.fingerprint, self._write = fingerprint, write
        self._path = path.absolute()  # a later change of the working directory must not matter
        read_path = path if path.exists() else os.devnull
        self._file = _locked(path) if write else open(read_path, "rb", buffering=0)  # noqa: SIM115
        self._file.seek(0)
        content = self._file.read()
        self.records, self.n_foreign = list[dict[str, Any]](), 0
        schema = TaskRecord[row_class]  # type: ignore[valid-type]
        n_complete = content.rfind(b"\n") + 1
        for line in content[:n_complete].split(b"\n"):
            # A damaged line loses its own task, not those after it.
            with suppress(ValueError):
                body, has_checksum, checksum = line.rpartition(CHECKSUM)
                if has_checksum and int(checksum.rstrip(b"}")) != zlib.crc32(body):
                    continue
                record = from_json(body + b"}" if has_checksum else line, allow_inf_nan=False)
                if fingerprint in (None, schema.model_validate(record).run):
                    self.records.append(record)
                else:
                    self.n_foreign += 1
        self._session = 1 + max((record.get("session", 0) for record in self.records), default=0)
        if write and n_complete < len(content):
            self._file.truncate(n_complete)
        # Records that ``store`` has yet to write, and their lines.
        self._waiting = list[dict[str, Any]](), bytearray()
        self._size = n_complete
        # The last line, by which the file is recognised later.
        self._last = content[content.rfind(b"\n", 0, max(0, n_complete - 1)) + 1 : n_complete]

    def append(self, record: dict[str, Any]) -> None:
        """Write a record, and those added before it, and wait until they are on disk.

        Raises
        ------
        FolderLost
            The file is no longer at its path.
        OSError
            The record could not be stored; the file is as it was before.
        """
        self.add(record)
        self.store()

    def add(self, record: dict[str, Any]) -> None:
        """Add a record that ``store`` writes later: a write takes longer than a short task."""
        record = record | {"session": self._session}
        if self.fingerprint is not None:
            record = record | {"run": self.fingerprint}
        line = json.dumps(record, allow_nan=False).encode().removesuffix(b"}")
        line += CHECKSUM + b"%d}\n" % zlib.crc32(line)
        records, lines = self._waiting
        records.append(record)
        lines += line

    def store(self) -> None:
        """Write the records that were added; see ``append``."""
        (records, lines), self._waiting = self._waiting, ([], bytearray())
        if not records:
            return
        try:
            self._store(bytes(lines))
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            self._open_again()
            self._store(bytes(lines))
        self.records += records
        self.check()

    def _store(self, line: bytes) -> None:
        """Append lines and wait for the disk; on an error, the file is cut back."""
        try:
            n_written = 0
            while n_written < len(line):
                n_written += self._file.write(line[n_written:]) or 0
            os.fsync(self._file.fileno())
        except OSError:
            with suppress(OSError):  # the first error is the one to report
                self._file.truncate(self._size)
            raise
        self._size += len(line)
        self._last = line

    def check(self) -> None:
        """Check that the path still leads to the file that was written.

        Raises
        ------
        FolderLost
            The path does not lead to that file.
        """
        for n_left in reversed(range(TIMES_TO_LOOK if self._write else 0)):
            try:
                if os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno())):
                    return
                if self._is_at_path():  # a file system may give the same file a new inode
                    return
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError:  # without an answer, nothing is known about the file
                return
            if not n_left:
                raise FolderLost(self._path, self._folder_now())
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _is_at_path(self) -> bool:
        """Whether the file at the path has the last written line in its place."""
        with open(self._path, "rb") as file:
            file.seek(self._size - len(self._last))
            return bool(self._last) and file.read(len(self._last)) == self._last

    def _folder_now(self) -> Path | None:
        """Where the folder is now if it was renamed; known on Linux only."""
        with suppress(OSError):
            now = Path(os.readlink(f"/proc/self/fd/{self._file.fileno()}"))
            is_same = os.path.samestat(os.stat(now), os.fstat(self._file.fileno()))
            if is_same and now.name == self._path.name and now.with_name(RECORD).is_file():
                return now.parent
        return None

    def _open_again(self) -> None:
        """Open the file at the path again, if it is the same file.

        After a restart, a file server may no longer know open files that still exist.

        Raises
        ------
        FolderLost
            Another file, or none, is at the path.
        """
        try:
            is_there = self._is_at_path()
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise FolderLost(self._path, None)
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)
        file = _locked(self._path)
        file.truncate(self._size)  # part of the line that failed may have been written
        with suppress(OSError):
            self._file.close()
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):
            self.store()
        self._file.close()


def _no_link(name: str, flags: int) -> int:
    """Open a file, but not through a symbolic link."""
    return os.open(name, flags | os.O_NOFOLLOW, 0o666)


def _locked(path: Path) -> FileIO:
    """Open and lock the file; of two processes at once, one gets the lock.

    Raises
    ------
    InputError
        Another process holds the lock.
    """
    while True:
        file = open(path, "ab+", buffering=0, opener=_no_link)  # noqa: SIM115  open as long as the journal
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(
                f"the run in {path.parent} is in use by another process"
                "; wait for it to end, or name another folder"
            ) from None
        except OSError as error:
            # Some network file systems have no locks: an unlocked journal is better than none.
            if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
                raise
            return file
        # Between the two calls, the last holder may have removed the file of a run that never
        # began.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()
