"""Contiguous kernel blocks of pairs of classes, copied run by run, and sums over classes."""

import numpy as np

from pipelines.svm.compiled import compiled


def as_runs(rows: np.ndarray) -> list[tuple[int, int]]:
    """Start and stop of each run of consecutive numbers in ascending ``rows``."""
    if rows.size == 0:
        return []
    last = np.flatnonzero(rows[1:] - rows[:-1] != 1)
    starts = [rows[0].item(), *rows[last + 1].tolist()]
    return list(zip(starts, [*(rows[last] + 1).tolist(), rows[-1].item() + 1], strict=True))


def copy_block(kernel: np.ndarray, rows: np.ndarray, block: np.ndarray) -> None:
    """Copy the rows and columns ``rows``, ascending, of ``kernel`` to ``block``.

    kernel : float32 (N, N); rows : int64 (n,); block : float32 (n, n), output
    """
    pieces, at = [], 0
    for start, stop in as_runs(rows):
        pieces.append((slice(start, stop), slice(at, at + stop - start)))
        at += stop - start
    for source_rows, target_rows in pieces:
        for source_columns, target_columns in pieces:
            block[target_rows, target_columns] = kernel[source_rows, source_columns]


@compiled("reassoc", "nsz", "contract")
def class_pulls(
    kernel: np.ndarray,
    starts: np.ndarray,
    weight: np.ndarray,
    first: int,
    last: int,
    pulls: np.ndarray,
) -> None:
    """Fill ``pulls[f, c, k]``, kernel row k times fold f's weights over class c, for some rows.

    kernel : float32 (n, m)
    starts : int64 (n_classes + 1,), where among the columns each class begins
    weight : float64 (n_folds, m)
    first, last : rows from ``first`` to before ``last``
    pulls : float64 (n_folds, n_classes, n), output
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
