"""The files of a run folder, read and validated; what is missing stays empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, create_model

from pipelines.run_folder import names
from pipelines.run_folder.digests import refuse_changed
from pipelines.run_folder.journal import MEMORY, Journal
from pipelines.run_folder.record import Record, n_splits_of, read_record
from pipelines.run_folder.rows import Row
from pipelines.run_folder.schema import DAMAGE, damaged, one_line


@dataclass(frozen=True)
class FinishedTask:
    """A finished task: its description, where and when it ran, and its rows.

    Attributes
    ----------
    name : str
    worker : str
        Addresses of all workers that took part, separated by spaces.
    started : float
        Unix time in seconds.
    seconds, compile_seconds : float
        The seconds include compilation.
    rows : tuple of mappings
    cost : float or None
        Predicted cost, in a unit of time that serves only to compare tasks; None in older journals.
    memory : mapping of str to int
        Most bytes in use during the task: ``peak_memory`` of the worker's process,
        ``peak_gpu_memory`` of its GPU.
    session : int
        Counts from 1; 0 in older journals.
    """

    name: str
    worker: str
    started: float
    seconds: float
    rows: tuple[Mapping[str, Any], ...] = ()
    compile_seconds: float = 0.0
    cost: float | None = None
    memory: Mapping[str, int] = field(default_factory=dict)
    session: int = 0

    @property
    def workers(self) -> list[str]:
        """The worker, or the workers of a process group; an empty name where unknown."""
        return self.worker.split() or [""]

    @property
    def ended(self) -> float:
        """Unix time in seconds."""
        return self.started + self.seconds

    @property
    def n_failed(self) -> int:
        """Number of its cells that failed."""
        return sum(str(row.get("status", "ok")).startswith("failed") for row in self.rows)


@dataclass(frozen=True)
class RunData:
    """Everything that a run left in its folder, whatever its command; tables are read on access.

    A command that leaves further files has a class of its own. Reading a damaged table raises
    InputError.

    Attributes
    ----------
    path : Path
    metadata : mapping
        ``run.json`` as it is.
    record : Record
        The same, validated.
    cells : DataFrame
        One row for each cell, empty if the run did not get that far. Fits on a fraction of the
        rows, whose fold is -1, are not cells.
    tasks : tuple of FinishedTask
    """

    # Columns that tell one cell from another; without them, no duplicates are dropped.
    key_columns: ClassVar[Sequence[str]] = ()

    path: Path
    metadata: Mapping[str, Any]
    record: Record
    cells: pd.DataFrame
    tasks: tuple[FinishedTask, ...]

    @classmethod
    def read(
        cls,
        folder: Path,
        row_class: type[Row] = Row,
        record_class: type[Record] = Record,
        cells_file: str = names.CELLS,
    ) -> Self:
        """Read the folder of a run.

        Parameters
        ----------
        folder : Path
        row_class, record_class : type of Row, type of Record
            Schemas of a row of its journal and cells, and of its ``run.json``.
        cells_file : str
            Name of its table of cells.

        Raises
        ------
        InputError
            There is no run, or one of its files is damaged.
        """
        folder = Path(folder)
        metadata, record = read_record(folder, record_class)
        patterns = names.JOURNAL, "*.parquet", "*.npz", "*.csv"
        refuse_changed(folder, record.files, *patterns, may_be_gone=True)
        try:
            with Journal(folder / names.JOURNAL, row_class, record.fingerprint, False) as journal:
                records = journal.records
        except (OSError, ValueError) as error:
            raise damaged(folder / names.JOURNAL, "lines of JSON", error) from None
        cells = read_table(folder / cells_file, row_class)
        if cells is None:
            cells = cells_of(records, row_class, list(cls.key_columns))
        elif "fold" in cells:
            # Fits on a fraction of the rows are in the table, with fold -1.
            cells = cells[cells["fold"] >= 0].reset_index(drop=True)
        return cls(folder, metadata, record, cells, recorded_tasks(records))

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """One row for each candidate; empty if no candidate has all of its folds."""
        table = read_table(self.path / names.CANDIDATES)
        return self.candidates_of_cells() if table is None else table

    def candidates_of_cells(self) -> pd.DataFrame:
        """The candidates of a run that wrote no table of them."""
        return pd.DataFrame()

    @cached_property
    def predictions(self) -> pd.DataFrame | None:
        """The predicted classes of the test samples."""
        return read_table(self.path / names.PREDICTIONS)

    @cached_property
    def residuals(self) -> pd.DataFrame | None:
        """The predicted numbers of the test samples."""
        return read_table(self.path / names.RESIDUALS)

    @cached_property
    def wrong_images(self) -> dict[int, np.ndarray]:
        """The wrong test samples of an image data set, by row; see ``as_pictures``."""
        path, shape = self.path / names.WRONG, self.record.dataset.image_shape
        if not path.is_file() or shape is None:
            return {}
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                row, pixels = arrays["row"], arrays["X"]
            images = as_pictures(pixels, shape)
            if not np.issubdtype(images.dtype, np.number) or not np.isfinite(images).all():
                raise ValueError("pixels that are no numbers")
            return dict(zip(map(int, row), images, strict=True))
        except DAMAGE as error:
            rule = f"an .npz file of row and {shape[-2]} x {shape[-1]} images X"
            raise damaged(path, rule, one_line(error)) from None

    @property
    def classes(self) -> list[str]:
        """Names of the classes; empty for a regression."""
        return self.record.dataset.classes

    @property
    def n_splits(self) -> int | None:
        """Number of splits per candidate, from ``run.json`` or else from the cells."""
        n_splits = n_splits_of(self.metadata)
        if n_splits is not None:
            return n_splits
        return None if "fold" not in self.cells else self.cells["fold"].nunique() or None


def cells_of(
    journal: list[dict[str, Any]], row_class: type[Row], key_columns: list[str]
) -> pd.DataFrame:
    """The cells of a run that ended before it wrote its table; a repeated cell counts once.

    A row whose fold is -1 is not a cell but a refit.
    """
    cell_rows = [
        {"worker": record.get("worker", ""), **row}
        for record in journal
        for row in record["rows"]
        if row.get("fold", 0) >= 0
    ]
    if not cell_rows:
        return pd.DataFrame(columns=list(row_class.model_fields), dtype=float)
    defaults = {n: f.default for n, f in row_class.model_fields.items() if not f.is_required()}
    table = pd.DataFrame([defaults | row for row in cell_rows])
    table = table[
        [*row_class.model_fields, *(name for name in table if name not in row_class.model_fields)]
    ]
    if key_columns:
        table = table.drop_duplicates(key_columns, keep="last")
    return as_table(table.reset_index(drop=True), row_class)


def recorded_tasks(journal: Iterable[Mapping[str, Any]]) -> tuple[FinishedTask, ...]:
    """The records of a journal as tasks, in the order in which they began."""
    tasks = [
        FinishedTask(
            record["task"],
            str(record.get("worker", "")),
            record["started"],
            record["seconds"],
            tuple(record["rows"]),
            record.get("compile_seconds", 0.0),
            record.get("cost"),
            {name: record[name] for name in MEMORY if record.get(name)},
            record.get("session", 0),
        )
        for record in journal
    ]
    return tuple(sorted(tasks, key=lambda task: task.started))


def as_pictures(pixels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Flattened images, brought to this ``image_shape`` for drawing, channels last."""
    images = pixels.reshape(len(pixels), *shape)
    return images if len(shape) == 2 else np.moveaxis(images, 1, -1)


def read_table(path: Path, row_class: type[Row] = Row) -> pd.DataFrame | None:
    """Read a Parquet or CSV file and check it against the schema of its rows; None without a file.

    Raises
    ------
    InputError
        The file cannot be read or lacks a column, or a value breaks the rule of its column.
    """
    if not path.is_file():
        return None
    is_csv = path.suffix == ".csv"
    try:
        table = pd.read_csv(path) if is_csv else pd.read_parquet(path)
        return as_table(table, row_class)
    # pandas and pyarrow raise many exception types on damaged content.
    except Exception as error:
        required = [name for name, field in row_class.model_fields.items() if field.is_required()]
        rule = f"a {'CSV' if is_csv else 'Parquet'} table with {', '.join(required) or 'rows'}"
        raise damaged(path, rule, one_line(error)) from None


def as_table(table: pd.DataFrame, row_class: type[Row]) -> pd.DataFrame:
    """The table with the dtypes of its schema; columns without a schema stay as they are.

    Raises
    ------
    ValueError
        A column is missing, or a value breaks the rule of its column.
    """
    if not table.columns.is_unique:
        raise ValueError("two columns of one name")
    with np.errstate(invalid="ignore"):  # pandas tries to convert infinite losses to integers
        present_columns = {
            name: table[name].convert_dtypes() for name in row_class.model_fields if name in table
        }
    values = {
        name: column.astype(object).where(column.notna(), None).tolist()
        for name, column in present_columns.items()
    }
    checked_columns, dtypes = _columns_of(row_class).model_validate(values), row_class.dtypes()
    columns = {
        name: pd.Series(getattr(checked_columns, name), table.index, dtypes[name])
        for name in present_columns
    }
    return table.assign(**columns)


@cache
def _columns_of(row_class: type[Row]) -> type[BaseModel]:
    """The schema of a table: for each field of a row, a list of its values."""
    fields: dict[str, Any] = {
        name: (
            list[Annotated[field.annotation, name, *field.metadata]],  # type: ignore[name-defined]
            ... if field.is_required() else None,
        )
        for name, field in row_class.model_fields.items()
    }
    return create_model(row_class.__name__, __config__=ConfigDict(strict=True), **fields)
