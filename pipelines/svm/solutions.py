"""What a path solver finds: the solutions of one gamma, and how each ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# How the solution of a binary problem ended.
CONVERGED, ITERATION_LIMIT, STALLED = 0, 1, 2


@dataclass
class Solutions:
    """Solutions of one gamma: ``n_folds`` x ``n_problems`` x ``n_C``.

    intercepts, objectives : float64; iterations, status : int64
    solved : int64 (n_folds, n_problems), the number of different solutions
    single : the same, of C's solved from a kernel in single precision
    seconds : float64 (n_folds, n_problems), wall time on the thread that solved it
    coefficients : float64, or float32 where that is large, (n_folds, n, n_classes, n_C), or None
        ``ovo``: the multipliers of each sorted row in the problem of its class
        against each other class.
    multipliers : float64 (1, n_classes, n_C, n) or None
        ``ovr`` of a single fold: the multipliers of every row; of several folds
        only the decision values are kept.
    decisions : float32 (n_folds, n_problems, n_C, n) or None
        ``ovr``, and ``ovo`` of two classes: decision values of every row, training and
        validation.
    support : bool (n_folds, n_C, n)
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
        """``coefficients`` of one-vs-one."""
        assert self.coefficients is not None
        return self.coefficients

    @property
    def kept_decisions(self) -> np.ndarray:
        """``decisions``, where they are kept."""
        assert self.decisions is not None
        return self.decisions
