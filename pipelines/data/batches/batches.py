"""Rows as a training loop takes them: shuffled, in batches, mapped, prefetched.

The stages are those of ``tf.data``; each is optional, and what it calls a cache is a map before
``DeviceRows``. torch's ``DataLoader``, which takes row by row, was 18 times slower on bytes in
memory (``benchmarks/results/2026-11-22-batches-mnist.md``). What an epoch shows when is a function
of the seed and the epoch alone, whatever reads it and with how many ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.batches.storage import Columns, Map, Rows, prefetch
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Batch:
    """A rank's rows of one union batch.

    Attributes
    ----------
    columns : tensors by name, of shape (n, ...); n may be 0 at the end of an epoch
    rows : int64 tensor of shape (n,)
        Their numbers.
    n_union : int
        Rows of all ranks together.
    position : int
        Rows of the epoch that all ranks have seen after this batch.
    """

    columns: Columns
    rows: torch.Tensor
    n_union: int
    position: int


class Batches:
    """An iterator of batches; each ``for`` goes to the end of the epoch it is in.

    Parameters
    ----------
    rows : Rows
    batch_size : int
        Rows of a rank's batch; the union batch of all ranks has ``n_ranks`` times as many.
    seed : int
    map : function of the columns of a batch, optional
        What a row becomes must not depend on the rows beside it. It runs on the device.
    shuffle : bool
        Anew in each epoch; else the rows come as they lie.
    prefetch : int
        Batches that a thread gathers ahead; 0 for no thread.
    rank, n_ranks : int
        Which part of each union batch is given.

    Attributes
    ----------
    epoch, position : int
        Where it stands: what ``state_dict`` keeps.

    Raises
    ------
    InputError
        A number is out of its range.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        batch_size: int = 128,
        seed: int = 0,
        map: Map | None = None,
        shuffle: bool = True,
        prefetch: int = 0,
        rank: int = 0,
        n_ranks: int = 1,
    ) -> None:
        for name, value, least in (
            ("batch_size", batch_size, 1), ("prefetch", prefetch, 0), ("n_ranks", n_ranks, 1),
            ("seed", seed, 0),
        ):  # fmt: skip
            if value < least:
                raise InputError(f"{opt(name)} must be at least {least}, got {value}")
        if not 0 <= rank < n_ranks:
            raise InputError(f"{opt('rank')} must be from 0 to {n_ranks - 1}, got {rank}")
        self._rows, self._map = rows, map
        self._seed, self._shuffle, self._prefetch = seed, shuffle, prefetch
        self._batch_size, self._rank, self._n_ranks = batch_size, rank, n_ranks
        self.epoch = self.position = 0

    @property
    def n_rows(self) -> int:
        """The number of rows of an epoch, of all ranks."""
        return self._rows.n_rows

    def state_dict(self) -> dict[str, int]:
        """Return the position in the stream; may be called between any two batches."""
        return {"seed": self._seed, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where another stood, that had this seed and any number of ranks.

        Raises
        ------
        InputError
            It had another seed, or more rows.
        """
        if state["seed"] != self._seed:
            raise InputError(
                f"{opt('seed')} must stay {state['seed']} to go on, got {self._seed}; the order "
                "would be another"
            )
        if not 0 <= state["position"] <= self.n_rows:
            raise InputError(
                f"{opt('position')} must be at most {self.n_rows}, got {state['position']}; go on "
                "with the rows that it began with"
            )
        self.epoch, self.position = int(state["epoch"]), int(state["position"])

    def __iter__(self) -> Iterator[Batch]:
        batches = self._rest_of_epoch(self.epoch, self.position)
        if self._prefetch:
            batches = prefetch(batches, self._prefetch, "prefetch")
        for batch in batches:
            self.position = batch.position
            yield batch
        self.epoch, self.position = self.epoch + 1, 0

    def _rest_of_epoch(self, epoch: int, position: int) -> Iterator[Batch]:
        n_rows, in_union = self.n_rows, self._batch_size * self._n_ranks
        unions = [
            (first, min(in_union, n_rows - first)) for first in range(position, n_rows, in_union)
        ]
        parts = []
        for first, n_union in unions:
            mine = share(n_union, self._rank, self._n_ranks)
            parts.append(slice(first + mine.start, first + mine.stop))
        spawned = np.random.SeedSequence([self._seed, epoch])
        generator = np.random.default_rng(spawned) if self._shuffle else None
        read = self._rows.epoch(generator, parts)
        for (first, n_union), (numbers, columns) in zip(unions, read, strict=True):
            if self._map is not None:
                columns = self._map(columns)
            yield Batch(columns, numbers, n_union, first + n_union)


def share(n_rows: int, rank: int, n_ranks: int) -> slice:
    """Return the rows of a union batch that are a rank's: parts differ by one row at the most."""
    return slice(n_rows * rank // n_ranks, n_rows * (rank + 1) // n_ranks)
