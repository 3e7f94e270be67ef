"""Storage of rows in device or host memory; whole batches are gathered by index.

A column keeps its dtype, so that the bytes of an image stay bytes until they are on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

Columns = dict[str, "torch.Tensor"]
Map = Callable[[Columns], Columns]


class Rows(Protocol):
    """Rows in some storage, of which epochs are read.

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
        """Yield rows in an order that this storage can be read in; without a generator as they lie.

        Parameters
        ----------
        parts : places in that order, one after the other; what lies between them is left out

        Yields
        ------
        (numbers, columns) : of each part, the numbers of its rows, int64 of shape (n,), and a
            tensor for each column, on the device
        """


class HostRows:
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
        lengths = {name: len(one) for name, one in columns.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise InputError(
                f"{opt('columns')} must be arrays of one length, at least 1, got {lengths}; give "
                "each row a value in every column"
            )
        self.n_rows = next(iter(lengths.values()))
        self._device = device

    def epoch(
        self, generator: np.random.Generator | None, parts: Iterable[slice]
    ) -> Iterator[tuple[torch.Tensor, Columns]]:
        """Yield rows, each order equally likely; see ``Rows``."""
        import torch

        order = np.arange(self.n_rows) if generator is None else generator.permutation(self.n_rows)
        for part in parts:
            rows = torch.from_numpy(order[part])
            yield rows, self._gather(rows)

    def _gather(self, rows: torch.Tensor) -> Columns:
        found = {name: one.index_select(0, rows) for name, one in self._columns.items()}
        return to_device_columns(found, self._device)


class DeviceRows(HostRows):
    """Rows in a device's memory, put there once.

    Parameters and errors are those of ``HostRows``.
    """

    def __init__(self, columns: Mapping[str, Any], device: str = "cpu") -> None:
        super().__init__(columns, device)
        self._columns = {name: one.to(device) for name, one in self._columns.items()}

    def _gather(self, rows: torch.Tensor) -> Columns:
        return {
            name: one.index_select(0, rows.to(one.device)) for name, one in self._columns.items()
        }


def cached(rows: Rows, map: Map, block: int = 4096) -> Rows:
    """Return all rows after a map, stored on the device where the map puts them."""
    import torch

    parts = [slice(a, min(a + block, rows.n_rows)) for a in range(0, rows.n_rows, block)]
    blocks = [map(columns) for _, columns in rows.epoch(None, parts)]
    columns = {name: torch.cat([one[name] for one in blocks]) for name in blocks[0]}
    return DeviceRows(columns, str(next(iter(columns.values())).device))


def to_device_columns(columns: Columns, device: str) -> Columns:
    """Copy columns to a device, of torch's name; a copy to a GPU does not block."""
    if device == "cpu":
        return columns
    return {name: one.pin_memory().to(device, non_blocking=True) for name, one in columns.items()}


def _tensor_of(one: Any) -> torch.Tensor:
    """Return an array's memory as a tensor; a copy if it is read-only, as torch requires."""
    import torch

    if isinstance(one, torch.Tensor):
        return one
    return torch.from_numpy(np.require(one, requirements=["C", "W"]))
