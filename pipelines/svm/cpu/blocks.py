"""Contiguous kernels of pairs of classes, the runs of rows they are made of, and sums over them."""

import numpy as np

from pipelines.svm.compiled import compiled


def as_runs(rows: np.ndarray) -> np.ndarray:
    """Return start and stop of each contiguous run in increasing ``rows``.

    Parameters
    ----------
    rows : int array of shape (n,), increasing

    Returns
    -------
    runs : int64 array of shape (n_runs, 2)
    """
    rows = np.asarray(rows, dtype=np.int64)
    if rows.size == 0:
        return np.empty((0, 2), np.int64)
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    starts = rows[np.concatenate(([0], breaks))]
    stops = rows[np.concatenate((breaks - 1, [rows.size - 1]))] + 1
    return np.stack([starts, stops], axis=1)


@compiled()
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    for k in range(source.size):
        target[k] = source[k]


@compiled()
def copy_block(kernel: np.ndarray, runs: np.ndarray, block: np.ndarray) -> None:
    """Copy to ``block`` the rows and columns of ``kernel`` in ``runs``.

    kernel : float32 (N, N); runs : int64 (n_runs, 2), start and stop;
    block : float32 (n, n), n the length of all runs together.
    """
    p = 0
    for a in range(runs.shape[0]):
        for k in range(runs[a, 0], runs[a, 1]):
            at = 0
            for b in range(runs.shape[0]):
                lo, hi = runs[b, 0], runs[b, 1]
                _copy(kernel[k, lo:hi], block[p, at : at + hi - lo])
                at += hi - lo
            p += 1


@compiled("reassoc", "nsz", "contract")
def weighted_sum(values: np.ndarray, weight: np.ndarray) -> float:
    """Return the sum of float32 values times float64 weights, in float64."""
    total = 0.0
    for k in range(values.size):
        total += np.float64(values[k]) * weight[k]
    return total


@compiled()
def class_pulls(
    kernel: np.ndarray,
    starts: np.ndarray,
    weight: np.ndarray,
    first: int,
    last: int,
    pulls: np.ndarray,
) -> None:
    """Fill ``pulls[f, c, k]``: kernel row k times fold f's weights over class c.

    kernel : float32 (n, m); starts : int64 (n_classes + 1,), of the columns;
    weight : float64 (n_folds, m); rows first to last are worked on;
    pulls : float64 (n_folds, n_classes, n), output.
    """
    for k in range(first, last):
        for c in range(starts.size - 1):
            lo, hi = starts[c], starts[c + 1]
            for f in range(weight.shape[0]):
                pulls[f, c, k] = weighted_sum(kernel[k, lo:hi], weight[f, lo:hi])


@compiled()
def mark_support(coefficients: np.ndarray, support: np.ndarray) -> None:
    """Mark the rows that are support vectors of any pair.

    coefficients : float32 (n, n_classes, n_C); support : bool (n_C, n), output.
    """
    for k in range(coefficients.shape[0]):
        for c in range(coefficients.shape[2]):
            found = False
            for a in range(coefficients.shape[1]):
                found |= coefficients[k, a, c] != 0
            support[c, k] = found
