"""Sequential minimal optimisation on one small dense problem.

The C-SVC dual in the signed multipliers ``beta = y * alpha``:

    minimise  1/2 beta' K beta - y' beta
    subject to  sum(beta) = 0,  lower <= beta <= upper

where ``[lower, upper]`` is ``[0, C w]`` for a row of the first class and
``[-C w, 0]`` for a row of the second.  ``residual = y - K beta`` is minus the
gradient.  A row may rise when ``beta < upper`` and fall when ``beta > lower``;
the solution is optimal to ``tol`` when

    max(residual of rows that may rise) - min(residual of rows that may fall) < tol

which is LIBSVM's stopping rule.  The pair to change is chosen with second-order
information: WSS 2 of R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set selection
using second order information for training SVM", JMLR 6 (2005).

In these variables no label appears in the inner loops, and one row subtraction
updates the residual, so both loops are branch-free and vectorise.
"""

import numpy as np

from pipelines.svm.compiled import NO_NAN, compiled
from pipelines.svm.cpu.lanes import bits_of, larger, smaller
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# The row's index travels in the low bits of the key that is maximised: a float64
# keeps 35 bits of mantissa, and no second scan has to look for the winner.
_INDEX_BITS = np.int64((1 << 17) - 1)
MAX_ROWS = 1 << 17

# The smallest curvature along a pair, as LIBSVM's TAU: K need not be positive
# definite (sigmoid), and duplicates have curvature 0.
_MIN_CURVATURE = 1e-12


@compiled(*NO_NAN)
def move_and_pick(
    residual: np.ndarray,
    row_i: np.ndarray,
    row_j: np.ndarray,
    step: float,
    rise: np.ndarray,
    fall: np.ndarray,
) -> tuple[np.int64, float]:
    """Return ``residual -= step * (row_i - row_j)``; then the row most eager to rise.

    Returns its index and the smallest residual among the rows that may fall.
    ``rise`` is 0 where a row may rise and -inf elsewhere; ``fall`` is 0 or +inf.
    """
    best = np.int64(-0x7FFFFFFFFFFFFFFF)
    lowest = np.inf
    for k in range(residual.size):
        r = residual[k] - step * (np.float64(row_i[k]) - np.float64(row_j[k]))
        residual[k] = r
        key = bits_of(r + rise[k])
        # Order of floats as order of integers: flip the magnitude of negatives.
        key ^= (key >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)
        best = max(best, (key & ~_INDEX_BITS) | np.int64(k))
        lowest = smaller(lowest, r + fall[k])
    return best & _INDEX_BITS, lowest


@compiled(*NO_NAN)
def pick_partner(
    residual: np.ndarray,
    row_i: np.ndarray,
    diagonal: np.ndarray,
    r_i: float,
    k_ii: float,
    fall: np.ndarray,
) -> np.int64:
    """Return the row whose pair with row i promises the largest decrease of the dual."""
    best = np.int64(0)
    for k in range(residual.size):
        gap = larger(r_i - (residual[k] + fall[k]), 0.0)
        curvature = np.float64(k_ii + diagonal[k] - np.float32(2) * row_i[k])
        gain = gap * gap / larger(curvature, _MIN_CURVATURE)
        best = max(best, (bits_of(gain) & ~_INDEX_BITS) | np.int64(k))
    return best & _INDEX_BITS


@compiled()
def _mark(
    k: int | np.int64,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    rise: np.ndarray,
    fall: np.ndarray,
) -> None:
    rise[k] = 0.0 if beta[k] < upper[k] else -np.inf
    fall[k] = 0.0 if beta[k] > lower[k] else np.inf


@compiled()
def mark_all(
    beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, rise: np.ndarray, fall: np.ndarray
) -> None:
    """Fill ``rise`` and ``fall`` from the multipliers and their bounds."""
    for k in range(beta.size):
        _mark(k, beta, lower, upper, rise, fall)


@compiled()
def _step(
    i: int | np.int64,
    j: int | np.int64,
    curvature: float,
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
) -> float:
    """Move ``beta[i]`` up and ``beta[j]`` down as far as gain and bounds allow.

    A multiplier that reaches its bound is set to it exactly, so that later tests
    for equality hold.  Returns the step; 0.0 when float64 cannot resolve it.
    """
    room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
    step = (residual[i] - residual[j]) / max(curvature, _MIN_CURVATURE)
    step = min(step, room_i, room_j)
    new_i = upper[i] if step >= room_i else beta[i] + step
    new_j = lower[j] if step >= room_j else beta[j] - step
    if new_i == beta[i] and new_j == beta[j]:
        return 0.0
    beta[i], beta[j] = new_i, new_j
    return step


@compiled()
def solve_dense(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    rise: np.ndarray,
    fall: np.ndarray,
    tol: float,
    limit: int,
) -> tuple[int, int]:
    """Run SMO until LIBSVM's stopping rule holds; changes ``beta`` and ``residual``.

    Parameters
    ----------
    kernel : float32 array of shape (>= n, >= n)
        Only the leading n x n part is read; it must be exactly symmetric.
    diagonal : float32 array of shape (n,)
    residual, beta, lower, upper : float64 arrays of shape (n,)
    rise, fall : float64 arrays of shape (n,)
        Work space.
    limit : int
        The largest number of iterations.

    Returns
    -------
    iterations : int
    status : int
        ``CONVERGED``, ``ITERATION_LIMIT`` or ``STALLED`` (the next step is below
        what float64 resolves at this multiplier).
    """
    n = residual.size
    mark_all(beta, lower, upper, rise, fall)
    i, lowest = move_and_pick(residual, kernel[0, :n], kernel[0, :n], 0.0, rise, fall)
    for iteration in range(limit):
        r_i = residual[i] + rise[i]
        if not (r_i - lowest >= tol):
            return iteration, CONVERGED
        row_i = kernel[i, :n]
        j = pick_partner(residual, row_i, diagonal, r_i, diagonal[i], fall)
        curvature = np.float64(diagonal[i]) + diagonal[j] - 2.0 * row_i[j]
        step = _step(i, j, curvature, residual, beta, lower, upper)
        if step == 0.0:
            return iteration, STALLED
        _mark(i, beta, lower, upper, rise, fall)
        _mark(j, beta, lower, upper, rise, fall)
        i, lowest = move_and_pick(residual, row_i, kernel[j, :n], step, rise, fall)
    return limit, ITERATION_LIMIT
