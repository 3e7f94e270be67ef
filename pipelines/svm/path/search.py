"""One call's problems, prepared, and what it may use."""

import time
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from .kernels import Kernel
from .layout import ClassWeight, Layout, Problem
from .smo import MAX_ROWS
from .solutions import Solutions, empty_solutions


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
    """

    layout: Layout
    problems: list[Problem]
    weights: np.ndarray
    validation: list[np.ndarray]
    settings: Settings
    kernel: Kernel
    with_values: bool = False
    kept: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def one_vs_one(self) -> bool:
        return self.problems[0].second is not None

    def empty_solutions(self) -> Solutions:
        """Room for the solutions of one gamma."""
        n_C, n = self.settings.Cs.size, len(self.layout.order)
        return empty_solutions(len(self.weights), len(self.problems), n_C, n)

    def empty_coefficients(self) -> np.ndarray:
        """Room for ``Solutions.coefficients``, all 0."""
        n_C, n = self.settings.Cs.size, len(self.layout.order)
        return np.zeros((len(self.weights), n, self.layout.n_classes, n_C), np.float32)


class Clock:
    """Adds up wall time by phase."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> float:
        now = time.perf_counter()
        spent, self._last = now - self._last, now
        self.phases[phase] = self.phases.get(phase, 0.0) + spent
        return spent


@dataclass(frozen=True)
class Means:
    """What a call may use, and its clock.

    memory_bytes : for kernel matrices
    """

    pool: Executor
    memory_bytes: int
    clock: Clock = field(default_factory=Clock)


def fits_in_memory(n: int, memory_bytes: int) -> bool:
    """Whether shared products and one kernel of all rows may be held at once."""
    return n <= MAX_ROWS and 2 * 4 * n * n <= 0.8 * memory_bytes
