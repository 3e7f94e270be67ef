"""Rows that are read when they are needed, and their order in an epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

BYTES_OF_SHARD, BYTES_OF_WINDOW = 2**24, 2**28  # see ``windowed``
Input = Literal["auto", "memory", "stream"]
INPUTS: tuple[Input, ...] = ("auto", "memory", "stream")


class Store(ABC):
    """A folder or table on disk: rows of one length, which are read unit by unit.

    A unit is the part that is read at once: an image or a row group. A row's slot is its position
    in the cache, where the rows of a unit are side by side. A shard is a run of whole units.

    Attributes
    ----------
    key : str
        Digest of the content and of how it becomes numbers.
    n_rows, n_units : int
    shape : tuple of int
        Shape of a row.
    dtype : numpy dtype
        Dtype of the numbers in a row.
    """

    key: str
    n_rows: int
    n_units: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """The slots of rows, int64."""

    @abstractmethod
    def units_of(self, slots: np.ndarray) -> np.ndarray:
        """The unit of each slot."""

    @abstractmethod
    def shards_of(self, slots: np.ndarray) -> np.ndarray:
        """The shard of each slot."""

    @abstractmethod
    def read(self, unit: int) -> tuple[int, np.ndarray]:
        """A unit's first slot, and its rows of shape (n, width).

        Raises
        ------
        InputError
            A file can no longer be read, or its content does not match that of the other files.
        """

    @property
    def width(self) -> int:
        """Length of a flattened row."""
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes that all rows would take in memory."""
        return self.n_rows * self.width * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class RowsOnDisk:
    """Some rows of a store, in place of an array of shape (n, width).

    Attributes
    ----------
    store : Store
    rows : int array of shape (n,)
        Row numbers in the store.
    is_flat : bool
        Whether ``shape`` shows each row flat, rather than in the store's shape of a row.
    """

    store: Store
    rows: np.ndarray
    is_flat: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, selection: Any) -> Self:
        return type(self)(self.store, self.rows[selection], self.is_flat)

    def reshape(self, n_rows: int, width: int) -> Self:
        """The same rows, each flat, like an array that is reshaped."""
        return type(self)(self.store, self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        row = (self.store.width,) if self.is_flat else self.store.shape
        return (len(self.rows), *row)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.store.dtype

    @property
    def identity(self) -> bytes:
        """Bytes that change whenever the content does."""
        return self.store.key.encode() + np.ascontiguousarray(self.rows, np.int64).tobytes()

    @cached_property
    def slots(self) -> np.ndarray:
        """The slot of each row, int64."""
        return self.store.slots_of(self.rows)

    @cached_property
    def shards(self) -> list[np.ndarray]:
        """For each shard, the positions of its rows among these, ordered by slot."""
        positions = np.argsort(self.slots, kind="stable")
        shards = self.store.shards_of(self.slots[positions])
        return np.split(positions, np.flatnonzero(np.diff(shards)) + 1)

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """The positions of all rows in the order of an epoch, which seed and epoch determine.

        Shards are shuffled, then rows within each window of shards; see ``windowed``.
        """
        row = self.store.width * self.store.dtype.itemsize
        return windowed(self.shards, BYTES_OF_WINDOW // row, seed, epoch)


def windowed(
    shards: Sequence[np.ndarray], rows_of_window: int, seed: int, epoch: int
) -> np.ndarray:
    """The rows of shards in a random order that needs few shards at a time.

    Shards are shuffled, then rows within each window of successive shards. Reading then stays
    within a window, while its rows come from all over the data.

    Parameters
    ----------
    shards : sequence of int arrays
        Row numbers of each shard.
    rows_of_window : int
        Most rows in a window; but a window has at least four shards.
    seed, epoch : int
        They determine the order.

    Returns
    -------
    int array of all row numbers
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
    windows: list[list[np.ndarray]] = [[]]
    for number in rng.permutation(len(shards)):
        n_rows = sum(map(len, windows[-1]))
        # With fewer shards in a window, large shards would be shuffled one by one.
        if len(windows[-1]) >= 4 and n_rows + len(shards[number]) > rows_of_window:
            windows.append([])
        windows[-1].append(shards[number])
    return np.concatenate([rng.permutation(np.concatenate(window)) for window in windows])
