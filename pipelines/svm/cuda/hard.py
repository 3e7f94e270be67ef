"""An inner solve of a hard problem: a short SMO, then Newton's method, in double precision.

Times a multiplier of 1e4 the rounding of a kernel in single precision exceeds the tolerance, and
it leaves the kernel of some hundred free rows not definite.  Hard problems are therefore solved
on values in double precision, which are computed on demand.  They come from the rows themselves if
these have few features, as those of a table do (``ROWS``); otherwise from the shared products and
what rounding these to single precision left off, which together have 48 bits (``PRODUCTS``).  A
pair of rows has the same value, to the last digit, in either order.

When a problem is hard, and why: ``pipelines.svm.rules`` and ``docs/path-solver.md``.  The same on
the CPU: ``pipelines.svm.cpu.walk``.
"""

import math
from functools import cache

import numpy as np

from pipelines.svm.cuda.block import Free, barrier, device
from pipelines.svm.cuda.inner import inner_solver, round_up
from pipelines.svm.cuda.newton import EXTRA_ROWS, KEPT, solve_active
from pipelines.svm.rules import SMO_FRACTION
from pipelines.svm.solutions import CONVERGED

# A problem is hard at a C once SMO has taken the largest of: so many iterations; this fraction of
# the number of values in its members' kernel (by the instructions of each, some thirty Newton
# steps); and this fraction of the number of values of its support vectors with all rows, which
# residuals in double precision need.  Without the last, a problem that is easy at every C would
# spend more time on these than SMO on all of it.
HARD_ITERATIONS, HARD_RATIO, VALUES_FRACTION = 1000, 0.125, 1 / 2000

# How many numbers are saved from one call of a solve to the next.
KEPT_HARD = 1 + KEPT

# If more rows are free than this fraction of the members there is room for, too little room is left
# for rows that violate optimality, and SMO continues alone.
FREE_FRACTION = 0.75


def hard_shape(width: int) -> tuple[int, int]:
    """The shape of the float64 array of a block's kernel, diagonal and factor."""
    return 2 * width + 1 + EXTRA_ROWS, width


# The sources of values in double precision, see above: rows, float64 (n_features, n), or remainders
# of products, float32 (n, n).  From this many features a value from rows takes too long.
ROWS, PRODUCTS = "rows", "products"
MOST_FEATURES = 256


def exact_source(n_features: int) -> str:
    """The source of kernel values in double precision for rows with so many features."""
    return ROWS if n_features <= MOST_FEATURES else PRODUCTS


@device
def _rbf(product, gamma, coef0, degree):
    # Less 1, as in single precision; in double the subtraction is exact enough.
    return math.exp(-gamma * product) - 1.0


@device
def _linear(product, gamma, coef0, degree):
    return product


@device
def _poly(product, gamma, coef0, degree):
    base, value = gamma * product + coef0, 1.0
    for _ in range(degree):
        value *= base
    return value


# The positive definite kernels; with another no problem is ever hard.
_VALUES = {"rbf": _rbf, "linear": _linear, "poly": _poly}


@cache
def hard_functions(name: str, source: str):
    """The device functions ``solve_hard`` and ``subtract`` for a kernel and a source of values."""
    of_distances, value_at = name == "rbf", _VALUES.get(name, _linear)
    shift = 1.0 if of_distances else 0.0
    solve = inner_solver(name)

    @device
    def term(feature, other_feature):
        """The contribution of a feature to the product, or squared distance, of two rows."""
        if of_distances:
            return (feature - other_feature) * (feature - other_feature)
        return feature * other_feature

    @device
    def of_rows(exact, column, a, b, c, d):
        """Products of one row with four others."""
        w, x, y, z = 0.0, 0.0, 0.0, 0.0
        for f in range(exact.source.shape[0]):
            feature = exact.source[f]
            value = feature[column]
            w += term(value, feature[a])
            x += term(value, feature[b])
            y += term(value, feature[c])
            z += term(value, feature[d])
        return w, x, y, z

    @device
    def product(exact, column, a):
        return np.float64(exact.shared[a, column]) + np.float64(exact.source[a, column])

    @device
    def of_products(exact, column, a, b, c, d):
        """See ``of_rows``."""
        return (
            product(exact, column, a),
            product(exact, column, b),
            product(exact, column, c),
            product(exact, column, d),
        )

    products_of = of_rows if source == ROWS else of_products

    @device
    def four(exact, column, a, b, c, d):
        """Kernel values of one row with four others."""
        w, x, y, z = products_of(exact, column, a, b, c, d)
        gamma, coef0, degree = exact.gamma, exact.coef0, exact.degree
        return (
            value_at(w, gamma, coef0, degree),
            value_at(x, gamma, coef0, degree),
            value_at(y, gamma, coef0, degree),
            value_at(z, gamma, coef0, degree),
        )

    @device
    def gather(t, n_threads, m, columns, exact, matrix):
        """Compute the members' kernel like ``gatherer``, in float64."""
        padded = round_up(m, n_threads)
        last = matrix.shape[1]
        for q in range(t, padded, n_threads):
            column = np.uint32(columns[min(q, m - 1)])
            for p in range(0, m, 4):
                a, b = columns[p], columns[min(p + 1, m - 1)]
                c, d = columns[min(p + 2, m - 1)], columns[min(p + 3, m - 1)]
                w, x, y, z = four(
                    exact, column, np.uint32(a), np.uint32(b), np.uint32(c), np.uint32(d)
                )
                if q >= m:
                    w, x, y, z = 0.0, 0.0, 0.0, 0.0
                matrix[p, q] = w
                if p + 1 < m:
                    matrix[p + 1, q] = x
                if p + 2 < m:
                    matrix[p + 2, q] = y
                if p + 3 < m:
                    matrix[p + 3, q] = z
            diagonal_value, _, _, _ = four(exact, column, column, column, column, column)
            matrix[last, q] = diagonal_value

    @device
    def subtract(t, n_threads, rows, begin, end, m, work, exact):
        """Subtract all m packed rows like ``row_subtractor``, in float64, from some residuals.

        begin, end : half-open range of these residuals; ``begin`` is a multiple of ``n_threads``
        """
        for k in range(begin + t, end, n_threads):
            column, r = np.uint32(rows.columns[k]), rows.residual[k]
            for q in range(0, m, 4):
                i, j, last = min(q + 1, m - 1), min(q + 2, m - 1), min(q + 3, m - 1)
                w, x, y, z = four(
                    exact,
                    column,
                    np.uint32(work.columns[q]),
                    np.uint32(work.columns[i]),
                    np.uint32(work.columns[j]),
                    np.uint32(work.columns[last]),
                )
                r -= work.factors[q] * w
                if q + 1 < m:
                    r -= work.factors[i] * x
                if q + 2 < m:
                    r -= work.factors[j] * y
                if q + 3 < m:
                    r -= work.factors[last] * z
            rows.residual[k] = r
        barrier()  # factors and members may be written again

    @device
    def solve_hard(
        t, n_threads, m, near, exact, tol, finest, limit, space, work, spare, saved_state, parts
    ):
        """Run SMO and then Newton steps on m members, a part of the work in each call.

        tol : tolerance of this solve
        finest : tolerance of the problem, which later solves have to meet
        limit : the most iterations and steps, over all calls
        space : float64 (*hard_shape(width)); spare : int32 (>= m,)
        work : WorkSpace, with the members' columns; all but its members is overwritten
        saved_state : float64 (``KEPT_HARD``,), below 0 at first: the remaining steps, and what
            ``solve_active`` saves

        Returns iterations and status; ``UNFINISHED`` means that another call has to continue.
        """
        width = space.shape[1]
        matrix, factor = space[: width + 1], space[width + 1 :]
        n_left, iterations, status = int(saved_state[0]), 0, CONVERGED
        barrier()  # all have read it
        if n_left < 0:
            gather(t, n_threads, m, work.columns, exact, matrix)
            barrier()  # a row of the matrix is not read by its writer alone
            most = min(limit, int(SMO_FRACTION * m))
            iterations, status = solve(t, n_threads, m, near, matrix, tol, most, parts)
            # A round takes at most as many steps as there are members; then all rows are tested.
            n_left = min(limit - iterations, m)
        if n_left > 0:
            barrier()  # members of other owners are read
            # The members' columns are no longer needed, and serve as the list of free members.
            free = Free(
                factor,
                work.columns,
                spare,
                factor[width + 2],
                factor[width + 3],
                factor[width + 4],
                factor[width + 5],
            )
            steps, status = solve_active(
                t,
                n_threads,
                m,
                near,
                matrix,
                shift,
                tol,
                finest,
                n_left,
                free,
                work.factors,
                work.changes,
                saved_state[1:],
                parts,
            )
            iterations += steps
            if t == 0:
                saved_state[0] = n_left - steps
        return iterations, status

    return solve_hard, subtract
