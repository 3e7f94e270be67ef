"""Rows in the order the solver wants, folds as weights, and the binary problems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ClassWeight = Mapping[Any, float] | str | None
DECISIONS = ("ovo", "ovr")


@dataclass(frozen=True)
class Layout:
    """Rows sorted by class.

    order : int64 (n,), the original row at each sorted place
    classes : (n_classes,), the labels, sorted
    codes : int64 (n,), class number of each sorted row
    starts : int64 (n_classes + 1,), where each class begins
    """

    order: np.ndarray
    classes: np.ndarray
    codes: np.ndarray
    starts: np.ndarray

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def rows_of(self, code: int) -> slice:
        return slice(int(self.starts[code]), int(self.starts[code + 1]))


@dataclass(frozen=True)
class Problem:
    """Class ``first`` (+1) against class ``second`` (-1), or, None, all others."""

    first: int
    second: int | None

    def pair_rows(self, layout: Layout) -> np.ndarray:
        """Return the sorted numbers of all rows of a pair's classes."""
        assert self.second is not None
        starts, classes = layout.starts, (self.first, self.second)
        return np.concatenate([np.arange(starts[code], starts[code + 1]) for code in classes])


def sort_rows(y: np.ndarray, fold_of: np.ndarray | None = None) -> Layout:
    """Sort rows by class and then, where given, by the fold that validates them.

    A binary problem's training rows are then a few contiguous runs.
    """
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least 2 classes, got {len(classes)}")
    second_key = np.zeros(len(codes), np.int64) if fold_of is None else fold_of
    order = np.lexsort((second_key, codes))
    counts = np.bincount(codes, minlength=len(classes))
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return Layout(order.astype(np.int64), classes, codes[order].astype(np.int64), starts)


def first_validation_fold(folds: Sequence[tuple[np.ndarray, np.ndarray]], n: int) -> np.ndarray:
    """Return the number of the first fold that validates each row (-1: none)."""
    fold_of = np.full(n, -1, np.int64)
    for number in reversed(range(len(folds))):
        fold_of[folds[number][1]] = number
    return fold_of


def fold_weights(folds: Sequence[tuple[np.ndarray, np.ndarray]], order: np.ndarray) -> np.ndarray:
    """Count how often each sorted row trains in each fold.

    Two copies of a row, each bounded by C, are one row bounded by 2 C, so a
    bootstrap is solved at the size of its distinct rows.

    Returns
    -------
    float64 array of shape (n_folds, n)
    """
    n = len(order)
    counts = [np.bincount(np.asarray(train), minlength=n) for train, _ in folds]
    return np.stack(counts).astype(np.float64)[:, order]


def problems_of(n_classes: int, decision: str) -> list[Problem]:
    """Return the binary problems of a multi-class fit, in scikit-learn's order.

    Two classes make one problem under either decision.  Its first class is the
    one whose decision value is positive: under ``ovo`` as in LIBSVM, the lower
    of the pair.
    """
    if decision not in DECISIONS:
        raise ValueError(f"decision must be one of {', '.join(DECISIONS)}, got {decision!r}")
    if decision == "ovo" or n_classes == 2:
        return [Problem(a, b) for a in range(n_classes) for b in range(a + 1, n_classes)]
    return [Problem(c, None) for c in range(n_classes)]


def class_factors(
    layout: Layout, problem: Problem, weight: np.ndarray, class_weight: ClassWeight
) -> np.ndarray:
    """Return the factor of C for each class of a problem.

    ``"balanced"`` is n / (n_labels * n_label) as in scikit-learn: over all the
    classes of the fold under ``ovo``, over the two sides under ``ovr``.  A
    mapping gives a factor for each original label.

    weight : float64 (n,), a fold's training weights

    Returns
    -------
    float64 array of shape (n_classes,)
    """
    n_classes = layout.n_classes
    if class_weight is None:
        return np.ones(n_classes)
    if isinstance(class_weight, Mapping):
        return np.array([float(class_weight.get(c, 1.0)) for c in layout.classes.tolist()])
    if class_weight != "balanced":
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
    counts = np.add.reduceat(weight, layout.starts[:-1])
    if problem.second is None:
        own = np.arange(n_classes) == problem.first
        counts = np.where(own, counts[problem.first], counts.sum() - counts[problem.first])
        present = 2
    else:
        present = int(np.count_nonzero(counts))
    return weight.sum() / (present * np.maximum(counts, 1.0))
