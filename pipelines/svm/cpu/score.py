"""Predictions of every C of a fold, by one matrix product for each class and LIBSVM's votes."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from pipelines.svm.grid_cells import Scores
from pipelines.svm.search import PathSearch
from pipelines.svm.solutions import Solutions

# Bytes for the rows scored at once: of partial decision values, and of the kernel in double
# precision.
_PART_BYTES = 1 << 25
_EXACT_BYTES = 1 << 28

# Rows from whose partial decision values the uncertainty of all rows is estimated.
_SAMPLE = 128

# The uncertainty that single precision leaves in a decision value, relative to its largest part.
# Measured on images and tables: 5e-7, and 2e-6 where gamma is too large. The kernel minus 1, which
# is what is summed, is exact to its last digits even where multipliers are large and distances
# small.
_UNCERTAIN = 1e-6

# Where that is less than the tolerance, rows in doubt are called ties and left alone if they are
# few.  If more than this fraction is in doubt, gamma is so large that 1 - exp(-x) is 1 in single
# precision, and the rest of exp(-x), which is lost, decides.
_MANY = 0.05


def pair_parts(
    kernel: np.ndarray, coefficients: np.ndarray, starts: np.ndarray, n_C: int
) -> np.ndarray:
    """The contributions of each class's support vectors to the decision values of its pairs.

    Parameters
    ----------
    kernel : float array of shape (n_rows, n)
        Between the rows to score and some sorted rows.
    coefficients : float array of shape (n, n_classes, n_C or more)
    starts : int64 array of shape (n_classes + 1,)
        Where among the sorted rows each class begins.
    n_C : int
        How many of the C's to use.

    Returns
    -------
    array of shape (n_classes, n_classes, n_C, n_rows), of the kernel's dtype
    """
    parts, n_classes = [], starts.size - 1
    for first, last in pairwise(starts):
        factors = coefficients[first:last, :, :n_C].astype(kernel.dtype)
        product = kernel[:, first:last] @ factors.reshape(last - first, n_classes * n_C)
        parts.append(product.reshape(len(kernel), n_classes, n_C).transpose(1, 2, 0))
    return np.stack(parts)


def pair_decisions(parts: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """The decision values of every pair, float64 (n_pairs, n_C, n_rows).

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
    """Yield each class and the slice of the pairs in which it comes first."""
    at = 0
    for a in range(n_classes - 1):
        yield a, slice(at, at + n_classes - 1 - a)
        at += n_classes - 1 - a


def vote(values: np.ndarray, n_classes: int) -> np.ndarray:
    """Predicted class numbers by LIBSVM's vote, int64 (n_C, n_rows).

    A decision value above 0 is a vote for the pair's first class, otherwise for its second. The
    lowest class wins a tie.

    values : from ``pair_decisions``
    """
    # One integer for a class, of its votes and its negative number: the largest is the winner.
    votes = np.zeros((n_classes, *values.shape[1:]), np.int32)
    votes -= np.arange(n_classes, dtype=np.int32)[:, None, None]
    for a, pairs in _pairs_of_first(n_classes):
        wins = values[pairs] > 0
        votes[a] += n_classes * np.count_nonzero(wins, axis=0)
        votes[a + 1 :] += n_classes * ~wins
    return -votes.max(axis=0).astype(np.int64) % n_classes


def undecided(
    values: np.ndarray, limits: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """C's and rows whose class may change if decision values within ``limits`` of 0 change sign.

    values : from ``pair_decisions``; limits : float64 (n_C,)
    """
    is_near = (np.abs(values) < limits[:, None]).any(axis=0)
    places, rows = np.nonzero(is_near)
    near_values = values[:, places, rows]  # (n_pairs, n_near)
    is_open = np.abs(near_values) < limits[places]
    sure, most = np.zeros((2, n_classes, len(rows)), np.int64)
    for a, pairs in _pairs_of_first(n_classes):
        wins, unsure = near_values[pairs] > 0, is_open[pairs]
        sure[a] += np.count_nonzero(wins & ~unsure, axis=0)
        most[a] += np.count_nonzero(wins | unsure, axis=0)
        sure[a + 1 :] += ~wins & ~unsure
        most[a + 1 :] += ~wins | unsure
    best = sure.argmax(axis=0)  # the lowest class of a tie, as in ``vote``
    lead = sure[best, np.arange(len(rows))]
    number = np.arange(n_classes)[:, None]
    other = (number != best) & ((most > lead) | ((most == lead) & (number < best)))
    changes = other.any(axis=0)
    return places[changes], rows[changes]


def _rows_of(kernel: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """``kernel[rows]``, as a view if the rows are consecutive."""
    if rows.size and (np.diff(rows) == 1).all():
        return kernel[rows[0] : rows[-1] + 1]
    return kernel[rows]


# Kernel values of some sorted rows with others, in double precision; see ``ExactKernel.between``.
ExactValues = Callable[[np.ndarray, np.ndarray], np.ndarray]


def score_pairs(
    kernel: np.ndarray,
    rows: np.ndarray,
    fold: int,
    solutions: Solutions,
    search: PathSearch,
    exact: ExactValues | None = None,
) -> Scores:
    """Predict rows by one-vs-one, at every C of a fold.

    Parameters
    ----------
    kernel : float32 array of shape (m, n)
        Kernel of some rows with all sorted rows.
    rows : int64 array of shape (n_rows,)
        The rows of ``kernel`` to score.
    fold : int
    solutions : Solutions
    search : PathSearch
    exact : ExactValues, optional
        The kernel in double precision, for rows whose prediction the rounding of ``kernel`` may
        change.
    """
    n_C = solutions.intercepts.shape[2]
    different = int(solutions.solved[fold].max())
    repeat = np.minimum(np.arange(n_C), different - 1)
    step = max(
        1,
        min(
            _PART_BYTES // (4 * search.layout.n_classes**2 * different),
            _EXACT_BYTES // (8 * kernel.shape[1]),
        ),
    )
    chunks = []
    for at in range(0, max(1, len(rows)), step):
        chunk_rows = rows[at : at + step]
        intercepts = np.ascontiguousarray(solutions.intercepts[fold][:, :different])
        scores, Cs, doubtful = _score_rows(
            _rows_of(kernel, chunk_rows),
            solutions.pairs[fold],
            search.layout.starts,
            intercepts,
            search,
        )
        if exact is not None and doubtful.size:
            _score_again(scores, chunk_rows, Cs, doubtful, exact, fold, solutions, search)
        chunks.append(
            Scores(
                scores.codes[:, repeat],
                None if scores.values is None else scores.values[:, :, repeat],
            )
        )
    return Scores.of(chunks, np.arange(len(rows)))


def _score_rows(
    kernel: np.ndarray,
    coefficients: np.ndarray,
    starts: np.ndarray,
    intercepts: np.ndarray,
    search: PathSearch,
) -> tuple[Scores, np.ndarray, np.ndarray]:
    """Score all rows of ``kernel``; also find C's and rows whose prediction rounding may change.

    If decision values are asked for, that includes all rows at each C at which a decision value is
    less certain than the tolerance of the solution.
    """
    n_C, n_classes = intercepts.shape[1], search.layout.n_classes
    parts = pair_parts(kernel, coefficients, starts, n_C)
    values = pair_decisions(parts, intercepts)
    scores = Scores(vote(values, n_classes).T)
    # The maximum over the rows first, as these are contiguous: ten times as fast as over all axes.
    limits = _UNCERTAIN * np.abs(parts).max(axis=3, initial=0.0).max(axis=(0, 1)).astype(np.float64)
    is_doubtful = np.zeros((n_C, len(kernel)), bool)
    is_doubtful[undecided(values, limits, n_classes)] = True
    is_uncertain = limits > search.settings.tol
    is_doubtful &= (is_uncertain | (is_doubtful.mean(axis=1) > _MANY))[:, None]
    if search.with_values:
        scores.values = values.transpose(2, 0, 1).astype(np.float32)
        is_doubtful |= is_uncertain[:, None]
    Cs, rows = np.nonzero(is_doubtful)
    return scores, Cs, rows


def _score_again(
    scores: Scores,
    rows: np.ndarray,
    Cs: np.ndarray,
    doubtful: np.ndarray,
    exact: ExactValues,
    fold: int,
    solutions: Solutions,
    search: PathSearch,
) -> None:
    """Score doubtful rows again in double precision; changes ``scores``.

    rows : the sorted rows to which ``scores`` belong
    Cs, doubtful : int64 arrays: at which C which of ``rows`` is in doubt
    """
    doubtful_rows, C_range = np.unique(doubtful), slice(Cs.min(), Cs.max() + 1)
    coefficients = solutions.pairs[fold][:, :, C_range]
    support = np.flatnonzero(solutions.support[fold, C_range].any(axis=0))
    values = exact(rows[doubtful_rows], support)
    if coefficients.dtype == np.float32:
        # Multipliers in single precision sum to 0 only up to rounding, which counts less if the
        # kernel is smaller by 1, as in ``kernel``.
        values -= 1
    exact_scores, _, _ = _score_rows(
        values,
        coefficients[support],
        np.searchsorted(support, search.layout.starts),
        np.ascontiguousarray(solutions.intercepts[fold][:, C_range]),
        search,
    )
    scores.codes[doubtful_rows, C_range] = exact_scores.codes
    if scores.values is not None:
        scores.values[doubtful_rows, :, C_range] = exact_scores.values


def score_two(
    kernel: np.ndarray,
    rows: np.ndarray,
    fold: int,
    solutions: Solutions,
    search: PathSearch,
    exact: ExactValues | None = None,
) -> Scores:
    """Predict two classes like ``score_pairs``, from the decision values that the walk keeps.

    Their uncertainty is estimated from the partial values of some rows. At a hard C the walk
    computes in double precision, and only the rounding of the values kept is left.

    Parameters
    ----------
    kernel, rows, fold, solutions, search, exact
        As for ``score_pairs``.
    """
    values, single = solutions.kept_decisions[fold][0][:, rows].T, int(solutions.single[fold, 0])
    sample = rows[:: max(1, len(rows) // _SAMPLE)]
    parts = pair_parts(kernel[sample], solutions.pairs[fold], search.layout.starts, single)
    size = 1.0 + np.abs(solutions.intercepts[fold, 0])
    size[:single] = np.abs(parts).max(axis=(0, 1, 3), initial=0.0)
    limits = _UNCERTAIN * size
    scores, is_near = Scores((values <= 0).astype(np.int64)), np.abs(values) < limits
    if search.with_values:
        scores.values = values[:, None].copy()
        is_near |= limits > search.settings.tol
    if exact is not None and is_near.any():
        doubtful, Cs = np.nonzero(is_near)
        _score_again(scores, rows, Cs, doubtful, exact, fold, solutions, search)
    return scores


def score_rest(rows: np.ndarray, fold: int, solutions: Solutions, with_values: bool) -> Scores:
    """Predict by one-vs-rest: the class of the largest decision value.

    Parameters
    ----------
    rows : int64 array of shape (n_rows,)
        Numbers of the sorted rows to score.
    fold : int
    solutions : Solutions
    with_values : bool
        Whether to return the decision values as well.
    """
    values = solutions.kept_decisions[fold][:, :, rows]
    codes = values.argmax(axis=0).T.astype(np.int64)
    return Scores(codes, values.transpose(2, 0, 1).copy() if with_values else None)
