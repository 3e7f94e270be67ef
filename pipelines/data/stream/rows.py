"""Rows that are read when they are needed, and the order of an epoch of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

BYTES_OF_SHARD, BYTES_OF_WINDOW = 2**24, 2**28
Input = Literal["auto", "memory", "stream"]
INPUTS: tuple[Input, ...] = ("auto", "memory", "stream")


class Store(ABC):
    """A folder or table on disk: rows of one length, which are read unit by unit.

    A unit is what is read at once, an image or a row group. A row's slot is its place in the cache,
    where the rows of a unit stand side by side.

    Attributes
    ----------
    key : str
        Of the content, and of how it becomes numbers.
    n_rows, n_units : int
    shape : shape of a row
    dtype : of a row's numbers
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
        """The shard of each slot: shards are whole units side by side."""

    @abstractmethod
    def read(self, unit: int) -> tuple[int, np.ndarray]:
        """A unit's first slot, and its rows of shape (n, width).

        Raises
        ------
        InputError
            A file can no longer be read, or holds what the others do not.
        """

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, were they in memory."""
        return self.n_rows * self.width * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class RowsOnDisk:
    """Some rows of a store, in the place of an array of shape (n, width).

    Attributes
    ----------
    rows : int array of shape (n,)
        Their numbers in the store.
    """

    store: Store
    rows: np.ndarray
    is_flat: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, selection: Any) -> Self:
        return type(self)(self.store, self.rows[selection], self.is_flat)

    def reshape(self, n_rows: int, width: int) -> Self:
        """The same rows, each flat, as an array would be."""
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
        """What changes with the content."""
        return self.store.key.encode() + np.ascontiguousarray(self.rows, np.int64).tobytes()

    @cached_property
    def slots(self) -> np.ndarray:
        """The slot of each row, int64."""
        return self.store.slots_of(self.rows)

    @cached_property
    def shards(self) -> list[np.ndarray]:
        """Places among these rows, those of each shard by slot."""
        positions = np.argsort(self.slots, kind="stable")
        shards = self.store.shards_of(self.slots[positions])
        return np.split(positions, np.flatnonzero(np.diff(shards)) + 1)

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """The places of all rows in the order of an epoch, of seed and epoch alone.

        Shards are shuffled, then rows within each window of shards.
        """
        row = self.store.width * self.store.dtype.itemsize
        return windowed(self.shards, BYTES_OF_WINDOW // row, seed, epoch)


def windowed(
    shards: Sequence[np.ndarray], rows_of_window: int, seed: int, epoch: int
) -> np.ndarray:
    """The rows of shards in an order of seed and epoch alone.

    Shards are shuffled, then rows within each window of shards, of as many rows at most, but of
    four shards at least.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
    windows: list[list[np.ndarray]] = [[]]
    for number in rng.permutation(len(shards)):
        n_rows = sum(map(len, windows[-1]))
        if len(windows[-1]) >= 4 and n_rows + len(shards[number]) > rows_of_window:
            windows.append([])
        windows[-1].append(shards[number])
    return np.concatenate([rng.permutation(np.concatenate(window)) for window in windows])
