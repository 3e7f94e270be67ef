"""Newton's method on the free multipliers of one small dense problem.

SMO changes two multipliers at a time and crawls where hundreds are free, that is between
their bounds, and the kernel is nearly singular on them.  Here all free multipliers move
at once, to where their residuals are equal or some of them meet a bound; those are pinned,
and where none is met the rows that violate most are set free.  The factor of the free
block follows each change (primal active set: K. Scheinberg, "An efficient
implementation of an active set method for SVMs", JMLR 7, 2006; M. Vogt, V. Kecman,
"Active-set methods for support vector machines", 2005).

Every step is a proximal one: ``(K + ridge) d + b = residual``.  The ridge keeps the
factor safe where rows are dependent and leaves residuals that differ by ``ridge * d``,
less than the tolerance, and less again with each further step.  Each step lowers the
objective and keeps the constraints.
"""

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.factor import (
    Carried,
    append,
    directions,
    dot,
    factorise,
    remove_bounded,
    solve_forward,
    subtract,
    take_up,
)
from pipelines.svm.cpu.working_set import optimality, subtract_rows
from pipelines.svm.rules import (
    ADDED_SHARE,
    LEAST_BATCH,
    LEAST_MOVE,
    MOST_IDLE_STEPS,
    MOST_TRIES,
    RESOLVED32,
    RESOLVED64,
    RIDGE_SHARE,
    VIOLATION_SHARE,
)
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED


@compiled()
def _free_rows(beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, free: np.ndarray) -> int:
    """Fill ``free`` and return the number, -1 where there is no room for them.

    Those next to a bound, the likely ones to be pinned, come last: then few rows of the
    factor change.
    """
    f, room = 0, np.empty(beta.size)
    rows = np.empty(beta.size, np.int64)
    for k in range(beta.size):
        if lower[k] < beta[k] < upper[k]:
            rows[f], room[f] = k, -min(beta[k] - lower[k], upper[k] - beta[k])
            f += 1
    if f > free.size:
        return -1
    order = np.argsort(room[:f])
    for p in range(f):
        free[p] = rows[order[p]]
    return f


@compiled()
def _spread(
    reach: float,
    d: np.ndarray,
    v: np.ndarray,
    least: np.ndarray,
    most: np.ndarray,
    pinned: np.ndarray,
    move: np.ndarray,
) -> tuple[float, bool]:
    """Fill ``move``: ``reach * d``, pinned rows to their bounds, and their sum taken up by ``v``.

    pinned : int8, 1 for a row that goes to the most it may, -1 to the least, 0 for others;
        those whom ``v`` carries beyond their bounds are pinned, too

    Returns the factor of ``v``, and whether all are within their bounds.
    """
    share = 0.0
    for _ in range(MOST_TRIES):
        excess, others, within = 0.0, 0.0, True
        for p in range(d.size):
            if pinned[p]:
                move[p] = most[p] if pinned[p] > 0 else least[p]
                excess += move[p]
            else:
                excess += reach * d[p]
                others += v[p]
        if others == 0.0:
            return 0.0, False
        share = -excess / others
        for p in range(d.size):
            if not pinned[p]:
                move[p] = reach * d[p] + share * v[p]
                if move[p] > most[p] or move[p] < least[p]:
                    pinned[p], within = 1 if move[p] > most[p] else -1, False
        if within:
            return share, True
    return share, False


@compiled()
def _pin_many(
    carried: Carried,
    least: np.ndarray,
    most: np.ndarray,
    step: float,
    level: float,
    d: np.ndarray,
    v: np.ndarray,
    move: np.ndarray,
) -> bool:
    """Fill ``move`` so that many rows reach their bounds at once; return whether any does.

    It is taken if the objective falls by no less than along ``d`` to the first bound.  What
    a move does is known from the factor: with ``u = factor' move`` the objective changes by
    ``1/2 u'u - forward'u``, and ``forward`` by ``-u``, which is done here.

    least, most : float64 (f,), how far each row may fall and rise
    step : along ``d`` to the first bound
    """
    f, factor, ones, forward = d.size, carried.factor, carried.sides[0], carried.sides[1]
    times, pinned, u = np.empty(f), np.empty(f, np.int8), np.empty(f)
    wished = 0.0
    for p in range(f):
        wished += (forward[p] - level * ones[p]) ** 2
        times[p] = np.inf
        if d[p] != 0.0:
            times[p] = (most[p] if d[p] > 0.0 else least[p]) / d[p]
    enough, order = (step - 0.5 * step * step) * wished, np.argsort(times)
    batch = np.searchsorted(times[order], 1.0)
    while batch >= LEAST_BATCH:
        reach = times[order[batch]] if batch < f else 1.0
        pinned[:] = 0
        for p in order[:batch]:
            pinned[p] = 1 if d[p] > 0.0 else -1
        share, within = _spread(min(reach, 1.0), d, v, least, most, pinned, move)
        if within:
            reach = min(reach, 1.0)
            for p in range(f):
                u[p] = reach * (forward[p] - level * ones[p]) + share * ones[p]
            for p in range(f):
                if pinned[p]:
                    subtract(u[: p + 1], factor[p, : p + 1], reach * d[p] + share * v[p] - move[p])
            if dot(forward[:f], u) - 0.5 * dot(u, u) >= enough:
                for p in range(f):
                    forward[p] -= u[p]
                    if pinned[p]:
                        move[p] = np.inf if pinned[p] > 0 else -np.inf
                return True
        batch //= 2
    return False


@compiled()
def _longest_step(
    beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, free: np.ndarray, f: int, d: np.ndarray
) -> tuple[float, int]:
    """Return the longest feasible step along ``d``, at most 1, and the blocking row or -1."""
    step, at = 1.0, -1
    for p in range(f):
        k = free[p]
        if d[p] > 0.0:
            room = upper[k] - beta[k]
        elif d[p] < 0.0:
            room = lower[k] - beta[k]
        else:
            continue
        if room / d[p] < step:
            step, at = max(room / d[p], 0.0), p
    return step, at


@compiled()
def _most_violating(
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    level: float,
    least: float,
    wanted: np.ndarray,
) -> int:
    """Fill ``wanted`` with rows at a bound that violate by more than ``least``, the worst first."""
    found, count = np.empty(residual.size), 0
    rows = np.empty(residual.size, np.int64)
    for k in range(residual.size):
        may_rise, may_fall = beta[k] < upper[k], beta[k] > lower[k]
        if may_rise == may_fall:
            continue
        gap = residual[k] - level if may_rise else level - residual[k]
        if gap > least:
            found[count], rows[count] = -gap, k
            count += 1
    order = np.argsort(found[:count])
    count = min(count, wanted.size)
    for p in range(count):
        wanted[p] = rows[order[p]]
    return count


@compiled()
def _steps(
    kernel: np.ndarray,
    shift: float,
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    carried: Carried,
    f: int,
    tol: float,
    limit: int,
) -> tuple[int, int, int]:
    """Run ``solve_active`` from the factor of the free rows; return steps, status, free rows."""
    free, sides = carried.free, carried.sides
    n, capacity, ones, forward = residual.size, free.size, sides[0], sides[1]
    wanted = np.empty(capacity, np.int64)
    d, v, least, most, move = np.empty((5, capacity))
    # What the residuals do not know yet: it is made up when rows are to be set free.
    pending, moved_rows, moves = np.zeros(n), np.empty(n, np.int64), np.empty(n)
    span = np.max(upper - lower)
    solve_forward(residual, carried, f)
    idle, batch, alone = 0, 1, False
    for done in range(limit):
        level = 0.0
        if f >= 2:
            level = directions(carried, f, d, v)
            step, at = _longest_step(beta, lower, upper, free, f, d)
            many = False
            if at >= 0:
                for p in range(f):
                    least[p], most[p] = (
                        lower[free[p]] - beta[free[p]],
                        upper[free[p]] - beta[free[p]],
                    )
                many = _pin_many(carried, least[:f], most[:f], step, level, d[:f], v[:f], move[:f])
            moved = 0.0
            for p in range(f):
                k = free[p]
                new = beta[k] + (move[p] if many else step * d[p])
                if p == at and not many:
                    new = upper[k] if d[p] > 0.0 else lower[k]
                new = min(max(new, lower[k]), upper[k])
                pending[k] += new - beta[k]
                moved = max(moved, abs(new - beta[k]))
                beta[k] = new
            idle = idle + 1 if moved <= LEAST_MOVE * span else 0
            if at >= 0 and idle <= MOST_IDLE_STEPS:
                # A row that was set free and may not move: fewer at once are safer.
                if moved <= LEAST_MOVE * span:
                    batch = 0
                if not many:
                    for p in range(f):
                        forward[p] += step * (level * ones[p] - forward[p])
                f = remove_bounded(kernel, shift, carried, beta, lower, upper, f)
                continue
        m = 0
        for k in range(n):
            if pending[k] != 0.0:
                moved_rows[m], moves[m], pending[k] = k, pending[k], 0.0
                m += 1
        subtract_rows(residual, kernel[:, :n], moved_rows[:m], moves[:m])
        top, bottom, i, j = optimality(residual, beta, lower, upper)
        if not (top - bottom >= tol):
            return done, CONVERGED, f
        if idle > MOST_IDLE_STEPS:
            return done, STALLED, f
        if f < 2:
            for k in (i, j):
                if f == 0 or free[0] != k:
                    f = append(kernel, shift, carried, f, np.array([k]))
        else:
            if batch == 0 and alone:  # a row alone can always move, but for rounding
                factorise(kernel, shift, carried, f)
            batch = min(2 * batch, 1 + int(ADDED_SHARE * f)) if batch else 1
            alone = batch == 1
            room = min(batch, capacity - f)
            if room <= 0:
                return done, STALLED, f
            n_new = _most_violating(
                residual, beta, lower, upper, level, VIOLATION_SHARE * tol, wanted[:room]
            )
            f = append(kernel, shift, carried, f, wanted[:n_new])
            if n_new == 0:
                idle += 1
        solve_forward(residual, carried, f)
    for k in range(n):
        if pending[k] != 0.0:
            subtract_rows(residual, kernel[:, :n], np.array([k]), pending[k : k + 1])
    return limit, ITERATION_LIMIT, f


@compiled()
def solve_active(
    kernel: np.ndarray,
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    rows: np.ndarray,
    carried: Carried,
    tol: float,
    finest: float,
    limit: int,
) -> tuple[int, int]:
    """Take Newton steps until LIBSVM's stopping rule holds; changes ``beta`` and ``residual``.

    Parameters
    ----------
    kernel : float32 or float64 array of shape (>= n, >= n), symmetric; a diagonal of
        0 tells ``exp(-x) - 1``
    residual, beta, lower, upper : float64 arrays of shape (n,)
    rows : int64 array of shape (n,)
        The numbers by which ``carried`` knows them.
    carried : Carried
        The factor of an earlier solve with the same kernel, or ``no_factor``.
    finest : float
        The tolerance that will be asked for in the end.
    limit : int
        The largest number of steps.

    Returns
    -------
    steps : int
    status : int
        ``CONVERGED``, ``ITERATION_LIMIT`` or ``STALLED``: more rows want to be free
        than the work space holds, or steps no longer move anything.
    """
    largest, span = 0.0, 0.0
    for k in range(residual.size):
        largest = max(largest, abs(np.float64(kernel[k, k])))
        span = max(span, upper[k] - lower[k])
    shift = 1.0 if largest == 0.0 else 0.0
    resolved = RESOLVED64 if kernel.itemsize == 8 else RESOLVED32
    ridge = max(RIDGE_SHARE * finest / span, resolved * max(largest, 1.0))
    f = take_up(kernel, shift, ridge, beta, lower, upper, rows, carried)
    if f < 0:
        f = _free_rows(beta, lower, upper, carried.free)
        if f < 0:
            return 0, STALLED
        carried.ridge[0] = ridge
        factorise(kernel, shift, carried, f)
    steps, status, f = _steps(kernel, shift, residual, beta, lower, upper, carried, f, tol, limit)
    carried.size[0] = 0 if status == STALLED else f
    carried.rows[:f] = rows[carried.free[:f]]
    return steps, status
