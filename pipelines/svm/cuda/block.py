"""The state of a thread block and collective operations of its threads, on a GPU and in numba's
simulator.

The simulator (``NUMBA_ENABLE_CUDASIM=1``) has no warps: there a warp is one thread, nothing is
exchanged between lanes, and all other code is the same.  The number of threads is a constant of
each compiled kernel.  It is passed as an argument, which inlining makes a constant everywhere.  On
a GPU it is 32 times a power of two.

The simulator swaps its own ``cuda`` into one module at a time, so a device function in another
file must not name ``cuda``: the barrier is wrapped here.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types
from numba.cuda.core import config

SIMULATED: bool = bool(config.ENABLE_CUDASIM)
WARP = 1 if SIMULATED else 32
# Larger than every row number: no row was found.
NOWHERE = 1 << 30

# Added to a float32 of small magnitude, this rounds it to an integer.
SHIFTER = np.float32(12582912)

_ALL_LANES = 0xFFFFFFFF

device: Callable[..., Any]

if SIMULATED:

    def device(function):
        """The function itself: on a CPU device functions are ordinary ones."""
        return function

    def barrier() -> None:
        threading.current_thread().syncthreads()  # type: ignore[attr-defined]

    def exchange(value, distance):
        """The value itself: a warp has only one lane here."""
        return value

    def nanoseconds() -> int:
        return time.perf_counter_ns()

    def reciprocal(value):
        return np.float32(1) / value

    def fused(a, b, c):
        return np.float32(float(a) * float(b) + float(c))

    def power_of_two(shifted):
        return np.float32(2.0 ** float(shifted - SHIFTER))

else:
    from llvmlite import ir
    from numba.cuda import libdevice
    from numba.cuda.extending import intrinsic

    device = cuda.jit(device=True, forceinline=True)

    @device
    def barrier():
        cuda.syncthreads()

    @device
    def exchange(value, distance):
        """The value of the lane whose number differs in the bit ``distance``."""
        return cuda.shfl_xor_sync(_ALL_LANES, value, distance)

    @intrinsic
    def nanoseconds(context):
        """The time of the GPU's clock, of which only differences have a meaning."""

        def read(context, builder, signature, arguments):
            # numba-cuda has no function for it; libcu++ reads the same register.
            form = ir.FunctionType(ir.IntType(64), [])
            clock = ir.InlineAsm(form, "mov.u64 $0, %globaltimer;", "=l", side_effect=True)
            return builder.call(clock, [])

        return types.int64(), read

    @device
    def reciprocal(value):
        """1 / value in float32, to two units in the last place."""
        return libdevice.fast_fdividef(np.float32(1), value)

    @device
    def fused(a, b, c):
        """a * b + c in float32, rounded once; the simulator's may round twice."""
        return libdevice.fmaf(a, b, c)

    @device
    def power_of_two(shifted):
        """2**n for ``shifted = SHIFTER + n``: n is in the low bits of its mantissa."""
        bits = np.int32(libdevice.float_as_int(shifted) << np.int32(23))
        return libdevice.int_as_float(np.int32(bits + np.int32(0x3F800000)))


# The state of a block. numba passes named tuples as their separate parts, at no cost.


class Products(NamedTuple):
    """The inputs of kernel values.

    shared : float32 (n, n), products that all gammas share
    gamma, coef0 : float32; degree : int
    """

    shared: Any
    gamma: Any
    coef0: Any
    degree: Any


class Exact(NamedTuple):
    """The inputs of kernel values in double precision.

    source : what they are computed from besides ``shared``, see ``hard``
    gamma, coef0 : float64
    """

    shared: Any
    source: Any
    gamma: Any
    coef0: Any
    degree: Any


class BlockRows(NamedTuple):
    """The rows of a binary problem, in device memory.

    signed : float64 (n,), weight times label
    columns : int32 (n,), the rows' numbers in the shared products
    residual, beta : float64 (n,)
    """

    signed: Any
    columns: Any
    residual: Any
    beta: Any


class Sides(NamedTuple):
    """The two sides of a binary problem.

    pulls : float64 (n_classes, n_columns), kernel times fold weights over each class
    factors : float64 (n_classes,), the factors of C
    first, second : class numbers; second is -1 for all others
    """

    pulls: Any
    factors: Any
    first: Any
    second: Any


class WorkSpace(NamedTuple):
    """Work space in device memory, an element for each row of the largest problem.

    changes, factors : float64; members, columns : int32
    """

    changes: Any
    factors: Any
    members: Any
    columns: Any


class Near(NamedTuple):
    """The members of an inner solve, in shared memory.

    residual, beta, bounds : float64; a bound has the sign of its row's label
    marks : int32, whether a row may rise and fall, see ``mark_of``
    """

    residual: Any
    beta: Any
    bounds: Any
    marks: Any


class Free(NamedTuple):
    """The free members of an inner solve, in device memory, for Newton's method.

    factor : float64 (width + ``EXTRA_ROWS``, width), see ``newton``
    rows, spare : int32, an element for each row of the largest problem: the members in the order of
        the factor, and work space
    d, v, move, pinned : float64 (width,): two directions, the step, and whether it puts a row at
        its upper bound (above 0) or its lower one (below 0)
    """

    factor: Any
    rows: Any
    spare: Any
    d: Any
    v: Any
    move: Any
    pinned: Any


class Parts(NamedTuple):
    """Shared memory through which the threads of a block communicate.

    tops, lows : float64; gains : float32; places, partners : int32; facts : float64 (2, .); all
        with an element for each warp
    counts : int32, one for each thread
    chunk_factors : float64, chunk_columns : int32; rows that are subtracted from residuals
    """

    tops: Any
    lows: Any
    gains: Any
    places: Any
    partners: Any
    facts: Any
    counts: Any
    chunk_factors: Any
    chunk_columns: Any


@device
def larger(a, b):
    """The larger number, without the five instructions for NaN that ``max`` has."""
    return a if a > b else b


@device
def smaller(a, b):
    """The smaller number, without the five instructions for NaN that ``min`` has."""
    return a if a < b else b


@device
def top_of(value, at, lanes):
    """The largest value among each ``lanes`` lanes and its ``at``; in a tie, the lowest ``at``."""
    distance = lanes // 2
    while distance > 0:
        other, other_at = exchange(value, distance), exchange(at, distance)
        if other > value or (other == value and other_at < at):
            value, at = other, other_at
        distance //= 2
    return value, at


@device
def low_of(value, lanes):
    """The smallest value among each ``lanes`` lanes."""
    distance = lanes // 2
    while distance > 0:
        value = smaller(value, exchange(value, distance))
        distance //= 2
    return value


@device
def sum_of(value, lanes):
    """The sum over each ``lanes`` lanes; a butterfly adds in the same order in every lane."""
    distance = lanes // 2
    while distance > 0:
        value += exchange(value, distance)
        distance //= 2
    return value


@device
def join_tops(t, n_threads, values, places):
    """The largest of the warps' values and its place, in every thread.

    Groups of as many lanes as there are warps all do the same. If a warp is one thread, it reads
    all values.
    """
    n_warps = n_threads // WARP
    lanes = min(WARP, n_warps)
    q = t % lanes
    value, at = values[q], places[q]
    q += lanes
    while WARP == 1 and q < n_warps:
        if values[q] > value or (values[q] == value and places[q] < at):
            value, at = values[q], places[q]
        q += lanes
    return top_of(value, at, lanes)


@device
def join_lows(t, n_threads, values):
    """The smallest of the warps' values, in every thread."""
    n_warps = n_threads // WARP
    lanes = min(WARP, n_warps)
    q = t % lanes
    value = values[q]
    q += lanes
    while WARP == 1 and q < n_warps:
        value = smaller(value, values[q])
        q += lanes
    return low_of(value, lanes)


@device
def block_sum(t, n_threads, value, parts):
    """The float64 sum over the block, in every thread, always added in the same order.

    parts : float64 shared (>= n_threads / WARP,)
    """
    value = sum_of(value, WARP)
    barrier()  # all threads have read what an earlier reduction left in ``parts``
    if t % WARP == 0:
        parts[t // WARP] = value
    barrier()  # every warp's part is there
    n_warps = n_threads // WARP
    lanes = min(WARP, n_warps)
    q = t % lanes
    total = parts[q]
    q += lanes
    while WARP == 1 and q < n_warps:
        total += parts[q]
        q += lanes
    return sum_of(total, lanes)


@device
def block_top(t, n_threads, value, at, parts, places):
    """The largest value in the block and its place, in every thread.

    parts : float64 shared; places : int32 shared (>= n_threads / WARP,)
    """
    value, at = top_of(value, at, WARP)
    barrier()  # as in ``block_sum``
    if t % WARP == 0:
        parts[t // WARP], places[t // WARP] = value, at
    barrier()  # as in ``block_sum``
    return join_tops(t, n_threads, parts, places)


@device
def share_counts(t, n_threads, count, counts):
    """The sum of the counts of the threads before this one, and the sum of all.

    counts : int32 shared (n_threads,)
    """
    barrier()  # an earlier call's counts have been read
    counts[t] = count
    barrier()  # every thread's count is there
    before, total = 0, 0
    for q in range(n_threads):
        if q < t:
            before += counts[q]
        total += counts[q]
    return before, total


@device
def own_slice(t, n_threads, n):
    """Begin and end of this thread's contiguous slice of n elements."""
    size = (n + n_threads - 1) // n_threads
    return min(n, t * size), min(n, t * size + size)
