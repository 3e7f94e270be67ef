"""The journal of a run: what is done, durable the moment it is known.

One JSON object a line; a record is one unit with its rows. A line that a kill
or a full disk cut short is dropped when the journal is opened again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Self

from pipelines.errors import InputError


class Journal:
    """An append-only file of records.

    Parameters
    ----------
    path : Path
        The file; made if it is not there. A partial last line is cut off.

    Attributes
    ----------
    records : list of dict
        What stood in the file when it was opened.

    Raises
    ------
    InputError
        Another process is writing it.
    """

    def __init__(self, path: Path) -> None:
        self._file = _locked(path)
        self.records = self._recover()

    def _recover(self) -> list[dict[str, Any]]:
        self._file.seek(0)
        content = self._file.read()
        records = []
        whole = 0
        for line in content.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            # A damaged line costs its own unit, not those that follow it.
            with suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict) and isinstance(record.get("rows"), list):
                    records.append(record)
        if whole < len(content):
            self._file.truncate(whole)
        return records

    def append(self, record: dict[str, Any]) -> None:
        """Write one record and wait until the disk has it.

        Raises
        ------
        OSError
            The record could not be stored; the file is as it was before.
        """
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        before = os.fstat(self._file.fileno()).st_size
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(before)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _locked(path: Path) -> FileIO:
    """The file, open and locked; of two processes that want it at once one gets it."""
    while True:
        file = open(path, "ab+", buffering=0)  # noqa: SIM115  open as long as the journal
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(
                f"the folder of a run must be one that nobody is writing, got {path.parent}, "
                "which another process has open; wait for it to end, or name another folder"
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
