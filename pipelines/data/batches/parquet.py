"""Rows on disk, larger than memory: a Parquet file is read through a buffer, block by block."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.batches.order import Permutation, buffer_size, buffered_shuffle
from pipelines.data.batches.prefetch import prefetch
from pipelines.data.batches.storage import Columns, to_device_columns
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

ROWS_OF_A_GROUP = 4096
BYTES_OF_BLOCK = 2**20  # decoded at once
BYTES_OF_PAGE = 2**16  # of a column: what pyarrow decompresses at once
BYTES_READ = 2**16  # from the file at once
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
    group : rows of a row group, what lies together and is mixed with others
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
    pq.write_table(
        table, path, row_group_size=group, use_dictionary=False, compression="lz4",
        data_page_size=BYTES_OF_PAGE,
    )  # fmt: skip


class ParquetRows:
    """Rows of a Parquet file, of which a few row groups are in memory at a time.

    A thread decodes the next rows while the last are taken. In memory are a buffer of
    ``n_together`` row groups and, however large these are, a few blocks of a mebibyte.

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
        n_bytes = sum(self._about.row_group(g).total_byte_size for g in range(n_groups))
        largest = max(self._sizes)
        n_blocks = -(-largest * n_bytes // (self.n_rows * BYTES_OF_BLOCK))
        self._rows_of_block = -(-largest // n_blocks)  # equal parts of a row group

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

        left = deque(parts)
        begun: Columns = {}  # of a part that goes on in the next piece
        for piece in self._pieces(generator):
            mine = []  # what a rank wants of a piece is gathered at once, then cut into its batches
            while left and (left[0].start < piece.last or left[0].stop <= piece.last):
                mine.append(slice(max(left[0].start, piece.first), min(left[0].stop, piece.last)))
                if left[0].stop > piece.last:
                    break
                left.popleft()
            if not mine:
                continue
            goes_on = bool(left) and left[0].start < piece.last
            lengths = [one.stop - one.start for one in mine]
            gathered = piece.take(mine)
            cut = {name: torch.from_numpy(one).split(lengths) for name, one in gathered.items()}
            for i in range(len(mine)):
                columns = {name: some[i] for name, some in cut.items()}
                if begun:
                    columns = {name: torch.cat([begun[name], columns[name]]) for name in begun}
                    begun = {}
                if goes_on and i + 1 == len(mine):
                    begun = columns
                else:
                    yield self._given(columns)
            if not left:
                return

    def _given(self, columns: Columns) -> tuple[torch.Tensor, Columns]:
        """Columns of a batch, on the device, apart from the numbers of its rows."""
        return columns.pop(NUMBERS), to_device_columns(columns, self._device)

    def _pieces(self, generator: np.random.Generator | None) -> Iterator[_Piece]:
        """Successive pieces of the order; rows of one can be had until the next is asked for."""
        groups = list(range(len(self._sizes)))
        if generator is not None:
            groups = generator.permutation(len(groups)).tolist()
        with closing(prefetch(self._blocks(groups), 1, "row groups")) as blocks:
            read = self._within_groups(blocks, groups)
            if generator is None:
                yield from _in_turn(read)
                return
            first, n_held, held = 0, 0, Arrays()
            sizes = [self._sizes[g] for g in groups]
            for i, places in enumerate(buffered_shuffle(sizes, self._n_together, generator)):
                if i == len(groups):  # what is left
                    for a in range(0, len(places), self._rows_of_block):
                        here = places[a : a + self._rows_of_block]
                        yield _Piece(first + a, first + a + len(here), held, here)
                    return
                n_read = 0
                while n_read < sizes[i]:
                    rows = next(read)
                    n_rows = len(rows[NUMBERS])
                    if not held:
                        most = buffer_size(sizes, self._n_together)
                        held = {name: np.empty((most, *one.shape[1:]), one.dtype)
                                for name, one in rows.items()}  # fmt: skip
                    here = places[n_read : n_read + n_rows]
                    if len(here):
                        yield _Piece(first, first + len(here), held, here)
                        first += len(here)
                    for name, one in held.items():
                        _put(one, here, n_held, rows[name])
                    n_read += n_rows
                    n_held += n_rows - len(here)

    def _within_groups(self, blocks: Iterable[Arrays], groups: Sequence[int]) -> Iterator[Arrays]:
        """Blocks cut where a row group ends, with the numbers of their rows."""
        left = iter(groups)
        number = last = 0
        for block in blocks:
            begin, n_block = 0, len(next(iter(block.values())))
            while begin < n_block:
                while number == last:  # a group may have no row
                    g = next(left)
                    number, last = int(self._starts[g]), int(self._starts[g + 1])
                end = min(n_block, begin + last - number)
                yield {
                    NUMBERS: np.arange(number, number + end - begin),
                    **{name: one[begin:end] for name, one in block.items()},
                }
                number += end - begin
                begin = end

    def _blocks(self, groups: Sequence[int]) -> Iterator[Arrays]:
        """Yield the rows of some row groups, in this order, as they are decoded: a few at a time.

        What lies in a file is read bit by bit, too: less than a row group is in memory.
        """
        import pyarrow.parquet as pq

        names = [name for some in self._columns.values() for name in some]
        with pq.ParquetFile(
            self._path, metadata=self._about, buffer_size=BYTES_READ, pre_buffer=False
        ) as file:
            for batch in file.iter_batches(
                self._rows_of_block, row_groups=groups, columns=names, use_threads=False
            ):
                yield {name: _array_of(batch, some) for name, some in self._columns.items()}


@dataclass(frozen=True)
class _Piece:
    """Places of the order from ``first`` to ``last``: where in some arrays their rows are."""

    first: int
    last: int
    arrays: Arrays
    places: Permutation

    def take(self, parts: Sequence[slice]) -> Arrays:
        """Copies of the rows at some parts of its places."""
        first = self.first
        some = np.concatenate([self.places[one.start - first : one.stop - first] for one in parts])
        return {
            name: np.take(one, some, axis=0, mode="clip") for name, one in self.arrays.items()
        }  # fmt: skip


def _in_turn(read: Iterable[Arrays]) -> Iterator[_Piece]:
    """Rows as they lie."""
    first = 0
    for rows in read:
        n_rows = len(rows[NUMBERS])
        yield _Piece(first, first + n_rows, rows, np.arange(n_rows))
        first += n_rows


def _rows_as_one(array: np.ndarray) -> np.ndarray:
    """Return a view in which a row of two axes is one element: numpy copies those faster."""
    if array.ndim == 1 or not array.shape[1]:
        return array
    return array.view(np.dtype((np.void, array.shape[1] * array.itemsize)))[:, 0]


def _put(held: np.ndarray, places: Permutation, n_held: int, rows: np.ndarray) -> None:
    """Rows at these places, and what is more of them behind the rows that are held."""
    n_places, n_more = len(places), len(rows) - len(places)
    _rows_as_one(held)[places] = _rows_as_one(rows[:n_places])
    held[n_held : n_held + n_more] = rows[n_places:]


def _array_of(block: Any, names: Sequence[str]) -> np.ndarray:
    """Columns of a record batch as one array, in its memory where they lie there."""
    arrays = []
    for name in names:
        column, field = block.column(name), block.schema.field(name)
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
