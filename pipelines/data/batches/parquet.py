"""Rows on disk, larger than memory: a Parquet file is read row group by row group."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.batches.homes import Columns
from pipelines.data.batches.order import Order, shuffled_in_groups
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

ROWS_OF_A_GROUP = 4096
DTYPE = "dtype"  # of a column of bytes, in its metadata


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

    Parameters
    ----------
    path : of the file
    columns : by name, the file's column, or several that become one of two axes. A column of
        bytes as ``write_rows`` stores them, or of lists of one length, becomes one of two axes.
    n_together : row groups whose rows are shuffled with each other; as many are kept in memory,
        and one more where a batch lies across two buffers
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
            self._file = pq.ParquetFile(path)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{opt('path')} must be a Parquet file, got {str(path)!r} ({error}); "
                "write one with write_rows"
            ) from None
        self._columns = {
            name: [one] if isinstance(one, str) else list(one) for name, one in columns.items()
        }
        named = {name for some in self._columns.values() for name in some}
        if missing := sorted(named - set(self._file.schema_arrow.names)):
            raise InputError(
                f"{opt('columns')} must be in {path}, got {', '.join(missing)}; it has "
                f"{', '.join(self._file.schema_arrow.names)}"
            )
        about = self._file.metadata
        sizes = [about.row_group(g).num_rows for g in range(about.num_row_groups)]
        self._bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.n_rows = int(self._bounds[-1])
        if not self.n_rows:
            raise InputError(f"{opt('path')} must hold a row, got {path}, which has none")
        self._n_together, self._device = n_together, device
        self._held: OrderedDict[int, Columns] = OrderedDict()

    def order(self, generator: np.random.Generator) -> Order:
        """Row groups in random order, the rows of a buffer of them shuffled."""
        return shuffled_in_groups(self._bounds.tolist(), self._n_together, generator)

    def gather(self, rows: torch.Tensor) -> Columns:
        """Rows by number; see ``Rows``. Fast where they follow ``order``, or the file."""
        import torch

        wanted = rows.numpy()
        groups = np.searchsorted(self._bounds, wanted, side="right") - 1
        needed = np.unique(groups).tolist()
        held = {g: self._group(g) for g in needed}
        while len(self._held) > max(self._n_together + 1, len(needed)):
            self._held.popitem(last=False)
        found: Columns = {}
        for name in self._columns:
            like = held[needed[0]][name]
            out = torch.empty((len(rows), *like.shape[1:]), dtype=like.dtype)
            for g in needed:
                places = np.flatnonzero(groups == g)
                local = torch.from_numpy(wanted[places] - self._bounds[g])
                out.index_copy_(0, torch.from_numpy(places), held[g][name].index_select(0, local))
            found[name] = out if self._device == "cpu" else out.pin_memory().to(
                self._device, non_blocking=True
            )  # fmt: skip
        return found

    def _group(self, g: int) -> Columns:
        if g not in self._held:
            import torch

            names = [name for some in self._columns.values() for name in some]
            table = self._file.read_row_group(g, columns=names)
            self._held[g] = {
                name: torch.from_numpy(_array_of(table, some))
                for name, some in self._columns.items()
            }
        self._held.move_to_end(g)
        return self._held[g]


def _array_of(table: Any, names: Sequence[str]) -> np.ndarray:
    """Columns of a row group as one writable array."""
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
    return np.array(arrays[0]) if len(arrays) == 1 else np.column_stack(arrays)
