"""The model of a stored grid search, and its predictions for new rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipelines.run.new_rows import NewRows, class_columns, record_of
from pipelines.run.predict import ModelAnswer, load_model, refuse_width
from pipelines.run_folder import names
from pipelines.search.image_features import features_of_rows
from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor
from pipelines.svm_search.record import SvmRecord


def load_machine(run: Path) -> KernelMachine | KernelRegressor:
    """Load the model of a run; it takes rows in the form in which the run read them."""
    record = record_of(run, "svm_grid", SvmRecord)
    is_regression = record.best is not None and record.best.epsilon is not None
    machine = (KernelRegressor if is_regression else KernelMachine).load(run / names.MODEL)
    return replace(machine, columns=record.dataset.columns)


def predict_with_machine(rows: NewRows, run: Path) -> ModelAnswer:
    """The predictions of a run's model for new rows, with probabilities or decision values."""
    machine, X = load_model(run), features_of_rows(rows, run)
    width = len(getattr(machine.scaling, "layout", ())) or X.shape[1]
    refuse_width(run / names.MODEL, machine.support_vectors.shape[1], width)
    if isinstance(machine, KernelRegressor):
        return ModelAnswer(None, machine.predict(X))
    quantity, values = "decision", machine.decision_function
    if machine.calibration is not None:
        quantity, values = "probability", machine.predict_proba
    classes = machine.classes_
    return ModelAnswer(
        classes, machine.predict_codes(X), class_columns(quantity, classes, values(X))
    )
