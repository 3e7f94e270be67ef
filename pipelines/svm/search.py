"""The arguments of a path search on any device, and its prepared problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipelines.svm.kernel import Kernel
from pipelines.svm.problems import (
    ClassWeight,
    Layout,
    Problem,
    class_factors,
    first_validation_fold,
    fold_weights,
    problems_of,
    sort_rows,
)
from pipelines.svm.solutions import Solutions

# Multipliers of one gamma beyond this are kept in single precision.
_DOUBLE_BYTES = 1 << 27


@dataclass(frozen=True)
class Form:
    """The kind of machine and its options: what path functions take beside rows and values.

    decision : ``"ovo"`` as ``SVC``, or ``"ovr"`` as ``OneVsRestClassifier(SVC())``
    tol : LIBSVM's stopping tolerance
    max_iter : largest number of iterations for one C of one binary problem; -1 for LIBSVM's limit
    class_weight : None, ``"balanced"`` or a mapping of labels
    kernel, degree, coef0 : see ``Kernel``
    """

    decision: str = "ovo"
    tol: float = 1e-3
    max_iter: int = -1
    class_weight: ClassWeight = None
    kernel: str = "rbf"
    degree: int = 3
    coef0: float = 0.0

    def at(self, gamma: float = 1.0) -> Kernel:
        """Return the kernel, of one gamma."""
        return Kernel(self.kernel, self.degree, self.coef0, gamma)

    def settings(self, Cs: np.ndarray) -> Settings:
        """Return the settings of all binary problems of a search, for ascending C's."""
        return Settings(np.ascontiguousarray(Cs), self.tol, self.max_iter, self.class_weight)


@dataclass(frozen=True)
class Settings:
    """Settings that all binary problems of a search share."""

    Cs: np.ndarray  # float64 (n_C,), ascending
    tol: float = 1e-3
    max_iter: int = -1  # -1: LIBSVM's own limit
    class_weight: ClassWeight = None

    def limit(self, n: int) -> int:
        """Return the largest number of iterations for one C of a problem of n rows.

        LIBSVM's own where none is given.
        """
        return max(10_000_000, 100 * n) if self.max_iter < 0 else self.max_iter


@dataclass(frozen=True)
class Search:
    """The prepared search of one call, which all gammas share.

    weights : float64 (n_folds, n), how often each sorted row trains
    validation : int64 arrays, for each fold the sorted rows it validates on
    with_values : whether decision values are kept
    kept : products of all rows, and room for a kernel, that outlive the call
    only : the folds that are solved, in the order of the whole, or None for all
    counts : as ``weights`` without those of single rows, by which classes are balanced as
        in ``SVC``; None where there are none
    """

    layout: Layout
    problems: list[Problem]
    weights: np.ndarray
    validation: list[np.ndarray]
    settings: Settings
    kernel: Kernel
    with_values: bool = False
    kept: dict[str, Any] = field(default_factory=dict)
    counts: np.ndarray | None = None
    only: Sequence[int] | None = None

    def at(self, gamma: float) -> Search:
        """Return the search of one gamma."""
        return replace(self, kernel=self.kernel.at(gamma))

    @property
    def folds(self) -> Sequence[int]:
        """Numbers of the folds that are solved."""
        return range(len(self.weights)) if self.only is None else self.only

    def factors(self, number: int, fold: int) -> np.ndarray:
        """Return the factor of C for each class of a problem: float64 (n_classes,)."""
        of_fold = (self.weights if self.counts is None else self.counts)[fold]
        return class_factors(
            self.layout, self.problems[number], of_fold, self.settings.class_weight
        )

    def bounds(self, number: int, fold: int) -> np.ndarray:
        """Return what C is multiplied with for each sorted row: float64 (n,)."""
        return self.weights[fold] * self.factors(number, fold)[self.layout.codes]

    @property
    def one_vs_one(self) -> bool:
        return self.problems[0].second is not None

    @property
    def of_two(self) -> bool:
        """Whether there is one pair of classes only."""
        return self.one_vs_one and self.layout.n_classes == 2

    def empty_solutions(self) -> Solutions:
        """Allocate the solutions of one gamma."""
        n_folds, n_C, n = len(self.weights), self.settings.Cs.size, len(self.layout.order)
        shape = (n_folds, len(self.problems), n_C)
        return Solutions(
            np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int64),
            np.zeros(shape, np.int64), np.ones(shape[:2], np.int64), np.ones(shape[:2], np.int64),
            np.zeros(shape[:2]), np.zeros((n_folds, n_C, n), np.bool_),
        )  # fmt: skip

    def empty_decisions(self) -> np.ndarray:
        """Allocate ``Solutions.decisions``."""
        shape = (len(self.weights), len(self.problems), self.settings.Cs.size)
        return np.empty((*shape, len(self.layout.order)), np.float32)

    def empty_coefficients(self) -> np.ndarray:
        """Allocate ``Solutions.coefficients``, all 0: in double precision if they are few."""
        n_C, n = self.settings.Cs.size, len(self.layout.order)
        shape = (len(self.weights), n, self.layout.n_classes, n_C)
        small = 8 * math.prod(shape) <= _DOUBLE_BYTES
        return np.zeros(shape, np.float64 if small else np.float32)


def search_folds(
    y: np.ndarray, Cs: np.ndarray, folds: Sequence[tuple[np.ndarray, np.ndarray]], form: Form,
    sample_weight: np.ndarray | None = None, **more: Any,
) -> tuple[Search, np.ndarray]:  # fmt: skip
    """Return the search of a cross-validation, and the order in which its C's ascend.

    Rows are sorted by class and by the fold that validates them; ``more`` are further fields.
    """
    layout = sort_rows(y, first_validation_fold(folds, len(y)))
    counts = weights = fold_weights(folds, layout.order)
    if sample_weight is not None:
        weights = counts * np.maximum(np.asarray(sample_weight, np.float64)[layout.order], 0)
    place = np.empty_like(layout.order)
    place[layout.order] = np.arange(len(y))
    ascending = np.argsort(Cs, kind="stable")
    search = Search(
        layout, problems_of(layout.n_classes, form.decision), weights,
        [place[validation] for _, validation in folds], form.settings(Cs[ascending]), form.at(),
        counts=counts, **more,
    )  # fmt: skip
    return search, ascending


def search_all_rows(
    y: np.ndarray, Cs: np.ndarray, gamma: float, form: Form, sample_weight: np.ndarray | None
) -> Search:
    """Return the search of one fit, which trains on all rows and validates none."""
    layout = sort_rows(y)
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    return Search(
        layout, problems_of(layout.n_classes, form.decision),
        np.ascontiguousarray(weight[layout.order][None]), [], form.settings(Cs), form.at(gamma),
    )  # fmt: skip
