"""A binary problem, the state of its solver, and the path of solutions.

What compiled functions share lies in few two-dimensional arrays whose rows have names: to
take an array, and to hand it on, costs numba's compiler as much as some lines of arithmetic.
"""

from typing import NamedTuple

import numpy as np

from pipelines.svm.compiled import integers

# Rows of a problem's data, float64 (5, n), or (3, n) where the walk shall start from multipliers
# of 0.
#
# Y : what the dual objective is linear in: a label, +1 or -1, or in a regression the edge of
#     the tube about a target
# SIDE : +1 where a multiplier is at least 0, -1 where it is at most 0; the labels themselves
# WEIGHT : C times it bounds a multiplier; 0 keeps a row out of training, and its residual is
#     maintained all the same.  Each side needs a weight above 0.
# PULL_FIRST, PULL_SECOND : the kernel times the weights, over the rows of each side
Y, SIDE, WEIGHT, PULL_FIRST, PULL_SECOND = integers(0, 5)

# Rows of a walk's state, float64 (11, n); an inner solve has the first six, of its rows.
#
# RESIDUAL, BETA : ``y - K beta``, and the multipliers
# LOWER, UPPER : bounds of the multipliers
# RISE, FALL : work space of SMO
# OLD_... : the same at the C before
# TRIAL_... : another start for this C
# FACTORS : of the kernel rows in ``CHANGED`` that a residual lacks
RESIDUAL, BETA, LOWER, UPPER, RISE, FALL = integers(0, 6)
OLD_RESIDUAL, OLD_BETA, TRIAL_RESIDUAL, TRIAL, FACTORS = integers(6, 11)

# Rows of a walk's row numbers, int64 (5, n).
#
# EAGER : rows in the order in which the first C gives them multipliers if the second class is
#     the lighter one, else the last first
# CHANGED : kernel rows that a residual lacks
# CHOSEN : 1 for a row that an inner solve needs, else 0
# MEMBERS, PLACE : the working set, and where in it each row is, or -1
EAGER, CHANGED, CHOSEN, MEMBERS, PLACE = integers(0, 5)

# Of the type of a count, to begin one with.
ZERO, ONE = integers(0, 2)


class Path(NamedTuple):
    """The solution for every C, filled by a walk.

    betas : float64 (n_C, n)
    residuals : float32 (n_C, n), or (0, 0) where they are not wanted
        ``y - residual + intercept`` is a row's decision value.
    intercepts, objectives : float64 (n_C,)
    iterations, status : int64 (n_C,)
    """

    betas: np.ndarray
    residuals: np.ndarray
    intercepts: np.ndarray
    objectives: np.ndarray
    iterations: np.ndarray
    status: np.ndarray

    def repeat_from(self, solved: int) -> None:
        """Give every C from number ``solved`` on the solution of the one before."""
        if solved == self.status.size:
            return
        self.iterations[solved:] = self.status[solved:] = 0
        for values in (self.betas, self.residuals, self.intercepts, self.objectives):
            values[solved:] = values[solved - 1 : solved]


def new_state(problem_data: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the state and the row numbers of a walk that begins at ``C``, its multipliers 0."""
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
