"""One kernel: each block takes binary problems from a queue and walks their paths of C.

The method and the seeds are those of ``pipelines.svm.cpu.walk``.  A problem's state lies
in its block's slice of device memory; the residuals and marks of the rows that
are worked on lie in shared memory where they fit.
"""

from numba import cuda, types

from pipelines.svm.compiled import kept_by_arguments
from pipelines.svm.cuda.block_threads import MAX_THREADS, PARTS, SIMULATED
from pipelines.svm.cuda.inner import inner_solver, mark_of
from pipelines.svm.cuda.start import CHUNK, reach, row_subtractor, scale, starter, tolerance_at
from pipelines.svm.cuda.survey import choose, count_support, dual_objective, survey
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# Columns of ``entries``: one row for each binary problem on a fold.
OFFSET, SIZE, FOLD, FIRST, SECOND, FIRST_TO, SECOND_TO = range(7)
ENTRY_COLUMNS = 7

# Multipliers are scaled with C while more than this share of the support vectors
# is at its bound, and kept otherwise; an inner solve closes nine tenths of the gap
# before the other rows are looked at.  As on the CPU.
_SCALE_SHARE = 0.6
_INNER_GAP = 0.1

# Shared memory for a row that is worked on: a float64 residual and an int32 mark.
MEMBER_BYTES = 12

# Device memory for a row of a block's state: four float64 and two int32.
STATE_BYTES = 40


def fixed_shared_bytes() -> int:
    """Shared memory of a block beside that of its members, on a GPU."""
    parts = MAX_THREADS // 32
    return parts * (3 * 8 + 2 * 4 + 5 * 8 + 8) + CHUNK * 12 + MAX_THREADS * 4 + 64


@kept_by_arguments
def smo_kernel(name: str, registers: int | None = None):
    """The kernel for one kernel function, with these arguments.

    ``registers`` limits those of a thread, so that a block of the wanted size can
    be launched; at 64 what is spilled lies outside the loops over rows.

    shared : float32 (n, n), shared products; diagonal : float32 (n,), theirs
    gammas : float32 (n_gammas,); coef0 : float32; degree : int
    Cs : float64 (n_C,), ascending; tol : float; limit : int, -1 for LIBSVM's own
    jobs : int32 (n_jobs, 2), gamma and entry of each, the longest first
    queue : int32 (1,), 0: the next job's number
    entries : int64 (n_entries, 7), see the names of its columns above: where a
        problem's rows begin in the flat tables and how many there are; its fold;
        its first and second class as numbered in ``pulls`` (-1: all others); the
        place in ``coefficients`` of its first and second side's multipliers
    factors : float64 (n_entries, n_pull_classes), what multiplies C
    columns : int32, flat: rows of ``shared``; out_rows : int32, flat: rows of
        ``coefficients``; signed : float64, flat: weight times label
    pulls : float64 (n_gammas, n_folds, n_pull_classes, n)
    capacity : int, members that fit in dynamic shared memory
    share : float, of a problem's rows up to which a choice of members is taken
    state : float64 (n_blocks, 4, n_max) and lists : int32 (n_blocks, 2, n_max)

    Outputs, all zero before:

    coefficients : float32 (n_gammas, n_folds, n_places, n_C, n_rows)
    figures : float64 (n_gammas, n_entries, 2, n_C), intercepts and objectives
    counts : int64 (n_gammas, n_entries, 3, n_C), iterations, support vectors, status
    efforts : int64 (n_gammas, n_entries, 2), C's solved, and kernel values visited
    """
    solve, start, subtract = inner_solver(name), starter(name), row_subtractor(name)

    options = {} if SIMULATED or registers is None else {"max_registers": registers}

    @cuda.jit(cache=True, **options)
    def walk(
        shared, diagonal, gammas, coef0, degree, Cs, tol, limit, jobs, queue,
        entries, factors, columns, out_rows, signed, pulls, capacity, share, state, lists,
        coefficients, figures, counts, efforts,
    ):  # fmt: skip
        t, n_threads, block = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
        dynamic = cuda.shared.array(0, types.float64)
        dynamic_words = cuda.shared.array(0, types.int32)
        near_residual = dynamic[:capacity]
        near_marks = dynamic_words[2 * capacity : 3 * capacity]
        tops = cuda.shared.array(PARTS, types.float64)
        lows = cuda.shared.array(PARTS, types.float64)
        gains = cuda.shared.array(PARTS, types.float64)
        sums = cuda.shared.array(PARTS, types.float64)
        places = cuda.shared.array(PARTS, types.int32)
        partners = cuda.shared.array(PARTS, types.int32)
        facts = cuda.shared.array((5, PARTS), types.float64)
        chunk_factors = cuda.shared.array(CHUNK, types.float64)
        chunk_columns = cuda.shared.array(CHUNK, types.int32)
        thread_counts = cuda.shared.array(MAX_THREADS, types.int32)
        taken = cuda.shared.array(1, types.int32)
        residual, beta = state[block, 0], state[block, 1]
        member_beta, member_bounds = state[block, 2], state[block, 3]
        members, marks = lists[block, 0], lists[block, 1]

        while True:
            cuda.syncthreads()  # all have read the job before
            if t == 0:
                taken[0] = cuda.atomic.add(queue, 0, 1)
            cuda.syncthreads()  # its number is there
            if taken[0] >= jobs.shape[0]:
                return
            g, entry = jobs[taken[0], 0], jobs[taken[0], 1]
            offset, n, fold = entries[entry, 0], entries[entry, 1], entries[entry, 2]
            first, second = entries[entry, 3], entries[entry, 4]
            own = signed[offset : offset + n]
            own_columns = columns[offset : offset + n]
            gamma = gammas[g]
            most = limit
            if limit < 0:
                most = max(10_000_000, 100 * n)
            visited, n_support, n_bounded, c = 0, 0.0, 0.0, 0
            span, size = reach(
                t, n_threads, n, own_columns, pulls[g, fold], factors[entry], first, second,
                sums, places,
            )  # fmt: skip
            start(t, n_threads, n, Cs[0], own, own_columns, pulls[g, fold], factors[entry],
                  first, second, residual, beta, member_beta, members, sums, places,
                  shared, gamma, coef0, degree, chunk_factors, chunk_columns)  # fmt: skip
            while c < Cs.size:
                C = Cs[c]
                tol_here = tolerance_at(C, tol, span, size)
                if c > 0 and n_bounded > _SCALE_SHARE * n_support:
                    scale(t, n_threads, n, Cs[c - 1], C, own, beta, residual)
                cuda.syncthreads()  # ``choose`` reads rows of other owners
                done, status = 0, CONVERGED
                level = 0.0
                while True:
                    top, i, low, j, level = survey(
                        t, n_threads, n, C, own, residual, beta, sums, places
                    )
                    if not (top - low >= tol_here):
                        status = CONVERGED
                        break
                    if status == STALLED:
                        break
                    if done >= most:
                        status = ITERATION_LIMIT
                        break
                    m = choose(t, n_threads, n, i, j, C, own, residual, beta, level,
                               thread_counts, members)  # fmt: skip
                    inner_tol = max(tol_here, _INNER_GAP * (top - low))
                    # A choice pays when it is small; or when it fits in shared memory
                    # and the whole problem does not.
                    whole = m > capacity or (m > share * n and n <= capacity)
                    if whole:
                        m, inner_tol = n, tol_here
                        for p in range(t, m, n_threads):
                            members[p] = p
                    for p in range(t, m, n_threads):
                        k = members[p]
                        member_beta[p], member_bounds[p] = beta[k], C * own[k]
                    cuda.syncthreads()  # before pass A, all may read a member's beta
                    if m <= capacity:
                        for p in range(t, m, n_threads):
                            near_residual[p] = residual[members[p]]
                            near_marks[p] = mark_of(
                                own_columns[members[p]], member_beta[p], member_bounds[p]
                            )
                        iterations, status = solve(
                            t, n_threads, m, shared, diagonal, gamma, coef0, degree,
                            inner_tol, most - done, near_residual, near_marks, member_beta,
                            member_bounds, tops, lows, gains, places, partners, facts,
                        )  # fmt: skip
                    else:
                        for p in range(t, m, n_threads):
                            marks[p] = mark_of(own_columns[p], member_beta[p], member_bounds[p])
                        iterations, status = solve(
                            t, n_threads, m, shared, diagonal, gamma, coef0, degree,
                            inner_tol, most - done, residual, marks, member_beta,
                            member_bounds, tops, lows, gains, places, partners, facts,
                        )  # fmt: skip
                    cuda.syncthreads()  # the last step's owners have written beta
                    done += iterations
                    visited += 2 * m * iterations
                    if whole:
                        for p in range(t, n, n_threads):
                            beta[p] = member_beta[p]
                            if m <= capacity:
                                residual[p] = near_residual[p]
                    else:
                        # From here on ``member_beta`` holds the change.
                        for p in range(t, m, n_threads):
                            k = members[p]
                            change = member_beta[p] - beta[k]
                            beta[k] = member_beta[p]
                            member_beta[p] = change
                        subtract(t, n_threads, n, own_columns, residual, m, members, member_beta,
                                 shared, gamma, coef0, degree,
                                 chunk_factors, chunk_columns)  # fmt: skip
                    cuda.syncthreads()  # ``survey`` and ``choose`` read rows of other owners

                n_support, n_bounded = count_support(t, n_threads, n, C, own, beta, sums)
                objective = dual_objective(t, n_threads, n, own, residual, beta, sums)
                # No multiplier at its bound: every larger C has this solution.
                last = c + 1
                if n_bounded == 0.0 and status == CONVERGED:
                    last = Cs.size
                for d in range(c, last):
                    for k in range(t, n, n_threads):
                        place = entries[entry, 5] if own[k] > 0.0 else entries[entry, 6]
                        coefficients[g, fold, place, d, out_rows[offset + k]] = beta[k]
                    if t == 0:
                        figures[g, entry, 0, d], figures[g, entry, 1, d] = level, objective
                        counts[g, entry, 0, d] = done if d == c else 0
                        counts[g, entry, 1, d] = int(n_support)
                        counts[g, entry, 2, d] = status
                if t == 0:
                    efforts[g, entry, 0], efforts[g, entry, 1] = c + 1, visited
                c = last

    return walk
