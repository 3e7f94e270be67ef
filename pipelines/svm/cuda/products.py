"""Matrix products on the device: those that all kernels share, and predictions from them.

As ``pipelines.svm.cpu.kernels``, written on any array module.
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

# Up to this many multiplications float64 is affordable on a GPU that is slow at it
# (some seconds at 0.5 TFLOP/s).
_FLOAT64_PRODUCTS = 1e12


def affords_float64(n: int, n_features: int, fast_float64: bool) -> bool:
    """Return whether the products of n rows are made in float64."""
    return fast_float64 or float(n) * n * n_features <= _FLOAT64_PRODUCTS


def prepare_device_rows(X: Any, kernel: Kernel, xp: Any, fast_float64: bool) -> Any:
    """Return rows ready for the products: on the device, their mean taken off for ``rbf``.

    X : float array of shape (n, n_features), numpy or xp

    Returns float64 of the same shape, or float32 where float64 would cost too much and that
    will do. Without the mean taken off, float32 distances of MNIST err by up to 8e-3, with it
    by 1.3e-3.
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
    """Return squared distances (rbf) or inner products of two sets of rows, float32."""
    return _products(rows, other_rows, kernel, xp).astype(np.float32)


def _products(rows: Any, other_rows: Any, kernel: Kernel, xp: Any) -> Any:
    """Return them in the rows' own precision."""
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
    """Return the products of a set with itself, computed from the upper blocks.

    rest : float32 (n, n), output: what the rounding of float64 products left off; or None

    Returns float32 (n, n), exactly symmetric: a solver that reads row i in one
    step and row j in the next must see one number.
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
    """Return ``symmetric_products`` and, if ``exact``, what double precision takes beside them.

    Returns float32 (n, n), and a source as in ``hard``, or None
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
    """Return predicted class numbers and decision values of some rows for every C.

    Few array operations for all pairs at once: each is a launch, and memory to be found.

    shared : float32 (m, n), shared products with all sorted rows
    rows : int32 (n_rows,), those to score
    coefficients : float32 (n_classes, n_C, n); intercepts : float64 (n_problems, n_C)

    Returns int64 (n_rows, n_C) and float32 (n_problems, n_rows, n_C)
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
        # What a class's support vectors add to the pair of it and each other class.
        decision_values = sums[first, :, second].astype(np.float64)
        decision_values += sums[second, :, first]
        decision_values = (decision_values + intercepts[:, None]).astype(np.float32)
        # A class's votes, as LIBSVM: the pairs it wins as the first, and those it does not lose
        # as the second; the lowest of a tie.
        signs, offsets = np.zeros((layout.n_classes, len(problems)), np.float32), np.zeros(shape[0])
        for p, problem in enumerate(problems):
            signs[problem.first, p], signs[problem.second, p] = 1, -1
            offsets[problem.second] += 1
        wins = (decision_values > 0).astype(np.float32).reshape(len(problems), -1)
        votes = xp.asarray(signs) @ wins + xp.asarray(offsets, dtype=np.float32)[:, None]
        return votes.argmax(axis=0).reshape(decision_values.shape[1:]), decision_values
    decision_values = (sums[0] + intercepts).astype(np.float32).transpose(1, 0, 2)
    return decision_values.argmax(axis=0), decision_values
