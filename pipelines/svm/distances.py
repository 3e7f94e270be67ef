"""Squared distances of rows, from matrix products where these are precise enough.

``|a - b|² = |a|² + |b|² - 2 ab`` costs one matrix product for all rows, but far from the origin it
is a small difference of large numbers, and its rounding error grows with the norms. Rows are
centred first, which changes no distance. Distances that are still too small for their rows' norms
are computed again, from differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# The error of a distance from products, in roundings of the sum of its rows' squared norms
# (measured); and the relative error that is accepted.  The error of a kernel value is then at most
# 0.37 of that, whatever gamma is: the largest value of x exp(-x) is 0.37.
_ROUNDINGS, _ACCURACY = 4.0, {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-6}

# A matrix is worked on in pieces of this size, which stay in a core's cache from one operation to
# the next.
PIECE_BYTES = 1 << 19

# Values of rows whose differences are computed at once.
_DIFFERENCES = 1 << 18

# Rows whose neighbours decide whether single precision suffices: so many spread over the data, and
# so many with the largest norms.
_SAMPLE, _FAR = 8, 64


def least_fraction(dtype: Any) -> float:
    """The least ratio of a distance to its rows' squared norms at which products are precise."""
    dtype = np.dtype(dtype)
    return float(_ROUNDINGS * np.finfo(dtype).eps / _ACCURACY[dtype])


def finish_distances(
    products: np.ndarray,
    rows: np.ndarray,
    other_rows: np.ndarray,
    norms: np.ndarray,
    other_norms: np.ndarray,
    out: np.ndarray,
) -> None:
    """Squared distances from products: ``out = norms + other_norms - 2 products``.

    The distance of equal rows is exactly 0, and distances too small for their rows' norms are
    computed from differences.

    Parameters
    ----------
    products : float array of shape (n, m)
        Inner products of ``rows`` and ``other_rows``.
    rows, other_rows : float arrays of shape (n, n_features) and (m, n_features)
        Preferably centred.
    norms, other_norms : float arrays of shape (n,) and (m,)
        Their squared norms.
    out : float array of shape (n, m)
        Output; may be ``products``.
    """
    fraction = least_fraction(products.dtype)
    hashes: list[np.ndarray] = []  # of both sets of rows, made only where many distances are small
    step = max(1, PIECE_BYTES // (products.itemsize * max(1, products.shape[1])))
    # Allocated once: Dask's workers return the pages of such arrays to the system at each release.
    sums_of, distances_of = np.empty(
        (2, min(step, len(products)), products.shape[1]), products.dtype
    )
    for at in range(0, len(products), step):
        piece = slice(at, at + step)
        sums, distances = (array[: len(products[piece])] for array in (sums_of, distances_of))
        np.add(norms[piece, None], other_norms[None, :], out=sums)
        np.multiply(products[piece], -2, out=distances)
        distances += sums
        sums *= fraction
        if np.count_nonzero(distances <= sums) > 2 * len(rows):
            hashes = hashes or [
                np.array([hash(row.tobytes()) for row in side]) for side in (rows, other_rows)
            ]
            equal = hashes[0][piece, None] == hashes[1]
            distances[equal], sums[equal] = 0, -1  # done
        mend_small(distances, sums, rows[piece], other_rows)
        out[piece] = distances


def mend_small(distances: Any, sums: Any, rows: Any, other_rows: Any, xp: Any = np) -> None:
    """Compute distances again, from differences, where products are not precise enough.

    Parameters
    ----------
    distances : float array of shape (n, m)
        From products in the precision of ``rows``; changed in place.
    sums : float array of shape (n, m)
        Sums of the rows' squared norms, times ``least_fraction``.
    rows, other_rows : float arrays of shape (n, n_features) and (m, n_features)
    xp : module
        numpy or cupy.
    """
    is_small = distances <= sums
    if not is_small.any():
        return
    first, second = xp.nonzero(is_small)
    step = max(1, _DIFFERENCES // max(1, rows.shape[1]))
    for at in range(0, len(first), step):
        i, j = first[at : at + step], second[at : at + step]
        difference = rows[i].astype(np.float64)
        difference -= other_rows[j]
        distances[i, j] = (difference * difference).sum(axis=1)


def single_will_do(rows: Any, xp: Any = np) -> bool:
    """Whether products in single precision are precise enough for centred float64 rows.

    They are not where a row has a neighbour, other than an equal one, that is too close for its
    norm. A sample of the rows is tested.
    """
    norms = xp.einsum("ij,ij->i", rows, rows)
    # Rows far from the centre lose most to rounding.
    far = xp.argsort(norms)[-_FAR:]
    sample = xp.concatenate([rows[:: max(1, len(rows) // _SAMPLE)], rows[far]])
    sums = (sample * sample).sum(axis=1)[:, None] + norms
    distances = sums - 2 * (sample @ rows.T)
    mend_small(distances, sums * least_fraction(np.float64), sample, rows, xp)
    return not bool(((distances > 0) & (distances <= sums * least_fraction(np.float32))).any())
