"""A binary problem, the state of its solver, and the path of solutions.

Tuples of arrays, which compiled functions take and fill.
"""

from typing import NamedTuple

import numpy as np

from pipelines.svm.compiled import compiled


class BinaryProblem(NamedTuple):
    """The data of a binary problem.

    y : float64 (n,), what the dual objective is linear in: a label, +1 or -1, or in a
        regression the edge of the tube about a target
    side : float64 (n,), +1 where a multiplier is at least 0, -1 where it is at most 0;
        the labels themselves
    weight : float64 (n,)
        ``C * weight`` bounds a multiplier; 0 keeps a row out of training, and its
        residual is maintained all the same.  Each side needs a weight above 0.
    pull_first, pull_second : float64 (n,)
        ``kernel @ weight`` over the rows of each side; of length 0 where the walk shall
        start from multipliers of 0.
    """

    y: np.ndarray
    side: np.ndarray
    weight: np.ndarray
    pull_first: np.ndarray
    pull_second: np.ndarray


class State(NamedTuple):
    """The state of a walk along C; float64 (n,) all but ``rows``.

    beta, residual : the multipliers, and ``y - K beta``
    lower, upper : bounds of the multipliers
    old_... : the same at the C before
    trial, trial_residual : another start for this C
    rows, factors : kernel rows (int64), and their factors, that ``trial_residual`` lacks
    """

    beta: np.ndarray
    residual: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    old_beta: np.ndarray
    old_residual: np.ndarray
    old_lower: np.ndarray
    old_upper: np.ndarray
    trial: np.ndarray
    trial_residual: np.ndarray
    rows: np.ndarray
    factors: np.ndarray


class Path(NamedTuple):
    """The solution for every C, filled by a walk.

    betas : float32 or float64 (n_C, n)
    residuals : float32 or float64 (n_C, n), or (0, 0) where they are not wanted
        ``y - residual + intercept`` is a row's decision value.
    intercepts, objectives : float64 (n_C,)
    iterations, supports, status : int64 (n_C,)
    """

    betas: np.ndarray
    residuals: np.ndarray
    intercepts: np.ndarray
    objectives: np.ndarray
    iterations: np.ndarray
    supports: np.ndarray
    status: np.ndarray


@compiled()
def new_state(n: int) -> State:
    """Return room for the walk of a problem of n rows, its multipliers 0."""
    return State(
        np.zeros(n), np.empty(n), np.zeros(n), np.zeros(n),
        np.zeros(n), np.empty(n), np.zeros(n), np.zeros(n),
        np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n),
    )  # fmt: skip


@compiled()
def dual_objective(y: np.ndarray, beta: np.ndarray, residual: np.ndarray) -> float:
    """Return ``1/2 beta' K beta - y' beta``, the value LIBSVM reports as obj."""
    total = 0.0
    for k in range(y.size):
        total -= 0.5 * beta[k] * (y[k] + residual[k])
    return total
