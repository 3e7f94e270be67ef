"""Rows as they were read, kept on the local disk of a host and shared by its processes.

One file holds all rows, at their slots; another says which units it has. A unit is marked once it
is written, so that what was begun and not ended is read anew. After a crash of the machine, when
either file may be the older one, marks of the time before count only where all rows were written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.stream.rows import Store

if TYPE_CHECKING:
    import torch

ROWS, WHOLE = "rows", "whole"  # names of files
SPARE = 2**28  # bytes of a disk that are left free
LONG_ROW = 2**14  # bytes


class NoCache(Exception):
    """There is no room for a cache, or no place; the message says why, in words."""


def folder_of(store: Store, directory: str | None) -> Path:
    """The place of the rows of a store, by default in the folder of temporary files.

    It is ``TMPDIR``, which a queue sets to a job's own local disk.
    """
    user = "" if directory else f"{os.getuid()}-"
    return Path(directory or tempfile.gettempdir(), f"pleasingly-rows-{user}{store.key[:32]}")


class Cache:
    """The rows of a store that were read, in a folder.

    Raises
    ------
    NoCache
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self.folder, self._n_units = folder, store.n_units
        self._dtype, self._shape = store.dtype, (store.n_rows, store.width)
        self._row = store.width * store.dtype.itemsize
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            if not folder.is_dir():
                self._make(store.nbytes)
            if folder.stat().st_uid != os.getuid():
                raise NoCache(f"'{folder}' is another user's")
            _ = self.rows, self._marks, self._file  # they stay, should another run remove them
        except OSError as error:
            raise NoCache(f"cannot write '{folder}': {error.strerror or error}") from None

    def _make(self, n_bytes: int) -> None:
        parent = self.folder.parent
        if (free := shutil.disk_usage(parent).free) < n_bytes + SPARE:
            raise NoCache(
                f"'{parent}' has {free / 2**30:.1f} GiB free of {(n_bytes + SPARE) / 2**30:.1f}"
            )
        with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as scratch:
            new_folder = Path(scratch, "new")
            new_folder.mkdir(mode=0o700)
            with open(new_folder / ROWS, "wb") as file:
                file.truncate(n_bytes)
            with contextlib.suppress(OSError):  # another process was faster
                os.rename(new_folder, self.folder)

    def __getstate__(self) -> dict[str, Any]:
        handles = ("rows", "_marks", "_file", "_locks")
        return {name: value for name, value in vars(self).items() if name not in handles}

    @cached_property
    def rows(self) -> torch.Tensor:
        """All rows, mapped from disk; those that were not read are 0."""
        import torch

        return torch.from_numpy(np.memmap(self.folder / ROWS, self._dtype, "r+", shape=self._shape))

    @cached_property
    def _marks(self) -> np.ndarray:
        if (self.folder / WHOLE).exists():
            return np.ones(self._n_units, np.uint8)
        path = self.folder / f"read-{_boot()}"
        with open(path, "ab") as file:
            file.truncate(self._n_units)
        return np.memmap(path, np.uint8, "r+", shape=(self._n_units,))

    @cached_property
    def _file(self) -> int:
        return os.open(self.folder / ROWS, os.O_RDWR)

    def take(self, slots: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        """Copy rows to a tensor on the host.

        Long rows are read as a file is, for pages that are mapped anew cost more than the copy.
        """
        if self._row < LONG_ROW:
            import torch

            return torch.index_select(self.rows, 0, torch.from_numpy(slots), out=out)
        for row, slot in zip(out.numpy().view(np.uint8), slots.tolist(), strict=True):
            remaining, offset = memoryview(row), slot * self._row
            while remaining:
                n_bytes = os.preadv(self._file, [remaining], offset)
                remaining, offset = remaining[n_bytes:], offset + n_bytes
        return out

    def announce(self, slots: np.ndarray) -> None:
        """Have the system read rows from the disk that will soon be taken; it is not waited for."""
        if hasattr(os, "posix_fadvise"):
            for slot in slots.tolist():
                os.posix_fadvise(self._file, slot * self._row, self._row, os.POSIX_FADV_WILLNEED)

    def unread_units(self, units: np.ndarray) -> np.ndarray:
        """Those of some units that were not read, each once."""
        return np.unique(units[self._marks[units] == 0])

    @property
    def is_whole(self) -> bool:
        """Whether all units are there; then, as long as the folder is."""
        if not self._marks.all():
            return False
        if not (self.folder / WHOLE).exists():
            with contextlib.suppress(OSError):
                os.fsync(self._file)
                (self.folder / WHOLE).touch()
        return True

    def write(self, unit: int, slot: int, rows: np.ndarray) -> None:
        """Keep a unit's rows.

        Raises
        ------
        OSError
            The disk is full.
        """
        remaining, offset = memoryview(rows.tobytes()), 0
        while remaining:
            n_bytes = os.pwrite(self._file, remaining, slot * self._row + offset)
            remaining, offset = remaining[n_bytes:], offset + n_bytes
        self._marks[unit] = 1

    @contextlib.contextmanager
    def alone_with(self, unit: int) -> Iterator[None]:
        """Keep other processes of this host from reading the same unit at the same time."""
        with contextlib.suppress(OSError):  # of a file system without locks: it is read twice
            fcntl.lockf(self._file, fcntl.LOCK_EX, 1, unit)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, unit)


def _boot() -> str:
    """What is another after each start of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil

        return str(int(psutil.boot_time()))


def kept_bytes(folders: list[str]) -> int:
    """Bytes that caches of this host take on disk."""
    files = [file for folder in folders for file in Path(folder).glob("*")]
    return sum(512 * file.stat().st_blocks for file in files)


def forget(folders: list[str]) -> None:
    """Remove caches of this host."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
