"""The SMO kernel: each block takes binary problems from a queue and walks along C.

The method and the starts are those of ``pipelines.svm.cpu.walk``, and, for working sets that grow
too large, those of ``pipelines.svm.cpu.beyond_memory``.  A problem's state lies in its block's
slice of device memory, with the kernel of its working set; the residuals and multipliers of the
working set lie in shared memory.

A launch ends after about the time it is given: a block whose time is up writes its state to device
memory, and continues from it in the next launch.  It looks at the clock between slices of work of
some milliseconds, and the results are the same to the last bit wherever launches end.

Once SMO has taken longer for a C than Newton's method is expected to, the walk goes on with both,
in double precision, as on the CPU; except at a C at which more rows are free than there is room
for.
"""

from numba import cuda, types

from pipelines.svm.compiled import kept_by_arguments
from pipelines.svm.cuda.block import (
    SIMULATED,
    WARP,
    BlockRows,
    Exact,
    Near,
    Parts,
    Products,
    Sides,
    WorkSpace,
    device,
    nanoseconds,
)
from pipelines.svm.cuda.hard import (
    FREE_FRACTION,
    HARD_ITERATIONS,
    HARD_RATIO,
    KEPT_HARD,
    ROWS,
    VALUES_FRACTION,
    hard_functions,
)
from pipelines.svm.cuda.inner import gatherer, inner_solver, mark_of, round_up
from pipelines.svm.cuda.newton import UNFINISHED
from pipelines.svm.cuda.passes import (
    CHUNK,
    choose,
    count_support,
    device_reach,
    device_tolerance_at,
    dual_objective,
    most_eager,
    pack,
    restore,
    row_subtractor,
    scale,
    start,
    survey,
)
from pipelines.svm.rules import HARD_SCALE_FRACTION, INNER_GAP, MOST_IDLE_ROUNDS, SCALE_FRACTION
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT, STALLED

# Columns of ``entries``: one row for each binary problem on a fold.
OFFSET, SIZE, FOLD, FIRST, SECOND, FIRST_TO, SECOND_TO = range(7)
ENTRY_COLUMNS = 7

# Bytes of shared memory for a member of the working set: three float64 and an int32.
MEMBER_BYTES = 28

# Bytes of device memory for a row of a block's state: four float64 and three int32.
STATE_BYTES = 44

# What a block whose time is up saves of a problem, a float64 each: the number of its job plus 1, or
# 0 for none; its stage; and variables of ``walk`` with these names.
(
    JOB,
    STAGE,
    C_NUMBER,
    DONE,
    STATUS,
    IDLE,
    FITS,
    HARD,
    IS_EXACT,
    N_SUPPORT,
    N_BOUNDED,
    SPAN,
    REACH,
    MEMBERS,
    INNER_TOL,
    ITERATIONS,
    N_CHANGED,
    AT,
    HARD_STATE,
) = range(19)
RECORD = HARD_STATE + KEPT_HARD

# The stages of a problem: begin the next C, survey all rows, an inner solve, pack its changes, and
# subtract them from the residuals.
NEXT_C, LOOK, SOLVE, PACK, SUBTRACT = range(5)

# Sizes of a slice of a stage, which takes some milliseconds: iterations of SMO, kernel values of
# changed rows, and, in double precision, terms of the products that a thread adds up.
ITERATIONS_AT_ONCE, VALUES_AT_ONCE, TERMS_AT_ONCE = 512, 1 << 21, 1 << 18
# A value from products takes as long as a value from rows of so many features.
TERMS_OF_PRODUCT = 16


def fixed_shared_bytes(block_size: int) -> int:
    """Bytes of a block's shared memory besides those of its members, on a GPU."""
    parts = max(1, block_size // 32)
    return parts * (2 * 8 + 4 + 2 * 4 + 2 * 8) + CHUNK * 12 + block_size * 4 + 64


def members_width(capacity: int, block_size: int) -> int:
    """``capacity`` rounded up to a multiple of the threads, and to an even number."""
    width = -(-max(2, capacity) // block_size) * block_size
    return width + width % 2


def matrix_shape(width: int) -> tuple[int, int]:
    """The shape of the float32 array of a working set's kernel and its diagonal."""
    return width + 1, width


@device
def take_near(t, n_threads, m, C, rows, work, near):
    """Copy the state of m members to shared memory, and list their columns."""
    for p in range(t, round_up(m, n_threads), n_threads):
        near.residual[p], near.marks[p] = 0.0, 0
        if p < m:
            k = work.members[p]
            work.columns[p] = rows.columns[k]
            b, bound = rows.beta[k], C * rows.signed[k]
            near.residual[p], near.beta[p] = rows.residual[k], b
            near.bounds[p], near.marks[p] = bound, mark_of(b, bound)


@device
def give_back(t, n_threads, m, rows, work, near):
    """Write the new multipliers of m members, and by how much each has changed."""
    for p in range(t, m, n_threads):
        k = work.members[p]
        work.changes[p] = near.beta[p] - rows.beta[k]
        rows.beta[k] = near.beta[p]


@device
def put_by(t, n_threads, m, work, near):
    """Save the residuals and multipliers of m members in device memory, in unused work space."""
    for p in range(t, m, n_threads):
        work.factors[p], work.changes[p] = near.residual[p], near.beta[p]


@device
def take_up(t, n_threads, m, C, rows, work, near):
    """Restore what ``put_by`` has saved."""
    for p in range(t, round_up(m, n_threads), n_threads):
        near.residual[p], near.marks[p] = 0.0, 0
        if p < m:
            b, bound = work.changes[p], C * rows.signed[work.members[p]]
            near.residual[p], near.beta[p] = work.factors[p], b
            near.bounds[p], near.marks[p] = bound, mark_of(b, bound)


@kept_by_arguments
def smo_kernel(name: str, block_size: int, registers: int | None = None, newton: str = ""):
    """The CUDA kernel for one kernel function and block size.

    ``registers`` limits the registers of a thread, so that a block of this size can be launched; at
    64, spilled values lie outside the loops over rows. With ``newton``, hard problems are finished
    by Newton's method, on values from that source (see ``hard``).  Without it SMO does all, and the
    code for the rest is compiled away.  The arguments of the kernel:

    shared : float32 (n, n), shared products
    gammas : float32 (n_gammas,); coef0 : float32; degree : int
    Cs : float64 (n_C,), ascending; tol : float; limit : int, -1 for LIBSVM's own
    jobs : int32 (n_jobs, 2), gamma and entry of each, the longest first
    queue : int32 (1,), the number of the next job; 0 before the first launch
    duration : int, nanoseconds after which a block ends when it next looks at the clock
    paused : float64 (n_blocks, ``RECORD``), the problem that each block continues in the next
        launch, with the columns named above; 0 before the first launch
    entries : int64 (n_entries, 7), with the columns named above: where a problem's rows begin in
        the flat tables, and how many there are; its fold; its first and second class as numbered
        in ``pulls`` (-1: all others); where in ``coefficients`` the multipliers of its first and
        its second side go
    factors : float64 (n_entries, n_pull_classes), the factors of C
    columns : int32, flat: rows of ``shared``
    out_rows : int32, flat: rows of ``coefficients``
    signed : float64, flat: weight times label
    pulls : float64 (n_gammas, n_folds, n_pull_classes, n)
    capacity : int, the most members of an inner solve, at least 2
    width : int, ``members_width`` of it; dynamic shared memory holds so many members
    matrices : float32 (n_blocks, *matrix_shape(width)), the members' kernel
    source, exact_gammas, exact_coef0 : of the kernel in double precision, see ``hard``; float64
        (n_gammas,) and float
    spaces : float64 (n_blocks, *hard_shape(m)), for m <= capacity members of a hard problem; with
        the three above only used with ``newton``
    state, lists : float64 (n_blocks, 4, n_max) and int32 (n_blocks, 3, n_max); the host leaves
        these, ``matrices`` and ``spaces`` unchanged from launch to launch

    Outputs, all 0 before the first launch:

    coefficients : float32 (n_gammas, n_folds, n_places, n_C, n_rows)
    figures : float64 (n_gammas, n_entries, 2, n_C), intercepts and objectives
    counts : int64 (n_gammas, n_entries, 2, n_C), iterations with Newton steps, and status
    solved : int64 (n_gammas, n_entries), the number of different solutions
    """
    solve, gather = inner_solver(name), gatherer(name)
    subtract = row_subtractor(name)
    solve_hard, subtract_exact = hard_functions(name, newton or ROWS)
    n_threads, n_warps, by_newton = block_size, block_size // WARP, newton != ""
    from_rows = newton == ROWS

    options = {} if SIMULATED or registers is None else {"max_registers": registers}

    def walk(
        shared,
        gammas,
        coef0,
        degree,
        Cs,
        tol,
        limit,
        jobs,
        queue,
        duration,
        paused,
        entries,
        factors,
        columns,
        out_rows,
        signed,
        pulls,
        capacity,
        width,
        matrices,
        source,
        exact_gammas,
        exact_coef0,
        spaces,
        state,
        lists,
        coefficients,
        figures,
        counts,
        solved,
    ):
        t, block = cuda.threadIdx.x, cuda.blockIdx.x
        dynamic = cuda.shared.array(0, types.float64)
        dynamic_words = cuda.shared.array(0, types.int32)
        near = Near(
            dynamic[:width],
            dynamic[width : 2 * width],
            dynamic[2 * width : 3 * width],
            dynamic_words[6 * width : 7 * width],
        )
        # Each on a line of its own, by which the simulator distinguishes shared arrays.
        tops = cuda.shared.array(n_warps, types.float64)
        lows = cuda.shared.array(n_warps, types.float64)
        gains = cuda.shared.array(n_warps, types.float32)
        places = cuda.shared.array(n_warps, types.int32)
        partners = cuda.shared.array(n_warps, types.int32)
        facts = cuda.shared.array((2, n_warps), types.float64)
        thread_counts = cuda.shared.array(n_threads, types.int32)
        chunk_factors = cuda.shared.array(CHUNK, types.float64)
        chunk_columns = cuda.shared.array(CHUNK, types.int32)
        parts = Parts(
            tops, lows, gains, places, partners, facts, thread_counts, chunk_factors, chunk_columns
        )
        next_job = cuda.shared.array(1, types.int32)
        is_late = cuda.shared.array(1, types.int32)
        matrix = matrices[block]
        work = WorkSpace(state[block, 2], state[block, 3], lists[block, 0], lists[block, 1])
        hard_room = spaces.shape[2]
        record = paused[block]
        began, job = nanoseconds(), int(record[JOB]) - 1
        cuda.syncthreads()  # all have read which job to continue

        while True:
            goes_on = job >= 0
            if not goes_on:
                if t == 0:
                    next_job[0] = cuda.atomic.add(queue, 0, 1)
                cuda.syncthreads()  # its number is there
                job = next_job[0]
                if job >= jobs.shape[0]:
                    return
            g, entry = jobs[job, 0], jobs[job, 1]
            offset, n, fold = entries[entry, 0], entries[entry, 1], entries[entry, 2]
            products = Products(shared, gammas[g], coef0, degree)
            exact = Exact(shared, source, exact_gammas[g], exact_coef0, degree)
            sides = Sides(pulls[g, fold], factors[entry], entries[entry, 3], entries[entry, 4])
            rows = BlockRows(
                signed[offset : offset + n],
                columns[offset : offset + n],
                state[block, 0][:n],
                state[block, 1][:n],
            )
            most = limit
            if limit < 0:
                most = max(10_000_000, 100 * n)
            # State of a C: iterations, rounds without progress, whether its free rows have room.
            c, done, status, idle, fits = 0, 0, CONVERGED, 0, True
            # Whether a C was hard, and whether residuals are those of the kernel in double
            # precision.
            hard, is_exact, n_support, n_bounded = False, False, 0.0, 0.0
            # State of a round: its tolerance, members and progress.
            inner_tol, m, iterations, n_changed, at = 0.0, n, 0, 0, 0
            if goes_on:
                stage, c, done = int(record[STAGE]), int(record[C_NUMBER]), int(record[DONE])
                status, idle, fits = int(record[STATUS]), int(record[IDLE]), record[FITS] != 0.0
                # Written so that the compiler sees that neither is true without Newton's method.
                hard = by_newton and record[HARD] != 0.0
                is_exact = by_newton and record[IS_EXACT] != 0.0
                n_support, n_bounded = record[N_SUPPORT], record[N_BOUNDED]
                span, size, inner_tol = record[SPAN], record[REACH], record[INNER_TOL]
                m, iterations = int(record[MEMBERS]), int(record[ITERATIONS])
                n_changed, at = int(record[N_CHANGED]), int(record[AT])
                if stage == SOLVE:
                    take_up(t, n_threads, m, Cs[c], rows, work, near)
            else:
                stage = PACK
                span, size = device_reach(t, n_threads, rows, sides, parts)
                start(t, n_threads, Cs[0], rows, sides, work, parts)
            cuda.syncthreads()  # other threads read members, and rows of other owners

            while c < Cs.size:
                C = Cs[c]
                tol_here = device_tolerance_at(C, tol, span, size)
                if stage == NEXT_C:
                    scale_fraction = HARD_SCALE_FRACTION if hard else SCALE_FRACTION
                    if n_bounded > scale_fraction * n_support:
                        scale(t, n_threads, Cs[c - 1], C, rows)
                    cuda.syncthreads()  # ``choose`` reads rows of other owners
                    done, status, idle, fits, stage = 0, CONVERGED, 0, True, LOOK
                if stage == LOOK:
                    top, i, low, j, level, n_free = survey(t, n_threads, C, rows, parts)
                    is_over = True
                    if not (top - low >= tol_here):
                        status = CONVERGED
                    elif idle == MOST_IDLE_ROUNDS or (status == STALLED and not by_newton):
                        status = STALLED
                    elif done >= most:
                        status = ITERATION_LIMIT
                    else:
                        is_over = False
                    if n_free > FREE_FRACTION * hard_room:
                        fits = False
                    if is_over:
                        n_support, n_bounded = count_support(t, n_threads, C, rows, parts)
                        objective = dual_objective(t, n_threads, rows, parts)
                        # If no multiplier is at its bound, every larger C has this solution.
                        last = c + 1
                        if n_bounded == 0.0 and status == CONVERGED:
                            last = Cs.size
                        for d in range(c, last):
                            for k in range(t, n, n_threads):
                                other_code = entries[entry, 5]
                                if not rows.signed[k] > 0.0:
                                    other_code = entries[entry, 6]
                                coefficients[g, fold, other_code, d, out_rows[offset + k]] = (
                                    rows.beta[k]
                                )
                            if t == 0:
                                figures[g, entry, 0, d], figures[g, entry, 1, d] = level, objective
                                counts[g, entry, 0, d] = done if d == c else 0
                                counts[g, entry, 1, d] = status
                        if t == 0:
                            solved[g, entry] = c + 1
                        c, stage = last, NEXT_C
                    elif is_exact != (hard and fits):
                        # Compute residuals again, with the other kernel; this counts as an
                        # iteration.
                        is_exact = not is_exact
                        restore(t, n_threads, rows, work)
                        m, done, idle, status, stage = n, done + 1, 0, CONVERGED, PACK
                    else:
                        quota = (capacity - 2) // 2
                        if is_exact:
                            quota = (hard_room - 2 - int(n_free)) // 2
                        rise = most_eager(
                            t, n_threads, C, rows, 1.0, level, top, quota, is_exact, parts
                        )
                        fall = most_eager(
                            t, n_threads, C, rows, -1.0, -level, -low, quota, is_exact, parts
                        )
                        m = choose(t, n_threads, i, j, C, rows, rise, fall, parts, work.members)
                        take_near(t, n_threads, m, C, rows, work, near)
                        if t == 0:
                            record[HARD_STATE], record[HARD_STATE + 1] = -1.0, -1.0
                        cuda.syncthreads()  # columns of other owners are read, and their beta
                        inner_tol, iterations = max(tol_here, INNER_GAP * (top - low)), 0
                        if not is_exact:
                            gather(t, n_threads, m, work.columns, products, matrix)
                            cuda.syncthreads()  # threads other than its writer read a matrix row
                        stage = SOLVE
                if stage == SOLVE:
                    # How many iterations SMO has before the problem is called hard.
                    patience, allowed = most, most - done
                    if is_exact:
                        count, status = solve_hard(
                            t,
                            n_threads,
                            m,
                            near,
                            exact,
                            inner_tol,
                            tol_here,
                            allowed,
                            spaces[block],
                            work,
                            lists[block, 2],
                            record[HARD_STATE:],
                            parts,
                        )
                        iterations += count
                        is_over = status != UNFINISHED
                    else:
                        if by_newton and not hard:
                            patience = max(HARD_ITERATIONS, int(HARD_RATIO * m * m))
                            patience = max(patience, int(VALUES_FRACTION * n * n_support))
                            allowed = min(allowed, max(1, patience - done))
                        n_allowed = min(allowed - iterations, ITERATIONS_AT_ONCE)
                        count, status = solve(
                            t, n_threads, m, near, matrix, inner_tol, n_allowed, parts
                        )
                        iterations += count
                        is_over = status != ITERATION_LIMIT or iterations >= allowed
                    if is_over:
                        give_back(t, n_threads, m, rows, work, near)
                        if not is_exact:
                            hard = by_newton and (hard or done + iterations >= patience)
                        done += iterations
                        if by_newton:  # what stalls is hard, and a round counts as an iteration
                            idle = idle + 1 if iterations == 0 or status == STALLED else 0
                            hard, done = hard or idle > 0, done + (1 if iterations == 0 else 0)
                        stage = PACK
                if stage == PACK:
                    cuda.syncthreads()  # ``pack`` reads members of other owners
                    n_changed, at = pack(t, n_threads, rows, m, work, parts), 0
                    stage = SUBTRACT
                if stage == SUBTRACT:
                    if is_exact:
                        terms = source.shape[0] if from_rows else TERMS_OF_PRODUCT
                        terms *= max(1, n_changed)
                        end = min(n, at + max(1, TERMS_AT_ONCE // terms) * n_threads)
                        subtract_exact(t, n_threads, rows, at, end, n_changed, work, exact)
                        is_over = end == n
                    else:
                        end = min(n_changed, at + max(1, VALUES_AT_ONCE // (n * CHUNK)) * CHUNK)
                        subtract(t, n_threads, rows, at, end, work, products, parts)
                        is_over = end == n_changed
                    at = end
                    if is_over:
                        stage = LOOK
                if t == 0:
                    is_late[0] = 1 if nanoseconds() - began >= duration else 0
                cuda.syncthreads()  # and ``survey`` and ``choose`` read rows of other owners
                if is_late[0] != 0 and c < Cs.size:
                    if stage == SOLVE:
                        put_by(t, n_threads, m, work, near)
                    if t == 0:
                        record[JOB], record[STAGE] = job + 1, stage
                        record[C_NUMBER], record[DONE], record[STATUS] = c, done, status
                        record[IDLE], record[FITS] = idle, 1.0 if fits else 0.0
                        record[HARD] = 1.0 if hard else 0.0
                        record[IS_EXACT] = 1.0 if is_exact else 0.0
                        record[N_SUPPORT], record[N_BOUNDED] = n_support, n_bounded
                        record[SPAN], record[REACH] = span, size
                        record[MEMBERS], record[INNER_TOL] = m, inner_tol
                        record[ITERATIONS], record[N_CHANGED], record[AT] = (
                            iterations,
                            n_changed,
                            at,
                        )
                    return
            if t == 0:
                record[JOB] = 0.0
            if is_late[0] != 0:
                return
            job = -1
            cuda.syncthreads()  # all have read the job, and whether time is up

    # This name identifies a launch, and the compiled code on disk.
    launch_name = {"": "smo", ROWS: "newton"}.get(newton, "newton_images")
    walk.__qualname__ = f"{launch_name}_kernel.walk"
    return cuda.jit(cache=True, **options)(walk)
