"""The one task after the search: the best candidate on all training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.dataset import rows_of
from pipelines.data.placement import FoldedData
from pipelines.data.preparation import Fitted
from pipelines.select.calibration import Calibration
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.multiclass import codes_of, margins
from pipelines.svm.solvers import Settings, load_solver

if TYPE_CHECKING:
    from pipelines.svm.solver_classifier import SolverClassifier


@dataclass(frozen=True, eq=False)
class Refit:
    """The best candidate, to be fitted again.

    Attributes
    ----------
    classes : array of shape (n_classes,), the labels
    probability : bool
        Whether to calibrate it, which takes a fit of each fold besides.
    """

    C: float
    gamma: float
    classes: np.ndarray
    probability: bool = False
    cost: float = 1.0

    @property
    def name(self) -> str:
        """As the dashboard shows it."""
        return f"refit-gamma={self.gamma:.6g} C={self.C:.6g}"


@dataclass(frozen=True)
class Tested:
    """The best candidate's model, and what it says of the test rows.

    Attributes
    ----------
    machine : KernelMachine, calibrated if that was asked for
    predicted : int array of shape (n_test,), class codes
        The machine's own, whether it is calibrated or not.
    margin : float64 array of shape (n_test,), see ``margins``
    probabilities : float64 array of shape (n_test, n_classes), or None
    """

    machine: KernelMachine
    predicted: np.ndarray
    margin: np.ndarray
    probabilities: np.ndarray | None = None


def refit_estimator(
    data: FoldedData, unit: Refit, solver: str, settings: Settings
) -> tuple[Any, Calibration | None]:
    """Fit on all training rows.

    Returns
    -------
    estimator : of the labels
        The solver's own; a ``KernelMachine`` in place of one that lives on a GPU,
        so that it can be used where there is none.
    calibration : Calibration or None
        Of the estimator's decision values.
    """
    found = load_solver(solver, settings.device)
    if unit.probability:
        classifier, calibration = _calibrated(data, unit, solver, settings)
        own = classifier.fitted_ if found.device == "cpu" else classifier.machine_
        return own, calibration
    labels, settings = unit.classes[data.y], for_labels(settings, unit.classes)
    fitted = found.fit(data.scaled(found.device), labels, unit.C, unit.gamma, settings)
    if found.device == "cpu":
        return fitted, None
    scaling = data.scaling_for(None)
    parts = found.parts(fitted, data.X)
    return machine_of(parts, data.X, scaling, unit.classes, unit.gamma, settings), None


def refit_and_test(data: FoldedData, unit: Refit, solver: str, settings: Settings) -> Tested:
    """Fit on all training rows and predict the test rows, once."""
    if unit.probability:
        classifier, calibration = _calibrated(data, unit, solver, settings)
        machine = replace(classifier.machine_, calibration=calibration)
        return Tested(
            machine, *_predicted(machine, data.X_test), machine.predict_proba(data.X_test)
        )
    found = load_solver(solver, settings.device)
    parts = found.fit_parts(data.scaled(found.device), data.y, unit.C, unit.gamma, settings)
    scaling = data.scaling_for(None)
    machine = machine_of(parts, data.X, scaling, unit.classes, unit.gamma, settings)
    return Tested(machine, *_predicted(machine, data.X_test))


def _predicted(machine: KernelMachine, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Class codes and margins, from decision values that are computed once."""
    values, form = machine.decision_values(X), (len(machine.classes_), machine.decision)
    codes = codes_of(values, *form)
    return codes, margins(values, codes, *form)


def for_labels(settings: Settings, classes: np.ndarray) -> Settings:
    """Settings for a fit on labels; those of a search have factors for class codes."""
    if not isinstance(settings.class_weight, dict):
        return settings
    labels = classes.tolist()
    factors = {labels[code]: factor for code, factor in settings.class_weight.items()}
    return replace(settings, class_weight=factors)


def _calibrated(
    data: FoldedData, unit: Refit, solver: str, settings: Settings
) -> tuple[SolverClassifier, Calibration]:
    """Fit on all rows; sigmoids from the decision values of rows that a fit has not seen.

    Without an ensemble: one model remains, the same as without calibration, so that
    predictions and stored size do not change. The scaling is learned within each
    fold, so nothing of a fold's validation rows leaks into its decision values.
    """
    from sklearn.calibration import CalibratedClassifierCV

    from pipelines.svm.solver_classifier import SolverClassifier

    settings = replace(for_labels(settings, unit.classes), scoring=None)
    classifier = SolverClassifier(solver, unit.C, unit.gamma, settings, data.scaling, unit.classes)
    calibrated = CalibratedClassifierCV(
        classifier, method="sigmoid", cv=list(data.folds), ensemble=False
    )
    calibrated.fit(data.X, data.y)
    return calibrated.calibrated_classifiers_[0].estimator, Calibration.of(calibrated)


def machine_of(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    X: Any,
    scaling: Fitted,
    classes: np.ndarray,
    gamma: float,
    settings: Settings,
) -> KernelMachine:
    """A fit as plain numbers.

    Parameters
    ----------
    parts : what ``Solver.parts`` gives
    X : array of shape (n_samples, n_features), the rows it was fitted on, unscaled
    scaling : the scaling of those rows
    classes : labels of shape (n_classes,)
    """
    support, coefficients, intercepts = parts
    return KernelMachine(
        support_vectors=scaling.transform(rows_of(X, support)),
        coefficients=coefficients,
        intercepts=intercepts,
        classes_=classes,
        kernel=settings.kernel,
        gamma=gamma,
        decision=settings.decision,
        scaling=scaling,
    )
