"""Predictions of every C of a fold, by one matrix product for each class and LIBSVM's votes."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from pipelines.svm.path_result import Scores
from pipelines.svm.problems import Layout
from pipelines.svm.search import Search
from pipelines.svm.solutions import Solutions

# Of the rows scored at once: partial decision values, and the kernel in double precision.
_PART_BYTES = 1 << 25
_EXACT_BYTES = 1 << 28

# Rows whose parts stand for those of all.
_SAMPLE = 128

# Of the largest part of a decision value, what single precision leaves uncertain; measured
# on images and tables: 5e-7, and 2e-6 where gamma is too large. The distance of the kernel
# from 1, which is what is summed, is exact to its last digits even where multipliers are large
# and distances small.
_UNCERTAIN = 1e-6


def pair_parts(
    kernel: np.ndarray, coefficients: np.ndarray, layout: Layout, n_C: int
) -> np.ndarray:
    """Sum up what each class's support vectors add to each pair's decision values.

    kernel : float (n_rows, n) between the rows to score and all sorted rows
    coefficients : float (n, n_classes, n_C or more)

    Returns an array (n_classes, n_classes, n_C, n_rows) of the kernel's dtype.
    """
    parts = []
    for code in range(layout.n_classes):
        columns = layout.rows_of(code)
        factors = coefficients[columns, :, :n_C].astype(kernel.dtype)
        product = kernel[:, columns] @ factors.reshape(columns.stop - columns.start, -1)
        parts.append(product.reshape(-1, layout.n_classes, n_C).transpose(1, 2, 0))
    return np.stack(parts)


def pair_decisions(parts: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Return the decision values of every pair, float64 (n_pairs, n_C, n_rows).

    Parameters
    ----------
    parts : float array of shape (n_classes, n_classes, n_C, n_rows)
        ``parts[a, b]``: what class a's support vectors add to the decision
        values of the pair of a and b.
    intercepts : float64 array of shape (n_pairs, n_C)
    """
    values = np.empty((*intercepts.shape, parts.shape[3]))
    for a, pairs in _pairs_of_first(len(parts)):
        np.add(parts[a, a + 1 :], parts[a + 1 :, a], out=values[pairs])
    values += intercepts[:, :, None]
    return values


def _pairs_of_first(n_classes: int) -> Iterator[tuple[int, slice]]:
    """Yield each class, and the pairs of which it is the first: with each class after it."""
    at = 0
    for a in range(n_classes - 1):
        yield a, slice(at, at + n_classes - 1 - a)
        at += n_classes - 1 - a


def vote(values: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the predicted class numbers, int64 (n_C, n_rows).

    A decision value above 0 is a vote for the pair's first class, otherwise for
    its second; the lowest class wins a tie.

    values : from ``pair_decisions``
    """
    # A class's votes, and where those are equal the lower class's number, in one.
    votes = np.zeros((n_classes, *values.shape[1:]), np.int32)
    votes -= np.arange(n_classes, dtype=np.int32)[:, None, None]
    for a, pairs in _pairs_of_first(n_classes):
        wins = values[pairs] > 0
        votes[a] += n_classes * np.count_nonzero(wins, axis=0)
        votes[a + 1 :] += n_classes * ~wins
    return -votes.max(axis=0).astype(np.int64) % n_classes


def undecided(values: np.ndarray, within: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the rows whose class may change if values within ``within`` of 0 change sign.

    values : from ``pair_decisions``; within : float64 (n_C,)
    """
    near = (np.abs(values) < within[:, None]).any(axis=0)
    places, rows = np.nonzero(near)
    close = values[:, places, rows]  # (n_pairs, n_near)
    open_ = np.abs(close) < within[places]
    sure, most = np.zeros((2, n_classes, len(rows)), np.int64)
    for a, pairs in _pairs_of_first(n_classes):
        wins, unsure = close[pairs] > 0, open_[pairs]
        sure[a] += np.count_nonzero(wins & ~unsure, axis=0)
        most[a] += np.count_nonzero(wins | unsure, axis=0)
        sure[a + 1 :] += ~wins & ~unsure
        most[a + 1 :] += ~wins | unsure
    best = sure.argmax(axis=0)  # the lowest of equals, as the vote
    lead = sure[best, np.arange(len(rows))]
    number = np.arange(n_classes)[:, None]
    other = (number != best) & ((most > lead) | ((most == lead) & (number < best)))
    return np.unique(rows[other.any(axis=0)])


def _rows_of(kernel: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return ``kernel[rows]``, not copied where the rows follow each other."""
    if rows.size and (np.diff(rows) == 1).all():
        return kernel[rows[0] : rows[-1] + 1]
    return kernel[rows]


def score_pairs(
    kernel: np.ndarray,
    rows: np.ndarray,
    fold: int,
    solutions: Solutions,
    search: Search,
    exact_kernel: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Scores:
    """Predict some rows of ``kernel`` by one-vs-one.

    kernel : float32 (m, n), some rows against all sorted rows
    rows : int64 (n_rows,), the rows of ``kernel`` to score
    exact_kernel : gives some of those rows in double precision, for rows whose prediction
        the rounding of ``kernel`` may change; None where there is no other
    """
    n_C = solutions.intercepts.shape[2]
    different = int(solutions.solved[fold].max())
    score = partial(
        _score_rows, solutions.pairs[fold], search,
        np.ascontiguousarray(solutions.intercepts[fold][:, :different]),
    )  # fmt: skip
    step = max(1, min(_PART_BYTES // (4 * search.layout.n_classes**2 * different),
                      _EXACT_BYTES // (8 * kernel.shape[1])))  # fmt: skip
    found = []
    for at in range(0, max(1, len(rows)), step):
        some = rows[at : at + step]
        scores, doubtful = score(_rows_of(kernel, some))
        if exact_kernel is not None and doubtful.size:
            again, _ = score(exact_kernel(some[doubtful]))
            scores.codes[doubtful] = again.codes
            if scores.values is not None:
                scores.values[doubtful] = again.values
        found.append(scores)
    repeat = np.minimum(np.arange(n_C), different - 1)
    values = [scores.values for scores in found if scores.values is not None]
    return Scores(
        np.concatenate([scores.codes for scores in found])[:, repeat],
        np.concatenate(values)[:, :, repeat] if values else None,
    )


def _score_rows(
    coefficients: np.ndarray, search: Search, intercepts: np.ndarray, kernel: np.ndarray
) -> tuple[Scores, np.ndarray]:
    """Score all rows of ``kernel``; return also those whose prediction rounding may change.

    Where decision values are asked for, those are all rows as soon as one value is less
    certain than the solution.
    """
    n_C, n_classes = intercepts.shape[1], search.layout.n_classes
    parts = pair_parts(kernel, coefficients, search.layout, n_C)
    values = pair_decisions(parts, intercepts)
    codes = vote(values, n_classes).T
    certain = (
        max(parts.max(initial=0.0), -parts.min(initial=0.0)) * _UNCERTAIN <= search.settings.tol
    )
    if search.with_values:
        kept = values.transpose(2, 0, 1).astype(np.float32)
        return Scores(codes, kept), np.arange(0 if certain else len(kernel))
    if certain:
        return Scores(codes), np.empty(0, np.int64)
    within = _UNCERTAIN * np.abs(parts).max(axis=(0, 1, 3), initial=0.0).astype(np.float64)
    return Scores(codes), undecided(values, within, n_classes)


def score_two(
    kernel: np.ndarray,
    rows: np.ndarray,
    fold: int,
    solutions: Solutions,
    search: Search,
    exact_kernel: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Scores:
    """Predict two classes like ``score_pairs``, from decision values kept by the walk.

    What single precision leaves uncertain is told from parts of some rows' values.
    """
    values = solutions.rest[fold][0][:, rows].T
    n_C = values.shape[1]
    some = rows[:: max(1, len(rows) // _SAMPLE)]
    parts = pair_parts(kernel[some], solutions.pairs[fold], search.layout, n_C)
    within = _UNCERTAIN * np.abs(parts).max(axis=(0, 1, 3), initial=0.0)
    scores = Scores(
        (values <= 0).astype(np.int64), values[:, None].copy() if search.with_values else None
    )
    if search.with_values:
        near = np.full(len(rows), within.max(initial=0.0) > search.settings.tol)
    else:
        near = (np.abs(values) < within).any(axis=1)
    if exact_kernel is not None and near.any():
        again, _ = _score_rows(
            solutions.pairs[fold], search, solutions.intercepts[fold], exact_kernel(rows[near])
        )
        scores.codes[near] = again.codes
        if scores.values is not None:
            scores.values[near] = again.values
    return scores


def score_rest(rows: np.ndarray, fold: int, solutions: Solutions, with_values: bool) -> Scores:
    """Predict by one-vs-rest: the class of the largest decision value.

    rows : int64 (n_rows,), sorted rows to score
    """
    values = solutions.rest[fold][:, :, rows]
    codes = values.argmax(axis=0).T.astype(np.int64)
    return Scores(codes, values.transpose(2, 0, 1).copy() if with_values else None)
