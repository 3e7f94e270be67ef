"""An inner solve of a problem that is hard: a short SMO, then Newton's method, in double precision.

A multiplier of 1e4 makes of the rounding of a kernel in single precision more than the
tolerance, and that rounding leaves the kernel of some hundred free rows not definite.  So
what is hard is solved on values in double precision, which are made when they are wanted: from
the rows themselves where these have few features, as those of a table do (``ROWS``), else from
shared products and, kept beside them, what their rounding to single precision left off, so that
both have 48 bits (``PRODUCTS``).  A pair of rows has the same value, to the last digit,
whichever of them is asked for.

When a problem is hard, and why: ``pipelines.svm.rules`` and ``docs/path-solver.md``; the same on
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

# A problem is hard at a C from so many iterations of SMO on, from this share of the values of its
# members' kernel (by the instructions of each, some thirty Newton steps), and from this share of
# the values of its support vectors with all rows, which residuals in double precision take: else
# one that is easy at every C would wait longer for these than SMO does for it all.
HARD_ITERATIONS, HARD_RATIO, VALUES_FRACTION = 1000, 0.125, 1 / 2000

# Numbers that are kept from one call of a solve to the next.
KEPT_HARD = 1 + KEPT

# Of more free rows than this share of the members that there is room for, those that violate
# would find none: SMO goes on alone.
FREE_FRACTION = 0.75


def hard_shape(width: int) -> tuple[int, int]:
    """Return the float64 shape of a block's kernel, diagonal and factor."""
    return 2 * width + 1 + EXTRA_ROWS, width


# The sources of values in double precision, see above: float64 (n_features, n), and float32
# (n, n).  Of more features than these a value costs more than the memory for the latter.
ROWS, PRODUCTS = "rows", "products"
MOST_FEATURES = 256


def exact_source(n_features: int) -> str:
    """Return the source of a data set's kernel values in double precision."""
    return ROWS if n_features <= MOST_FEATURES else PRODUCTS


@device
def _rbf(product, gamma, coef0, degree):
    # As in single precision; here the difference to 1 is exact enough.
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


# Those that are positive definite: no other is ever hard.
_VALUES = {"rbf": _rbf, "linear": _linear, "poly": _poly}


@cache
def hard_functions(name: str, source: str):
    """Return two device functions for a kernel function: of an inner solve and of residuals."""
    of_distances, value_at = name == "rbf", _VALUES.get(name, _linear)
    shift = 1.0 if of_distances else 0.0
    solve = inner_solver(name)

    @device
    def term(feature, other_feature):
        """Return what a feature adds to the product of two rows."""
        if of_distances:
            return (feature - other_feature) * (feature - other_feature)
        return feature * other_feature

    @device
    def of_rows(exact, column, a, b, c, d):
        """Return products of one row with four."""
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
        """As ``of_rows``."""
        return (
            product(exact, column, a),
            product(exact, column, b),
            product(exact, column, c),
            product(exact, column, d),
        )

    products_of = of_rows if source == ROWS else of_products

    @device
    def four(exact, column, a, b, c, d):
        """Return kernel values of one row with four."""
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
        """Gather kernel values like ``gatherer``, in float64."""
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
        """Subtract all m packed rows like ``row_subtractor``, in float64, for some residuals.

        begin, end : those from one, a multiple of the threads, to before the other
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
        """Run SMO and Newton steps on m members; or only some, and more in the next call.

        finest : the tolerance that will be asked for in the end
        limit : of iterations and steps, in all calls
        space : float64 (*hard_shape(width)); spare : int32 (>= m,)
        work : Work, whose columns are the members', overwritten but for its members
        kept : float64 (``KEPT_HARD``,), below 0 at first: the steps that are left, and what
            ``solve_active`` keeps

        Returns iterations and status, which is ``UNFINISHED`` while a call is to go on.
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
            # A round is no more steps than members: then all rows are looked at.
            n_left = min(limit - iterations, m)
        if n_left > 0:
            barrier()  # members of other owners are read
            # The members' columns are not looked at any more.
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
