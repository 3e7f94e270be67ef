"""Predict the rows of another table with the model of a stored grid search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipelines.console import echo
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser
from pipelines.run_folder import names
from pipelines.run_folder.digests import refuse_changed
from pipelines.run_folder.records.svm_grid import SvmRecord
from pipelines.search.new_rows import NewRows, check_output, class_columns, record_of
from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor


def main(argv: Sequence[str]) -> int:
    """Read the command line after ``predict``, and predict.

    Returns
    -------
    int
        Exit status 0.

    Raises
    ------
    InputError
        An option, the run or the table cannot be used.
    """
    parser = OneLineParser(
        prog="python -m pipelines.svm_grid predict",
        description="Predict the rows of a table with the model of a run. Columns are found by "
        "name, in any order; others are not looked at.",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run of svm_grid")
    parser.add_argument("table", type=Path, metavar="TABLE", help="a file as --dataset takes it")
    parser.add_argument(
        "--output", type=Path, metavar="FILE",
        help="a .csv or .parquet file (default: NAME-predictions.csv beside the table)",
    )  # fmt: skip
    given = parser.parse_args(argv)
    for line in predict(given.run, given.table, check_output(given.output)):
        echo(line)
    return 0


def predict(run: Path, table: Path, output: Path | None = None) -> list[str]:
    """Write the predictions of a table by the model of a run; return lines on them.

    Raises
    ------
    InputError
        The run has no such model, or the table cannot be read or answered.
    """
    record = record_of(run, SvmRecord, "svm_grid")
    refuse_changed(run, record.files, names.MODEL)
    rows = NewRows.read(run, record, table)
    is_regression = record.best is not None and record.best.epsilon is not None
    machine = (KernelRegressor if is_regression else KernelMachine).load(run / names.MODEL)
    n_features = machine.support_vectors.shape[1]
    if n_features != (len(getattr(machine.scaling, "layout", ())) or rows.X.shape[1]):
        raise InputError(
            f"RUN must hold a model of its own data, got {run / names.MODEL}, which takes "
            f"{n_features} features; resume the run to write it again"
        )
    if isinstance(machine, KernelRegressor):
        return rows.write_numbers(machine.predict(rows.X), output)
    codes = machine.predict_codes(rows.X)
    if machine.calibration is not None:
        values, kind = machine.predict_proba(rows.X), "probability"
    else:
        values, kind = machine.decision_function(rows.X), "decision"
        if values.ndim == 1:  # of two classes
            values = np.column_stack([-values, values])
    return rows.write(
        machine.classes_, codes, output, class_columns(kind, machine.classes_, values)
    )
