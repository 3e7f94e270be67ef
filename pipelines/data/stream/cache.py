"""A cache of decoded rows on the local disk of a host, shared by its processes.

One file holds all rows, at their slots; another marks the units that have been read. A unit is
marked after it is written, so that a unit that was only begun is read again. After a crash of the
machine, either file may be the older one, so marks from before the crash count only if all rows had
been written.
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

from pipelines.data.stream.streamed_rows import Store

if TYPE_CHECKING:
    import torch

ROWS, WHOLE = "rows", "whole"  # file names
SPARE = 2**28  # bytes of the disk that stay free
LONG_ROW = 2**14  # bytes of a row from which reads are faster than a mapped file


class NoCache(Exception):
    """There is no room or no folder for a cache; the message says why, in words."""


def folder_of(store: Store, directory: str | None) -> Path:
    """The folder of a store's cache, by default below the folder for temporary files.

    That folder is ``TMPDIR``, which a queue sets to the local disk of a job.
    """
    user = "" if directory else f"{os.getuid()}-"
    return Path(directory or tempfile.gettempdir(), f"pleasingly-rows-{user}{store.key[:32]}")


class Cache:
    """The rows of a store that have been read, in a folder.

    Parameters
    ----------
    store : Store
    folder : Path
        Made if it is not there; processes with the same store may share it.

    Raises
    ------
    NoCache
        The folder cannot be used: no room, no permission, or another user's.
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
            # The files are opened now, so that they stay if another run removes them.
            _ = self.rows, self._marks, self._file
        except OSError as error:
            raise NoCache(f"cannot write '{folder}': {error.strerror or error}") from None

    def _make(self, n_bytes: int) -> None:
        """Make the folder, with a file of the size of all rows."""
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
        """The state that travels to another process, which opens the files itself."""
        handles = ("rows", "_marks", "_file", "_locks")
        return {name: value for name, value in vars(self).items() if name not in handles}

    @cached_property
    def rows(self) -> torch.Tensor:
        """All rows, mapped from disk; rows that have not been read are 0."""
        import torch

        return torch.from_numpy(np.memmap(self.folder / ROWS, self._dtype, "r+", shape=self._shape))

    @cached_property
    def _marks(self) -> np.ndarray:
        """One byte per unit: 1 if its rows are in the file."""
        if (self.folder / WHOLE).exists():
            return np.ones(self._n_units, np.uint8)
        path = self.folder / f"read-{_boot()}"
        with open(path, "ab") as file:
            file.truncate(self._n_units)
        return np.memmap(path, np.uint8, "r+", shape=(self._n_units,))

    @cached_property
    def _file(self) -> int:
        """Descriptor of the file of rows."""
        return os.open(self.folder / ROWS, os.O_RDWR)

    def take(self, slots: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        """Copy rows to a tensor on the host.

        Long rows are read as from any file, because mapping new pages costs more than the copy.
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
        """Ask the system to read rows from disk ahead of ``take``, without waiting for it."""
        if hasattr(os, "posix_fadvise"):
            for slot in slots.tolist():
                os.posix_fadvise(self._file, slot * self._row, self._row, os.POSIX_FADV_WILLNEED)

    def unread_units(self, units: np.ndarray) -> np.ndarray:
        """The units among these that have not been read, each once."""
        return np.unique(units[self._marks[units] == 0])

    @property
    def is_whole(self) -> bool:
        """Whether all units have been read; if so, the folder is marked as whole."""
        if not self._marks.all():
            return False
        if not (self.folder / WHOLE).exists():
            with contextlib.suppress(OSError):
                os.fsync(self._file)
                (self.folder / WHOLE).touch()
        return True

    def write(self, unit: int, slot: int, rows: np.ndarray) -> None:
        """Store the rows of a unit, the first of which has this slot.

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
        """Keep other processes of this host from reading the same unit at the same time.

        The lock is on one byte of the file of rows, at the number of the unit.
        """
        # Without locks, as on some file systems, a unit may be read twice.
        with contextlib.suppress(OSError):
            fcntl.lockf(self._file, fcntl.LOCK_EX, 1, unit)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, unit)


def _boot() -> str:
    """A text that differs after each start of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil

        return str(int(psutil.boot_time()))


def kept_bytes(folders: list[str]) -> int:
    """Bytes that these cache folders take on the disk of this host."""
    # The files are sparse: blocks, of 512 bytes, count what is really stored.
    files = [file for folder in folders for file in Path(folder).glob("*")]
    return sum(512 * file.stat().st_blocks for file in files)


def forget(folders: list[str]) -> None:
    """Remove these cache folders from this host."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
