"""One call's problems, prepared, and what it may use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipelines.svm.kernel import Kernel
from pipelines.svm.problems import ClassWeight, Layout, Problem, class_factors
from pipelines.svm.solutions import Solutions, empty_solutions

# Multipliers of one gamma beyond this are kept in single precision.
_DOUBLE_BYTES = 1 << 27


@dataclass(frozen=True)
class Settings:
    """What every binary problem of a search shares."""

    Cs: np.ndarray  # float64 (n_C,), ascending
    tol: float = 1e-3
    max_iter: int = -1  # -1: LIBSVM's own limit
    class_weight: ClassWeight = None

    def limit(self, n: int) -> int:
        """The largest number of iterations for one C of a problem of n rows.

        LIBSVM's own where none is given.
        """
        return max(10_000_000, 100 * n) if self.max_iter < 0 else self.max_iter


@dataclass(frozen=True)
class Search:
    """What every gamma of one call shares.

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
        """The search of one gamma."""
        return replace(self, kernel=self.kernel.at(gamma))

    @property
    def folds(self) -> Sequence[int]:
        """Numbers of the folds that are solved."""
        return range(len(self.weights)) if self.only is None else self.only

    def factors(self, number: int, fold: int) -> np.ndarray:
        """What multiplies C for each class of a problem: float64 (n_classes,)."""
        of_fold = (self.weights if self.counts is None else self.counts)[fold]
        return class_factors(
            self.layout, self.problems[number], of_fold, self.settings.class_weight
        )

    @property
    def one_vs_one(self) -> bool:
        return self.problems[0].second is not None

    @property
    def of_two(self) -> bool:
        """Whether one pair is all."""
        return self.one_vs_one and self.layout.n_classes == 2

    def empty_solutions(self) -> Solutions:
        """Room for the solutions of one gamma."""
        n_C, n = self.settings.Cs.size, len(self.layout.order)
        return empty_solutions(len(self.weights), len(self.problems), n_C, n)

    def empty_decisions(self) -> np.ndarray:
        """Room for ``Solutions.decisions``."""
        shape = (len(self.weights), len(self.problems), self.settings.Cs.size)
        return np.empty((*shape, len(self.layout.order)), np.float32)

    def empty_coefficients(self) -> np.ndarray:
        """Room for ``Solutions.coefficients``, all 0: in double precision where it is small."""
        n_C, n = self.settings.Cs.size, len(self.layout.order)
        shape = (len(self.weights), n, self.layout.n_classes, n_C)
        small = 8 * math.prod(shape) <= _DOUBLE_BYTES
        return np.zeros(shape, np.float64 if small else np.float32)
