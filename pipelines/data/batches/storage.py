"""Storage of rows in device or host memory; whole batches are gathered by index.

A column keeps its dtype, so that the bytes of an image stay bytes until they are on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pipelines.data.batches.order import Permutation, shuffled
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

Columns = dict[str, "torch.Tensor"]
Map = Callable[[Columns], Columns]


class Rows(Protocol):
    """A home of rows.

    Attributes
    ----------
    n_rows : int
    """

    @property
    def n_rows(self) -> int:
        """The number of rows."""

    def epoch(
        self, generator: np.random.Generator | None, parts: Iterable[slice]
    ) -> Iterator[tuple[torch.Tensor, Columns]]:
        """Rows in an order that this home can be read in; without a generator as they lie.

        Parameters
        ----------
        parts : places in that order, one after the other; what lies between them is left out

        Yields
        ------
        (numbers, columns) : of each part, the numbers of its rows, int64 of shape (n,), and a
            tensor for each column, on the device
        """


class _InMemory:
    """Rows that can be had by their numbers."""

    n_rows: int

    def order(self, generator: np.random.Generator | None) -> Permutation:
        """Return the order of all rows: fully shuffled, or as stored if ``generator`` is None."""
        if generator is None:
            return np.arange(self.n_rows)
        return shuffled(self.n_rows, generator)

    def gather(self, rows: torch.Tensor) -> Columns:
        """Rows by number, int64 of shape (n,): a new tensor for each column, on the device."""
        raise NotImplementedError

    def epoch(
        self, generator: np.random.Generator | None, parts: Iterable[slice]
    ) -> Iterator[tuple[torch.Tensor, Columns]]:
        """Rows in order; see ``Rows``."""
        import torch

        order = torch.from_numpy(self.order(generator))
        for part in parts:
            yield order[part], self.gather(order[part])


class HostRows(_InMemory):
    """Rows in the memory of this process; a batch goes to the device when it is gathered.

    Parameters
    ----------
    columns : arrays or tensors by name, whose first axis is the row
    device : torch's name of where batches go: ``cpu``, ``cuda``

    Raises
    ------
    InputError
        There is no column, or they differ in length.
    """

    def __init__(self, columns: Mapping[str, Any], device: str = "cpu") -> None:
        self._columns = {name: _tensor_of(one) for name, one in columns.items()}
        self.n_rows = _length(self._columns)
        self._device = device

    def gather(self, rows: torch.Tensor) -> Columns:
        """Return rows by number."""
        found = {name: one.index_select(0, rows) for name, one in self._columns.items()}
        return to_device_columns(found, self._device)


class DeviceRows(_InMemory):
    """Rows in a device's memory, put there once.

    Parameters and errors are those of ``HostRows``.
    """

    def __init__(self, columns: Mapping[str, Any], device: str = "cpu") -> None:
        self._columns = {name: _tensor_of(one).to(device) for name, one in columns.items()}
        self.n_rows = _length(self._columns)

    def gather(self, rows: torch.Tensor) -> Columns:
        """Return rows by number."""
        return {
            name: one.index_select(0, rows.to(one.device)) for name, one in self._columns.items()
        }


class CachedRows(DeviceRows):
    """Rows after a map was applied to all of them once, stored where the map puts them."""

    def __init__(self, home: Rows, map: Map, block: int = 4096) -> None:
        import torch

        parts = [slice(a, min(a + block, home.n_rows)) for a in range(0, home.n_rows, block)]
        blocks = [map(columns) for _, columns in home.epoch(None, parts)]
        self._columns = {name: torch.cat([one[name] for one in blocks]) for name in blocks[0]}
        self.n_rows = _length(self._columns)


def to_device_columns(columns: Columns, device: str) -> Columns:
    """Columns on a device, of torch's name; on their way to a GPU they hold nothing up."""
    if device == "cpu":
        return columns
    return {name: one.pin_memory().to(device, non_blocking=True) for name, one in columns.items()}


def _tensor_of(one: Any) -> torch.Tensor:
    """Return an array's memory as a tensor; a copy if it is read-only, as torch requires."""
    import torch

    if isinstance(one, torch.Tensor):
        return one
    return torch.from_numpy(np.require(one, requirements=["C", "W"]))


def _length(columns: Mapping[str, torch.Tensor]) -> int:
    lengths = {name: len(one) for name, one in columns.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise InputError(
            f"{opt('columns')} must be arrays of one length, at least 1, got {lengths}; give each "
            "row a value in every column"
        )
    return next(iter(lengths.values()))
