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


def copy_block(kernel: np.ndarray, runs: np.ndarray, block: np.ndarray) -> None:
    """Copy to ``block`` the rows and columns of ``kernel`` in ``runs``.

    kernel : float32 (N, N); runs : int64 (n_runs, 2), start and stop;
    block : float32 (n, n), n the length of all runs together.
    """
    ends = np.cumsum(runs[:, 1] - runs[:, 0]).tolist()
    pieces = [
        (slice(lo, hi), slice(end - hi + lo, end))
        for (lo, hi), end in zip(runs.tolist(), ends, strict=True)
    ]
    for some, at in pieces:
        for others, beside in pieces:
            block[at, beside] = kernel[some, others]


@compiled("reassoc", "nsz", "contract")
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
            values = kernel[k, starts[c] : starts[c + 1]]
            for f in range(weight.shape[0]):
                factors, total = weight[f, starts[c] : starts[c + 1]], 0.0
                for q in range(values.size):
                    total += np.float64(values[q]) * factors[q]
                pulls[f, c, k] = total


def mark_support(coefficients: np.ndarray, support: np.ndarray) -> None:
    """Mark the rows that are support vectors of any pair.

    coefficients : float (n, n_classes, n_C); support : bool (n_C, n), all False, output.
    """
    for of_class in range(coefficients.shape[1]):  # numpy's any over these is slow
        support |= (coefficients[:, of_class] != 0).T
