"""SMO of a thread block on the member rows of a binary problem.

The dual is that of ``pipelines.svm.cpu.smo``: signed multipliers ``beta``, residual
``y - K beta``, a row may rise below its upper bound and fall above its lower one.
Working set selection WSS 2 of R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set
selection using second order information for training SVM", JMLR 6 (2005), and
LIBSVM's stopping rule.

Thread t owns the members t, t + T, t + 2 T, ... (T threads): it alone reads and
writes their residual and mark.  What others must know of a row they learn
through the parts of a reduction, so an iteration needs two barriers:

    pass A   take the last step off the residuals; find row i        barrier
    pass B   with the kernel of row i, find its partner j            barrier

Parts of A and of B lie apart.  Nobody overwrites A's before all have read them,
because a barrier of B lies between, and the other way round.
"""

from functools import cache

import numpy as np

from pipelines.svm.cuda.block_threads import (
    NOWHERE,
    WARP,
    barrier,
    device,
    reciprocal,
    warp_low,
    warp_top,
)
from pipelines.svm.cuda.kernel_values import self_function, value_function
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# A mark holds a member's column in the shared products and what it may do.
RISE = 1 << 29
FALL = 1 << 30
COLUMN = RISE - 1

# As LIBSVM's TAU: the smallest curvature along a pair.
_MIN_CURVATURE = 1e-12


@device
def mark_of(column, beta, bound):
    """The mark of a row; ``bound`` has the sign of its label."""
    mark = column
    if beta < max(bound, 0.0):
        mark |= RISE
    if beta > min(bound, 0.0):
        mark |= FALL
    return np.int32(mark)


@device
def _share_first(t, n_threads, best, at, low, tops, places, lows):
    """The largest ``best`` with its place, and the smallest ``low``, in every thread."""
    best, at = warp_top(best, at)
    low = warp_low(low)
    if t % WARP == 0:
        tops[t // WARP], places[t // WARP], lows[t // WARP] = best, at, low
    barrier()  # every warp's part is there
    best, at, low = -np.inf, np.int32(NOWHERE), np.inf
    for q in range(t % WARP, n_threads // WARP, WARP):
        low = min(low, lows[q])
        if tops[q] > best or (tops[q] == best and places[q] < at):
            best, at = tops[q], places[q]
    best, at = warp_top(best, at)
    return best, at, warp_low(low)


@cache
def inner_solver(name: str):
    """The device function that solves the members, for one kernel function."""
    value_at, self_at = value_function(name), self_function(name)

    @device
    def load(p, m, marks, row):
        """The shared product of a row and member p; 0 beyond the last."""
        value = np.float32(0)
        if p < m:
            value = row[np.uint32(marks[np.uint32(p)] & COLUMN)]
        return value

    @device
    def advance(p, m, shared_i, shared_j, step, gamma, coef0, degree,
                residual, marks, best, at, low):  # fmt: skip
        """Pass A for one member."""
        if p < m:
            value_i = value_at(shared_i, gamma, coef0, degree)
            value_j = value_at(shared_j, gamma, coef0, degree)
            at_p = np.uint32(p)
            r = residual[at_p] - step * (np.float64(value_i) - np.float64(value_j))
            residual[at_p] = r
            mark = marks[at_p]
            if mark & RISE != 0 and r > best:
                best, at = r, np.int32(p)
            if mark & FALL != 0 and r < low:
                low = r
        return best, at, low

    @device
    def weigh(p, m, shared_i, r_i, k_ii, gamma, coef0, degree, diagonal,
              residual, marks, best, at, r_at, k_at):  # fmt: skip
        """Pass B for one member: the decrease of the dual its pair with i promises."""
        if p < m and marks[np.uint32(p)] & FALL != 0:
            r = residual[np.uint32(p)]
            gap = r_i - r
            if gap > 0:
                k_ip = value_at(shared_i, gamma, coef0, degree)
                k_pp = self_at(
                    diagonal, np.uint32(marks[np.uint32(p)] & COLUMN), gamma, coef0, degree
                )
                curvature = np.float32(k_ii + k_pp - np.float32(2) * k_ip)
                # In single precision: it only ranks the candidates.
                inverse = reciprocal(max(curvature, np.float32(_MIN_CURVATURE)))
                gain = gap * gap * np.float64(inverse)
                if gain > best:
                    best, at, r_at, k_at = gain, np.int32(p), r, k_ip
        return best, at, r_at, k_at

    @device
    def solve(
        t, n_threads, m, shared, diagonal, gamma, coef0, degree, tol, limit,
        residual, marks, beta, bounds, tops, lows, gains, places, partners, facts,
    ):  # fmt: skip
        """SMO on m members until LIBSVM's stopping rule holds among them.

        Parameters
        ----------
        t, n_threads : this thread's number, and how many the block has
        shared : float32 (n, n); diagonal : float32 (n,)
        residual : float64 (>= m,) and marks : int32 (>= m,), read by owners only
        beta, bounds : float64 (>= m,); a bound has the sign of its row's label
        tops, lows, gains : float64; places, partners : int32; facts : float64
            (5, .): shared memory, a place for each warp

        Returns
        -------
        iterations, status : the same in every thread
        """
        # Counters of 32 bits and unsigned places spare a third of the instructions: numba
        # takes a signed place for one that may count from the end.
        t, n_threads, m = np.int32(t), np.int32(n_threads), np.int32(m)
        stride = np.int32(4 * n_threads)
        row_i = shared[0]
        row_j = row_i
        step = 0.0
        iteration = 0
        while True:
            # Pass A.  Four members at once, so that eight loads are on their way
            # before the first residual is written.
            best, at, low = -np.inf, np.int32(NOWHERE), np.inf
            for p in range(t, m, stride):
                q = np.int32(p + n_threads)
                u = np.int32(q + n_threads)
                v = np.int32(u + n_threads)
                ip, jp = load(p, m, marks, row_i), load(p, m, marks, row_j)
                iq, jq = load(q, m, marks, row_i), load(q, m, marks, row_j)
                iu, ju = load(u, m, marks, row_i), load(u, m, marks, row_j)
                iv, jv = load(v, m, marks, row_i), load(v, m, marks, row_j)
                best, at, low = advance(p, m, ip, jp, step, gamma, coef0, degree,
                                        residual, marks, best, at, low)  # fmt: skip
                best, at, low = advance(q, m, iq, jq, step, gamma, coef0, degree,
                                        residual, marks, best, at, low)  # fmt: skip
                best, at, low = advance(u, m, iu, ju, step, gamma, coef0, degree,
                                        residual, marks, best, at, low)  # fmt: skip
                best, at, low = advance(v, m, iv, jv, step, gamma, coef0, degree,
                                        residual, marks, best, at, low)  # fmt: skip
            r_i, i, low = _share_first(t, n_threads, best, at, low, tops, places, lows)
            if not (r_i - low >= tol):
                return iteration, CONVERGED
            if iteration >= limit:
                return iteration, ITERATION_LIMIT
            # Owners wrote these before the barrier of A and write again after that of B.
            column_i, beta_i, bound_i = marks[i] & COLUMN, beta[i], bounds[i]

            # Pass B.
            row_i = shared[column_i]
            k_ii = self_at(diagonal, column_i, gamma, coef0, degree)
            gain, at, r_at, k_at = -1.0, np.int32(NOWHERE), 0.0, np.float32(0)
            for p in range(t, m, stride):
                q = np.int32(p + n_threads)
                u = np.int32(q + n_threads)
                v = np.int32(u + n_threads)
                ip, iq = load(p, m, marks, row_i), load(q, m, marks, row_i)
                iu, iv = load(u, m, marks, row_i), load(v, m, marks, row_i)
                gain, at, r_at, k_at = weigh(
                    p, m, ip, r_i, k_ii, gamma, coef0, degree, diagonal,
                    residual, marks, gain, at, r_at, k_at)  # fmt: skip
                gain, at, r_at, k_at = weigh(
                    q, m, iq, r_i, k_ii, gamma, coef0, degree, diagonal,
                    residual, marks, gain, at, r_at, k_at)  # fmt: skip
                gain, at, r_at, k_at = weigh(
                    u, m, iu, r_i, k_ii, gamma, coef0, degree, diagonal,
                    residual, marks, gain, at, r_at, k_at)  # fmt: skip
                gain, at, r_at, k_at = weigh(
                    v, m, iv, r_i, k_ii, gamma, coef0, degree, diagonal,
                    residual, marks, gain, at, r_at, k_at)  # fmt: skip
            top, winner = warp_top(gain, at)
            warp = t // WARP
            if winner == NOWHERE:
                if t % WARP == 0:
                    gains[warp], partners[warp] = -1.0, np.int32(NOWHERE)
            elif at == winner:  # one lane: no place has two owners
                gains[warp], partners[warp] = top, winner
                facts[0, warp], facts[1, warp], facts[2, warp] = r_at, beta[at], bounds[at]
                facts[3, warp], facts[4, warp] = k_at, marks[at] & COLUMN
            barrier()  # every warp's candidate is there, and all have read beta[i]
            top, j = -1.0, np.int32(NOWHERE)
            for q in range(t % WARP, n_threads // WARP, WARP):  # type: ignore[assignment]
                if gains[q] > top or (gains[q] == top and partners[q] < j):
                    top, j = gains[q], partners[q]
            top, j = warp_top(top, j)
            if j == NOWHERE:  # the kernel is not finite
                return iteration, STALLED
            warp = (j % n_threads) // WARP
            r_j, beta_j, bound_j = facts[0, warp], facts[1, warp], facts[2, warp]
            k_ij, column_j = facts[3, warp], int(facts[4, warp])
            row_j = shared[column_j]

            # Every thread takes the same step; a multiplier that reaches its bound is
            # set to it exactly, so that later tests for equality hold.
            k_jj = self_at(diagonal, column_j, gamma, coef0, degree)
            curvature = np.float64(k_ii) + np.float64(k_jj) - 2.0 * k_ij
            room_i, room_j = max(bound_i, 0.0) - beta_i, beta_j - min(bound_j, 0.0)
            step = min((r_i - r_j) / max(curvature, _MIN_CURVATURE), room_i, room_j)
            new_i, new_j = beta_i + step, beta_j - step
            if step >= room_i:
                new_i = max(bound_i, 0.0)
            if step >= room_j:
                new_j = min(bound_j, 0.0)
            if new_i == beta_i and new_j == beta_j:
                return iteration, STALLED
            if i % n_threads == t:
                beta[i], marks[i] = new_i, mark_of(column_i, new_i, bound_i)
            if j % n_threads == t:
                beta[j], marks[j] = new_j, mark_of(column_j, new_j, bound_j)
            iteration += 1

    return solve
