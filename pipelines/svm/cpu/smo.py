"""Sequential minimal optimisation on one small dense problem.

The C-SVC dual in the signed multipliers ``beta = y * alpha``:

    minimise  1/2 beta' K beta - y' beta
    subject to  sum(beta) = 0,  lower <= beta <= upper

where ``[lower, upper]`` is ``[0, C w]`` for a row of the first class and
``[-C w, 0]`` for a row of the second.  ``residual = y - K beta`` is minus the
gradient.  A row may rise when ``beta < upper`` and fall when ``beta > lower``;
the solution is optimal to ``tol`` when

    max(residual of rows that may rise) - min(residual of rows that may fall) < tol

which is LIBSVM's stopping rule.  The pair to change is chosen with second-order information (WSS 2
of Fan, Chen and Lin).

In these variables no label appears in the inner loops, and one row subtraction updates the
residuals, so both loops are branch-free and vectorise.

References
----------
R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set selection using second order information for
training SVM", JMLR 6, 2005.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pipelines.svm.compiled import NO_NAN, compiled
from pipelines.svm.cpu.binary_problem import BETA, FALL, LOWER, RESIDUAL, RISE, UPPER, ZERO
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# The index of a row is packed in the low bits of the key that is maximised. The value keeps 35 bits
# of mantissa, and no second loop has to find the row of the maximum.
_INDEX_BITS = np.int64((1 << 17) - 1)
MAX_ROWS = 1 << 17

# The smallest curvature along a pair, as LIBSVM's TAU: K need not be positive
# definite (sigmoid), and duplicates have curvature 0.
_MIN_CURVATURE = 1e-12

_DOUBLE = ir.DoubleType()


def _extremum(llvm_name: str) -> Any:
    """A float64 maximum or minimum that may assume its arguments are not NaN.

    numba's own follow rules about NaN that keep a reduction from being vectorised.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def extremum(typing_context: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            function_type = ir.FunctionType(_DOUBLE, [_DOUBLE, _DOUBLE])
            function = builder.module.declare_intrinsic(llvm_name, [_DOUBLE], function_type)
            return builder.call(function, args, fastmath=("nnan", "nsz"))

        return types.float64(types.float64, types.float64), codegen

    return extremum


larger = _extremum("llvm.maxnum")
smaller = _extremum("llvm.minnum")


@intrinsic  # type: ignore[untyped-decorator]
def bits_of(typing_context: Any, x: Any) -> Any:
    """The 64 bits of a float64 as an int64, not converted."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@compiled(*NO_NAN, inner=True)
def _move_and_pick(
    kernel: np.ndarray, state: np.ndarray, n: int, i: int | np.int64, j: int | np.int64, step: float
) -> tuple[np.int64, float]:
    """Compute ``residual -= step * (kernel[i] - kernel[j])``, and pick the first row of a pair.

    Returns the row of the largest residual among those that may rise, and the smallest residual
    among those that may fall.  ``RISE`` is 0 where a row may rise and -inf elsewhere; ``FALL`` is 0
    where it may fall and +inf elsewhere.
    """
    best = np.int64(-0x7FFFFFFFFFFFFFFF)
    lowest = np.inf
    for k in range(n):
        r = state[RESIDUAL, k] - step * (np.float64(kernel[i, k]) - np.float64(kernel[j, k]))
        state[RESIDUAL, k] = r
        key = bits_of(r + state[RISE, k])
        # So that integers compare like the floats whose bits they are: flip negative magnitudes.
        key ^= (key >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)
        best = max(best, (key & ~_INDEX_BITS) | np.int64(k))
        lowest = smaller(lowest, r + state[FALL, k])
    return best & _INDEX_BITS, lowest


@compiled(*NO_NAN, inner=True)
def _pick_partner(
    kernel: np.ndarray,
    diagonal: np.ndarray,
    state: np.ndarray,
    n: int,
    i: int | np.int64,
    r_i: float,
) -> np.int64:
    """The row whose pair with row i promises the largest decrease of the dual objective."""
    best, k_ii = np.int64(0), diagonal[i]
    for k in range(n):
        gap = larger(r_i - (state[RESIDUAL, k] + state[FALL, k]), 0.0)
        curvature = np.float64(k_ii + diagonal[k] - np.float32(2) * kernel[i, k])
        gain = gap * gap / larger(curvature, _MIN_CURVATURE)
        best = max(best, (bits_of(gain) & ~_INDEX_BITS) | np.int64(k))
    return best & _INDEX_BITS


@compiled()
def solve_dense(
    kernel: np.ndarray, diagonal: np.ndarray, state: np.ndarray, n: int, tol: float, limit: int
) -> tuple[int, int]:
    """Run SMO until LIBSVM's stopping rule holds; changes multipliers and residuals.

    Parameters
    ----------
    kernel : float32 or float64 array of shape (>= n, >= n)
        Only the leading n x n part is read; it must be exactly symmetric.
    diagonal : array of shape (>= n,), of the kernel's dtype
    state : float64 array of shape (>= 6, >= n), see ``binary_problem``
        ``RISE`` and ``FALL`` are work space.
    n : int
        The number of rows.
    tol : float
    limit : int
        The most iterations.

    Returns
    -------
    iterations : int
    status : int
        ``CONVERGED``, ``ITERATION_LIMIT`` or ``STALLED`` (the next step is below
        what float64 resolves at this multiplier).
    """
    for k in range(n):
        state[RISE, k] = 0.0 if state[BETA, k] < state[UPPER, k] else -np.inf
        state[FALL, k] = 0.0 if state[BETA, k] > state[LOWER, k] else np.inf
    i, lowest = _move_and_pick(kernel, state, n, ZERO, ZERO, 0.0)
    for iteration in range(limit):
        r_i = state[RESIDUAL, i] + state[RISE, i]
        if not (r_i - lowest >= tol):
            return iteration, CONVERGED
        j = _pick_partner(kernel, diagonal, state, n, i, r_i)
        # To the minimum along the pair, or to the first bound.
        curvature = np.float64(diagonal[i]) + diagonal[j] - 2.0 * kernel[i, j]
        step = (state[RESIDUAL, i] - state[RESIDUAL, j]) / max(curvature, _MIN_CURVATURE)
        beta_i, beta_j = state[BETA, i], state[BETA, j]
        room_i, room_j = state[UPPER, i] - beta_i, beta_j - state[LOWER, j]
        step = min(step, room_i, room_j)
        # A multiplier that reaches its bound is set to it exactly, as it is compared with it later.
        state[BETA, i] = state[UPPER, i] if step >= room_i else beta_i + step
        state[BETA, j] = state[LOWER, j] if step >= room_j else beta_j - step
        if state[BETA, i] == beta_i and state[BETA, j] == beta_j:
            return iteration, STALLED
        state[RISE, i] = 0.0 if state[BETA, i] < state[UPPER, i] else -np.inf
        state[FALL, i] = 0.0 if state[BETA, i] > state[LOWER, i] else np.inf
        state[RISE, j] = 0.0 if state[BETA, j] < state[UPPER, j] else -np.inf
        state[FALL, j] = 0.0 if state[BETA, j] > state[LOWER, j] else np.inf
        i, lowest = _move_and_pick(kernel, state, n, i, j, step)
    return limit, ITERATION_LIMIT
