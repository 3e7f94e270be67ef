"""The state of a thread block, and collective operations of its threads, on a GPU and in numba's
simulator.

The simulator (``NUMBA_ENABLE_CUDASIM=1``) has no warps: there a warp is one
thread, the exchange between lanes falls away, and all else is the same text.
The number of threads is a constant of each compiled kernel; it is passed as an argument,
which inlining makes a constant everywhere.  A GPU's block has 32 times a power of two.

The simulator also swaps its own ``cuda`` into one module at a time, so that a device
function of another file must not name ``cuda``: the barrier is wrapped here.
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
# Above every place: no row found.
NOWHERE = 1 << 30

# Added to a float32 of small magnitude, it rounds it to an integer.
SHIFTER = np.float32(12582912)

_ALL_LANES = 0xFFFFFFFF

device: Callable[..., Any]

if SIMULATED:

    def device(function):
        """Return the function itself: on a CPU, device functions are ordinary ones."""
        return function

    def barrier() -> None:
        threading.current_thread().syncthreads()  # type: ignore[attr-defined]

    def exchange(value, distance):
        """Return the value: a warp of one lane has nobody to exchange it with."""
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
        """Return the value of the lane whose number differs in the bit ``distance``."""
        return cuda.shfl_xor_sync(_ALL_LANES, value, distance)

    @intrinsic
    def nanoseconds(context):
        """Return the time of the GPU's clock, of which differences alone mean anything."""

        def read(context, builder, signature, arguments):
            # numba-cuda has no function for it. libcu++ takes its time from the same register.
            form = ir.FunctionType(ir.IntType(64), [])
            clock = ir.InlineAsm(form, "mov.u64 $0, %globaltimer;", "=l", side_effect=True)
            return builder.call(clock, [])

        return types.int64(), read

    @device
    def reciprocal(value):
        """Return 1 / value in float32, to two units in the last place."""
        return libdevice.fast_fdividef(np.float32(1), value)

    @device
    def fused(a, b, c):
        """Return a * b + c in float32, rounded once; the simulator's may round twice."""
        return libdevice.fmaf(a, b, c)

    @device
    def power_of_two(shifted):
        """Return 2**n of ``shifted = SHIFTER + n``: n stands in the low bits of its mantissa."""
        bits = np.int32(libdevice.float_as_int(shifted) << np.int32(23))
        return libdevice.int_as_float(np.int32(bits + np.int32(0x3F800000)))


# A block's state: named tuples, which numba passes as their parts at no cost.


class Products(NamedTuple):
    """The inputs of kernel values.

    shared : float32 (n, n), shared products
    gamma, coef0 : float32; degree : int
    """

    shared: Any
    gamma: Any
    coef0: Any
    degree: Any


class Exact(NamedTuple):
    """The inputs of kernel values in double precision.

    source : what they are made of beside ``shared``, see ``hard``
    gamma, coef0 : float64
    """

    shared: Any
    source: Any
    gamma: Any
    coef0: Any
    degree: Any


class BlockRows(NamedTuple):
    """The rows of a binary problem, in device memory.

    signed : float64 (n,), weight times label; columns : int32 (n,), of the shared
    products; residual, beta : float64 (n,)
    """

    signed: Any
    columns: Any
    residual: Any
    beta: Any


class Sides(NamedTuple):
    """The two sides of a binary problem.

    pulls : float64 (n_classes, n_columns), kernel times fold weights over each class;
    factors : float64 (n_classes,), what multiplies C; first, second : class numbers,
    second -1 for all others
    """

    pulls: Any
    factors: Any
    first: Any
    second: Any


class WorkSpace(NamedTuple):
    """Work space in device memory, a place for each row of the largest problem.

    changes, factors : float64; members, columns : int32
    """

    changes: Any
    factors: Any
    members: Any
    columns: Any


class Near(NamedTuple):
    """The members of an inner solve, in shared memory.

    residual, beta, bounds : float64, a bound with the sign of its row's label;
    marks : int32, what a row may do
    """

    residual: Any
    beta: Any
    bounds: Any
    marks: Any


class Free(NamedTuple):
    """The free members of an inner solve, in device memory, for Newton's method.

    factor : float64 (width + ``EXTRA_ROWS``, width), see ``factor``
    rows, spare : int32, a place for each row of the largest problem: the members, in the
        factor's order, and work space
    d, v, move, pinned : float64 (width,): two directions, the step, and whether it puts a
        row at its upper bound (above 0) or its lower one (below)
    """

    factor: Any
    rows: Any
    spare: Any
    d: Any
    v: Any
    move: Any
    pinned: Any


class Parts(NamedTuple):
    """Shared memory through which threads tell each other.

    tops, lows : float64, gains : float32, places, partners : int32 and facts : float64
    (2, .), a place for each warp; counts : int32, one for each thread;
    chunk_factors : float64 and chunk_columns : int32, rows that are taken off residuals
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
    """Return the larger number; unlike ``max`` without five instructions for NaN."""
    return a if a > b else b


@device
def smaller(a, b):
    """Return the smaller number; unlike ``min`` without five instructions for NaN."""
    return a if a < b else b


@device
def top_of(value, at, lanes):
    """Return the largest value and its lane among each ``lanes`` lanes; the lowest of a tie."""
    distance = lanes // 2
    while distance > 0:
        other, other_at = exchange(value, distance), exchange(at, distance)
        if other > value or (other == value and other_at < at):
            value, at = other, other_at
        distance //= 2
    return value, at


@device
def low_of(value, lanes):
    """Return the smallest value among each ``lanes`` lanes."""
    distance = lanes // 2
    while distance > 0:
        value = smaller(value, exchange(value, distance))
        distance //= 2
    return value


@device
def sum_of(value, lanes):
    """Return the sum of each ``lanes`` lanes: a butterfly adds in the same order for each."""
    distance = lanes // 2
    while distance > 0:
        value += exchange(value, distance)
        distance //= 2
    return value


@device
def join_tops(t, n_threads, values, places):
    """Return the largest of the warps' values and its place, in every thread.

    As many lanes take part as there are warps, and all groups of so many do the same.
    Where a warp is one thread, it looks at all.
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
    """Return the smallest of the warps' values, in every thread."""
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
    """Return the block's float64 sum, in every thread; always in the same order.

    parts : float64 shared (>= n_threads / WARP,)
    """
    value = sum_of(value, WARP)
    barrier()  # all have read what an earlier reduction left in ``parts``
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
    """Return the block's largest value and its place, in every thread.

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
    """Return the sum of the counts of the threads before this one, and of all.

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
    """Return where this thread's contiguous share of n places begins and ends."""
    size = (n + n_threads - 1) // n_threads
    return min(n, t * size), min(n, t * size + size)
