"""Start a path, warm-start each next C from the last solution, and end a path.

It starts close to the solution for its smallest C. Alpha seeding: D. DeCoste, K. Wagstaff, "Alpha
seeding for support vector machines", KDD 2000. The stopping tolerance is less where a C is too
small to tell rows apart.
"""

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary import BinaryProblem, State

# The trial on the line through the last two solutions is made while it needs fewer
# kernel rows than this share of the support vectors.
_TRIAL_SHARE = 0.2

# Half the margins' distance: decision values that reach over less have a smaller
# tolerance in proportion.
_TIGHT = 0.5
# What float64 residuals still resolve, of their size.
_RESOLVED = 1e-13


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
    """Give all of ``C * weight`` to every row, but to those of side ``sign`` only until
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
    """Return a feasible start for a small C, close to its solution: the first trial.

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


@compiled()
def _scale(ratio: float, y: np.ndarray, state: State) -> None:
    """Multiply every multiplier, and its bound, by the growth of C."""
    beta, residual, lower, upper = state.beta, state.residual, state.lower, state.upper
    old_lower, old_upper = state.old_lower, state.old_upper
    for k in range(y.size):
        residual[k] = y[k] - (y[k] - residual[k]) * ratio
        if beta[k] == 0.0:
            continue
        if beta[k] == old_upper[k]:
            beta[k] = upper[k]
        elif beta[k] == old_lower[k]:
            beta[k] = lower[k]
        else:
            beta[k] = min(max(beta[k] * ratio, lower[k]), upper[k])


@compiled()
def _extrapolate(growth: float, state: State) -> int:
    """Go on along the line through the last two solutions, within the new bounds.

    While no multiplier reaches or leaves a bound the solution is linear in C
    (T. Hastie, S. Rosset, R. Tibshirani, J. Zhu, "The entire regularization path
    for the support vector machine", JMLR 5, 2004), and so is the residual.  Those
    the bounds stop are put there, and others take up their sum.  Returns how many
    ``rows`` and ``factors`` of the kernel the trial's residual still lacks, or -1.
    """
    beta, residual, lower, upper = state.beta, state.residual, state.lower, state.upper
    old_beta, old_residual = state.old_beta, state.old_residual
    trial, trial_residual = state.trial, state.trial_residual
    rows, factors = state.rows, state.factors
    m, excess = 0, 0.0
    for k in range(beta.size):
        trial_residual[k] = residual[k] + growth * (residual[k] - old_residual[k])
        aim = beta[k] + growth * (beta[k] - old_beta[k])
        # Only a rounding error may be taken off without a change of the residual.
        slack = 1e-14 * (upper[k] - lower[k])
        trial[k] = aim
        if aim >= upper[k] - slack:
            trial[k] = upper[k]
        elif aim <= lower[k] + slack:
            trial[k] = lower[k]
        excess += trial[k]
        if abs(trial[k] - aim) > slack:
            rows[m], factors[m] = k, trial[k] - aim
            m += 1
    for k in range(beta.size):
        if excess == 0.0 or m == rows.size:
            break
        if lower[k] < trial[k] < upper[k]:
            new = min(max(trial[k] - excess, lower[k]), upper[k])
            rows[m], factors[m] = k, new - trial[k]
            m += 1
            excess += new - trial[k]
            trial[k] = new
    return m if abs(excess) <= 1e-12 * upper.max() else -1


@compiled()
def seed(
    c: int,
    Cs: np.ndarray,
    y: np.ndarray,
    state: State,
    n_support: int,
    n_bounded: int,
    scale_share: float,
) -> tuple[int, bool]:
    """Scale the last solution to a start for C number c, and prepare a trial beside it.

    scale_share : ``rules.SCALE_SHARE``, or what a solver other than SMO wants

    Returns how many kernel rows the trial's residual lacks, -1 where it would take
    too many to be worth it, and whether the start differs from the last solution.
    """
    m = -1
    if c >= 2 and Cs[c - 1] > Cs[c - 2]:
        m = _extrapolate((Cs[c] - Cs[c - 1]) / (Cs[c - 1] - Cs[c - 2]), state)
        if m >= _TRIAL_SHARE * n_support:
            m = -1
    state.old_beta[:] = state.beta
    state.old_residual[:] = state.residual
    scaled = n_bounded > scale_share * n_support
    if scaled:
        _scale(Cs[c] / Cs[c - 1], y, state)
    return m, scaled


@compiled()
def reach(problem: BinaryProblem) -> tuple[float, float]:
    """Return how far apart C = 1 can move two decision values, and how far a single one.

    The smaller of the ranges of the two classes' pulls over the training rows, and
    the largest pull; without pulls no bound is known.
    """
    weight, pull_first, pull_second = problem.weight, problem.pull_first, problem.pull_second
    if pull_first.size == 0:
        return np.inf, 0.0
    top, bottom = np.full(2, -np.inf), np.full(2, np.inf)
    for k in range(weight.size):
        if weight[k] > 0.0:
            top[0], bottom[0] = max(top[0], pull_first[k]), min(bottom[0], pull_first[k])
            top[1], bottom[1] = max(top[1], pull_second[k]), min(bottom[1], pull_second[k])
    span = min(top[0] - bottom[0], top[1] - bottom[1])
    return span, max(np.abs(top).max(), np.abs(bottom).max())


@compiled()
def tolerance_at(C: float, tol: float, span: float, size: float) -> float:
    """Return ``tol``, less where C does not let decision values differ by the margins' 2.

    There a gap of ``tol`` may be all that rows differ by, and which class has the
    largest value would be an accident of the start.
    """
    resolved = _RESOLVED * (1.0 + C * size)
    return min(tol, max(tol * _TIGHT * C * span, resolved))
