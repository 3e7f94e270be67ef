"""The data of a binary problem, the state of its solver, and the path of solutions.

Compiled functions share a few two-dimensional arrays whose rows have names, in place of many
arrays: each array that a function takes and passes on costs numba's compiler as much time as
some lines of arithmetic.
"""

from typing import NamedTuple

import numpy as np

from pipelines.svm.compiled import integers

# Rows of ``problem_data``, float64 (5, n), or (3, n) for a walk that starts from multipliers of 0.
#
# Y : the linear term of the dual objective: a label, +1 or -1, or, in a regression, an edge of the
#     tube around a target
# SIDE : +1 where a multiplier is at least 0, -1 where it is at most 0; for a classifier, the labels
# WEIGHT : times C it bounds a multiplier; 0 keeps a row out of training, while its residual is
#     still updated.  Each side needs a weight above 0.
# PULL_FIRST, PULL_SECOND : the kernel times the weights, over the rows of each side
Y, SIDE, WEIGHT, PULL_FIRST, PULL_SECOND = integers(0, 5)

# Rows of a walk's ``state``, float64 (11, n); an inner solve has the first six, of its own rows.
#
# RESIDUAL, BETA : ``y - K beta``, and the signed multipliers
# LOWER, UPPER : bounds of the multipliers
# RISE, FALL : work space of SMO
# OLD_... : the same at the previous C
# TRIAL_... : a second start for this C
# FACTORS : factors of the kernel rows in ``CHANGED`` that have to be subtracted from a residual
RESIDUAL, BETA, LOWER, UPPER, RISE, FALL = integers(0, 6)
OLD_RESIDUAL, OLD_BETA, TRIAL_RESIDUAL, TRIAL, FACTORS = integers(6, 11)

# Rows of a walk's ``numbers``, int64 (5, n).
#
# EAGER : rows in the order in which the first C gives them multipliers, if the second class is
#     the lighter one; otherwise the reverse of it
# CHANGED : kernel rows that have to be subtracted from a residual
# CHOSEN : 1 for a row that an inner solve needs, else 0
# MEMBERS, PLACE : the working set, and the position of each row in it, or -1
EAGER, CHANGED, CHOSEN, MEMBERS, PLACE = integers(0, 5)

# Initial values of counts, with the type they have in compiled functions.
ZERO, ONE = integers(0, 2)


class Path(NamedTuple):
    """The solutions for every C, which a walk fills.

    Attributes
    ----------
    betas : float64 array of shape (n_C, n)
        Signed multipliers.
    residuals : float32 array of shape (n_C, n), or (0, 0) where they are not needed
        ``y - residual + intercept`` is a row's decision value.
    intercepts, objectives : float64 arrays of shape (n_C,)
    iterations, status : int64 arrays of shape (n_C,)
    """

    betas: np.ndarray
    residuals: np.ndarray
    intercepts: np.ndarray
    objectives: np.ndarray
    iterations: np.ndarray
    status: np.ndarray

    def repeat_from(self, solved: int) -> None:
        """Copy the solution of C number ``solved - 1`` to all larger C's."""
        if solved == self.status.size:
            return
        self.iterations[solved:] = self.status[solved:] = 0
        for values in (self.betas, self.residuals, self.intercepts, self.objectives):
            values[solved:] = values[solved - 1 : solved]


def new_state(problem_data: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
    """``state`` and ``numbers`` of a walk that begins at ``C``, with all multipliers 0."""
    n = problem_data.shape[1]
    state, numbers = np.zeros((11, n)), np.empty((5, n), np.int64)
    numbers[PLACE] = -1
    if len(problem_data) > PULL_FIRST:
        total, difference = (
            float(problem_data[WEIGHT].sum()),
            float(problem_data[WEIGHT] @ problem_data[SIDE]),
        )
        first, second = (total + difference) / 2, (total - difference) / 2
        eager = problem_data[PULL_FIRST] * (1 / first)
        eager -= problem_data[PULL_SECOND] * (1 / second)
        eager *= C * min(first, second)
        eager -= problem_data[Y]
        numbers[EAGER] = np.argsort(eager)
    return state, numbers
