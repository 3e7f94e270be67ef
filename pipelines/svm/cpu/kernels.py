"""Products of all rows, which all gammas share, and the kernel of each gamma from them.

``rbf`` needs squared distances, the other kernels inner products. Either is computed once for a
data set; each gamma then costs one pass over them.
"""

from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np

from pipelines.svm.distances import PIECE_BYTES, finish_distances, single_will_do
from pipelines.svm.kernel import Kernel, raise_to

# Up to this many multiplications the products are computed in float64, which takes twice as long as
# float32 but is still short.
_FLOAT64_PRODUCTS = 2e10

# Rows of a block of products that one thread computes.
_BLOCK_ROWS = 1024


def prepare_rows(X: np.ndarray, kernel: Kernel, order: np.ndarray | None = None) -> np.ndarray:
    """Rows ready for ``shared_products``: contiguous, float32 or float64, in ``order``.

    For ``rbf``, their mean is subtracted first, see ``distances``.

    Parameters
    ----------
    X : array of shape (n, n_features), or (n, n) of a precomputed kernel
    kernel : Kernel
    order : int array, optional
        Which rows, in which order.

    Returns
    -------
    float64 array, or float32 where the data set is large and single precision suffices
    """
    if kernel.is_given:
        matrix = X if order is None else X[np.ix_(order, order)]
        return np.ascontiguousarray((matrix + matrix.T) / 2)  # exactly symmetric
    n, n_features = X.shape
    large = float(n) * n * n_features > _FLOAT64_PRODUCTS
    if kernel.of_distances:
        X = np.subtract(X, kernel.centre(X))
        large = large and single_will_do(X)
    rows = np.ascontiguousarray(X, dtype=np.float32 if large else np.float64)
    return rows if order is None else rows[order]


def shared_products(rows: np.ndarray, kernel: Kernel, pool: Executor | None = None) -> np.ndarray:
    """Squared distances (rbf) or inner products of all pairs of rows.

    Only the upper blocks are computed: half the work, exactly symmetric, and no second matrix.

    Parameters
    ----------
    rows : float array of shape (n, n_features), from ``prepare_rows``
    kernel : Kernel
    pool : Executor, optional
        Its threads each compute some of the blocks.

    Returns
    -------
    float32 array of shape (n, n); for distances, the diagonal is exactly 0 and equal rows are at
    distance 0
    """
    if kernel.is_given:
        return rows.astype(np.float32)
    n = len(rows)
    out, norms = np.empty((n, n), np.float32), np.empty(n, rows.dtype)
    step = n if pool is None and rows.dtype == np.float32 else _BLOCK_ROWS
    pieces = [slice(at, min(at + step, n)) for at in range(0, n, step)]

    def on_diagonal(a: slice) -> None:
        products = rows[a] @ rows[a].T  # numpy calls BLAS syrk
        norms[a] = np.diagonal(products)
        if kernel.of_distances:
            # Distances of rows to themselves are set below; 0 here gives 2 |a|², which is not so
            # small that it would be computed from differences.
            np.fill_diagonal(products, 0)
        _finish(products, kernel, rows[a], rows[a], norms[a], norms[a], out[a, a])

    def above_it(pair: tuple[slice, slice]) -> None:
        a, b = pair
        _finish(rows[a] @ rows[b].T, kernel, rows[a], rows[b], norms[a], norms[b], out[a, b])
        out[b, a] = out[a, b].T

    over = map if pool is None else pool.map
    list(over(on_diagonal, pieces))
    list(over(above_it, [(a, b) for i, a in enumerate(pieces) for b in pieces[i + 1 :]]))
    if kernel.of_distances:
        np.fill_diagonal(out, 0)
    return out


def _finish(
    products: np.ndarray,
    kernel: Kernel,
    rows: np.ndarray,
    other_rows: np.ndarray,
    norms: np.ndarray,
    other_norms: np.ndarray,
    out: np.ndarray,
) -> None:
    """Turn inner products and squared norms into the products that all gammas share."""
    if kernel.of_distances:
        finish_distances(products, rows, other_rows, norms, other_norms, out)
    else:
        out[...] = products


def cross_products(rows: np.ndarray, other_rows: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Squared distances (rbf) or inner products between two sets of rows.

    Returns
    -------
    float32 array of shape (len(rows), len(other_rows))
    """
    norms, other_norms = (np.einsum("ij,ij->i", side, side) for side in (rows, other_rows))
    if rows.dtype == np.float32:
        out = rows @ other_rows.T
        _finish(out, kernel, rows, other_rows, norms, other_norms, out)
        return out
    out = np.empty((len(rows), len(other_rows)), np.float32)
    for at in range(0, len(rows), _BLOCK_ROWS):  # no second matrix in double precision
        a = slice(at, at + _BLOCK_ROWS)
        _finish(rows[a] @ other_rows.T, kernel, rows[a], other_rows, norms[a], other_norms, out[a])
    return out


def _apply(shared: np.ndarray, out: np.ndarray, kernel: Kernel) -> None:
    factor = np.float32(kernel.gamma)
    if kernel.name == "rbf":
        np.multiply(shared, -factor, out=out)
        np.expm1(out, out=out)
        return
    if kernel.name == "linear" or kernel.is_given:
        out[...] = shared
        return
    np.multiply(shared, factor, out=out)
    out += np.float32(kernel.coef0)
    if kernel.name == "poly":
        raise_to(out, kernel.degree)
    else:
        np.tanh(out, out=out)


def kernel_values(
    shared: np.ndarray, kernel: Kernel, out: np.ndarray | None = None, pool: Executor | None = None
) -> np.ndarray:
    """The kernel of one gamma, from products that all gammas share.

    The values of ``rbf`` are smaller by 1. Multipliers sum to 0, so a constant changes neither the
    dual problem nor a decision value, and ``exp(-x) - 1`` keeps in float32 the small differences
    that a small gamma leaves (``1 - 1e-7`` does not).

    Parameters
    ----------
    shared : float32 array of shape (n, m)
        Squared distances or inner products.
    kernel : Kernel
    out : float32 array of shape (n, m), optional
        Overwritten; may be ``shared``.
    pool : Executor, optional

    Returns
    -------
    float32 array of shape (n, m)
    """
    out = np.empty_like(shared) if out is None else out

    def apply(piece: slice) -> None:
        _apply(shared[piece], out[piece], kernel)

    run_pieces(apply, shared.shape[0], shared.shape[1] * 4, pool)
    return out


def run_pieces(
    work: Callable[[slice], None], n_rows: int, row_bytes: int, pool: Executor | None
) -> None:
    """Call ``work`` on slices of rows of about half a MiB each, on the pool's threads."""
    step = max(1, PIECE_BYTES // max(1, row_bytes))
    pieces = [slice(at, min(at + step, n_rows)) for at in range(0, n_rows, step)]
    if pool is None or len(pieces) == 1:
        for piece in pieces:
            work(piece)
    else:
        list(pool.map(work, pieces))
