"""The steps of a walk along C that are the same wherever the kernel is."""

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary import BinaryProblem, Path, State, dual_objective
from pipelines.svm.cpu.start import plan_start, seed
from pipelines.svm.cpu.working_set import intercept_of
from pipelines.svm.solutions import CONVERGED


@compiled()
def _set_bounds(C: float, problem: BinaryProblem, state: State) -> None:
    """Set the bounds of the signed multipliers: ``C * weight`` on their side."""
    side, weight, lower, upper = problem.side, problem.weight, state.lower, state.upper
    for k in range(side.size):
        lower[k] = 0.0 if side[k] > 0 else -C * weight[k]
        upper[k] = C * weight[k] if side[k] > 0 else 0.0


@compiled()
def begin(
    c: int,
    Cs: np.ndarray,
    problem: BinaryProblem,
    state: State,
    n_support: int,
    n_bounded: int,
    scale_share: float,
) -> tuple[int, bool]:
    """Set the bounds of C number c, a start for it, and a trial beside it.

    n_support, n_bounded : of the last solution, see ``finish``
    scale_share : as for ``seed``

    Returns how many kernel rows the trial's residual lacks, -1 where there is no
    trial, and whether the start differs from the last solution.
    """
    state.old_lower[:] = state.lower
    state.old_upper[:] = state.upper
    _set_bounds(Cs[c], problem, state)
    if c == 0:
        return plan_start(Cs[0], problem, state), True
    return seed(c, Cs, problem.y, state, n_support, n_bounded, scale_share)


@compiled()
def settle(c: int, m: int, changed: bool, level: float, y: np.ndarray, state: State) -> float:
    """Take the trial where its dual objective is lower, the first in any case.

    m, changed : from ``begin``; level : intercept of the last solution

    Returns an estimate of the intercept.
    """
    beta, residual, trial, trial_residual = (
        state.beta, state.residual, state.trial, state.trial_residual,
    )  # fmt: skip
    if c == 0 or (
        m >= 0 and dual_objective(y, trial, trial_residual) < dual_objective(y, beta, residual)
    ):
        beta[:] = trial
        residual[:] = trial_residual
        changed = True
    return intercept_of(residual, beta, state.lower, state.upper) if changed else level


@compiled()
def _count_support(beta: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[int, int]:
    """Return number of multipliers that are not zero, and of those at their bound."""
    n_support, n_bounded = 0, 0
    for k in range(beta.size):
        if beta[k] != 0.0:
            n_support += 1
            n_bounded += beta[k] == lower[k] or beta[k] == upper[k]
    return n_support, n_bounded


@compiled()
def _repeat(c: int, out: Path) -> None:
    """Repeat the solution for every C after number c."""
    for d in range(c + 1, out.intercepts.size):
        out.betas[d] = out.betas[c]
        if out.residuals.shape[0]:
            out.residuals[d] = out.residuals[c]
        out.intercepts[d], out.objectives[d] = out.intercepts[c], out.objectives[c]
        out.iterations[d], out.supports[d], out.status[d] = 0, out.supports[c], CONVERGED


@compiled()
def finish(c: int, y: np.ndarray, state: State, out: Path) -> tuple[float, int, int, bool]:
    """Write the solution of C number c.

    Returns its intercept, the number of multipliers that are not zero and of those at
    their bound, and whether the path ends: no multiplier is at its bound, so that
    every larger C has this solution.
    """
    beta, residual = state.beta, state.residual
    level = intercept_of(residual, beta, state.lower, state.upper)
    n_support, n_bounded = _count_support(beta, state.lower, state.upper)
    out.intercepts[c], out.supports[c] = level, n_support
    out.objectives[c] = dual_objective(y, beta, residual)
    out.betas[c] = beta
    if out.residuals.shape[0]:
        out.residuals[c] = residual
    ends = n_bounded == 0 and out.status[c] == CONVERGED
    if ends:
        _repeat(c, out)
    return level, n_support, n_bounded, ends
