"""What a ``FittedPath`` says, in double precision."""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels


def decision_values(model, X_train, X, gamma, kernel="rbf"):
    """Decision values of every problem, float64 of shape (len(X), n_problems)."""
    rows, support_rows = np.float64(X), np.float64(X_train[model.support])
    parameters = {"gamma": gamma, "degree": 3, "coef0": 0.0}
    values = pairwise_kernels(rows, support_rows, metric=kernel, filter_params=True, **parameters)
    return values @ model.dual_coef.T + model.intercept
