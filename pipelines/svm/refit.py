"""The best candidate on all training rows, as a kernel machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.data.dataset import rows_of
from pipelines.data.placement import Fold as Split
from pipelines.data.placement import FoldedData
from pipelines.svm.backends import Settings, load_backend
from pipelines.svm.backends.base import Cells, Work
from pipelines.svm.calibration import Calibration, fit_sigmoids
from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor


def fit_machine(
    data: FoldedData, C: float, gamma: float, classes: np.ndarray, solver: str, settings: Settings
) -> KernelMachine:
    """Fit a classifier on all training rows.

    Parameters
    ----------
    classes : array of shape (n_classes,), the labels that the codes ``data.y`` stand for
    solver : a name in ``BACKENDS``
    """
    backend, scaling = load_backend(solver, settings.device), data.scaling_for(None)
    support, coefficients, intercepts = backend.fit_parts(
        data.scaled(backend.device), data.y, C, gamma, settings
    )
    return KernelMachine(
        support_vectors=scaling.transform(rows_of(data.X, support)),
        coefficients=coefficients,
        intercepts=intercepts,
        classes_=classes,
        kernel=settings.kernel,
        gamma=gamma,
        decision=settings.decision,
        scaling=scaling,
    )


def fit_regressor(
    data: FoldedData, C: float, gamma: float, epsilon: float, settings: Settings
) -> KernelRegressor:
    """Fit a regression on all training rows; ``epsilon`` is in standard deviations of targets."""
    from pipelines.svm.cpu.regression import fit_regression
    from pipelines.svm.path_svr import target_scaling

    mean, scale = target_scaling(data.y)
    found = fit_regression(
        data.scaled("cpu"), (data.y - mean) / scale, C, gamma, epsilon,
        n_threads=settings.n_threads, memory_bytes=settings.memory_bytes, tol=settings.tol,
        max_iter=settings.max_iter, kernel=settings.kernel.name, degree=settings.kernel.degree,
        coef0=settings.kernel.coef0,
    )  # fmt: skip
    scaling = data.scaling_for(None)
    return KernelRegressor(
        support_vectors=scaling.transform(rows_of(data.X, found.support)),
        coefficients=found.dual_coef[:, None],
        intercepts=np.array([found.intercept]),
        kernel=settings.kernel,
        gamma=gamma,
        scaling=scaling,
        target_mean=mean,
        target_scale=scale,
    )


def calibrate(
    data: FoldedData, C: float, gamma: float, splits: Sequence[Split], solver: str,
    settings: Settings,
) -> Calibration:  # fmt: skip
    """Fit sigmoids to the decision values of rows that a fit has not seen.

    Without an ensemble: one model remains, the same as without calibration, so that predictions
    and stored size do not change. The scaling is learned within each split, so nothing of its
    validation rows leaks into their decision values.
    """
    backend, decisions = load_backend(solver, settings.device), list[np.ndarray]()
    # Where the scaling learns, every split has rows of its own.
    for some in [[split] for split in splits] if data.scaling.learns else [splits]:
        X = data.scaled(backend.device, rows=some[0][0] if data.scaling.learns else None)
        cells = Cells((gamma,), (C,), tuple(range(len(some))))
        for fit in backend.fit_cells(Work(X, data.y, some, cells, settings, decisions=True)):
            if fit.decisions is None:
                raise RuntimeError(f"split {len(decisions)} of the calibration {fit.status}")
            decisions.append(fit.decisions)
    rows = np.concatenate([validation for _, validation in splits])
    return fit_sigmoids(np.concatenate(decisions), data.y[rows])
