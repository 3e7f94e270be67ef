"""The steps of a walk along C, which are the same with a kernel in memory and with kernel rows.

The walk starts close to the solution of the smallest C, and each further C starts from the last
solution (alpha seeding).  The tolerance is smaller where a C is too small to tell rows apart.

Everywhere ``problem_data``, ``state`` and ``numbers`` are arrays whose rows ``binary_problem``
names.

References
----------
D. DeCoste, K. Wagstaff, "Alpha seeding for support vector machines", KDD 2000.

T. Hastie, S. Rosset, R. Tibshirani, J. Zhu, "The entire regularization path for the support vector
machine", JMLR 5, 2004.
"""

from collections.abc import Callable

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary_problem import (
    BETA,
    CHANGED,
    EAGER,
    FACTORS,
    LOWER,
    OLD_BETA,
    OLD_RESIDUAL,
    PULL_FIRST,
    PULL_SECOND,
    RESIDUAL,
    SIDE,
    TRIAL,
    TRIAL_RESIDUAL,
    UPPER,
    WEIGHT,
    Path,
    Y,
)
from pipelines.svm.cpu.working_set import intercept_of
from pipelines.svm.solutions import CONVERGED

# A trial on the line through the last two solutions is tried only if it needs fewer kernel rows
# than this fraction of the support vectors.
_TRIAL_FRACTION = 0.2

# The margins are 2 apart: if decision values span less than that, the tolerance is smaller in
# proportion, by this factor of the span.
_TIGHT = 0.5
# The rounding of float64 residuals, relative to their size.
_RESOLVED = 1e-13


@compiled(inner=True)
def _plan_start(C: float, problem_data: np.ndarray, state: np.ndarray, numbers: np.ndarray) -> int:
    """Build a feasible starting point for a small C, close to its solution, as the first trial.

    Every multiplier of the class with less weight is at its bound, and the rows of the other class
    that are most eager are given the same total.  Without pulls, all multipliers are 0.  The pulls
    of the classes give most of the residual without a product over the whole problem.

    Returns how many kernel rows, ``CHANGED`` with their ``FACTORS``, still have to be subtracted.
    """
    n = problem_data.shape[1]
    if problem_data.shape[0] <= PULL_FIRST:
        for k in range(n):
            state[TRIAL, k], state[TRIAL_RESIDUAL, k] = 0.0, problem_data[Y, k]
        return 0
    first, second = 0.0, 0.0
    for k in range(n):
        if problem_data[SIDE, k] > 0:
            first += problem_data[WEIGHT, k]
        else:
            second += problem_data[WEIGHT, k]
    light, sign = min(first, second), 1.0 if first > second else -1.0
    total = light
    for p in range(n):
        k = numbers[EAGER, p if sign > 0 else n - 1 - p]
        weight = part = problem_data[WEIGHT, k]
        if problem_data[SIDE, k] == sign:
            # Remainders that are only rounding are dropped: a multiplier a hair off its bound
            # would count as free, and would set the intercept.
            if total < weight * (1 - 1e-9):
                part = total if total > weight * 1e-9 else 0.0
            total -= part
        state[TRIAL, k] = problem_data[SIDE, k] * C * part
    m = 0
    # Start from all rows of the heavy class if fewer of its rows are left out than taken.
    from_all = 1.0 if 2 * light > max(first, second) else 0.0
    for k in range(n):
        heavy, other = problem_data[PULL_FIRST, k], problem_data[PULL_SECOND, k]
        if sign < 0:
            heavy, other = other, heavy
        state[TRIAL_RESIDUAL, k] = problem_data[Y, k] - sign * C * (heavy * from_all - other)
        factor = state[TRIAL, k] - from_all * sign * C * problem_data[WEIGHT, k]
        if problem_data[SIDE, k] == sign and factor != 0.0:
            numbers[CHANGED, m], state[FACTORS, m] = k, factor
            m += 1
    return m


@compiled(inner=True)
def _extrapolate(growth: float, state: np.ndarray, numbers: np.ndarray) -> int:
    """Extrapolate the last two solutions to the new C, within its bounds, as a trial.

    While no multiplier reaches or leaves a bound, the solution is linear in C (Hastie et al.), and
    so is the residual.  Multipliers that would exceed a bound are set to it, and free ones make up
    for their sum.

    Returns how many kernel rows still have to be subtracted from the trial's residual, or -1 if
    the sum cannot be made up for.
    """
    n, m, excess, highest = state.shape[1], 0, 0.0, 0.0
    for k in range(n):
        residual, beta = state[RESIDUAL, k], state[BETA, k]
        lower, upper = state[LOWER, k], state[UPPER, k]
        state[TRIAL_RESIDUAL, k] = residual + growth * (residual - state[OLD_RESIDUAL, k])
        aim = beta + growth * (beta - state[OLD_BETA, k])
        # A change as small as rounding is made without a change of the residual.
        slack = 1e-14 * (upper - lower)
        trial = aim
        if aim >= upper - slack:
            trial = upper
        elif aim <= lower + slack:
            trial = lower
        state[TRIAL, k] = trial
        excess += trial
        highest = max(highest, upper)
        if abs(trial - aim) > slack:
            numbers[CHANGED, m], state[FACTORS, m] = k, trial - aim
            m += 1
    for k in range(n):
        if excess == 0.0 or m == n:
            break
        trial, lower, upper = state[TRIAL, k], state[LOWER, k], state[UPPER, k]
        if lower < trial < upper:
            new = min(max(trial - excess, lower), upper)
            numbers[CHANGED, m], state[FACTORS, m] = k, new - trial
            m += 1
            excess += new - trial
            state[TRIAL, k] = new
    return m if abs(excess) <= 1e-12 * highest else -1


@compiled()
def begin_steps(
    c: int,
    Cs: np.ndarray,
    problem_data: np.ndarray,
    state: np.ndarray,
    numbers: np.ndarray,
    n_support: int,
    n_bounded: int,
    scale_fraction: float,
) -> tuple[int, bool]:
    """Set the bounds of C number c, a start for it, and a trial as another start.

    n_support, n_bounded : from the last solution, see ``finish``
    scale_fraction : multipliers are scaled with C if a larger fraction of them is at its bound

    Returns how many kernel rows have to be subtracted from the trial's residual, or -1 if there is
    no trial or it would need too many; and whether the start differs from the last solution.
    """
    for k in range(state.shape[1]):
        bound = Cs[c] * problem_data[WEIGHT, k]
        if problem_data[SIDE, k] > 0:
            state[LOWER, k], state[UPPER, k] = 0.0, bound
        else:
            state[LOWER, k], state[UPPER, k] = -bound, 0.0
    if c == 0:
        return _plan_start(Cs[0], problem_data, state, numbers), True
    m = -1
    if c >= 2 and Cs[c - 1] > Cs[c - 2]:
        m = _extrapolate((Cs[c] - Cs[c - 1]) / (Cs[c - 1] - Cs[c - 2]), state, numbers)
        if m >= _TRIAL_FRACTION * n_support:
            m = -1
    scaled, ratio = n_bounded > scale_fraction * n_support, Cs[c] / Cs[c - 1]
    for k in range(state.shape[1]):
        residual, beta = state[RESIDUAL, k], state[BETA, k]
        state[OLD_RESIDUAL, k], state[OLD_BETA, k] = residual, beta
        if scaled:  # every multiplier grows as C does, and so does its bound
            lower, upper = state[LOWER, k], state[UPPER, k]
            state[RESIDUAL, k] = problem_data[Y, k] - (problem_data[Y, k] - residual) * ratio
            if beta != 0.0:
                if abs(beta) == Cs[c - 1] * problem_data[WEIGHT, k]:
                    beta = upper if beta > 0.0 else lower
                else:
                    beta = min(max(beta * ratio, lower), upper)
                state[BETA, k] = beta
    return m, scaled


@compiled(inner=True)
def _dual_objective(problem_data: np.ndarray, state: np.ndarray, beta: int, residual: int) -> float:
    """The dual objective ``1/2 beta' K beta - y' beta``, which LIBSVM reports as obj."""
    total = 0.0
    for k in range(state.shape[1]):
        total -= 0.5 * state[beta, k] * (problem_data[Y, k] + state[residual, k])
    return total


@compiled()
def settle(
    c: int, m: int, changed: bool, level: float, problem_data: np.ndarray, state: np.ndarray
) -> float:
    """Choose between start and trial by the dual objective; the first C always takes the trial.

    m, changed : from ``begin_steps``
    level : intercept of the last solution

    Returns an estimate of the intercept.
    """
    if c == 0 or (
        m >= 0
        and _dual_objective(problem_data, state, TRIAL, TRIAL_RESIDUAL)
        < _dual_objective(problem_data, state, BETA, RESIDUAL)
    ):
        for k in range(state.shape[1]):
            state[BETA, k], state[RESIDUAL, k] = state[TRIAL, k], state[TRIAL_RESIDUAL, k]
        changed = True
    return intercept_of(state, state.shape[1]) if changed else level


@compiled()
def finish(
    c: int, problem_data: np.ndarray, state: np.ndarray, betas: np.ndarray, residuals: np.ndarray
) -> tuple[float, float, int, int]:
    """Write the solution of C number c to ``betas`` and ``residuals``.

    Returns its intercept, its objective, the number of multipliers that are not zero, and the
    number at their bound. If none is at its bound, every larger C has this solution.
    """
    n_support, n_bounded, with_residuals = 0, 0, residuals.shape[0] > 0
    for k in range(state.shape[1]):
        beta = state[BETA, k]
        betas[c, k] = beta
        if with_residuals:
            residuals[c, k] = state[RESIDUAL, k]
        if beta != 0.0:
            n_support += 1
            if beta == state[LOWER, k] or beta == state[UPPER, k]:
                n_bounded += 1
    objective = _dual_objective(problem_data, state, BETA, RESIDUAL)
    return intercept_of(state, state.shape[1]), objective, n_support, n_bounded


@compiled()
def reach(problem_data: np.ndarray) -> tuple[float, float]:
    """How far apart C = 1 can move two decision values, and how far a single one.

    The smaller range of the two classes' pulls over the training rows, and the largest pull;
    infinite and 0 without pulls.
    """
    span, size = np.inf, 0.0
    for pull in range(PULL_FIRST, problem_data.shape[0]):
        top, bottom = -np.inf, np.inf
        for k in range(problem_data.shape[1]):
            if problem_data[WEIGHT, k] > 0.0:
                top, bottom = max(top, problem_data[pull, k]), min(bottom, problem_data[pull, k])
        span, size = min(span, top - bottom), max(size, abs(top), abs(bottom))
    return span, size


@compiled()
def tolerance_at(C: float, tol: float, reached: tuple[float, float]) -> float:
    """The tolerance at a C: ``tol``, or less if decision values cannot differ by the margins' 2.

    All decision values might then differ by less than ``tol``, and which class has the largest
    would be an accident of the start.

    reached : from ``reach``
    """
    span, size = reached
    resolved = _RESOLVED * (1.0 + C * size)
    return min(tol, max(tol * _TIGHT * C * span, resolved))


def walk_on(
    first: int,
    solve: Callable[[float, float, int], tuple[int, int]],
    subtract: Callable[[np.ndarray, np.ndarray], None],
    problem_data: np.ndarray,
    state: np.ndarray,
    numbers: np.ndarray,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    scale_fraction: float,
    out: Path,
) -> int:
    """Solve for every C from number ``first`` on, which has already begun; -1 to start anew.

    Parameters
    ----------
    first : int
    solve : callable
        Solves for one C, from an estimate of the intercept, a tolerance and a limit; returns
        iterations and status.
    subtract : callable
        Subtracts kernel rows times factors from the trial's residual.
    problem_data, state, numbers : arrays, see ``binary_problem``
    Cs : float64 array of shape (n_C,), ascending
    tol, limit : as for ``walk``
    scale_fraction : float, see ``begin_steps``
    out : Path
        Output.

    Returns
    -------
    int
        How many C were solved; larger ones have the solution of the last.
    """
    reached, n_support, n_bounded = reach(problem_data), 0, 0
    level = 0.0 if first < 0 else intercept_of(state, state.shape[1])
    for c in range(max(0, first), Cs.size):
        done = int(out.iterations[c]) if c == first else 0
        if c > first:
            m, changed = begin_steps(
                c, Cs, problem_data, state, numbers, n_support, n_bounded, scale_fraction
            )
            if m > 0:
                subtract(numbers[CHANGED, :m], state[FACTORS, :m])
            level = settle(c, m, changed, level, problem_data, state)
        n_iterations, out.status[c] = solve(level, tolerance_at(Cs[c], tol, reached), limit - done)
        out.iterations[c] = done + n_iterations
        level, out.objectives[c], n_support, n_bounded = finish(
            c, problem_data, state, out.betas, out.residuals
        )
        out.intercepts[c] = level
        if n_bounded == 0 and out.status[c] == CONVERGED:
            return c + 1
    return Cs.size
