"""Predictions of every C of a fold, by one matrix product for each class."""

from collections.abc import Callable

import numpy as np

from pipelines.svm.cpu.voting import pair_decisions, vote
from pipelines.svm.path_result import Scores
from pipelines.svm.problems import Layout
from pipelines.svm.solutions import Solutions

# Partial decision values of the rows scored at once.
_PART_BYTES = 1 << 25

# Sums of larger multipliers are made in double precision: in single their rounding would
# show in decision values.
_LARGE = 30.0


def are_large(multipliers: np.ndarray) -> bool:
    """Whether decision values need double precision."""
    return bool(max(multipliers.max(initial=0.0), -multipliers.min(initial=0.0)) > _LARGE)


def pair_parts(
    kernel_of: Callable[[slice], np.ndarray], coefficients: np.ndarray, layout: Layout, n_C: int
) -> np.ndarray:
    """What each class's support vectors add to each pair's decision values.

    kernel_of : kernel between the rows to score and a slice of sorted rows
    coefficients : float (n, n_classes, n_C)

    Returns float (n_classes, n_rows, n_classes, n_C), float64 where multipliers are large.
    """
    parts = []
    some = coefficients[:, :, :n_C]
    dtype = np.dtype(np.float64 if are_large(some) else np.float32)
    for code in range(layout.n_classes):
        columns = layout.rows_of(code)
        factors = some[columns].astype(dtype).reshape(columns.stop - columns.start, -1)
        product = np.asarray(kernel_of(columns), dtype) @ factors
        parts.append(product.reshape(-1, layout.n_classes, n_C))
    return np.stack(parts)


def score_pairs(
    kernel: np.ndarray,
    rows: np.ndarray,
    fold: int,
    solutions: Solutions,
    layout: Layout,
    with_values: bool,
) -> Scores:
    """One-vs-one predictions of a fold for some rows of ``kernel``.

    kernel : float (m, n), some rows against all sorted rows
    rows : int64 (n_rows,), the rows of ``kernel`` to score
    """
    n_C = solutions.intercepts.shape[2]
    different = int(solutions.solved[fold].max())
    intercepts = np.ascontiguousarray(solutions.intercepts[fold][:, :different])
    codes, values = [], []
    step = max(1, _PART_BYTES // (4 * layout.n_classes**2 * different))
    for at in range(0, max(1, len(rows)), step):
        some = rows[at : at + step]
        parts = pair_parts(
            lambda columns: kernel[some, columns],  # noqa: B023 - used at once
            solutions.pairs[fold], layout, different,
        )  # fmt: skip
        predicted = np.empty((len(some), different), np.int64)
        vote(parts, intercepts, predicted)
        codes.append(predicted)
        if with_values:
            value = np.empty((len(some), *intercepts.shape), np.float32)
            pair_decisions(parts, intercepts, value)
            values.append(value)
    repeat = np.minimum(np.arange(n_C), different - 1)
    all_values = np.concatenate(values)[:, :, repeat] if with_values else None
    return Scores(np.concatenate(codes)[:, repeat], all_values)


def score_rest(rows: np.ndarray, fold: int, solutions: Solutions, with_values: bool) -> Scores:
    """One-vs-rest predictions of a fold: the class of the largest decision value.

    rows : int64 (n_rows,), sorted rows to score
    """
    values = solutions.rest[fold][:, :, rows]
    codes = values.argmax(axis=0).T.astype(np.int64)
    return Scores(codes, values.transpose(2, 0, 1).copy() if with_values else None)
