"""An inner solve of a problem that is hard: a short SMO, then Newton's method.

On the members' kernel in double precision.  When that is, and why: ``pipelines.svm.rules``
and ``docs/path-solver.md``; the same on the CPU: ``pipelines.svm.cpu.walk``.
"""

from functools import cache

from pipelines.svm.cuda.active_set import solve_active
from pipelines.svm.cuda.block_state import Free
from pipelines.svm.cuda.block_threads import barrier, device
from pipelines.svm.cuda.exact import exact_functions
from pipelines.svm.cuda.factor import EXTRA_ROWS
from pipelines.svm.cuda.inner import inner_solver
from pipelines.svm.kernel import Kernel
from pipelines.svm.rules import SMO_SHARE

# A problem is hard at a C from so many iterations of SMO on, and from this share of the values
# of its members' kernel: by the instructions of each, some thirty Newton steps.
HARD_ITERATIONS, HARD_SHARE = 1000, 0.125

# Of more free rows than this share of the members that there is room for, those that violate
# would find none: SMO goes on alone.
FREE_SHARE = 0.75


def hard_shape(width: int) -> tuple[int, int]:
    """Return the float64 shape of a block's kernel, diagonal and factor."""
    return 2 * width + 1 + EXTRA_ROWS, width


@cache
def hard_functions(name: str):
    """Return two device functions for a kernel function: of an inner solve and of residuals."""
    form = Kernel(name)
    shift = 1.0 if form.of_distances else 0.0
    gather, subtract = exact_functions(name)
    solve = inner_solver(name)

    @device
    def solve_hard(t, n_threads, m, near, exact, tol, finest, limit, space, work, spare, parts):
        """Run SMO and Newton steps on m members.

        finest : the tolerance that will be asked for in the end
        space : float64 (*hard_shape(width)); spare : int32 (>= m,)
        work : Work, whose columns are the members', overwritten but for its members

        Returns iterations, status, and how many float32 values were read.
        """
        width = space.shape[1]
        matrix, factor = space[: width + 1], space[width + 1 :]
        gather(t, n_threads, m, work.columns, exact, matrix)
        visited = 2 * m * m * exact.features.shape[0]
        barrier()  # a row of the matrix is not read by its writer alone
        most = min(limit, int(SMO_SHARE * m))
        iterations, status = solve(t, n_threads, m, near, matrix, tol, most, parts)
        visited += 4 * m * iterations
        if iterations < limit:
            barrier()  # members of other owners are read
            # The members' columns are not looked at any more.
            free = Free(
                factor, work.columns, spare, factor[width + 2], factor[width + 3],
                factor[width + 4], factor[width + 5],
            )  # fmt: skip
            # A round is no more steps than members: then all rows are looked at.
            steps, status, read = solve_active(
                t, n_threads, m, near, matrix, shift, tol, finest, min(limit - iterations, m),
                free, work.factors, work.changes, parts,
            )  # fmt: skip
            iterations += steps
            visited += read
        return iterations, status, visited

    return solve_hard, subtract
