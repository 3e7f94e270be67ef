"""What a ``FittedPath`` says, in double precision."""

from __future__ import annotations

import numpy as np

from pipelines.svm.cpu.exact import exact_values
from pipelines.svm.cpu.fit import FittedPath
from pipelines.svm.kernel import Kernel


def decision_values(
    model: FittedPath, support_rows: np.ndarray, X: np.ndarray, form: Kernel, gamma: float
) -> np.ndarray:
    """Decision values of every problem, in float64.

    support_rows : float (n_support, n_features), ``X_train[model.support]``

    Returns float64 (len(X), n_problems).
    """
    mean = support_rows.mean(axis=0, dtype=np.float64) if form.of_distances else 0.0
    values = exact_values(
        np.subtract(X, mean, dtype=np.float64),
        np.subtract(support_rows, mean, dtype=np.float64),
        form.at(gamma),
    )
    return values @ model.dual_coef.T + model.intercept


def predict_codes(model: FittedPath, values: np.ndarray) -> np.ndarray:
    """Class numbers from decision values, as LIBSVM votes or by the largest value."""
    if model.problems[0].second is None:
        return values.argmax(axis=1)
    votes = np.zeros((len(values), len(model.classes)), np.int64)
    for p, problem in enumerate(model.problems):
        wins = values[:, p] > 0
        votes[:, problem.first] += wins
        votes[:, problem.second] += ~wins
    return votes.argmax(axis=1)
