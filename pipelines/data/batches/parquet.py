"""Rows on disk, larger than memory: a Parquet file is read row group by row group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.batches.homes import Columns
from pipelines.data.batches.order import Order, most_held, rounds
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

ROWS_OF_A_GROUP = 4096
NUMBERS = ""  # the name under which the numbers of rows travel with them
DTYPE = "dtype"  # of a column of bytes, in its metadata

Arrays = dict[str, np.ndarray]


def write_rows(path: str | Path, columns: Mapping[str, Any], group: int = ROWS_OF_A_GROUP) -> None:
    """Write arrays as a Parquet file that ``ParquetRows`` reads.

    Parameters
    ----------
    path : of the file
    columns : arrays of numbers by name, of shape (n,) or (n, width). A row of two axes is stored
        as its bytes, which are read five times as fast as a list; its dtype stands with the column
    group : rows of a row group, what is read at once
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays, fields = [], []
    for name, one in columns.items():
        one, dtype = np.ascontiguousarray(one), {}
        if one.ndim == 1:
            arrays.append(pa.array(one))
        else:
            kind = pa.binary(one.shape[1] * one.itemsize)
            buffers = [None, pa.py_buffer(one)]
            arrays.append(pa.FixedSizeBinaryArray.from_buffers(kind, len(one), buffers))
            dtype = {DTYPE: one.dtype.str}
        fields.append(pa.field(name, arrays[-1].type, metadata=dtype))
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    pq.write_table(table, path, row_group_size=group, use_dictionary=False, compression="lz4")


class ParquetRows:
    """Rows of a Parquet file, of which a few row groups are in memory at a time.

    A thread reads the next row group while the rows of the last are taken: a buffer of
    ``n_together`` groups and two more are in memory, of each that reads.

    Parameters
    ----------
    path : of the file
    columns : by name, the file's column, or several that become one of two axes. A column of
        bytes as ``write_rows`` stores them, or of lists of one length, becomes one of two axes.
    n_together : row groups in the buffer that rows are drawn from
    device : torch's name of where batches go

    Raises
    ------
    InputError
        The file or a column is not there, holds what is no number, or has no row.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Mapping[str, str | Sequence[str]],
        n_together: int = 16,
        device: str = "cpu",
    ) -> None:
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path) as file:
                self._about, there = file.metadata, file.schema_arrow.names
        except (OSError, ValueError) as error:
            raise InputError(
                f"{opt('path')} must be a Parquet file, got {str(path)!r} ({error}); "
                "write one with write_rows"
            ) from None
        self._path = path
        self._columns = {
            name: [one] if isinstance(one, str) else list(one) for name, one in columns.items()
        }
        named = {name for some in self._columns.values() for name in some}
        if missing := sorted(named - set(there)):
            raise InputError(
                f"{opt('columns')} must be in {path}, got {', '.join(missing)}; it has "
                f"{', '.join(there)}"
            )
        n_groups = self._about.num_row_groups
        self._sizes = [self._about.row_group(g).num_rows for g in range(n_groups)]
        self._starts = np.concatenate([[0], np.cumsum(self._sizes, dtype=np.int64)])
        self.n_rows = int(self._starts[-1])
        if not self.n_rows:
            raise InputError(f"{opt('path')} must hold a row, got {path}, which has none")
        self._n_together, self._device = n_together, device

    def epoch(
        self, generator: np.random.Generator | None, parts: Iterable[slice]
    ) -> Iterator[tuple[torch.Tensor, Columns]]:
        """Rows in order, see ``Rows``; what lies before the first part is read, too.

        Raises
        ------
        InputError
            A column holds what is no number.
        """
        import torch

        pieces = self._pieces(generator)
        first, last, take = next(pieces)
        for part in parts:
            found = []
            while True:
                if part.start < last or part.start == part.stop == last:
                    begin, end = max(part.start, first), min(part.stop, last)
                    found.append(take(slice(begin - first, end - first)))
                if part.stop <= last:
                    break
                first, last, take = next(pieces)
            columns = {
                name: torch.from_numpy(np.concatenate([one[name] for one in found]))
                if len(found) > 1 else torch.from_numpy(found[0][name])
                for name in found[0]
            }  # fmt: skip
            numbers = columns.pop(NUMBERS)
            if self._device != "cpu":
                columns = {
                    name: one.pin_memory().to(self._device, non_blocking=True)
                    for name, one in columns.items()
                }
            yield numbers, columns

    def _pieces(
        self, generator: np.random.Generator | None
    ) -> Iterator[tuple[int, int, Callable[[slice], Arrays]]]:
        """Successive pieces of the order: their places, and what copies rows of a piece.

        Rows of one can be had until the next is asked for.
        """
        groups = list(range(len(self._sizes)))
        if generator is not None:
            groups = generator.permutation(len(groups)).tolist()
        with self._reader() as read:
            ahead = read(groups[0])
            if generator is None:
                first = 0
                for g, following in zip(groups, [*groups[1:], None], strict=True):
                    rows = ahead.result()
                    ahead = read(following)
                    yield first, first + self._sizes[g], partial(_copy, rows)
                    first += self._sizes[g]
                return
            sizes = [self._sizes[g] for g in groups]
            held, first, n_held = dict[str, np.ndarray](), 0, 0
            after = [*groups[1:], None]
            for i, places in enumerate(rounds(sizes, self._n_together, generator)):
                if len(places):
                    yield first, first + len(places), partial(_take, held, places)
                    first += len(places)
                if i == len(groups):
                    return
                rows = ahead.result()
                if not held:
                    most = most_held(sizes, self._n_together)
                    held = {name: np.empty((most, *one.shape[1:]), one.dtype)
                            for name, one in rows.items()}  # fmt: skip
                for name, one in held.items():
                    _put(one, places, n_held, rows[name])
                n_held += sizes[i] - len(places)
                rows.clear()  # the next is read once these are in the buffer: there is no third
                ahead = read(after[i])

    @contextmanager
    def _reader(self) -> Iterator[Callable[[int | None], Future[Arrays]]]:
        """What has a thread read a row group, or nothing."""
        import pyarrow.parquet as pq

        with (
            pq.ParquetFile(self._path, metadata=self._about) as file,
            ThreadPoolExecutor(1, "row groups") as pool,
        ):
            yield lambda g: pool.submit(self._group, file, g) if g is not None else Future()

    def _group(self, file: Any, g: int) -> Arrays:
        names = [name for some in self._columns.values() for name in some]
        table = file.read_row_group(g, columns=names, use_threads=False)
        rows = {name: _array_of(table, some) for name, some in self._columns.items()}
        return {NUMBERS: np.arange(self._starts[g], self._starts[g + 1]), **rows}


def _rows_as_one(array: np.ndarray) -> np.ndarray:
    """A view in which a row of two axes is one element: numpy copies those faster."""
    if array.ndim == 1 or not array.shape[1]:
        return array
    return array.view(np.dtype((np.void, array.shape[1] * array.itemsize)))[:, 0]


def _put(held: np.ndarray, places: Order, n_held: int, rows: np.ndarray) -> None:
    """Rows at these places, and what is more of them behind the rows that are held."""
    n_places, n_more = len(places), len(rows) - len(places)
    _rows_as_one(held)[places] = _rows_as_one(rows[:n_places])
    held[n_held : n_held + n_more] = rows[n_places:]


def _take(held: Arrays, places: Order, part: slice) -> Arrays:
    some = places[part]
    return {name: np.take(one, some, axis=0, mode="clip") for name, one in held.items()}


def _copy(rows: Arrays, part: slice) -> Arrays:
    return {name: one[part].copy() for name, one in rows.items()}


def _array_of(table: Any, names: Sequence[str]) -> np.ndarray:
    """Columns of a row group as one array, in the memory of the table where they lie there."""
    arrays = []
    for name in names:
        column, field = table.column(name).combine_chunks(), table.schema.field(name)
        dtype = (field.metadata or {}).get(DTYPE.encode())
        if dtype is not None:
            begin, width = column.offset * field.type.byte_width, field.type.byte_width
            raw = np.frombuffer(column.buffers()[1], np.uint8)[begin : begin + len(column) * width]
            arrays.append(raw.view(dtype.decode()).reshape(len(column), -1))
            continue
        flat = column.flatten() if hasattr(field.type, "value_type") else column
        array = flat.to_numpy(zero_copy_only=False)
        if array.dtype == object or flat.null_count:
            raise InputError(
                f"{opt('columns')} must hold numbers and no empty cell, got {name}, a column of "
                f"{field.type}; leave it out"
            )
        arrays.append(array if flat is column else array.reshape(len(column), -1))
    return arrays[0] if len(arrays) == 1 else np.column_stack(arrays)
