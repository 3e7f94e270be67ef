"""The one task after the search: the best candidate on all training rows, and its test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.data.dataset import rows_of
from pipelines.data.placement import Fold as Split
from pipelines.data.placement import FoldedData
from pipelines.data.preparation import Fitted
from pipelines.svm.backends import Settings, load_backend
from pipelines.svm.backends.base import Cells
from pipelines.svm.calibration import Calibration, fit_sigmoids
from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor
from pipelines.svm.multiclass import codes_of, margins


@dataclass(frozen=True, eq=False)
class Refit:
    """The best candidate, to be fitted again.

    Attributes
    ----------
    classes : array of shape (n_classes,), the labels
    calibrate_on : sequence of splits
        Those to calibrate probabilities on, which takes a fit of each besides; none for none.
    epsilon : float, of a regression, in standard deviations of the targets
    """

    C: float
    gamma: float
    classes: np.ndarray
    calibrate_on: Sequence[Split] = ()
    epsilon: float | None = None
    cost: float = 1.0

    @property
    def name(self) -> str:
        """The task's name on the dashboard."""
        return f"refit-gamma={self.gamma:.6g} C={self.C:.6g}"


@dataclass(frozen=True)
class Tested:
    """The best candidate's model, and its predictions of the test rows.

    Attributes
    ----------
    machine : KernelMachine, calibrated if that was asked for
    predicted : int array of shape (n_test,), class codes; the machine's own, whether it is
        calibrated or not; float64 of a regression
    margin : float64 array of shape (n_test,), see ``margins``; None of a regression
    probabilities : float64 array of shape (n_test, n_classes), or None
    """

    machine: KernelMachine | KernelRegressor
    predicted: np.ndarray
    margin: np.ndarray | None = None
    probabilities: np.ndarray | None = None


def refit_and_test(data: FoldedData, refit: Refit, solver: str, settings: Settings) -> Tested:
    """Fit on all training rows and predict the test rows, once."""
    if refit.epsilon is not None:
        return _refit_regression(data, refit, settings)
    backend = load_backend(solver, settings.device)
    support, coefficients, intercepts = backend.fit_parts(
        data.scaled(backend.device), data.y, refit.C, refit.gamma, settings
    )
    scaling: Fitted = data.scaling_for(None)
    machine = KernelMachine(
        support_vectors=scaling.transform(rows_of(data.X, support)),
        coefficients=coefficients,
        intercepts=intercepts,
        classes_=refit.classes,
        kernel=settings.kernel,
        gamma=refit.gamma,
        decision=settings.decision,
        scaling=scaling,
    )
    if len(refit.calibrate_on):
        machine = replace(machine, calibration=calibrate(data, refit, solver, settings))
    values, form = machine.decision_values(data.X_test), (len(refit.classes), settings.decision)
    codes = codes_of(values, *form)
    probabilities = machine.predict_proba(data.X_test) if machine.calibration else None
    return Tested(machine, codes, margins(values, codes, *form), probabilities)


def _refit_regression(data: FoldedData, refit: Refit, settings: Settings) -> Tested:
    """Return the regression on standardised targets."""
    assert refit.epsilon is not None
    from pipelines.svm.cpu.regression import fit_regression
    from pipelines.svm.path_svr import target_scaling

    mean, scale = target_scaling(data.y)
    found = fit_regression(
        data.scaled("cpu"), (data.y - mean) / scale, refit.C, refit.gamma, refit.epsilon,
        n_threads=settings.n_threads, memory_bytes=settings.memory_bytes, tol=settings.tol,
        max_iter=settings.max_iter, kernel=settings.kernel.name, degree=settings.kernel.degree,
        coef0=settings.kernel.coef0,
    )  # fmt: skip
    scaling: Fitted = data.scaling_for(None)
    machine = KernelRegressor(
        support_vectors=scaling.transform(rows_of(data.X, found.support)),
        coefficients=found.dual_coef[:, None],
        intercepts=np.array([found.intercept]),
        kernel=settings.kernel,
        gamma=refit.gamma,
        scaling=scaling,
        target_mean=mean,
        target_scale=scale,
    )
    return Tested(machine, machine.predict(data.X_test))


def calibrate(data: FoldedData, refit: Refit, solver: str, settings: Settings) -> Calibration:
    """Fit sigmoids to the decision values of rows that a fit has not seen.

    Without an ensemble: one model remains, the same as without calibration, so that predictions
    and stored size do not change. The scaling is learned within each split, so nothing of its
    validation rows leaks into their decision values.
    """
    backend, values = load_backend(solver, settings.device), dict[int, np.ndarray]()

    def fitted(splits: Sequence[Split], numbers: Sequence[int], X: Any) -> None:
        cells = Cells((refit.gamma,), (refit.C,), tuple(range(len(splits))))
        fits = backend.fit_cells(X, data.y, splits, cells, settings, decisions=True)
        for number, fit in zip(numbers, fits, strict=True):
            if fit.decisions is None:
                raise RuntimeError(f"split {number} of the calibration {fit.status}")
            values[number] = fit.decisions

    if data.scaling.learns:
        for number, split in enumerate(refit.calibrate_on):
            fitted([split], [number], data.scaled(backend.device, rows=split[0]))
    else:
        numbers = range(len(refit.calibrate_on))
        fitted(refit.calibrate_on, numbers, data.scaled(backend.device))
    rows = np.concatenate([validation for _, validation in refit.calibrate_on])
    found = np.concatenate([values[number] for number in range(len(refit.calibrate_on))])
    return fit_sigmoids(found, data.y[rows])
