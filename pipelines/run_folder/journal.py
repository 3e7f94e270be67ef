"""The journal of a run: what is done, durable the moment it is known.

One JSON object a line; a record is one task with its rows, and bears the checksum of its
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
    """A line: a task, where and when it was done, and its rows; none where it failed whole.

    ``cost`` is what was predicted of it, in any unit of time, ``run`` the fingerprint of the run
    it belongs to, ``session`` counts from 1, and ``files`` are what it left beside; older runs have
    none of these. The most memory in use meanwhile is in bytes, of the worker's process and of its
    GPU.
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


MEMORY = "peak_memory", "peak_gpu_memory"
CHECKSUM = b', "crc32": '  # the last entry of a line, of all that stands before it

# A network file system may say for a moment that a file is not there, or number it anew.
TIMES_TO_LOOK = 3
SECONDS_BETWEEN_LOOKS = 1.0


class FolderLost(OSError):
    """A run's folder is no longer where it was: it was deleted, renamed or replaced.

    Attributes
    ----------
    now : Path or None
        Where it is, if it was renamed and the system tells.
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
        The file; made if it is not there. A partial last line is cut off.
    rows : what the rows of its records are held against
    fingerprint : of the run, for every record that is appended; others are passed over
    write : False to read alone, what another process may be writing

    Attributes
    ----------
    records : list of dict
        What stood in the file when it was opened, damaged and foreign lines left out, and what
        was appended since.
    n_foreign : int
        Records of another run.
    """

    def __init__(
        self,
        path: Path,
        row_class: type[Row] = Row,
        fingerprint: str | None = None,
        write: bool = True,
    ) -> None:
        self.fingerprint, self._write = fingerprint, write
        self._path = path.absolute()  # who changes the working folder does not move it
        read_path = path if path.exists() else os.devnull
        self._file = _locked(path) if write else open(read_path, "rb", buffering=0)  # noqa: SIM115
        self._file.seek(0)
        content = self._file.read()
        self.records, self.n_foreign = list[dict[str, Any]](), 0
        schema = TaskRecord[row_class]  # type: ignore[valid-type]
        n_complete = content.rfind(b"\n") + 1
        for line in content[:n_complete].split(b"\n"):
            # A line that is damaged costs its own task, not those that follow it.
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
        self._waiting = list[dict[str, Any]](), bytearray()  # they are stored with the next
        self._size = n_complete
        self._last = content[content.rfind(b"\n", 0, max(0, n_complete - 1)) + 1 : n_complete]

    def append(self, record: dict[str, Any]) -> None:
        """Write one record, and those that were added, and wait until the disk has them.

        Raises
        ------
        FolderLost
            It is not where it could be found again.
        OSError
            The record could not be stored; the file is as it was before.
        """
        self.add(record)
        self.store()

    def add(self, record: dict[str, Any]) -> None:
        """Take a record in, which is written with the next: disks take longer than a short task."""
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
        try:
            n_written = 0
            while n_written < len(line):
                n_written += self._file.write(line[n_written:]) or 0
            os.fsync(self._file.fileno())
        except OSError:
            with suppress(OSError):  # the first error says more
                self._file.truncate(self._size)
            raise
        self._size += len(line)
        self._last = line

    def check(self) -> None:
        """Check that what was written can be found again, by the path of the file.

        Raises
        ------
        FolderLost
        """
        for n_left in reversed(range(TIMES_TO_LOOK if self._write else 0)):
            try:
                if os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno())):
                    return
                if self._is_at_path():  # on a file system that numbers its files anew
                    return
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError:  # a file system that gives no answer says nothing of the file
                return
            if not n_left:
                raise FolderLost(self._path, self._folder_now())
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _is_at_path(self) -> bool:
        """Return whether the last line that was written stands in its place at the path."""
        with open(self._path, "rb") as file:
            file.seek(self._size - len(self._last))
            return bool(self._last) and file.read(len(self._last)) == self._last

    def _folder_now(self) -> Path | None:
        """Return the folder of the file where it was renamed, on Linux."""
        with suppress(OSError):
            now = Path(os.readlink(f"/proc/self/fd/{self._file.fileno()}"))
            is_same = os.path.samestat(os.stat(now), os.fstat(self._file.fileno()))
            if is_same and now.name == self._path.name and now.with_name(RECORD).is_file():
                return now.parent
        return None

    def _open_again(self) -> None:
        """Open the file at the path, if it is this one.

        A file server that was started anew may no longer know open files that are still there.
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
        file.truncate(self._size)  # it may have a part of the line that could not be stored
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
    return os.open(name, flags | os.O_NOFOLLOW, 0o666)


def _locked(path: Path) -> FileIO:
    """Open and lock the file; of two processes at once, one gets it."""
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
            # Some network file systems have no locks: better unlocked than not at all.
            if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
                raise
            return file
        # Between the two calls its last holder may have removed what it had made in vain.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()
