"""Storage of rows in device or host memory; whole batches are gathered by index.

A column keeps its dtype, so that the bytes of an image stay bytes until they are on the device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
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
        import torch

        lengths = {name: len(one) for name, one in columns.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise InputError(
                f"{opt('columns')} must be arrays of one length, at least 1, got {lengths}; give "
                "each row a value in every column"
            )
        # torch shares an array's memory, but for one that is read-only, which it copies.
        self._columns: Columns = {
            name: one
            if isinstance(one, torch.Tensor)
            else torch.from_numpy(np.require(one, requirements=["C", "W"]))
            for name, one in columns.items()
        }
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
            found = {
                name: one.index_select(0, rows.to(one.device))
                for name, one in self._columns.items()
            }
            yield rows, to_device_columns(found, self._device)


class DeviceRows(HostRows):
    """Rows in a device's memory, put there once.

    Parameters and errors are those of ``HostRows``.
    """

    def __init__(self, columns: Mapping[str, Any], device: str = "cpu") -> None:
        super().__init__(columns, device)
        self._columns = {name: one.to(device) for name, one in self._columns.items()}


def to_device_columns(columns: Columns, device: str) -> Columns:
    """Copy columns to a device, of torch's name; a copy from the host to a GPU does not block."""
    if device == "cpu":
        return columns
    return {
        name: one
        if one.device.type == device.split(":")[0]
        else one.pin_memory().to(device, non_blocking=True)
        for name, one in columns.items()
    }


def prefetch(items: Iterator[T], n_ahead: int, name: str) -> Generator[T, None, None]:
    """Yield the same items, made ahead by a thread of this name; it ends with its consumer.

    torch's ``DataLoader`` makes batches ahead in processes alone, each with rows of its own.
    """
    pool, end = ThreadPoolExecutor(1, name), object()
    ahead: deque[Any] = deque(pool.submit(next, items, end) for _ in range(n_ahead))
    try:
        while (item := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, items, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
