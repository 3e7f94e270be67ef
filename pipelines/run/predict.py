"""``COMMAND predict RUN``: predict the rows of a table, or images, with the model of a run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pipelines.commands import job_of
from pipelines.console import echo, print_error
from pipelines.errors import InputError, error_line, nearest, opt
from pipelines.run.options import argument, list_option, option, parse_options

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.run.new_rows import NewRows
    from pipelines.run_folder.record import Record

SHOWN = 20  # images listed on the terminal, and shown in figures
RULE_OF_IMAGES = (
    "Photographs are resized and cropped like the training images. Drawings and handwriting are "
    "converted to greyscale, and images with a light background are inverted if the training "
    "images have a dark one; what is drawn is then scaled, thickened and centred like theirs."
)
TABLES = (".csv", ".parquet")  # suffixes that a table of predictions may have


@dataclass(frozen=True)
class PredictOptions:
    """Options of ``predict``; a command with further ones has a subclass.

    The help begins with ``description``. A command that ``has_figures`` of images puts them into
    the folder ``output``, which is made for them.
    """

    description: ClassVar[str] = (
        "Predict the rows of a table, or your own images, with the model of a run. Columns are "
        "matched by name, in any order; others are ignored. " + RULE_OF_IMAGES
    )
    has_figures: ClassVar[bool] = False
    ways_out: ClassVar[Mapping[str, str]] = {
        "--dataset": "predict takes the file as TABLE, after RUN"
    }

    run: Path = argument("RUN", "the folder of a finished run")
    table: Path | None = argument(
        "TABLE", "a table: .csv, .tsv, .data, .txt, .parquet or .npz", default=None
    )
    image: tuple[Path, ...] = list_option(
        (),
        "images that Pillow reads, such as .png and .jpg, and folders of them",
        parse=Path,
        metavar="FILE",
    )
    output: Path | None = option(
        None,
        "a .csv or .parquet file, or a folder for it (default: NAME-predictions.csv beside the "
        "table, or image-predictions.csv in the current folder)",
        parse=Path,
        metavar="FILE",
    )

    def check(self) -> None:
        """Refuse both or neither of a table and images, and an output that can be no table."""
        if (self.table is None) == (not self.image):
            raise InputError(
                "predict needs a TABLE or --image, one of them; --help lists the options"
            )
        path, any_folder = self.output, self.has_figures and self.table is None
        if path is None or path.suffix in TABLES or path.is_dir() or any_folder:
            return
        raise InputError(
            f"{opt('output')} must be a file that ends in .csv or .parquet, or a folder that "
            f"exists, got {path}; try {path.with_suffix('.csv')}"
        )


@dataclass(frozen=True, eq=False)
class ModelAnswer:
    """What a model predicts for rows.

    Attributes
    ----------
    classes : array of shape (n_classes,) or None
        Labels; None for a regression.
    predicted : array of shape (n_rows,)
        Class codes or numbers.
    columns : mapping of str to array of shape (n_rows,)
        Further columns of the table of predictions.
    of_images : sequence of str, optional
        Lines on single images; by default the classes of the first ones.
    remarks : sequence of str
        Lines that come after all others.
    """

    classes: np.ndarray | None
    predicted: np.ndarray
    columns: Mapping[str, Any] = field(default_factory=dict)
    of_images: Sequence[str] | None = None
    remarks: Sequence[str] = ()


def main(
    command: str,
    options_class: type[PredictOptions],
    predict_rows: Callable[[NewRows, Any], ModelAnswer],
    argv: Sequence[str],
) -> int:
    """Read the command line after ``COMMAND predict``, and predict.

    Parameters
    ----------
    command : str
    options_class : type
        The dataclass whose fields are the options.
    predict_rows : function of rows and options
        ``predict_rows`` of the command, see ``Job``.
    argv : sequence of str
        Words as they are typed.

    Returns
    -------
    int
        Exit status: 0, 1 (an image has no answer) or 2 (none has one).

    Raises
    ------
    InputError
        An option, the run or the table cannot be used, or the answers cannot be written.
    """
    from pipelines.data.image_files import ImageFormat
    from pipelines.run.new_rows import NewRows, record_of
    from pipelines.run_folder.names import RECORD, REPORT
    from pipelines.run_folder.record import Record

    options, _ = parse_options(options_class, f"{command} predict", options_class.description, argv)
    record = record_of(options.run, command, Record)
    if (file := options.output) is not None and file.exists():
        run_files = (options.run / name for name in (RECORD, REPORT, *record.files))
        inputs = [path for path in (options.table, *run_files) if path is not None]
        if file.is_file() and any(path.exists() and file.samefile(path) for path in inputs):
            raise InputError(
                f"{opt('output')} must be a file of its own, got {file}, which predict reads or "
                "the run left; name another"
            )
    if options.table is not None:
        rows = _rows_of_table(options.run, record, options.table)
    elif record.image_form is None:
        raise InputError(
            f"RUN must be a run on images, got {options.run}, whose data are a table or which is "
            "of before images could be asked about; give a TABLE, or run it anew"
        )
    else:
        rows = NewRows.of_images(ImageFormat(**record.image_form.model_dump()), options.image)
    for reason in rows.unreadable or ():
        print_error(command, reason)
    if rows.unreadable is not None and not len(rows.answered):
        return 2
    model_answer = _predicted(predict_rows, rows, options)
    for line in (
        *(
            _of_images(rows, model_answer)
            if model_answer.of_images is None
            else model_answer.of_images
        ),
        *rows.write(
            model_answer.classes, model_answer.predicted, options.output, model_answer.columns
        ),
        *model_answer.remarks,
    ):
        echo(line)
    return 1 if rows.unreadable else 0


def _rows_of_table(run: Path, record: Record, table: Path) -> NewRows:
    from pipelines.run.new_rows import NewRows

    try:
        return NewRows.read(run, record, table)
    except InputError as error:  # readers of tables take the file for a data set
        words = error.flagged().replace("--dataset", "TABLE")
        problem, _, way_out = words.rpartition("; ")
        if problem and "--" in way_out:  # an option of the run, which predict does not have
            words = f"{problem}; correct TABLE, or leave such rows out"
        raise InputError(words) from None


def _predicted(
    predict_rows: Callable[[NewRows, Any], ModelAnswer], rows: NewRows, options: PredictOptions
) -> ModelAnswer:
    try:
        return predict_rows(rows, options)
    except InputError:
        raise
    except ValueError as error:  # a model cannot take the values
        name = "images" if options.table is None else f"'{options.table}'"
        raise InputError(
            f"predict needs rows that the model can take, got {name}: {error_line(error)}; leave "
            "such rows out"
        ) from None


def predict_frame(run: Path, rows: Any, **code: Any) -> pd.DataFrame:
    """Predict rows that are in memory or in a file, as the command ``predict`` does.

    Parameters
    ----------
    run : Path
        The folder of a finished run.
    rows : DataFrame, array-like, str or path
        A DataFrame with the columns of the run's table, or the path of such a table; an array of
        shape (n_rows, n_features), which for images are their pixels; for a run on images also
        the path of an image or of a folder of images.
    **code
        The user's own code that the run names, such as ``network``.

    Returns
    -------
    DataFrame
        The columns that ``predict`` writes, a row for each of ``rows``.

    Raises
    ------
    InputError
        The run has no model that predicts, or the rows are not those it can take.
    """
    import pandas as pd

    from pipelines.run_folder.record import Record, read_record

    _, record = read_record(run, Record)
    job = job_of(record.command)
    if job is None or job.predict_options_class is None:
        raise InputError(
            f"predict needs a run with a model, got {run}, which is a run of {record.command}; "
            "take one of svm_grid, nn_bagging or cross_validate"
        )
    parameter_names = {"network"} & {field.name for field in fields(job.predict_options_class)}
    if wrong_name := next(iter(code.keys() - parameter_names), None):
        way_out = nearest(wrong_name, parameter_names, "leave it out")
        raise InputError(f"{wrong_name} is not a parameter of predict of this run; {way_out}")
    _, record = read_record(run, job.record)
    with TemporaryDirectory() as folder:
        table, is_path = Path(folder) / "rows.parquet", isinstance(rows, str | os.PathLike)
        is_array = not is_path and not isinstance(rows, pd.DataFrame)
        try:
            if is_path:
                table = Path(rows).expanduser()
                new_rows = _rows_of_path(run, record, table)
            elif is_array and record.dataset.table is None:
                new_rows = _rows_of_array(run, record, np.asarray(rows))
            else:
                frame = _as_frame(rows, record) if is_array else rows
                _write_frame(frame, table)
                new_rows = _rows_of_table(run, record, table)
            options = job.predict_options_class(run=run, table=table, **code)
            model_answer = _predicted(job.predict_rows, new_rows, options)
        except InputError as error:
            words = str(error).replace("TABLE", "rows").replace("RUN must", "the run must")
            if not is_path:
                rows_type = "array" if is_array else "DataFrame"
                words = words.replace(f"'{table}'", f"the {rows_type}")
            raise InputError(words) from None
    for note in new_rows.notes:
        warnings.warn(note, UserWarning, stacklevel=3)
    answer = (
        model_answer.predicted
        if model_answer.classes is None
        else model_answer.classes[model_answer.predicted]
    )
    return new_rows.table(answer, model_answer.columns)


def _rows_of_path(run: Path, record: Record, path: Path) -> NewRows:
    from pipelines.data.image_files import ImageFormat
    from pipelines.run.new_rows import NewRows

    if record.image_form is None:
        return _rows_of_table(run, record, path)
    rows = NewRows.of_images(ImageFormat(**record.image_form.model_dump()), [path])
    for reason in rows.unreadable or ():
        warnings.warn(reason, UserWarning, stacklevel=4)
    if not len(rows.answered):
        raise InputError(f"rows must be images that can be read, got {path}; name others")
    return rows


def _rows_of_array(run: Path, record: Record, X: np.ndarray) -> NewRows:
    """Rows from an array, without names of columns; images may have any shape per row."""
    import pandas as pd

    from pipelines.run.new_rows import NewRows

    width = record.dataset.n_features
    if record.dataset.image_shape is not None:
        X, width = X.reshape(len(X), -1) if X.ndim > 1 else X, prod(record.dataset.image_shape)
    if X.ndim != 2 or X.dtype.kind not in "biuf" or (width is not None and X.shape[1] != width):
        raise InputError(
            f"rows must be numbers of shape (n_rows, {width}), as {run} was trained on, got an "
            f"array of {X.dtype} of shape {X.shape}; reshape it"
        )
    ids = pd.DataFrame(index=range(len(X)))
    return NewRows(Path("rows"), X, np.arange(len(X)), len(X), "", None, ids)


def _as_frame(rows: Any, record: Record) -> pd.DataFrame:
    """An array as a DataFrame with the columns of the run's table, in their order there."""
    import pandas as pd

    names, X = record.dataset.columns, np.asarray(rows)
    if X.ndim != 2 or X.shape[1] != len(names):
        raise InputError(
            f"rows must have the {len(names)} columns {', '.join(names[:8])}"
            f"{', …' * (len(names) > 8)}, got an array of shape {X.shape}; pass a DataFrame"
        )
    return pd.DataFrame(X, columns=list(names)).infer_objects()


def _write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write rows as a table that ``predict`` reads; columns of mixed types become text."""
    import pyarrow as pa

    if not len(frame):
        raise InputError("rows must be at least one, got an empty DataFrame; pass some")
    frame = frame.reset_index(drop=True)
    frame.columns = frame.columns.map(str)
    for name in frame.columns[[dtype.kind == "O" for dtype in frame.dtypes]]:
        column = frame[name]
        try:
            if column.ndim == 1:
                pa.array(column, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            frame[name] = column.map(str, na_action="ignore")
    try:
        frame.to_parquet(path, index=False)
    except ValueError as error:
        raise InputError(
            f"rows must be a table of plain cells under names that differ, got a DataFrame that is "
            f"none ({error_line(error)}); correct it"
        ) from None


def _of_images(rows: NewRows, model_answer: ModelAnswer) -> list[str]:
    """Lines with the classes of the first images; none for the rows of a table."""
    if rows.unreadable is None or model_answer.classes is None:
        return []
    labelled_images = zip(
        rows.images[:SHOWN], model_answer.classes[model_answer.predicted], strict=False
    )
    lines = [f"image      {path}: {label}" for path, label in labelled_images]
    if (n := len(model_answer.predicted) - SHOWN) > 0:
        lines.append(f"           and {n:,} more in the table of answers")
    return lines


def load_model(run: Path, **code: Any) -> Any:
    """The model of a run of any command, for rows as the run read them.

    None if the command keeps no model. ``code`` is the user's own code that the run names, for
    commands that take some.

    Raises
    ------
    InputError
        The folder is none of a run, the run kept no model, or its files have changed since.
    """
    from pipelines.run_folder.digests import refuse_changed
    from pipelines.run_folder.record import Record, read_record

    _, record = read_record(run, Record)
    job = job_of(record.command)
    if job is None or not job.model_files:
        return None
    refuse_changed(run, record.files, *job.model_files)
    return job.load_model(run, **code)


def refuse_width(file: Path, n_features: int, width: int) -> None:
    """Raise InputError unless a model takes as many features as the rows have."""
    if n_features != width:
        raise InputError(
            f"RUN must hold a model of its own data, got {file}, which takes {n_features} "
            "features; resume the run to write it again"
        )
