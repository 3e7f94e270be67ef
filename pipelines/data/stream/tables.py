"""The rows of a Parquet table, each row group read and prepared when it is needed.

The kinds of its columns are detected in a sample, and their preparation is fitted on the training
rows of that sample; the target is read whole.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from pipelines.data.preparation import Preparation
from pipelines.data.stream.streamed_rows import Input, RowsOnDisk, Store
from pipelines.data.tables.kinds import columns_of
from pipelines.data.tables.table import RawTable, Reading, Task, read_raw_table, target_values
from pipelines.data.tables.table_files import parts_of, typed
from pipelines.data.tables.words import counted, unreadable
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from pipelines.data.tables.preprocess import TablePreprocessor

SAMPLED_ROWS, SAMPLED_GROUPS = 100_000, 16  # about so many rows, from row groups all over the table
BYTES_OF_CELL = 8  # in memory, a number or the pointer to a text
VERSION = 1  # of the cache's content: a change reads all rows again


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file.

    Attributes
    ----------
    file : Path
    number : int
        Number of the group within the file.
    first : int
        Its first row, counted over all files.
    n_rows : int
    """

    file: Path
    number: int
    first: int
    n_rows: int

    def read(self, columns: Sequence[str] | None = None, n_rows: int | None = None) -> pa.Table:
        """Its rows, or the first ``n_rows`` of them; columns by name, or all."""
        from pyarrow import Table, parquet

        with parquet.ParquetFile(self.file) as file:
            if n_rows is None:
                return file.read_row_group(self.number, columns)
            batches = file.iter_batches(n_rows, row_groups=[self.number], columns=columns)
            return Table.from_batches([next(batches)])


class TableStore(Store):
    """Prepared rows of a table, with each row group a unit; ``fit`` must be called before ``read``.

    Parameters
    ----------
    path : Path
        The table's file, or the folder of its files.
    groups : sequence of RowGroup
    sample : RawTable
        Sampled rows, read as a table.
    sampled_rows : int array
        Their row numbers in the whole table.
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self, path: Path, groups: Sequence[RowGroup], sample: RawTable, sampled_rows: np.ndarray
    ) -> None:
        self._path, self._groups, self._kinds = path, groups, sample.kinds
        self._missing = sample.missing
        self._sample: tuple[pd.DataFrame, np.ndarray] | None = (sample.X, sampled_rows)
        self._bounds = np.array([group.first for group in groups])
        self.n_units, self.n_rows = len(groups), sum(group.n_rows for group in groups)
        self.shape = (len(self._kinds.numbers) + len(self._kinds.categories),)
        self._prepare: TablePreprocessor | None = None

    def fit(self, rows: np.ndarray) -> int:
        """Fit the preparation on the sampled rows that are among the training rows ``rows``.

        Returns
        -------
        int
            Number of rows that it was fitted on.
        """
        assert self._sample is not None
        X, sampled_rows = self._sample
        is_training = np.isin(sampled_rows, rows)
        self._prepare = Preparation(self._kinds, self._missing).fit(X[is_training])
        self._sample = None
        self.shape = (len(self._prepare.get_feature_names_out()),)
        how = json.dumps([asdict(self._kinds), self._missing, VERSION], sort_keys=True)
        digest = hashlib.sha256(how.encode() + sampled_rows[is_training].tobytes())
        for file in dict.fromkeys(group.file for group in self._groups):
            with open(file, "rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        self.key = digest.hexdigest()
        return int(is_training.sum())

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows, np.int64)

    def units_of(self, slots: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._bounds, slots, "right") - 1

    shards_of = units_of

    def read(self, unit: int) -> tuple[int, np.ndarray]:
        assert self._prepare is not None
        return self._groups[unit].first, self._prepare.transform(self.columns(unit))

    def columns(self, unit: int) -> pd.DataFrame:
        """A row group in the form of ``RawTable.X``."""
        group, kinds = self._groups[unit], self._kinds
        try:
            table = group.read([*kinds.numbers, *kinds.categories])
            frame, source = typed(table, kinds.categories, kinds.numbers)
            source = replace(source, first=group.first)
            return columns_of(frame, kinds, self._path, source)
        except InputError:
            raise
        except Exception as error:  # pyarrow raises a dozen unrelated exception types
            raise unreadable(group.file, error) from None


@dataclass(frozen=True, eq=False)
class StreamedTable(RawTable):
    """A table whose X is ``RowsOnDisk``; its columns are described by a sample.

    Attributes
    ----------
    sample : RawTable
        The sampled rows.
    why : str
        Why the rows stay on disk, in words.
    beyond : tuple of str
        Levels and missing cells that other rows have and the sample lacks, in words.
    """

    sample: RawTable = field(kw_only=True)
    why: str = field(kw_only=True)
    beyond: tuple[str, ...] = field(kw_only=True)

    def lines(self) -> list[str]:
        of_sample = replace(self.sample, y=self.y, notes=(*self.notes, "the columns of a sample"))
        n = len(self.sample.y)
        return [
            *of_sample.lines(),
            f"input      {self.why}: rows stay on disk; columns are described and prepared by a "
            f"sample of {n:,} rows, the target is read whole",
            *(f"note       {words}" for words in self.beyond),
        ]

    def describe(self) -> dict[str, Any]:
        return self.sample.describe()


def open_table(
    path: Path, target: str | None, task: Task | None, reading: Reading, input: Input
) -> StreamedTable | None:
    """Open a table that stays on disk.

    Parameters
    ----------
    path : Path
    target, task, reading
        As ``load_dataset`` takes them.
    input : {"memory", "stream", "auto"}

    Returns
    -------
    StreamedTable or None
        None if the table should be loaded into memory.

    Raises
    ------
    InputError
        As for ``read_raw_table``; or the table should stay on disk, and its form does not allow
        this.
    """
    if input == "memory" or path.suffix.lower() != ".parquet" or not path.exists():
        return None
    groups, n_columns = _groups(path)
    n_rows = sum(group.n_rows for group in groups)
    n_bytes, total = n_rows * n_columns * BYTES_OF_CELL, psutil.virtual_memory().total
    if not n_rows or (input == "auto" and n_bytes <= total // 2):
        return None
    if reading.missing == "drop":
        raise InputError(
            f"{opt('missing')} must be impute or refuse for rows that stay on disk, got drop; take "
            f"{opt('missing', 'impute')} or {opt('input', 'memory')}"
        )
    largest = max(group.n_rows for group in groups) * n_columns * BYTES_OF_CELL
    if largest > total // 8:
        raise InputError(
            f"{opt('dataset')} must have row groups of at most an eighth of the memory, '{path}' "
            f"has one of {largest / 2**30:.1f} GiB; write it with smaller ones"
        )
    sample, sampled_rows = _sample(path, groups, target, task, reading)
    store = TableStore(path, groups, sample, sampled_rows)
    why = "as asked" if input == "stream" else "larger than half of the memory"
    about = {attribute.name: getattr(sample, attribute.name) for attribute in fields(RawTable)}
    about |= {"X": RowsOnDisk(store, np.arange(n_rows)), "y": _targets(path, groups, sample)}
    sizes = f"{n_bytes / 2**30:.1f} GiB of {total / 2**30:.1f}"
    beyond = _beyond_sample(store, sample.X)
    return StreamedTable(**about, sample=sample, why=f"{why} ({sizes})", beyond=beyond)


def _beyond_sample(store: TableStore, sample: pd.DataFrame) -> tuple[str, ...]:
    """What the table has that its sample lacks, in words: levels, and missing cells of a column.

    All rows are read for this, so that a cell that cannot be read is found before the training.
    """
    names = [str(name) for name in sample]
    known_levels = {
        name: set(sample[name].dropna()) for name in names if sample[name].dtype == object
    }
    is_whole = [name for name in names if sample[name].notna().all()]
    unknown, missing = Counter[str](), Counter[str]()
    for unit in range(store.n_units):
        X = store.columns(unit)
        for name, levels in known_levels.items():
            unknown[name] += int((X[name].notna() & ~X[name].isin(levels)).sum())
        missing.update({name: int(X[name].isna().sum()) for name in is_whole})
    return tuple(
        f"{what}: " + ", ".join(f"{name} ({counted(n, 'row')})" for name, n in (+counts).items())
        for what, counts in (
            ("levels that the sample lacks, taken for none of the others", unknown),
            ("missing cells in columns that have none in the sample, filled in", missing),
        )
        if +counts
    )


def _groups(path: Path) -> tuple[list[RowGroup], int]:
    """All row groups of a table, and its number of columns."""
    from pyarrow import parquet

    lengths: list[tuple[Path, int, int]] = []
    try:
        for file in parts_of(path) if path.is_dir() else [path]:
            about = parquet.read_metadata(file)
            n_of_groups = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
            lengths += [(file, i, n) for i, n in enumerate(n_of_groups) if n]
    except (OSError, ValueError) as error:  # pyarrow's errors are subclasses of these
        raise unreadable(path, error) from None
    firsts = accumulate((n for _, _, n in lengths), initial=0)
    groups = [RowGroup(f, i, first, n) for (f, i, n), first in zip(lengths, firsts, strict=False)]
    return groups, about.num_columns


def _sample(
    path: Path, groups: Sequence[RowGroup], target: str | None, task: Task | None, reading: Reading
) -> tuple[RawTable, np.ndarray]:
    """Rows from all over the table, read as a table of their own, and their row numbers."""
    from pyarrow import concat_tables, parquet

    positions = np.unique(np.linspace(0, len(groups) - 1, SAMPLED_GROUPS).astype(int))
    sampled_groups = [groups[position] for position in positions]
    tables = [
        group.read(n_rows=-(-SAMPLED_ROWS // len(sampled_groups))) for group in sampled_groups
    ]
    numbers = [
        group.first + np.arange(len(table))
        for group, table in zip(sampled_groups, tables, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, path.name)
        parquet.write_table(concat_tables(tables, promote_options="permissive"), file)
        try:
            table = read_raw_table(file, target, task=task, **asdict(reading))
        except InputError as error:
            raise InputError(error._message.replace(str(file), str(path))) from None
    return table, np.concatenate(numbers)


def _targets(path: Path, groups: Sequence[RowGroup], sample: RawTable) -> np.ndarray:
    """The target of all rows."""
    name, parts = sample.target, []
    for group in groups:
        frame, source = typed(group.read([name]), (), ())
        source = replace(source, first=group.first)
        outcome, written = frame[name], source.as_written(name)
        if written is not None and sample.task == "classification":
            outcome, written = type(outcome)(written, outcome.index, name=name), None
        parts.append(target_values(outcome, path, sample.task, source, written))
    if any(part.dtype.kind == "U" for part in parts):  # some groups hold numbers, others words
        parts = [part.astype(str) for part in parts]
    return np.concatenate(parts)
