"""Matrix products on the device: those that all gammas share, and predictions.

Like ``pipelines.svm.cpu.kernels``, for any array module.
"""

from typing import Any

import numpy as np

from pipelines.svm.cuda.gpu import launch
from pipelines.svm.cuda.hard import ROWS, exact_source
from pipelines.svm.cuda.kernel_values import fill_kernel
from pipelines.svm.distances import least_fraction, mend_small, single_will_do
from pipelines.svm.kernel import Kernel
from pipelines.svm.search import Layout, PathProblem

# Rows and columns of one product.
BLOCK = 4096

# Up to this many multiplications float64 is affordable even on a GPU that is slow at it (some
# seconds at 0.5 TFLOP/s).
_FLOAT64_PRODUCTS = 1e12


def affords_float64(n: int, n_features: int, fast_float64: bool) -> bool:
    """Whether the products of n rows are computed in float64."""
    return fast_float64 or float(n) * n * n_features <= _FLOAT64_PRODUCTS


def prepare_device_rows(X: Any, kernel: Kernel, xp: Any, fast_float64: bool) -> Any:
    """Rows ready for the products: on the device, centred for ``rbf``.

    Without centring, float32 distances of MNIST have errors of up to 8e-3; with it, of 1.3e-3.

    Parameters
    ----------
    X : float array of shape (n, n_features), a numpy or ``xp`` array
    kernel : Kernel
    xp : module
        cupy, or numpy under the simulator.
    fast_float64 : bool
        Whether float64 is fast on this device, see ``Limits``.

    Returns
    -------
    float64 array of shape (n, n_features), or float32 where float64 would cost too much and single
    precision suffices
    """
    rows = xp.asarray(X).astype(np.float64)
    if kernel.of_distances:
        rows -= rows.mean(axis=0)
    n, n_features = rows.shape
    wide = affords_float64(n, n_features, fast_float64)
    if wide or (kernel.of_distances and not single_will_do(rows, xp)):
        return rows
    return rows.astype(np.float32)


def device_cross_products(rows: Any, other_rows: Any, kernel: Kernel, xp: Any) -> Any:
    """Squared distances (rbf) or inner products of two sets of rows, float32."""
    return _products(rows, other_rows, kernel, xp).astype(np.float32)


def _products(rows: Any, other_rows: Any, kernel: Kernel, xp: Any) -> Any:
    """Squared distances (rbf) or inner products of two sets of rows, in the rows' precision."""
    products = rows @ other_rows.T
    if not kernel.of_distances:
        return products
    sums = (rows * rows).sum(axis=1)[:, None] + (other_rows * other_rows).sum(axis=1)
    distances = sums - 2 * products
    sums *= least_fraction(products.dtype)
    mend_small(distances, sums, rows, other_rows, xp)
    return distances


def symmetric_products(
    rows: Any, kernel: Kernel, xp: Any, block: int = BLOCK, remainder: Any = None
) -> Any:
    """Products of a set of rows with itself, computed from the upper blocks.

    Parameters
    ----------
    rows : float array of shape (n, n_features), from ``prepare_device_rows``
    kernel : Kernel
    xp : module
    block : int
        Rows and columns of one product.
    remainder : float32 array of shape (n, n), optional
        Output: what rounding the float64 products to float32 leaves off.

    Returns
    -------
    float32 array of shape (n, n)
        Exactly symmetric: a solver that reads row i in one step and row j in the next must see the
        same number.
    """
    n = len(rows)
    out = xp.empty((n, n), np.float32)
    pieces = [slice(at, min(at + block, n)) for at in range(0, n, block)]
    for i, a in enumerate(pieces):
        for b in pieces[i:]:
            part = _products(rows[a], rows[b], kernel, xp)
            if a == b:
                part = xp.triu(part) + xp.triu(part, 1).T
            out[a, b] = part
            out[b, a] = part.T
            if remainder is not None:
                part -= out[a, b]
                remainder[a, b] = part
                remainder[b, a] = part.T
    if kernel.of_distances:
        everywhere = xp.arange(n)
        for products in (out,) if remainder is None else (out, remainder):
            products[everywhere, everywhere] = 0
    return out


def products_for_solver(
    rows: Any, kernel: Kernel, xp: Any, exact: bool, block: int = BLOCK
) -> tuple[Any, Any]:
    """``symmetric_products`` and, if ``exact``, the source of values in double precision.

    Returns
    -------
    products : float32 array of shape (n, n)
    source : array or None
        The rows, or the remainders of the products, see ``hard``; None if not ``exact``.
    """
    source = None
    if exact and exact_source(rows.shape[1]) == ROWS:
        source = xp.ascontiguousarray(rows.astype(np.float64).T)
        return symmetric_products(rows, kernel, xp, block), source
    if exact:
        source = xp.empty((len(rows), len(rows)), np.float32)
    return symmetric_products(rows, kernel, xp, block, source), source


def score_rows(
    shared: Any,
    rows: Any,
    coefficients: Any,
    intercepts: Any,
    layout: Layout,
    problems: list[PathProblem],
    kernel: Kernel,
    gamma: float,
    xp: Any,
    block_size: int,
) -> tuple[Any, Any]:
    """Predicted class numbers and decision values of some rows for every C.

    All pairs are scored in a few array operations, as each is a launch and an allocation.

    Parameters
    ----------
    shared : float32 array of shape (m, n)
        Products of some rows with all sorted rows.
    rows : int32 array of shape (n_rows,)
        Which of the m rows to score.
    coefficients : float32 array of shape (n_classes, n_C, n)
    intercepts : float64 array of shape (n_problems, n_C)
    layout : Layout
    problems : list of PathProblem
    kernel : Kernel
    gamma : float
    xp : module
    block_size : int
        Threads per block.

    Returns
    -------
    codes : int64 array of shape (n_rows, n_C)
    decision_values : float32 array of shape (n_problems, n_rows, n_C)
    """
    n_places, n_C, _ = coefficients.shape
    one_vs_one = problems[0].second is not None
    shape = (layout.n_classes if one_vs_one else 1, len(rows), n_places, n_C)
    sums = xp.zeros(shape, np.float32)
    for code in range(layout.n_classes):
        columns = layout.rows_of(code)
        values = xp.empty((len(rows), columns.stop - columns.start), np.float32)
        if values.size:
            launch(
                fill_kernel(kernel.name),
                len(rows),
                block_size,
                [
                    shared,
                    rows,
                    columns.start,
                    np.float32(gamma),
                    np.float32(kernel.coef0),
                    kernel.degree,
                    values,
                ],
            )
        factors = coefficients[:, :, columns].reshape(n_places * n_C, -1)
        sums[code if one_vs_one else 0] += (values @ factors.T).reshape(shape[1:])
    if one_vs_one:
        first = xp.asarray([problem.first for problem in problems])
        second = xp.asarray([problem.second for problem in problems])
        # The decision value of a pair: what the support vectors of both its classes add.
        decision_values = sums[first, :, second].astype(np.float64)
        decision_values += sums[second, :, first]
        decision_values = (decision_values + intercepts[:, None]).astype(np.float32)
        # LIBSVM's votes: a class has those pairs in which it is first and wins, and those in which
        # it is second and the first does not win; argmax takes the lowest class of a tie.
        signs, offsets = np.zeros((layout.n_classes, len(problems)), np.float32), np.zeros(shape[0])
        for p, problem in enumerate(problems):
            signs[problem.first, p], signs[problem.second, p] = 1, -1
            offsets[problem.second] += 1
        wins = (decision_values > 0).astype(np.float32).reshape(len(problems), -1)
        votes = xp.asarray(signs) @ wins + xp.asarray(offsets, dtype=np.float32)[:, None]
        return votes.argmax(axis=0).reshape(decision_values.shape[1:]), decision_values
    decision_values = (sums[0] + intercepts).astype(np.float32).transpose(1, 0, 2)
    return decision_values.argmax(axis=0), decision_values
