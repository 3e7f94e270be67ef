"""New rows for a stored model, from a table or from images, and the table of its predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pipelines.data.image_files import ImageFormat, WhiteOfRun, files_of, read_image
from pipelines.data.image_paths import readable
from pipelines.data.tables import Kinds, columns_of, read_frame
from pipelines.data.tables.kinds import level_of
from pipelines.data.tables.table import counted_classes
from pipelines.data.tables.words import counted, list_names, short
from pipelines.errors import InputError, opt
from pipelines.run_folder.names import replacing, write_table
from pipelines.run_folder.record import AnyRecord, Record, read_record

if TYPE_CHECKING:
    import pandas as pd

# What a spreadsheet takes for a formula at the beginning of a cell.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def record_of(run: Path, command: str, record_class: type[AnyRecord]) -> AnyRecord:
    """The record of a run of ``command``, by the schema that the command declares.

    Raises
    ------
    InputError
        It is no run, or a run of another command.
    """
    _, record = read_record(run, Record)
    if record.command != command:
        raise InputError(
            f"RUN must be the folder of a run of {command.replace('_', '-')}, got {run}, which "
            f"holds a run of {record.command.replace('_', '-')}"
        )
    return read_record(run, record_class)[1]


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows of a table, or images, as the model of a run takes them.

    Attributes
    ----------
    path : Path
        Of the table; for images, what the file of their predictions is named after.
    X : float64 array of shape (n_answered, n_features), or DataFrame
        A DataFrame for a table with categories or missing cells; uint8 for images.
    answered : int array of shape (n_answered,)
        Indices of the rows in ``X``. A row with a missing cell is not among them if the run
        dropped such rows, nor is an image that cannot be read.
    n_rows : int
        Number of all rows.
    target : str
        The name of the column that was learned.
    truth : object array of shape (n_answered,), optional
        The text in that column; None if the table lacks it.
    ids : DataFrame of shape (n_rows, n_ids)
        Those columns of the table that the run left out as ids; for images their paths.
    unreadable : tuple of str, optional
        What is wrong with each image that cannot be read; None for a table.
    notes : tuple of str
        What was left out, cut off, converted or taken as missing.
    """

    path: Path
    X: Any
    answered: np.ndarray
    n_rows: int
    target: str
    truth: np.ndarray | None
    ids: pd.DataFrame
    unreadable: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of_images(cls, form: ImageFormat, images: Iterable[Path]) -> Self:
        """Read images and convert them to the format that a run learned from."""
        import pandas as pd

        (paths, notes), numbers_read, rows, unreadable = files_of(images), [], [], []
        white = WhiteOfRun(form.white)
        for number, path in enumerate(paths):
            try:
                rows.append(read_image(path, form, white).astype(np.uint8))
                numbers_read.append(number)
            except InputError as error:
                unreadable.append(error.flagged())
        width = form.channels * form.height * form.width
        return cls(
            Path("image"),
            np.array(rows, np.uint8).reshape(-1, width),
            np.array(numbers_read, int),
            len(paths),
            "",
            None,
            pd.DataFrame({"image": [readable(path) for path in paths]}),
            tuple(unreadable),
            (*notes, *white.notes),
        )

    @property
    def images(self) -> list[Path]:
        """The paths of the images in ``X``."""
        return [Path(self.ids["image"].iloc[number]) for number in self.answered]

    @classmethod
    def read(cls, run: Path, record: Record, path: Path) -> Self:
        """Read the columns of a run's table out of another table, by name.

        Parameters
        ----------
        run : Path
            The folder of the run, for messages.
        record : Record
            Its ``run.json``.
        path : Path
            The file of the other table.

        Raises
        ------
        InputError
            The run is not on a table, or the file cannot be read or lacks a column.
        """
        import pandas as pd

        metadata = record.dataset.table
        if metadata is None:
            raise InputError(
                f"RUN must be a run on a table, but {run} is a run on images; give a run on a table"
            )
        kinds = Kinds(tuple(metadata.numbers), tuple(metadata.categories))
        columns, names = {*kinds.numbers, *kinds.categories}, {*kinds.numbers}
        if record.dataset.task == "regression":
            names.add(metadata.target)
        reading: dict[str, Any] = {"as_text": kinds.categories, "numbers": kinds.numbers}
        reading["missing"] = tuple(metadata.missing_values)
        frame, source = read_frame(
            path, header=False if metadata.without_header else None, **reading
        )
        if source.cells and not metadata.without_header and not columns <= {*frame.columns}:
            frame, source = read_frame(path, header=True, **reading)  # names that look like a row
        if source.cells and metadata.without_header and metadata.target.isdecimal():
            n_known = len(metadata.numbers) + len(metadata.categories) + len(metadata.left_out)
            if len(frame.columns) == n_known:  # without the target, the columns after it move up
                column_numbers = (str(number) for number in range(1, n_known + 2))
                old_names, new_names = (
                    list(map(str, frame)),
                    [n for n in column_numbers if n != metadata.target],
                )
                frame.columns = pd.Index(new_names)
                source = source.renamed(dict(zip(old_names, new_names, strict=True)))
        X = columns_of(frame, kinds, path, source)
        _refuse_other_units(X, metadata.units, source.columns.units, path)
        is_matrix = (record.dataset.scaling or {}).get("kind") != "table"
        has_gaps = X.isna().any(axis=1).to_numpy()
        answered = np.flatnonzero(~has_gaps) if metadata.missing == "drop" else np.arange(len(X))
        if has_gaps[answered].any() and (is_matrix or metadata.missing == "refuse"):
            name = next(name for name in X.columns if X[name].isna().any())
            raise InputError(
                f"TABLE must have a value in every cell, column {short(name)} of '{path}' has none "
                f"in {source.where(int(np.argmax(has_gaps)))}, and {run} was trained on rows "
                "without missing cells; fill it in, or leave the row out"
            )
        truth = None
        if metadata.target in frame.columns:
            labels = frame[metadata.target].astype(object)
            if record.dataset.task != "regression":
                written_labels = source.as_written(metadata.target)
                labels[:] = labels if written_labels is None else written_labels
            truth = np.array([level_of(label) for label in labels.iloc[answered]], dtype=object)
            truth[labels.isna().to_numpy()[answered]] = ""
        X = X.iloc[answered].reset_index(drop=True)
        left_out = {name for name, why in metadata.left_out if why == "id"}
        ids = frame[[name for name in frame.columns if name in left_out]].reset_index(drop=True)
        for name in map(str, ids):
            texts = pd.Series(source.as_written(name), dtype=object)
            if texts.str.match(r"0\d").any():
                ids[name] = texts
        source_notes = source.notes_on(names)
        return cls(
            path,
            np.ascontiguousarray(X.to_numpy()) if is_matrix else X,
            answered,
            len(frame),
            metadata.target,
            truth,
            ids,
            notes=(*source_notes, *_filled_in(X), *_new_levels(X, metadata.levels)),
        )

    @property
    def numbers(self) -> np.ndarray | None:
        """The truth as float64, with NaN where the text is no number."""
        import pandas as pd

        if self.truth is None:
            return None
        return pd.to_numeric(pd.Series(self.truth), errors="coerce").to_numpy(np.float64)

    def table(self, answer: np.ndarray, further_columns: Mapping[str, Any]) -> pd.DataFrame:
        """The predictions as a table, a row for each of ``n_rows``.

        Columns are ``row`` from 1, the ids, ``predicted`` and ``further_columns``.

        Parameters
        ----------
        answer : array of shape (n_answered,)
            Labels or numbers.
        further_columns : mapping of str to array of shape (n_answered,)
        """
        import pandas as pd

        table = pd.DataFrame({"predicted": answer, **further_columns}, index=self.answered)
        if len(table) < self.n_rows:  # or an empty cell would make ints floats, and flags text
            table = table.convert_dtypes(
                infer_objects=False, convert_string=False, convert_floating=False
            )
        table = table.reindex(np.arange(self.n_rows))
        taken_names = [name for name in self.ids if name in table.columns or name == "row"]
        ids = self.ids.rename(columns={name: f"{name} (of the table)" for name in taken_names})
        table = pd.concat([ids, table], axis=1)
        table.insert(0, "row", np.arange(1, self.n_rows + 1))
        return table

    def write(
        self,
        classes: np.ndarray | None,
        predicted: np.ndarray,
        output: Path | None,
        further_columns: Mapping[str, Any],
    ) -> list[str]:
        """Write the table of predictions to a file.

        Its rows are counted from 1, as in error messages.

        Parameters
        ----------
        classes : array of shape (n_classes,) or None
            Labels; None for a regression.
        predicted : array of shape (n_answered,)
            Class codes or numbers.
        output : Path or None
            A .csv or .parquet file, or a folder for NAME-predictions.csv; by default the folder
            of the table.
        further_columns : mapping of str to array of shape (n_answered,)

        Returns
        -------
        list of str
            Lines for the terminal.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        answer = predicted if classes is None else classes[predicted]
        lines, against = [], f"against column {short(self.target)}"
        if classes is not None:
            class_counts = counted_classes(answer).split(": ", 1)[1] if len(answer) else "nothing"
            lines.append(f"predicted  {class_counts}")
        elif len(answer):
            lines.append(
                f"predicted  from {answer.min():.6g} to {answer.max():.6g}, "
                f"on average {answer.mean():.6g}"
            )
        if self.truth is not None and classes is not None:
            names = np.array([level_of(label) for label in classes], dtype=object)
            is_known = np.isin(self.truth, names)
            if n_known := int(is_known.sum()):
                n_wrong = int(np.sum(names[predicted[is_known]] != self.truth[is_known]))
                n_unknown = int(np.sum(~is_known))
                unknown_note = f"; {n_unknown} rows have none that was learned" if n_unknown else ""
                error_text = f"{n_wrong / n_known * 100:.2f} % ({n_wrong} of {n_known:,})"
                lines.append(f"error      {error_text} {against}{unknown_note}")
        elif (truth := self.numbers) is not None:
            is_known = np.isfinite(truth)
            if is_known.any():
                mean_error = float(np.abs(answer[is_known] - truth[is_known]).mean())
                lines.append(
                    f"error      {mean_error:.6g} on average ({is_known.sum():,} rows) {against}"
                )
        table = self.table(answer, further_columns)
        output_path = output or self.path.parent
        output_path = (
            output_path / f"{self.path.stem}-predictions.csv"
            if output_path.is_dir()
            else output_path
        )
        columns = ", ".join(short(name)[1:-1] for name in table.columns[:8])
        more_columns = ", …" * (len(table.columns) > 8)
        try:
            output_path.parent.mkdir(parents=True, exist_ok=True)
            if output_path.suffix == ".parquet":
                write_table(table, output_path, index=False)
            else:
                for name, dtype in table.dtypes.items():
                    if dtype.kind not in "biufcmM":
                        table[name] = table[name].astype(object).map(_harmless)
                with replacing(output_path) as file:
                    table.rename(columns=_harmless).to_csv(file, index=False)
        except OSError as error:
            raise InputError(
                f"{opt('output')} must be a file that can be written, got {output_path}: "
                f"{error.strerror}; name another"
            ) from None
        n_unanswered = self.n_rows - len(self.answered)
        reason = "with missing cells" if self.unreadable is None else "that cannot be read"
        unanswered_note = (
            f", {n_unanswered} {reason} left without an answer" if n_unanswered else ""
        )
        input_line = f"table      {self.path}: {counted(self.n_rows, 'row')}"
        if self.unreadable is not None:
            input_line = f"images     {self.n_rows:,}"
        notes = [f"note       {note}" for note in self.notes]
        return [
            f"{input_line}{unanswered_note}",
            *notes,
            *lines,
            f"answers    {output_path}: {columns}{more_columns}",
        ]


def class_columns(prefix: str, classes: Iterable[Any], values: np.ndarray) -> dict[str, np.ndarray]:
    """A column of values for each class, named ``PREFIX_CLASS``.

    Parameters
    ----------
    prefix : str
        Such as "probability".
    classes : iterable of labels
    values : array of shape (n_rows, n_classes) or (n_rows,)
        Of one dimension: the decision values of the second of two classes; those of the first
        are their negatives.
    """
    if values.ndim == 1:
        values = np.column_stack([-values, values])
    return {f"{prefix}_{label}": column for label, column in zip(classes, values.T, strict=True)}


def _refuse_other_units(
    X: pd.DataFrame, learned: Mapping[str, str], units: Mapping[str, str], path: Path
) -> None:
    """Raise InputError if the numbers of a column are in another unit than those learned."""
    for name in X.columns:
        unit, new_unit = learned.get(name, ""), units.get(name, "")
        if new_unit != unit and X[name].notna().any():
            needed, present = (
                f"numbers with {short(word)}" if word else "numbers without a unit"
                for word in (unit, new_unit)
            )
            raise InputError(
                f"TABLE must have {needed} in column {short(name)}, as the run was trained on, "
                f"'{path}' has {present}; convert them"
            )


def _filled_in(X: pd.DataFrame) -> list[str]:
    """Notes on columns with missing values, which are imputed as the run imputed its own."""
    notes = []
    for name in X.columns:
        if n := int(X[name].isna().sum()):
            where = "" if n == len(X) else f" in {counted(n, 'row')}"
            notes.append(f"column {short(name)} has no value{where}: each is filled in")
    return notes


def _new_levels(X: pd.DataFrame, learned: Mapping[str, Sequence[str]]) -> list[str]:
    """Notes on levels that the table of the run did not have."""
    notes = []
    for name, levels in learned.items():
        new_cells = X[name][X[name].notna() & ~X[name].isin(levels)]
        if len(new_cells):
            words = new_cells.unique()
            notes.append(
                f"column {short(name)} has {counted(len(words), 'level')} that the run did not "
                f"learn: {list_names(words)}, in {counted(len(new_cells), 'row')}"
            )
    return notes


def _harmless(cell: Any) -> Any:
    """A cell that no spreadsheet executes: a formula gets an apostrophe in front."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
