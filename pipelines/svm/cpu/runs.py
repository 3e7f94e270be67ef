"""Increasing row numbers as contiguous runs."""

import numpy as np


def as_runs(rows: np.ndarray) -> np.ndarray:
    """Start and stop of each contiguous run in increasing ``rows``.

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
