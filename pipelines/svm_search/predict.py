"""Predict the rows of another table, or images, with the model of a stored grid search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.console import echo, print_error
from pipelines.data.image_files import ImageFormat
from pipelines.errors import InputError, program
from pipelines.run.new_rows import (
    RULE_OF_PICTURES,
    SHOWN,
    NewRows,
    add_what_is_asked,
    check_output,
    class_columns,
    record_of,
    refuse_both_or_neither,
)
from pipelines.run.options import OneLineParser
from pipelines.run_folder import names
from pipelines.run_folder.digests import refuse_changed
from pipelines.run_folder.record import Record
from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor


def main(argv: Sequence[str]) -> int:
    """Read the command line after ``predict``, and predict.

    Returns
    -------
    int
        Exit status: 0, 1 (an image has no answer) or 2 (none has one).

    Raises
    ------
    InputError
        An option, the run or the table cannot be used.
    """
    parser = OneLineParser(
        prog=f"{program('svm_grid')} predict",
        description="Predict the rows of a table with the model of a run. Columns are found by "
        "name, in any order; others are not looked at. Or predict what images show: "
        + RULE_OF_PICTURES,
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run of svm_grid")
    add_what_is_asked(parser)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="a .csv or .parquet file, or a folder for it (default: NAME-predictions.csv beside "
        "the table, or image-predictions.csv in the current folder)",
    )
    given = parser.parse_args(argv)
    refuse_both_or_neither(given.table, given.image)
    output, run = check_output(given.output), given.run
    record = record_of(run, "svm_grid")
    if given.table is not None:
        rows = NewRows.read(run, record, given.table)
    else:
        rows = _images(run, record, given.image)
        for why in rows.unreadable or ():
            print_error("svm_grid", why)
        if not len(rows.answered):
            return 2
    machine = load_model(run)
    n_features = machine.support_vectors.shape[1]
    if n_features != (len(getattr(machine.scaling, "layout", ())) or rows.X.shape[1]):
        raise InputError(
            f"RUN must hold a model of its own data, got {run / names.MODEL}, which takes "
            f"{n_features} features; resume the run to write it again"
        )
    if isinstance(machine, KernelRegressor):
        lines = rows.write(None, machine.predict(rows.X), output, {})
    else:
        codes = machine.predict_codes(rows.X)
        if machine.calibration is not None:
            values, kind = machine.predict_proba(rows.X), "probability"
        else:
            values, kind = machine.decision_function(rows.X), "decision"
            if values.ndim == 1:  # of two classes
                values = np.column_stack([-values, values])
        classes, lines = machine.classes_, list[str]()
        if rows.unreadable is not None:
            some = zip(rows.images[:SHOWN], classes[codes], strict=False)
            lines = [f"image      {path}: {label}" for path, label in some]
        if rows.unreadable is not None and (n := len(codes) - SHOWN) > 0:
            lines.append(f"           and {n:,} more in the table of answers")
        lines += rows.write(classes, codes, output, class_columns(kind, classes, values))
    for line in lines:
        echo(line)
    return 1 if rows.unreadable else 0


def _images(run: Path, record: Record, images: Sequence[Path]) -> NewRows:
    """Read images in the form of those of a run, or compute its features of them."""
    if record.image_form is None:
        raise InputError(
            f"RUN must be a run on images, got {run}, whose data are a table or which is of before "
            "images could be asked about; give a TABLE, or run it anew"
        )
    form = ImageFormat(**record.image_form.model_dump())
    rows = NewRows.of_images(form, images)
    if (features := record.options.features) is None or not len(rows.answered):
        return rows
    from pipelines.nn.features import Extractor

    if (known := record.features) is None:
        raise InputError(
            "RUN must hold features that can be computed of an image, got those of "
            f"'{features}'; run it anew with --features hog or a network"
        )
    extractor = Extractor.of(known.name, known.size, record.options.weights)
    if extractor.describe() != known.model_dump():
        raise InputError(
            f"RUN needs the weights of {known.name} that it was run with, and they have changed; "
            "put the file back, or run it anew"
        )
    shape = (form.channels, form.height, form.width)
    return replace(rows, X=extractor.features(rows.X, shape))


def load_model(run: Path) -> KernelMachine | KernelRegressor:
    """Return the model of a run, which takes rows as the run read them.

    Raises
    ------
    InputError
        There is none, or its file has changed since.
    """
    record = record_of(run, "svm_grid")
    refuse_changed(run, record.files, names.MODEL)
    is_regression = record.best is not None and record.best.epsilon is not None
    return (KernelRegressor if is_regression else KernelMachine).load(run / names.MODEL)
