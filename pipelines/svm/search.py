"""A path search on any device: rows sorted by class, folds as weights of rows, binary problems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipelines.svm.kernel import Kernel
from pipelines.svm.settings import ClassWeight, Settings
from pipelines.svm.solutions import Solutions

# Multipliers of one gamma that would take more bytes than this are kept in single precision.
_DOUBLE_BYTES = 1 << 27


@dataclass(frozen=True)
class Layout:
    """Rows sorted by class.

    Attributes
    ----------
    order : int64 array of shape (n,)
        The original number of each sorted row.
    classes : array of shape (n_classes,)
        The labels, sorted.
    codes : int64 array of shape (n,)
        Class number of each sorted row.
    starts : int64 array of shape (n_classes + 1,)
        Where the rows of each class begin, and the number of rows.
    """

    order: np.ndarray
    classes: np.ndarray
    codes: np.ndarray
    starts: np.ndarray

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)

    def rows_of(self, code: int) -> slice:
        """The sorted rows of a class."""
        return slice(int(self.starts[code]), int(self.starts[code + 1]))


def sort_rows(y: np.ndarray, fold_of: np.ndarray | None = None) -> Layout:
    """Sort rows by class, and within a class by the fold that validates them.

    The training rows of a binary problem are then a few contiguous runs, which are copied and
    multiplied fast.

    Parameters
    ----------
    y : array of shape (n,)
    fold_of : int array of shape (n,), optional
        The fold that validates each row, -1 for none.

    Raises
    ------
    ValueError
        ``y`` holds only one class.
    """
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least 2 classes, got {len(classes)}")
    second_key = np.zeros(len(codes), np.int64) if fold_of is None else fold_of
    order = np.lexsort((second_key, codes))
    counts = np.bincount(codes, minlength=len(classes))
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return Layout(order.astype(np.int64), classes, codes[order].astype(np.int64), starts)


@dataclass(frozen=True)
class PathProblem:
    """A binary problem: class ``first`` (+1) against ``second`` (-1), or all others if None."""

    first: int
    second: int | None

    def pair_rows(self, layout: Layout) -> np.ndarray:
        """Numbers of the sorted rows of both classes of a pair, ascending."""
        assert self.second is not None
        starts, classes = layout.starts, (self.first, self.second)
        return np.concatenate([np.arange(starts[code], starts[code + 1]) for code in classes])


def problems_of(n_classes: int, decision: str) -> list[PathProblem]:
    """The binary problems of a multi-class fit, in scikit-learn's order.

    Two classes make one problem under either decision.  The first class of a problem has the
    positive decision values: as in LIBSVM, the lower one of a pair.
    """
    if decision == "ovo" or n_classes == 2:
        return [PathProblem(a, b) for a in range(n_classes) for b in range(a + 1, n_classes)]
    return [PathProblem(c, None) for c in range(n_classes)]


def class_factors(
    layout: Layout, problem: PathProblem, weight: np.ndarray, class_weight: ClassWeight
) -> np.ndarray:
    """The factor by which ``class_weight`` multiplies C, for each class of a problem.

    ``"balanced"`` is n / (n_labels * n_label) as in scikit-learn: over all classes of the fold
    under ``ovo``, over the two sides of the problem under ``ovr``.

    Parameters
    ----------
    layout : Layout
    problem : PathProblem
    weight : float64 array of shape (n,)
        How often each sorted row trains in the fold.
    class_weight : None, "balanced" or mapping of original label to factor

    Returns
    -------
    float64 array of shape (n_classes,)
    """
    n_classes = layout.n_classes
    if class_weight is None:
        return np.ones(n_classes)
    if isinstance(class_weight, Mapping):
        return np.array([float(class_weight.get(c, 1.0)) for c in layout.classes.tolist()])
    counts = np.add.reduceat(weight, layout.starts[:-1])
    if problem.second is None:
        is_first = np.arange(n_classes) == problem.first
        counts = np.where(is_first, counts[problem.first], counts.sum() - counts[problem.first])
        present = 2
    else:
        present = int(np.count_nonzero(counts))
    return weight.sum() / (present * np.maximum(counts, 1.0))


@dataclass(frozen=True)
class PathSearch:
    """The prepared search of one call, which all its gammas share.

    Attributes
    ----------
    layout : Layout
    problems : list of PathProblem
    counts : float64 array of shape (n_folds, n)
        How often each sorted row trains.
    weights : float64 array of shape (n_folds, n)
        ``counts`` times the sample weights. ``class_weight="balanced"`` looks at ``counts``, as
        ``SVC`` does.
    validation : list of int64 arrays
        The sorted rows that each fold validates on.
    Cs : float64 array of shape (n_C,)
        Ascending.
    settings : Settings
    kernel : Kernel
        The kernel of one gamma, after ``at``.
    with_values : bool
        Whether decision values are kept.
    cache : dict
        Products of all rows, and memory for a kernel, that outlive the call.
    only : sequence of int, or None for all
        The folds that are solved.
    """

    layout: Layout
    problems: list[PathProblem]
    counts: np.ndarray
    weights: np.ndarray
    validation: list[np.ndarray]
    Cs: np.ndarray
    settings: Settings
    kernel: Kernel
    with_values: bool = False
    cache: dict[str, Any] = field(default_factory=dict)
    only: Sequence[int] | None = None

    def at(self, gamma: float) -> PathSearch:
        """The search of one gamma."""
        return replace(self, kernel=self.settings.at(gamma))

    @property
    def folds(self) -> Sequence[int]:
        """Numbers of the folds that are solved."""
        return range(len(self.weights)) if self.only is None else self.only

    def factors(self, number: int, fold: int) -> np.ndarray:
        """The factor of C for each class of problem ``number``: float64 (n_classes,)."""
        problem, counts = self.problems[number], self.counts[fold]
        return class_factors(self.layout, problem, counts, self.settings.class_weight)

    def bounds(self, number: int, fold: int) -> np.ndarray:
        """The factor of C for each sorted row of problem ``number``: float64 (n,)."""
        return self.weights[fold] * self.factors(number, fold)[self.layout.codes]

    @property
    def one_vs_one(self) -> bool:
        """Whether its problems are pairs of classes."""
        return self.problems[0].second is not None

    @property
    def of_two(self) -> bool:
        """Whether there is only one pair of classes."""
        return self.one_vs_one and self.layout.n_classes == 2

    def empty_solutions(self) -> Solutions:
        """Allocate the solutions of one gamma, as if nothing were solved yet."""
        n_folds, n_C, n = len(self.weights), self.Cs.size, len(self.layout.order)
        shape = (n_folds, len(self.problems), n_C)
        return Solutions(
            np.zeros(shape),
            np.zeros(shape),
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
            np.ones(shape[:2], np.int64),
            np.ones(shape[:2], np.int64),
            np.zeros(shape[:2]),
            np.zeros((n_folds, n_C, n), np.bool_),
        )

    def empty_decisions(self) -> np.ndarray:
        """Allocate ``Solutions.decisions``."""
        shape = (len(self.weights), len(self.problems), self.Cs.size)
        return np.empty((*shape, len(self.layout.order)), np.float32)

    def empty_coefficients(self) -> np.ndarray:
        """Allocate ``Solutions.coefficients``, all 0, in double precision if they are few."""
        shape = (len(self.weights), len(self.layout.order), self.layout.n_classes, self.Cs.size)
        small = 8 * math.prod(shape) <= _DOUBLE_BYTES
        return np.zeros(shape, np.float64 if small else np.float32)


def search_folds(
    y: np.ndarray,
    Cs: np.ndarray,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    settings: Settings,
    sample_weight: np.ndarray | None = None,
    **fields: Any,
) -> tuple[PathSearch, np.ndarray]:
    """Prepare the search of a cross-validation.

    Two copies of a training row, each bounded by C, are one row bounded by 2 C: a bootstrap
    sample is solved at the size of its distinct rows.

    Parameters
    ----------
    y : array of shape (n,)
    Cs : float64 array of shape (n_C,)
        In any order.
    folds : sequence of (training rows, validation rows)
        A training row may repeat. Rows are sorted by class and by the first fold that validates
        them.
    settings : Settings
    sample_weight : float array of shape (n,), optional
        Factors of C; below 0 they count as 0.
    **fields
        Further fields of ``PathSearch``.

    Returns
    -------
    search : PathSearch
    ascending : int array of shape (n_C,)
        ``Cs[ascending]`` are the C's of the search.
    """
    fold_of = np.full(len(y), -1, np.int64)  # -1: no fold validates the row
    for number in reversed(range(len(folds))):
        fold_of[folds[number][1]] = number
    layout = sort_rows(y, fold_of)
    counted = [np.bincount(np.asarray(train), minlength=len(y)) for train, _ in folds]
    counts = weights = np.stack(counted).astype(np.float64)[:, layout.order]
    if sample_weight is not None:
        weights = counts * np.maximum(np.asarray(sample_weight, np.float64)[layout.order], 0)
    positions = np.empty_like(layout.order)
    positions[layout.order] = np.arange(len(y))
    ascending = np.argsort(Cs, kind="stable")
    search = PathSearch(
        layout,
        problems_of(layout.n_classes, settings.decision),
        counts,
        weights,
        [positions[validation] for _, validation in folds],
        Cs[ascending],
        settings,
        settings.at(),
        **fields,
    )
    return search, ascending


def search_all_rows(
    y: np.ndarray,
    Cs: np.ndarray,
    gamma: float,
    settings: Settings,
    sample_weight: np.ndarray | None = None,
) -> PathSearch:
    """Prepare a single fit: a search whose one fold trains on all rows and validates none.

    Parameters
    ----------
    y, settings, sample_weight : as for ``search_folds``
    Cs : float64 array of shape (n_C,)
        Ascending: the path to the C of the fit.
    gamma : float
    """
    fold = np.arange(len(y)), np.arange(0)
    return search_folds(y, Cs, [fold], settings, sample_weight)[0].at(gamma)


def as_arrays(
    X: np.ndarray, y: Any, gammas: Any, Cs: Any, folds: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """The labels, gammas, C's and folds of a call as arrays; refuses values that would overflow."""
    check_size(X, gammas)
    return (
        np.asarray(y),
        np.atleast_1d(np.asarray(gammas, dtype=np.float64)),
        np.asarray(Cs, dtype=np.float64),
        [(np.asarray(train), np.asarray(validation)) for train, validation in folds],
    )


def check_size(X: np.ndarray, gammas: Any = 1.0) -> None:
    """Refuse values whose squares would overflow single precision, which ends at 3e38.

    Raises
    ------
    ValueError
        A value of ``X``, or a gamma, is too large.
    """
    largest, most = float(np.abs(X).max(initial=0.0)), np.sqrt(1e37 / max(1, X.shape[1]))
    if not largest <= most:
        raise ValueError(
            f"X must hold values below {most:.0e} in size, got {largest:.3g}; scale its columns"
        )
    if not (gamma := float(np.max(gammas))) <= 1e37:
        raise ValueError(
            f"gamma must be at most 1e37, got {gamma:.3g} for values of X up to {largest:.3g}; "
            "scale its columns"
        )
