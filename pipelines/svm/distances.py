"""Squared distances of rows, from products where these have the digits, else from differences.

The product of two rows far from the origin is large, and their distance the small difference of
such numbers: what rounding leaves uncertain of it grows with their norms.  Rows are centred first,
which changes no distance; what is still too small beside its rows' norms is made anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# A distance made of products is off by so many roundings of the sum of its rows' squared norms
# (measured), and may be off by this share of itself.  A kernel value is then off by 0.37 of that
# share at most, whatever gamma is: the largest value of x exp(-x) is 0.37.
_ROUNDINGS, _ACCURACY = 4.0, {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-6}

# Rows of a matrix worked on at once: the piece stays in a core's cache between
# the operations that make it.
PIECE_BYTES = 1 << 19

# Values of rows whose differences are taken at once.
_DIFFERENCES = 1 << 18

# Rows whose neighbours are looked at to tell whether single precision will do.
_SAMPLE, _FAR = 8, 64


def least_fraction(dtype: Any) -> float:
    """Return which share of the sum of two squared norms a distance made of products must have."""
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
    """Set ``out = norms + other_norms - 2 products``, those of equal rows exactly 0.

    Parameters
    ----------
    products : float array of shape (n, m), of ``rows`` and ``others``
    rows, others : of shape (n, n_features) and (m, n_features), best centred
    norms, other_norms : squared
    out : float array of shape (n, m), which may be ``products``, output
    """
    fraction = least_fraction(products.dtype)
    hashes: list[np.ndarray] = []  # of rows and of others, where many distances are small
    step = max(1, PIECE_BYTES // (products.itemsize * max(1, products.shape[1])))
    # Made once: in Dask's workers the pages of such arrays are given back each time.
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
    """Replace distances that are too small for products by those made from differences.

    Parameters
    ----------
    distances : float array of shape (n, m), made of products of the precision of ``rows``, output
    sums : of the squared norms times ``least_fraction``, of the same shape
    rows, others : float arrays of shape (n, n_features) and (m, n_features)
    xp : array module
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
    """Return whether single precision holds the distances of centred float64 rows.

    It does not where a row's neighbour, unless it is equal, is too close for its norm.
    """
    norms = xp.einsum("ij,ij->i", rows, rows)
    # And those far out, in order: what single precision takes off them is most.
    far = xp.argsort(norms)[-_FAR:]
    sample = xp.concatenate([rows[:: max(1, len(rows) // _SAMPLE)], rows[far]])
    sums = (sample * sample).sum(axis=1)[:, None] + norms
    distances = sums - 2 * (sample @ rows.T)
    mend_small(distances, sums * least_fraction(np.float64), sample, rows, xp)
    return not bool(((distances > 0) & (distances <= sums * least_fraction(np.float32))).any())
