"""Shared products on the device, by blocks of matrix products.

As ``pipelines.svm.cpu.kernels``, written on any array module.
"""

from typing import Any

import numpy as np

from pipelines.svm.kernel import Kernel

# Rows and columns of one product.
BLOCK = 4096

# Up to this many multiplications float64 is affordable on a GPU that is slow at it
# (some seconds at 0.5 TFLOP/s).
_FLOAT64_PRODUCTS = 1e12


def prepare_rows(X: Any, kernel: Kernel, xp: Any, fast_float64: bool) -> Any:
    """Return rows ready for the products: on the device, their mean taken off for ``rbf``.

    X : float array of shape (n, n_features), numpy or xp

    Returns float64 of the same shape, or float32 where float64 would cost too much.
    Without the mean taken off, float32 distances of MNIST err by up to 8e-3, with
    it by 1.3e-3.
    """
    rows = xp.asarray(X).astype(np.float64)
    if kernel.of_distances:
        rows -= rows.mean(axis=0)
    n, n_features = rows.shape
    wide = fast_float64 or float(n) * n * n_features <= _FLOAT64_PRODUCTS
    return rows if wide else rows.astype(np.float32)


def cross_products(rows: Any, others: Any, kernel: Kernel, xp: Any) -> Any:
    """Return squared distances (rbf) or inner products of two sets of rows, float32."""
    products = rows @ others.T
    if not kernel.of_distances:
        return products.astype(np.float32)
    sums = (rows * rows).sum(axis=1)[:, None] + (others * others).sum(axis=1)
    distances = sums - 2 * products
    # Rounding noise becomes exact 0, so that equal rows are at distance 0.
    noise = 8 * np.finfo(products.dtype).eps
    return xp.where(distances <= noise * sums, 0, distances).astype(np.float32)


def symmetric_products(rows: Any, kernel: Kernel, xp: Any, block: int = BLOCK) -> Any:
    """Return the products of a set with itself, computed from the upper blocks.

    Returns float32 (n, n), exactly symmetric: a solver that reads row i in one
    step and row j in the next must see one number.
    """
    n = len(rows)
    out = xp.empty((n, n), np.float32)
    pieces = [slice(at, min(at + block, n)) for at in range(0, n, block)]
    for i, a in enumerate(pieces):
        for b in pieces[i:]:
            part = cross_products(rows[a], rows[b], kernel, xp)
            if a == b:
                part = xp.triu(part) + xp.triu(part, 1).T
            out[a, b] = part
            if a != b:
                out[b, a] = part.T
    if kernel.of_distances:
        everywhere = xp.arange(n)
        out[everywhere, everywhere] = 0
    return out
