"""Where a path starts: close to the solution for its smallest C."""

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary import BinaryProblem, State


@compiled()
def _fill_heavy(
    C: float,
    side: np.ndarray,
    weight: np.ndarray,
    eager: np.ndarray,
    sign: float,
    total: float,
    beta: np.ndarray,
) -> None:
    """All of ``C * weight`` to every row, but to those of side ``sign`` only until
    their weights sum to ``total``, the most eager first."""
    for k in np.argsort(eager):
        given = weight[k]
        # A rest that is only rounding is neither given nor missed: a multiplier
        # by a hair off its bound would count as free and set the intercept.
        if side[k] == sign and total < weight[k] * (1 - 1e-9):
            given = total if total > weight[k] * 1e-9 else 0.0
        if side[k] == sign:
            total -= given
        beta[k] = side[k] * C * given


@compiled()
def plan_start(C: float, problem: BinaryProblem, state: State) -> int:
    """A feasible start for a small C, close to its solution: the first trial.

    Without pulls its multipliers are 0.  Else every multiplier of the lighter class is
    at its bound, and the heavier class takes as much in its most eager rows.  The classes'
    pulls give most of the residual without a product over the whole problem.  Returns how
    many ``rows`` and ``factors`` of the kernel it still lacks.
    """
    y, side, weight = problem.y, problem.side, problem.weight
    pull_first, pull_second = problem.pull_first, problem.pull_second
    beta, residual = state.trial, state.trial_residual
    rows, factors = state.rows, state.factors
    if pull_first.size == 0:
        beta[:] = 0.0
        residual[:] = y
        return 0
    first, second = 0.0, 0.0
    for k in range(y.size):
        first += weight[k] if side[k] > 0 else 0.0
        second += weight[k] if side[k] < 0 else 0.0
    light, sign = min(first, second), 1.0 if first > second else -1.0
    eager = np.empty(y.size)
    for k in range(y.size):
        mean_pull = light * (pull_first[k] / first - pull_second[k] / second)
        eager[k] = sign * (C * mean_pull - y[k])
    _fill_heavy(C, side, weight, eager, sign, light, beta)
    m = 0
    # From "all of the heavy class" when less is missing than given.
    from_all = 2 * light > max(first, second)
    for k in range(y.size):
        heavy, other = pull_first[k], pull_second[k]
        if sign < 0:
            heavy, other = other, heavy
        residual[k] = y[k] - sign * C * (heavy * from_all - other)
        factor = beta[k] - from_all * sign * C * weight[k]
        if side[k] == sign and factor != 0.0:
            rows[m], factors[m] = k, factor
            m += 1
    return m
