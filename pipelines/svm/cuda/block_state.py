"""Named tuples of a thread block's state, which numba passes as their parts at no cost."""

from typing import Any, NamedTuple


class Products(NamedTuple):
    """The inputs of kernel values.

    shared : float32 (n, n), shared products; gamma, coef0 : float32; degree : int
    """

    shared: Any
    gamma: Any
    coef0: Any
    degree: Any


class Exact(NamedTuple):
    """The inputs of kernel values in double precision.

    features : float64 (n_features, n_columns); gamma, coef0 : float64; degree : int
    """

    features: Any
    gamma: Any
    coef0: Any
    degree: Any


class Rows(NamedTuple):
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


class Work(NamedTuple):
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
