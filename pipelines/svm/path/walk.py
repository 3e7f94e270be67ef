"""One binary problem along its whole path of C."""

import numpy as np

from .compiled import compiled
from .smo import CONVERGED, ITERATION_LIMIT, STALLED, solve_dense
from .working_set import gather, intercept_of, optimality, select, subtract_rows

# Multipliers are scaled with C while more than this share of the support vectors
# is at its bound, and kept otherwise (measured).
_SCALE_SHARE = 0.6

# The trial on the line through the last two solutions is made while it needs fewer
# kernel rows than this share of the support vectors.
_TRIAL_SHARE = 0.2

# A working set pays when it is this much smaller than the problem, and up to this
# size (its kernel is then 64 MiB); else all rows are worked on in place.
_WORKING_SHARE = 0.2
_LARGEST_WORKING_SET = 4096

# Half the margins' distance: decision values that reach over less have a smaller
# tolerance in proportion.
_TIGHT = 0.5
# What float64 residuals still resolve, of their size.
_RESOLVED = 1e-13

# An inner solve closes nine tenths of the gap before the other rows are looked
# at: to finish on a set that is not yet the right one wastes iterations.
INNER_GAP = 0.1


@compiled()
def set_bounds(
    C: float, y: np.ndarray, weight: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> None:
    """Bounds of the signed multipliers: ``C * weight`` on the side of the label."""
    for k in range(y.size):
        lower[k] = 0.0 if y[k] > 0 else -C * weight[k]
        upper[k] = C * weight[k] if y[k] > 0 else 0.0


@compiled()
def _fill_heavy(
    C: float,
    y: np.ndarray,
    weight: np.ndarray,
    eager: np.ndarray,
    sign: float,
    total: float,
    beta: np.ndarray,
) -> None:
    """All of ``C * weight`` to every row, but to those of label ``sign`` only until
    their weights sum to ``total``, the most eager first."""
    for k in np.argsort(eager):
        given = weight[k]
        # A rest that is only rounding is neither given nor missed: a multiplier
        # by a hair off its bound would count as free and set the intercept.
        if y[k] == sign and total < weight[k] * (1 - 1e-9):
            given = total if total > weight[k] * 1e-9 else 0.0
        if y[k] == sign:
            total -= given
        beta[k] = y[k] * C * given


@compiled()
def plan_start(
    C: float,
    y: np.ndarray,
    weight: np.ndarray,
    pull_first: np.ndarray,
    pull_second: np.ndarray,
    beta: np.ndarray,
    residual: np.ndarray,
    rows: np.ndarray,
    factors: np.ndarray,
) -> int:
    """A feasible start for a small C, close to its solution.

    There every multiplier of the lighter class is at its bound, and the heavier
    class takes as much in its most eager rows.  ``pull_first`` and
    ``pull_second`` are kernel times weights over each class's training rows:
    they give most of the residual without a product over the whole problem.
    Returns how many ``rows`` and ``factors`` of the kernel it still lacks.
    """
    first, second = 0.0, 0.0
    for k in range(y.size):
        first += weight[k] if y[k] > 0 else 0.0
        second += weight[k] if y[k] < 0 else 0.0
    light, sign = min(first, second), 1.0 if first > second else -1.0
    eager = np.empty(y.size)
    for k in range(y.size):
        mean_pull = light * (pull_first[k] / first - pull_second[k] / second)
        eager[k] = sign * (C * mean_pull - y[k])
    _fill_heavy(C, y, weight, eager, sign, light, beta)
    m = 0
    # From "all of the heavy class" when less is missing than given.
    from_all = 2 * light > max(first, second)
    for k in range(y.size):
        heavy, other = pull_first[k], pull_second[k]
        if sign < 0:
            heavy, other = other, heavy
        residual[k] = y[k] - sign * C * (heavy * from_all - other)
        factor = beta[k] - from_all * sign * C * weight[k]
        if y[k] == sign and factor != 0.0:
            rows[m], factors[m] = k, factor
            m += 1
    return m


@compiled()
def _scale(
    ratio: float,
    y: np.ndarray,
    beta: np.ndarray,
    residual: np.ndarray,
    old_lower: np.ndarray,
    old_upper: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
) -> None:
    """Multiply every multiplier, and its bound, by the growth of C."""
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
def count_support(beta: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[int, int]:
    """Number of multipliers that are not zero, and of those at their bound."""
    n_support, n_bounded = 0, 0
    for k in range(beta.size):
        if beta[k] != 0.0:
            n_support += 1
            n_bounded += beta[k] == lower[k] or beta[k] == upper[k]
    return n_support, n_bounded


@compiled()
def dual_objective(y: np.ndarray, beta: np.ndarray, residual: np.ndarray) -> float:
    """``1/2 beta' K beta - y' beta``, the value LIBSVM reports as obj."""
    total = 0.0
    for k in range(y.size):
        total -= 0.5 * beta[k] * (y[k] + residual[k])
    return total


@compiled()
def solve_members(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    members: np.ndarray,
    compact: np.ndarray,
    work: np.ndarray,
    tol: float,
    limit: int,
) -> tuple[int, int, float]:
    """An inner solve on the member rows, and its effect on every row's residual.

    Returns iterations, status and the members' estimate of the intercept.
    """
    m = members.size
    r, b, lo, hi, rise, fall = (
        work[0, :m], work[1, :m], work[2, :m], work[3, :m], work[4, :m], work[5, :m],
    )  # fmt: skip
    diag = np.empty(m, np.float32)
    for p in range(m):
        k = members[p]
        r[p], b[p], lo[p], hi[p], diag[p] = residual[k], beta[k], lower[k], upper[k], diagonal[k]
    iterations, status = solve_dense(compact, diag, r, b, lo, hi, rise, fall, tol, limit)
    changed, factors, n_changed = np.empty(m, np.int64), np.empty(m), 0
    for p in range(m):
        k = members[p]
        if b[p] != beta[k]:
            changed[n_changed], factors[n_changed] = k, b[p] - beta[k]
            beta[k] = b[p]
            n_changed += 1
    subtract_rows(residual, kernel, changed[:n_changed], factors[:n_changed])
    return iterations, status, intercept_of(r, b, lo, hi)


@compiled()
def solve_one_C(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    level: float,
    tol: float,
    limit: int,
    chosen: np.ndarray,
    place: np.ndarray,
    members: np.ndarray,
    n_members: int,
    compact: np.ndarray,
    work: np.ndarray,
) -> tuple[int, int, int]:
    """Inner solves on working sets until every row meets the stopping rule.

    Returns iterations, status and the number of members.
    """
    done, n, capacity = 0, residual.size, members.size
    rise, fall = np.empty(n), np.empty(n)
    while True:
        top, bottom, i, j = optimality(residual, beta, lower, upper)
        if not (top - bottom >= tol):
            return done, CONVERGED, n_members
        if done >= limit:
            return done, ITERATION_LIMIT, n_members
        count = select(residual, beta, lower, upper, level, i, j, chosen)
        if count > capacity:
            iterations, status = solve_dense(
                kernel, diagonal, residual, beta, lower, upper, rise, fall, tol, limit - done
            )
            return done + iterations, status, n_members
        n_members = gather(kernel, chosen, count, members, n_members, place, compact)
        iterations, status, level = solve_members(
            kernel, diagonal, residual, beta, lower, upper, members[:n_members], compact,
            work, max(tol, INNER_GAP * (top - bottom)), limit - done,
        )  # fmt: skip
        done += iterations
        if status == STALLED:
            return done, STALLED, n_members


@compiled()
def reach(
    weight: np.ndarray, pull_first: np.ndarray, pull_second: np.ndarray
) -> tuple[float, float]:
    """How far C = 1 can move decision values apart, and how far it can move them.

    The smaller of the ranges of the two classes' pulls over the training rows, and
    the largest pull.
    """
    top, bottom = np.full(2, -np.inf), np.full(2, np.inf)
    for k in range(weight.size):
        if weight[k] > 0.0:
            top[0], bottom[0] = max(top[0], pull_first[k]), min(bottom[0], pull_first[k])
            top[1], bottom[1] = max(top[1], pull_second[k]), min(bottom[1], pull_second[k])
    span = min(top[0] - bottom[0], top[1] - bottom[1])
    return span, max(np.abs(top).max(), np.abs(bottom).max())


@compiled()
def tolerance_at(C: float, tol: float, span: float, size: float) -> float:
    """``tol``, less where C does not let decision values differ by the margins' 2.

    There a gap of ``tol`` may be all that rows differ by, and which class has the
    largest value would be an accident of the start.
    """
    resolved = _RESOLVED * (1.0 + C * size)
    return min(tol, max(tol * _TIGHT * C * span, resolved))


@compiled()
def extrapolate(
    growth: float,
    beta: np.ndarray,
    residual: np.ndarray,
    old_beta: np.ndarray,
    old_residual: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    trial: np.ndarray,
    trial_residual: np.ndarray,
    rows: np.ndarray,
    factors: np.ndarray,
) -> int:
    """Go on along the line through the last two solutions, within the new bounds.

    While no multiplier reaches or leaves a bound the solution is linear in C
    (T. Hastie, S. Rosset, R. Tibshirani, J. Zhu, "The entire regularization path
    for the support vector machine", JMLR 5, 2004), and so is the residual.  Those
    the bounds stop are put there, and others take up their sum.  Returns how many
    ``rows`` and ``factors`` of the kernel ``trial_residual`` still lacks, or -1.
    """
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
def take_better(
    y: np.ndarray,
    beta: np.ndarray,
    residual: np.ndarray,
    trial: np.ndarray,
    trial_residual: np.ndarray,
) -> bool:
    """Replace the seed by the trial where its dual objective is lower."""
    if not dual_objective(y, trial, trial_residual) < dual_objective(y, beta, residual):
        return False
    beta[:] = trial
    residual[:] = trial_residual
    return True


@compiled()
def walk(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    pull_first: np.ndarray,
    pull_second: np.ndarray,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    betas: np.ndarray,
    residuals: np.ndarray,
    intercepts: np.ndarray,
    objectives: np.ndarray,
    iterations: np.ndarray,
    supports: np.ndarray,
    status: np.ndarray,
) -> int:
    """Solve one binary problem for every C, each from the last solution.

    Parameters
    ----------
    kernel : float32 array of shape (n, n), exactly symmetric
    diagonal : float32 array of shape (n,)
    y : float64 array of shape (n,), +1 or -1
    weight : float64 array of shape (n,)
        ``C * weight`` bounds a multiplier; 0 keeps a row out of training, and its
        residual is maintained all the same.  Each label needs a weight above 0.
    pull_first, pull_second : float64 arrays of shape (n,)
        ``kernel @ weight`` over the rows of each label.
    Cs : float64 array of shape (n_C,), ascending
    tol, limit : stopping tolerance, and the largest number of iterations for one C
    betas : float32 or float64 array of shape (n_C, n), output
    residuals : float32 or float64 array of shape (n_C, n) or (0, 0), output
        ``y - K beta``: ``y - residual + intercept`` is a row's decision value.
    intercepts, objectives : float64 arrays of shape (n_C,), output
    iterations, supports, status : int64 arrays of shape (n_C,), output

    Returns
    -------
    int : how many C were solved; the rest has the last one's solution

    Alpha seeding: D. DeCoste, K. Wagstaff, "Alpha seeding for support vector
    machines", KDD 2000.
    """
    n = y.size
    beta, residual, old_beta, old_residual = np.zeros(n), np.empty(n), np.zeros(n), np.empty(n)
    lower, upper, old_lower, old_upper = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    trial, trial_residual = np.empty(n), np.empty(n)
    rows, factors = np.empty(n, np.int64), np.empty(n)
    chosen, place = np.empty(n, np.bool_), np.full(n, -1, np.int64)
    capacity = min(_LARGEST_WORKING_SET, max(2, int(_WORKING_SHARE * n)))
    members, n_members = np.empty(capacity, np.int64), 0
    compact, work = np.empty((capacity, capacity + 16), np.float32), np.empty((6, capacity))
    span, size = reach(weight, pull_first, pull_second)
    n_support, n_bounded, level = 0, 0, 0.0
    for c in range(Cs.size):
        lower, upper, old_lower, old_upper = old_lower, old_upper, lower, upper
        set_bounds(Cs[c], y, weight, lower, upper)
        if c == 0:
            m = plan_start(Cs[0], y, weight, pull_first, pull_second, beta, residual, rows, factors)
            subtract_rows(residual, kernel, rows[:m], factors[:m])
            level = intercept_of(residual, beta, lower, upper)
        else:
            m, changed = seed(
                c, Cs, y, beta, residual, old_beta, old_residual, old_lower, old_upper, lower,
                upper, n_support, n_bounded, trial, trial_residual, rows, factors,
            )  # fmt: skip
            if m >= 0:
                subtract_rows(trial_residual, kernel, rows[:m], factors[:m])
                changed |= take_better(y, beta, residual, trial, trial_residual)
            if changed:
                level = intercept_of(residual, beta, lower, upper)
        iterations[c], status[c], n_members = solve_one_C(
            kernel, diagonal, residual, beta, lower, upper, level,
            tolerance_at(Cs[c], tol, span, size), limit,
            chosen, place, members, n_members, compact, work,
        )  # fmt: skip
        level = intercept_of(residual, beta, lower, upper)
        n_support, n_bounded = count_support(beta, lower, upper)
        record(c, y, beta, residual, level, n_support, betas, residuals, intercepts, objectives,
               supports)  # fmt: skip
        if n_bounded == 0 and status[c] == CONVERGED:
            repeat_last(c, betas, residuals, intercepts, objectives, iterations, supports, status)
            return c + 1
    return Cs.size


@compiled()
def seed(
    c: int,
    Cs: np.ndarray,
    y: np.ndarray,
    beta: np.ndarray,
    residual: np.ndarray,
    old_beta: np.ndarray,
    old_residual: np.ndarray,
    old_lower: np.ndarray,
    old_upper: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    n_support: int,
    n_bounded: int,
    trial: np.ndarray,
    trial_residual: np.ndarray,
    rows: np.ndarray,
    factors: np.ndarray,
) -> tuple[int, bool]:
    """Make the last solution a start for C number c, and a trial beside it.

    Returns how many kernel rows the trial's residual lacks, -1 where it would take
    too many to be worth it, and whether the start differs from the last solution.
    """
    m = -1
    if c >= 2 and Cs[c - 1] > Cs[c - 2]:
        growth = (Cs[c] - Cs[c - 1]) / (Cs[c - 1] - Cs[c - 2])
        m = extrapolate(growth, beta, residual, old_beta, old_residual, lower, upper,
                        trial, trial_residual, rows, factors)  # fmt: skip
        if m >= _TRIAL_SHARE * n_support:
            m = -1
    old_beta[:] = beta
    old_residual[:] = residual
    scaled = n_bounded > _SCALE_SHARE * n_support
    if scaled:
        _scale(Cs[c] / Cs[c - 1], y, beta, residual, old_lower, old_upper, lower, upper)
    return m, scaled


@compiled()
def record(
    c: int,
    y: np.ndarray,
    beta: np.ndarray,
    residual: np.ndarray,
    level: float,
    n_support: int,
    betas: np.ndarray,
    residuals: np.ndarray,
    intercepts: np.ndarray,
    objectives: np.ndarray,
    supports: np.ndarray,
) -> None:
    """Write the solution of C number c."""
    intercepts[c], supports[c] = level, n_support
    objectives[c] = dual_objective(y, beta, residual)
    betas[c] = beta
    if residuals.shape[0]:
        residuals[c] = residual


@compiled()
def repeat_last(
    c: int,
    betas: np.ndarray,
    residuals: np.ndarray,
    intercepts: np.ndarray,
    objectives: np.ndarray,
    iterations: np.ndarray,
    supports: np.ndarray,
    status: np.ndarray,
) -> None:
    """No multiplier is at its bound at ``c``: every larger C has this solution."""
    for d in range(c + 1, intercepts.size):
        betas[d] = betas[c]
        if residuals.shape[0]:
            residuals[d] = residuals[c]
        intercepts[d], objectives[d] = intercepts[c], objectives[c]
        iterations[d], supports[d], status[d] = 0, supports[c], CONVERGED
