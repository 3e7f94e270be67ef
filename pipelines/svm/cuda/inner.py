"""SMO of a thread block on the member rows of a binary problem.

The dual is that of ``pipelines.svm.cpu.smo``: signed multipliers ``beta``, residual ``y - K beta``;
a row may rise below its upper bound and fall above its lower one.  Pairs are chosen by WSS 2 of
Fan, Chen and Lin, and LIBSVM's stopping rule ends the solve.

The members' kernel is computed once for a solve and kept compact, as on the CPU: its rows are read
contiguously, and no exponential is in the loop.  It lies in device memory; the first-level cache
holds the rows just read.

Thread t owns the members t, t + T, t + 2 T, ... (T threads): only it reads and writes their
residual and mark.  Other threads learn about a row through the parts of a reduction, so an
iteration needs two barriers:

    pass A   subtract the last step from the residuals; find row i   barrier
    pass B   with the kernel of row i, find its partner j            barrier

The parts of A and of B are separate arrays.  No thread overwrites those of A before all have read
them, because a barrier of B lies in between, and vice versa.

References
----------
R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set selection using second order information for
training SVM", JMLR 6, 2005.
"""

from functools import cache

import numpy as np

from pipelines.svm.cuda.block import (
    NOWHERE,
    WARP,
    barrier,
    device,
    join_lows,
    join_tops,
    larger,
    low_of,
    reciprocal,
    smaller,
    top_of,
)
from pipelines.svm.cuda.kernel_values import self_function, value_function
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# Bits of a mark: whether a member may rise, and whether it may fall.
RISE, FALL = 1, 2

# The smallest curvature along a pair, as LIBSVM's TAU.
_MIN_CURVATURE = 1e-12

# The most iterations of one solve, which are counted in 32 bits.
_MOST_ITERATIONS = 2**31 - 1


@device
def mark_of(beta, bound):
    """Whether a row may rise, fall or both; ``bound`` has the sign of its label."""
    mark = 0
    if beta < larger(bound, 0.0):
        mark |= RISE
    if beta > smaller(bound, 0.0):
        mark |= FALL
    return np.int32(mark)


@device
def round_up(m, n_threads):
    """m rounded up to a multiple of the number of threads."""
    return np.int32((np.int32(m) + np.int32(n_threads - 1)) // np.int32(n_threads) * n_threads)


@device
def owner(p, n_threads):
    """The thread that owns member p."""
    return np.uint32(p) % np.uint32(n_threads)


@cache
def gatherer(name: str):
    """The device function that computes the members' kernel, for one kernel function."""
    value_at = value_function(name)

    @device
    def load(products, p, m, columns, column):
        """The shared product of member p and a column; 0 beyond the last member."""
        value = np.float32(0)
        if p < m:
            value = products.shared[np.uint32(columns[np.uint32(p)]), column]
        return value

    @device
    def put(products, p, m, value, real, q, matrix):
        if p < m:
            entry = np.float32(0)
            if real:
                entry = value_at(products, value)
            matrix[np.uint32(p), q] = entry

    @device
    def gather(t, n_threads, m, columns, products, matrix):
        """Compute kernel values between m members; columns are padded with 0 to the threads.

        columns : int32 (m,), the members' numbers in ``products.shared``
        matrix : float32 (width + 1, width), output: a row for each member, the diagonal in the last
        """
        m, stride, padded = np.int32(m), np.int32(n_threads), round_up(m, n_threads)
        last = np.uint32(matrix.shape[1])
        q = np.int32(t)
        while q < padded:
            real, position, column = q < m, np.uint32(q), np.uint32(0)
            if real:
                column = np.uint32(columns[position])
            p = np.int32(0)
            # Four at once, so that four loads are in flight.
            while p < m:
                r, u, v = np.int32(p + 1), np.int32(p + 2), np.int32(p + 3)
                a = load(products, p, m, columns, column)
                b = load(products, r, m, columns, column)
                c = load(products, u, m, columns, column)
                d = load(products, v, m, columns, column)
                put(products, p, m, a, real, position, matrix)
                put(products, r, m, b, real, position, matrix)
                put(products, u, m, c, real, position, matrix)
                put(products, v, m, d, real, position, matrix)
                p = np.int32(p + 4)
            matrix[last, position] = value_at(products, products.shared[column, column])
            q = np.int32(q + stride)

    return gather


@cache
def inner_solver(name: str):
    """The device function that solves the members' problem by SMO, for one kernel function."""
    self_at = self_function(name)

    @device
    def load(p, padded, row):
        """A value of a row of the matrix; 0 beyond the last."""
        value = np.float32(0)
        if p < padded:
            value = row[np.uint32(p)]
        return value

    @device
    def advance(p, padded, value_i, value_j, step, near, best, at, low):
        """Pass A for one member: apply the last step, and update the most violating one."""
        if p < padded:
            position = np.uint32(p)
            r = near.residual[position] - step * (np.float64(value_i) - np.float64(value_j))
            near.residual[position] = r
            mark = near.marks[position]
            if mark & RISE != 0 and r > best:
                best, at = r, np.int32(p)
            if mark & FALL != 0 and r < low:
                low = r
        return best, at, low

    @device
    def weigh(p, padded, k_ip, r_i, k_ii, near, matrix, best, at):
        """Pass B for one member: update the pair with row i that promises the largest decrease.

        In single precision, as it only ranks the pairs.
        """
        if p < padded and near.marks[np.uint32(p)] & FALL != 0:
            gap = np.float32(r_i - near.residual[np.uint32(p)])
            if gap > np.float32(0):
                k_pp = self_at(matrix, p)
                curvature = np.float32(k_ii + k_pp - np.float32(2) * k_ip)
                inverse = reciprocal(larger(curvature, np.float32(_MIN_CURVATURE)))
                gain = np.float32(gap * np.float32(gap * inverse))
                if gain > best:
                    best, at = gain, np.int32(p)
        return best, at

    @device
    def solve(t, n_threads, m, near, matrix, tol, limit, parts):
        """Run SMO on m members until LIBSVM's stopping rule holds among them.

        Parameters
        ----------
        t, n_threads : int
            This thread's number, and how many the block has.
        near : Near
            Padded to a multiple of the threads with marks of 0.
        matrix : see ``gatherer``
        tol, limit : tolerance, and the most iterations
        parts : Parts

        Returns
        -------
        iterations, status : int
            The same in every thread.
        """
        # 32-bit counters and unsigned indices save a third of the instructions: a signed index
        # might count from the end, which numba has to test.
        t, stride, padded = np.int32(t), np.int32(n_threads), round_up(m, n_threads)
        limit = np.int32(min(limit, _MOST_ITERATIONS))
        warp, first = np.uint32(t) // np.uint32(WARP), np.uint32(t) % np.uint32(WARP) == 0
        row_i = matrix[np.uint32(0)]
        row_j = row_i
        step = 0.0
        iteration = np.int32(0)
        while True:
            # Pass A.  Four members at once, so that eight loads are in flight before the first
            # residual is written.
            best, at, low = -np.inf, np.int32(NOWHERE), np.inf
            p = t
            while p < padded:
                q = np.int32(p + stride)
                u = np.int32(q + stride)
                v = np.int32(u + stride)
                ip, jp = load(p, padded, row_i), load(p, padded, row_j)
                iq, jq = load(q, padded, row_i), load(q, padded, row_j)
                iu, ju = load(u, padded, row_i), load(u, padded, row_j)
                iv, jv = load(v, padded, row_i), load(v, padded, row_j)
                best, at, low = advance(p, padded, ip, jp, step, near, best, at, low)
                best, at, low = advance(q, padded, iq, jq, step, near, best, at, low)
                best, at, low = advance(u, padded, iu, ju, step, near, best, at, low)
                best, at, low = advance(v, padded, iv, jv, step, near, best, at, low)
                p = np.int32(v + stride)
            best, at = top_of(best, at, WARP)
            low = low_of(low, WARP)
            if first:
                parts.tops[warp], parts.places[warp], parts.lows[warp] = best, at, low
            barrier()  # every warp's part is there
            r_i, i = join_tops(t, n_threads, parts.tops, parts.places)
            low = join_lows(t, n_threads, parts.lows)
            if not (r_i - low >= tol):
                return iteration, CONVERGED
            if iteration >= limit:
                return iteration, ITERATION_LIMIT
            # The owner of i wrote these before the barrier of A, and writes them again after B's.
            beta_i, bound_i = near.beta[np.uint32(i)], near.bounds[np.uint32(i)]

            # Pass B.
            row_i = matrix[np.uint32(i)]
            k_ii = self_at(matrix, i)
            gain, at = np.float32(-1), np.int32(NOWHERE)
            p = t
            while p < padded:
                q = np.int32(p + stride)
                u = np.int32(q + stride)
                v = np.int32(u + stride)
                ip, iq = load(p, padded, row_i), load(q, padded, row_i)
                iu, iv = load(u, padded, row_i), load(v, padded, row_i)
                gain, at = weigh(p, padded, ip, r_i, k_ii, near, matrix, gain, at)
                gain, at = weigh(q, padded, iq, r_i, k_ii, near, matrix, gain, at)
                gain, at = weigh(u, padded, iu, r_i, k_ii, near, matrix, gain, at)
                gain, at = weigh(v, padded, iv, r_i, k_ii, near, matrix, gain, at)
                p = np.int32(v + stride)
            top, winner = top_of(gain, at, WARP)
            if winner == NOWHERE:
                if first:
                    parts.gains[warp], parts.partners[warp] = np.float32(-1), np.int32(NOWHERE)
            elif at == winner:  # true in one lane, as a member has one owner
                parts.gains[warp], parts.partners[warp] = top, winner
                parts.facts[0, warp] = near.residual[np.uint32(winner)]
                parts.facts[1, warp] = near.beta[np.uint32(winner)]
            barrier()  # every warp's candidate is there, and all have read beta[i]
            top, j = join_tops(t, n_threads, parts.gains, parts.partners)
            if j == NOWHERE:  # the kernel is not finite
                return iteration, STALLED
            winner_warp = owner(j, n_threads) // np.uint32(WARP)
            r_j, beta_j = parts.facts[0, winner_warp], parts.facts[1, winner_warp]
            bound_j = near.bounds[np.uint32(j)]
            row_j = matrix[np.uint32(j)]

            # Every thread computes the same step. A multiplier that reaches its bound is set to it
            # exactly, as it is compared with it later.
            k_ij, k_jj = row_i[np.uint32(j)], self_at(matrix, j)
            curvature = np.float64(k_ii) + np.float64(k_jj) - 2.0 * np.float64(k_ij)
            room_i, room_j = larger(bound_i, 0.0) - beta_i, beta_j - smaller(bound_j, 0.0)
            step = (r_i - r_j) / larger(curvature, _MIN_CURVATURE)
            step = smaller(smaller(step, room_i), room_j)
            new_i, new_j = beta_i + step, beta_j - step
            if step >= room_i:
                new_i = larger(bound_i, 0.0)
            if step >= room_j:
                new_j = smaller(bound_j, 0.0)
            if new_i == beta_i and new_j == beta_j:
                return iteration, STALLED
            if owner(i, n_threads) == np.uint32(t):
                near.beta[np.uint32(i)] = new_i
                near.marks[np.uint32(i)] = mark_of(new_i, bound_i)
            if owner(j, n_threads) == np.uint32(t):
                near.beta[np.uint32(j)] = new_j
                near.marks[np.uint32(j)] = mark_of(new_j, bound_j)
            iteration = np.int32(iteration + 1)

    return solve
