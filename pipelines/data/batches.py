"""Shuffled batches of rows in memory, for one rank or several.

torch's ``DataLoader``, which takes row by row, was 18 times slower on bytes in memory
(``benchmarks/results/2026-11-22-batches-mnist.md``), and a thread that gathers batches ahead more
than halved the remaining time. The order of an epoch depends on the seed and the epoch alone,
whatever the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

__all__ = ["Batches", "Columns", "RankBatch", "rank_slice"]

Columns = dict[str, "torch.Tensor"]
MIN_ROWS = 2  # fewest rows in a rank's batch: a single row has no variance


@dataclass(frozen=True, eq=False)
class RankBatch:
    """One rank's share of a union batch (the combined batch of all ranks).

    Attributes
    ----------
    columns : dict of str to tensor
        Tensors of shape (n, ...); n may be 0 at the end of an epoch.
    rows : int64 tensor of shape (n,)
        Row numbers.
    n_union : int
        Total number of rows over all ranks.
    position : int
        Number of rows of the epoch that all ranks have seen after this batch.
    """

    columns: Columns
    rows: torch.Tensor
    n_union: int
    position: int


class Batches:
    """An iterator over batches; each ``for`` loop runs to the end of the current epoch.

    Parameters
    ----------
    columns : mapping of str to array or tensor
        The first axis is the row. They keep their dtype: the bytes of an image stay bytes until
        they are on the device.
    batch_size : int
        Rows in a rank's batch; the union batch of all ranks has ``n_ranks`` times as many. A last
        batch that would leave a rank fewer than two rows is joined to the batch before it: a single
        row has no variance, which batch normalisation divides by.
    seed : int
        Each epoch has its own order, and every order is equally likely.
    map : function of the columns of a batch, optional
        Applied on the device. What it makes of a row must not depend on the rows beside it.
    rank, n_ranks : int
        Which part of each union batch this iterator yields.
    epoch, position : int
        Where to begin: the values of another iterator with this seed and any number of ranks;
        later, the current epoch and position.
    device : str
        Device of the batches in torch's words, such as ``cpu`` or ``cuda``.
    on_host : bool
        Keep the rows in host memory and copy only batches to the device, each while the device
        works on the one before. By default all rows are copied to the device once.

    Raises
    ------
    InputError
        There is no column, or columns differ in length.
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        batch_size: int = 128,
        seed: int = 0,
        map: Callable[[Columns], Columns] | None = None,
        rank: int = 0,
        n_ranks: int = 1,
        epoch: int = 0,
        position: int = 0,
        device: str = "cpu",
        on_host: bool = False,
    ) -> None:
        import torch

        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise InputError(
                f"{opt('columns')} must be arrays of one length, at least 1, got {lengths}; give "
                "each row a value in every column"
            )
        # torch shares the memory of an array, but warns about a read-only one, which is copied
        # here.
        self._columns: Columns = {
            name: torch.as_tensor(
                column
                if isinstance(column, torch.Tensor)
                else np.require(column, requirements=["C", "W"]),
                device="cpu" if on_host else device,
            )
            for name, column in columns.items()
        }
        self.n_rows = next(iter(lengths.values()))
        self._map, self._seed, self._device = map, seed, device
        self._copies = torch.cuda.Stream(device) if on_host and device != "cpu" else None
        self._batch_size, self._rank, self._n_ranks = batch_size, rank, n_ranks
        self.epoch, self.position = epoch, position

    def __iter__(self) -> Iterator[RankBatch]:
        import torch

        batches = self._gather_batches()
        next_batch = next(batches, None)
        while (batch := next_batch) is not None:
            if self._copies is not None:
                torch.cuda.current_stream(self._device).wait_stream(self._copies)
            next_batch = next(batches, None)  # its copy goes on while the device works on this one
            self.position = batch.position
            yield batch if self._map is None else replace(batch, columns=self._map(batch.columns))
        self.epoch, self.position = self.epoch + 1, 0

    def _gather_batches(self) -> Iterator[RankBatch]:
        """Gather the rank's rows of each remaining union batch of the epoch."""
        for rows, n_union, last in self._parts():
            columns = {name: self._gather(column, rows) for name, column in self._columns.items()}
            yield RankBatch(columns, rows, n_union, last)

    def _order(self) -> np.ndarray:
        """Row numbers in the order of the current epoch."""
        seed = np.random.SeedSequence([self._seed, self.epoch])
        return np.random.default_rng(seed).permutation(self.n_rows)

    def _parts(self) -> Iterator[tuple[torch.Tensor, int, int]]:
        """The rank's rows of each union batch, its length, and the position after it."""
        import torch

        order = torch.from_numpy(self._order())
        order = order.to(next(iter(self._columns.values())).device)
        in_union = self._batch_size * self._n_ranks
        bounds = [*range(self.position, self.n_rows, in_union), self.n_rows]
        min_rows = min(MIN_ROWS, self._batch_size)
        if len(bounds) > 2 and bounds[-1] - bounds[-2] < min_rows * self._n_ranks:
            del bounds[-2]
        for first, last in pairwise(bounds):
            n_union = last - first
            # All ranks take part, unless the epoch is too short for that and has no batch to join.
            n_sharing = min(self._n_ranks, max(1, n_union // min_rows))
            is_sharing = self._rank < n_sharing
            part = rank_slice(n_union, self._rank, n_sharing) if is_sharing else slice(0)
            yield order[first:last][part], n_union, last

    def _gather(self, column: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Rows of a column, on the device."""
        if self._copies is None:
            return column.index_select(0, rows)
        import torch

        # torch caches pinned memory, and reuses it once the copies from it have ended.
        pinned = torch.empty((len(rows), *column.shape[1:]), dtype=column.dtype, pin_memory=True)
        return self._to_device(torch.index_select(column, 0, rows, out=pinned))

    def _to_device(self, pinned: torch.Tensor) -> torch.Tensor:
        """Copy rows from the host while the device computes."""
        if self._copies is None:
            return pinned
        import torch

        # The memory that the copy writes to may still be read by the device, for an earlier batch.
        self._copies.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._copies):
            return pinned.to(self._device, non_blocking=True)


def rank_slice(n_rows: int, rank: int, n_ranks: int) -> slice:
    """The slice of a union batch that belongs to a rank; slices differ by one row at most."""
    return slice(n_rows * rank // n_ranks, n_rows * (rank + 1) // n_ranks)
