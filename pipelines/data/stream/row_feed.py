"""Batches of rows on disk, which processes of torch's ``DataLoader`` read ahead.

They write what they read to the cache and send nothing back; the rank gathers rows from the cache,
as it does from memory. With rows in the cache, a batch that a process hands over took four times as
long.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.batches import Batches, RankBatch
from pipelines.data.stream.cache import Cache, NoCache, folder_of
from pipelines.data.stream.streamed_rows import RowsOnDisk, Store
from pipelines.errors import InputError

if TYPE_CHECKING:
    import torch

BATCHES_AHEAD = 2  # for each process
PARTS_ANNOUNCED = 8  # batches that the operating system reads ahead from a whole cache
NONE = np.empty(0, np.int64)
BYTES_OF_BLOCK = 2**25  # of rows that are evaluated at once
Say = Callable[[str], None]


class Reader:
    """The data set of the loader's processes: reads rows into the cache, or returns them.

    It is indexed, as a map-style data set, with the number of a store and slots in it. An item is
    None if the rows are in the cache, the rows themselves where there is no cache, or the
    InputError for rows that cannot be read.
    """

    def __init__(self, stores: Sequence[Store], caches: Sequence[Cache | None]) -> None:
        self._stores, self._caches = stores, [*caches]
        self._held: dict[tuple[int, int], tuple[int, np.ndarray]] = {}

    def __getitem__(self, request: tuple[int, np.ndarray]) -> torch.Tensor | InputError | None:
        number, slots = request
        try:
            return self._read(number, slots)
        except InputError as error:
            return error

    def _read(self, number: int, slots: np.ndarray) -> torch.Tensor | None:
        """Read the slots of a store into its cache, or return the rows if it has none."""
        import torch

        store, cache = self._stores[number], self._caches[number]
        units = store.units_of(slots)
        if cache is not None:
            try:
                self._fill(store, cache, cache.unread_units(units))
                return None
            except OSError:  # such as a full disk; rows that are in the cache stay valid
                self._caches[number] = None
        rows = torch.empty((len(slots), store.width), dtype=_torch_dtype(store))
        for unit in np.unique(units):
            positions = np.flatnonzero(units == unit)
            first, unit_rows = self._unit(number, int(unit))
            rows[positions] = torch.from_numpy(unit_rows[slots[positions] - first])
        return rows

    def _fill(self, store: Store, cache: Cache, units: np.ndarray) -> None:
        # Each process begins at another unit, so that they seldom wait for each other.
        """Read units into the cache, unless another process has done so meanwhile."""
        for unit in np.roll(units, os.getpid() * 7919 % max(1, len(units))).tolist():
            with cache.alone_with(unit):
                if len(cache.unread_units(np.array([unit]))):
                    cache.write(unit, *store.read(unit))

    def _unit(self, number: int, unit: int) -> tuple[int, np.ndarray]:
        """Read a unit without a cache; four units of several rows are kept for the next batch."""
        store = self._stores[number]
        if store.n_units == store.n_rows:
            return store.read(unit)
        if (number, unit) not in self._held:
            while len(self._held) >= 4:
                del self._held[next(iter(self._held))]
            self._held[number, unit] = store.read(unit)
        return self._held[number, unit]


class _Requests:
    """The sampler of the loader: each epoch replaces its requests, while the processes stay."""

    def __init__(self) -> None:
        self.pending: Iterable[tuple[int, np.ndarray]] = ()

    def __iter__(self) -> Iterator[tuple[int, np.ndarray]]:
        return iter(self.pending)

    def __len__(self) -> int:
        return 0


class RowFeed:
    """Gathers rows on disk for one rank, with processes that read ahead.

    Parameters
    ----------
    parts : sequence of RowsOnDisk
        All rows that will be requested.
    n_workers : int
        Reading processes; 0 reads in this process.
    directory : str or None
        Where caches are kept; None for the folder of temporary files.
    device : str
        Device of the rows in torch's words; host memory is pinned for any but "cpu".
    say : function of a line
        Shows remarks on the cache.
    """

    def __init__(
        self,
        parts: Sequence[RowsOnDisk],
        *,
        n_workers: int,
        directory: str | None,
        device: str = "cpu",
        say: Say = print,
    ) -> None:
        from torch.utils.data import DataLoader

        self._stores = list({part.store.key: part.store for part in parts}.values())
        self._number = {store.key: number for number, store in enumerate(self._stores)}
        self._caches: list[Cache | None] = []
        self._say, self._pins, self._has_told = say, device != "cpu", False
        for store in self._stores:
            try:
                self._caches.append(Cache(store, folder_of(store, directory)))
            except NoCache as error:
                self._caches.append(None)
                say(f"cache      none, {error}: all rows are read and decoded in each epoch")
        self._requests = _Requests()
        options: dict[str, Any] = {}
        if n_workers:
            options = {"prefetch_factor": BATCHES_AHEAD, "persistent_workers": True}
            # A rank has threads, which do not survive a fork.
            options["multiprocessing_context"] = "spawn"
        self._loader: Any = DataLoader(
            Reader(self._stores, self._caches),  # type: ignore[arg-type]
            batch_size=None,
            sampler=self._requests,
            num_workers=n_workers,
            pin_memory=self._pins,
            **options,
        )

    def blocks(self, X: RowsOnDisk, parts: Sequence[np.ndarray]) -> Iterator[torch.Tensor]:
        """Read the rows of each part, given by positions in ``X``, ahead of their use.

        Yields
        ------
        tensor of shape (n, width), on the host
        """
        number = self._number[X.store.key]
        cache = self._caches[number]
        if cache is not None and cache.is_whole:
            for part, part_ahead in zip_longest(parts, parts[PARTS_ANNOUNCED:], fillvalue=NONE):
                cache.announce(X.slots[part_ahead])
                yield self._gather(cache, X, part)
            return
        self._requests.pending = ((number, X.slots[part]) for part in parts)
        with may_have_children():
            loaded_rows = iter(self._loader)
        for part, rows in zip(parts, loaded_rows, strict=True):
            if isinstance(rows, InputError):
                raise rows
            if rows is None:
                assert cache is not None
                rows = self._gather(cache, X, part)
            elif cache is not None and not self._has_told:
                self._has_told = True
                self._say(
                    "cache      cannot be written any more, as of a full disk: what it lacks is "
                    "read in each epoch"
                )
            yield rows

    def _gather(self, cache: Cache, X: RowsOnDisk, part: np.ndarray) -> torch.Tensor:
        """Rows from the cache, in pinned memory if they will go to a GPU."""
        import torch

        shape, dtype = (len(part), X.store.width), _torch_dtype(X.store)
        return cache.take(X.slots[part], torch.empty(shape, dtype=dtype, pin_memory=self._pins))

    def close(self) -> None:
        """End the processes."""
        self._loader = None


@contextmanager
def may_have_children() -> Iterator[None]:
    """Let a Dask worker, a daemonic process by default, start processes.

    Python does not allow daemons to do that, as their children could outlive them; the processes of
    a ``DataLoader`` watch their parent and end with it.
    """
    config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    is_daemon = config.get("daemon")
    config["daemon"] = False
    try:
        yield
    finally:
        config["daemon"] = is_daemon


class StreamedBatches(Batches):
    """Batches of rows on disk; see ``Batches``. The order of an epoch is by shards."""

    def __init__(self, rows: Mapping[str, Any], feed: RowFeed, **options: Any) -> None:
        super().__init__({"y": rows["y"]}, **options | {"on_host": True})
        self._X, self._feed = rows["X"], feed

    def _order(self) -> np.ndarray:
        return self._X.order(self._seed, self.epoch)

    def _gather_batches(self) -> Iterator[RankBatch]:
        parts = list(self._parts())
        blocks = self._feed.blocks(self._X, [part.numpy() for part, _, _ in parts])
        for (part, n_union, last), X in zip(parts, blocks, strict=True):
            y = self._gather(self._columns["y"], part)
            yield RankBatch({"X": self._to_device(X), "y": y}, part, n_union, last)


class StreamedColumns(Mapping[str, Any]):
    """Rows to evaluate, with X on disk and y on the device; see ``TrainingProblem.measure``."""

    def __init__(self, rows: Mapping[str, Any], feed: RowFeed, device: str) -> None:
        import torch

        self._columns = {**rows, "y": torch.tensor(rows["y"], device=device)}
        self._feed, self._device = feed, device

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def blocks(self, row_slice: slice, max_rows: int) -> Iterator[dict[str, torch.Tensor]]:
        """Blocks of at most ``max_rows`` rows of the columns, for a slice of the rows."""
        X, y = self._columns["X"], self._columns["y"]
        max_rows = max(1, min(max_rows, BYTES_OF_BLOCK // (X.store.width * X.dtype.itemsize)))
        positions = [
            np.arange(first, min(first + max_rows, row_slice.stop))
            for first in range(row_slice.start, row_slice.stop, max_rows)
        ]
        for part, rows in zip(positions, self._feed.blocks(X, positions), strict=True):
            yield {"X": rows.to(self._device), "y": y[part[0] : part[-1] + 1]}


def _torch_dtype(store: Store) -> torch.dtype:
    """The dtype of a store in torch: bytes, or single precision."""
    import torch

    return torch.uint8 if store.dtype == np.uint8 else torch.float32
