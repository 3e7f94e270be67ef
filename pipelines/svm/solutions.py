"""What a path solver returns: the solutions of one gamma, and how each ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# How the solution of a binary problem ended.
CONVERGED, ITERATION_LIMIT, STALLED = 0, 1, 2


@dataclass
class Solutions:
    """Solutions of one gamma, for every fold, binary problem and C.

    Attributes
    ----------
    intercepts, objectives : float64 arrays of shape (n_folds, n_problems, n_C)
    iterations, status : int64 arrays of the same shape
    solved : int64 array of shape (n_folds, n_problems)
        How many C's were solved; the larger ones share the last solution.
    single : int64 array of shape (n_folds, n_problems)
        How many C's were solved from a kernel in single precision.
    seconds : float64 array of shape (n_folds, n_problems)
        Wall time on the thread that solved the problem.
    support : bool array of shape (n_folds, n_C, n)
        Whether a sorted row is a support vector of any problem.
    coefficients : float array of shape (n_folds, n, n_classes, n_C) or None
        ``ovo``: the multipliers of each sorted row in the problems of its class against each
        other class; float64, or float32 where that would be large.
    multipliers : float64 array of shape (1, n_classes, n_C, n) or None
        ``ovr`` with a single fold: the multipliers of every row. With several folds, only the
        decision values are kept.
    decisions : float32 array of shape (n_folds, n_problems, n_C, n) or None
        ``ovr``, and ``ovo`` with two classes: decision values of every row, whether it trained or
        not.
    """

    intercepts: np.ndarray
    objectives: np.ndarray
    iterations: np.ndarray
    status: np.ndarray
    solved: np.ndarray
    single: np.ndarray
    seconds: np.ndarray
    support: np.ndarray
    coefficients: np.ndarray | None = None
    multipliers: np.ndarray | None = None
    decisions: np.ndarray | None = None

    @property
    def pairs(self) -> np.ndarray:
        """``coefficients`` for one-vs-one, where they are never None."""
        assert self.coefficients is not None
        return self.coefficients

    @property
    def kept_decisions(self) -> np.ndarray:
        """``decisions``, where the search keeps them."""
        assert self.decisions is not None
        return self.decisions
