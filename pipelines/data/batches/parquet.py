"""Rows on disk, larger than memory: row groups of a Parquet file, through a full buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.data.batches.storage import Columns, prefetch, to_device_columns
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

ROWS_OF_A_GROUP = 4096
BYTES_OF_PAGE = 2**16  # of a column: what pyarrow decompresses at once
BYTES_READ = 2**16  # from the file at once
NUMBERS = ""  # the name under which the numbers of rows travel with them
DTYPE = "dtype"  # of a column of bytes, in its metadata

Arrays = dict[str, np.ndarray]
Permutation = NDArray[np.int64]


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

    A thread decodes the next row group while the last is taken. In memory are a buffer of
    ``n_together`` row groups, and three more.

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
        """Yield rows in order, see ``Rows``; what lies before the first part is read, too.

        Raises
        ------
        InputError
            A column holds what is no number.
        """
        import torch

        left, last = deque(parts), 0
        rest, n_rest = Arrays(), 0  # of a part that goes on in the next piece
        for held, places in self._pieces(generator):
            first, last = last, last + len(places)
            mine = [places[:0]]  # what a rank wants of a piece is gathered at once
            for part in left:
                if part.start >= last:
                    break
                mine.append(places[max(0, part.start - first) : part.stop - first])
            wanted = np.concatenate(mine)
            gathered = Arrays()
            for name, one in held.items():
                gathered[name] = np.empty((n_rest + len(wanted), *one.shape[1:]), one.dtype)
                gathered[name][:n_rest] = rest.get(name, one[:0])
                np.take(one, wanted, axis=0, mode="clip", out=gathered[name][n_rest:])
            columns = {name: torch.from_numpy(one) for name, one in gathered.items()}
            begin = 0
            while left and left[0].stop <= last:
                part = left.popleft()
                end = begin + part.stop - part.start
                batch = {name: one[begin:end] for name, one in columns.items()}
                yield batch.pop(NUMBERS), to_device_columns(batch, self._device)
                begin = end
            if not left:
                return
            rest = {name: one[begin:] for name, one in gathered.items()}
            n_rest = len(rest[NUMBERS])

    def _pieces(
        self, generator: np.random.Generator | None
    ) -> Iterator[tuple[Arrays, Permutation]]:
        """Yield successive pieces of the order: arrays valid until the next, indices into them."""
        groups = list(range(len(self._sizes)))
        if generator is not None:
            groups = generator.permutation(len(groups)).tolist()
        sizes = [self._sizes[g] for g in groups]
        with closing(prefetch(self._decoded(groups), 1, "row groups")) as read:
            if generator is None:
                for rows in read:
                    yield rows, np.arange(len(rows[NUMBERS]))
                return
            n_held, held = 0, Arrays()
            draws = buffered_shuffle(sizes, self._n_together, generator)
            for rows, places in zip(read, draws, strict=False):
                if not held:
                    most = buffer_size(sizes, self._n_together)
                    held = {name: np.empty((most, *one.shape[1:]), one.dtype)
                            for name, one in rows.items()}  # fmt: skip
                if len(places):
                    yield held, places
                n_more = len(rows[NUMBERS]) - len(places)
                for name, one in held.items():
                    one[places] = rows[name][: len(places)]
                    one[n_held : n_held + n_more] = rows[name][len(places) :]
                n_held += n_more
            rest = next(draws)
            # As many at a time as a row group has: what is gathered of them is a copy.
            for first in range(0, len(rest), max(sizes)):
                yield held, rest[first : first + max(sizes)]

    def _decoded(self, groups: Sequence[int]) -> Iterator[Arrays]:
        """Yield the rows of some row groups, in this order."""
        import pyarrow.parquet as pq

        names = [name for some in self._columns.values() for name in some]
        with pq.ParquetFile(
            self._path, metadata=self._about, buffer_size=BYTES_READ, pre_buffer=False
        ) as file:
            for g in groups:
                (block,) = file.iter_batches(
                    self._sizes[g], row_groups=[g], columns=names, use_threads=False
                )
                columns = {name: _array_of(block, some) for name, some in self._columns.items()}
                yield {NUMBERS: np.arange(self._starts[g], self._starts[g + 1]), **columns}


def buffered_shuffle(
    sizes: Sequence[int], n_together: int, generator: np.random.Generator
) -> Iterator[Permutation]:
    """Yield a shuffle of a file that is read group by group, through a buffer that stays full.

    The first ``n_together`` row groups fill the buffer. For each that follows, as many rows as it
    has are drawn from the buffer, and it takes their places. At the end what is left comes in
    random order. That is less than a full shuffle, and the same for any number of readers.

    Parameters
    ----------
    sizes : rows of each group, in the order in which they are read, which is random
    n_together : groups in the buffer

    Yields
    ------
    Of each group the places in the buffer whose rows come now, in this order, and are taken by its
    own; those of its rows that are more follow at the buffer's end. Then what is left.
    """
    n_held = 0
    for i, size in enumerate(sizes):
        n_drawn = 0 if i < n_together else min(size, n_held)
        yield generator.choice(n_held, n_drawn, replace=False).astype(np.int64)
        n_held += size - n_drawn
    yield generator.permutation(n_held).astype(np.int64, copy=False)


def buffer_size(sizes: Sequence[int], n_together: int) -> int:
    """Return how many rows the buffer of ``buffered_shuffle`` holds at the most."""
    return max(sum(sizes[:n_together]), *sizes)


def _array_of(block: Any, names: Sequence[str]) -> np.ndarray:
    """Return columns of a record batch as one array, a view of its memory if possible."""
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
