"""The power iteration that all variants share, when it ends, and how far off it may be."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError, opt
from pipelines.graph.graph import Graph, Rows
from pipelines.graph.walk import Walk

Array = NDArray[np.float64]

Told = Callable[[int, float], None]

DOUBLE = 2.0**-53
SINGLE = 2.0**-24


class Step(Protocol):
    """Ranks somewhere, and how they get on.

    nbytes : what is held between iterations
    roundoff : of one iteration, as the L1 norm of what it adds to a vector of ranks
    """

    @property
    def nbytes(self) -> int: ...

    @property
    def roundoff(self) -> float: ...

    def advance(self) -> Array:
        """One iteration; the L1 norm of the change of each vector, of shape (k,)."""
        ...

    def ranks(self) -> Array:
        """On the host, of shape (n, k)."""
        ...


@dataclass(frozen=True)
class Stop:
    """When an iteration ends.

    tol : the L1 norm of the change at which all vectors are done; None: never
    iterations : at most, at least 1; None: as many as ``tol`` can need

    Raises
    ------
    InputError
        Neither is given, or one is out of its range.
    """

    tol: float | None = 1e-6
    iterations: int | None = None

    def __post_init__(self) -> None:
        if self.tol is not None and not 1e-14 <= self.tol < 1:
            raise InputError(
                f"{opt('tol')} must be at least 1e-14 and below 1, got {self.tol}; ranks add up to "
                f"1, and double precision holds 16 digits"
            )
        if self.iterations is not None and self.iterations < 1:
            raise InputError(
                f"{opt('iterations')} must be at least 1, got {self.iterations}; take more"
            )
        if self.tol is None and self.iterations is None:
            raise InputError(
                f"{opt('tol')} or {opt('iterations')} must be given, got neither; one ends the "
                f"iteration"
            )

    def most(self, alpha: float) -> int:
        """The number of iterations it will not exceed.

        The change is at most 2 at first and shrinks at least by alpha each time; rounding may
        cost a few more.
        """
        if self.iterations is not None:
            return self.iterations
        assert self.tol is not None
        return math.ceil(math.log(self.tol / 2) / math.log(alpha)) + 10


@dataclass(frozen=True, eq=False)
class Problem:
    """What a variant is given: the same for all variants of a run, scattered once.

    start : float64 of shape (n_nodes, k)
    device : "cpu" or "gpu"
    n_threads : of ``pull``; None: every core this process may use
    """

    graph: Graph
    walk: Walk
    start: Array
    stop: Stop
    device: str = "cpu"
    n_threads: int | None = None

    def on(self, device: str, n_threads: int) -> Problem:
        """The same, to be computed by workers of a kind."""
        return replace(self, device=device, n_threads=n_threads)


@dataclass(frozen=True)
class Iterated:
    """What an iteration gave.

    ranks : float64 of shape (n, k)
    changes : the L1 norm of each iteration's change, the largest of the k vectors'
    seconds : of each iteration
    preparing : seconds before the first
    nbytes : what was held between iterations
    roundoff : of the last iteration
    """

    ranks: Array
    changes: list[float]
    converged: bool
    roundoff: float
    seconds: list[float] = field(default_factory=list)
    preparing: float = 0.0
    nbytes: int = 0

    def bound(self, alpha: float) -> float:
        """How far the ranks may be from the exact ones, as an L1 norm.

        An iteration brings any two vectors closer by alpha, so the distance that is left is at
        most alpha / (1 - alpha) times the last change; what the iteration was rounded by adds
        1 / (1 - alpha) times itself.
        """
        return (alpha * self.changes[-1] + self.roundoff) / (1 - alpha)


def rounding(rows: Rows) -> float:
    """Of an iteration whose sums are made in float64, to first order."""
    return rounding_of(int(np.diff(rows.first).max(initial=0)))


def rounding_of(longest: int) -> float:
    """The same, where the longest sum has so many terms."""
    return DOUBLE * (longest + 4)


def iterate(make_step: Callable[[], Step], problem: Problem, told: Told) -> Iterated:
    """Iterate until the problem's ``stop`` says so.

    Parameters
    ----------
    make_step : makes what is needed before the first iteration; timed apart
    told : hears the number of each iteration, from 1, and its change
    """
    began = time.perf_counter()
    step, stop = make_step(), problem.stop
    preparing = time.perf_counter() - began
    changes: list[float] = []
    seconds: list[float] = []
    converged = False
    while not converged and len(changes) < stop.most(problem.walk.alpha):
        began = time.perf_counter()
        changes.append(float(step.advance().max()))
        seconds.append(time.perf_counter() - began)
        converged = stop.tol is not None and changes[-1] <= stop.tol
        told(len(changes), changes[-1])
    return Iterated(
        step.ranks(), changes, converged, step.roundoff, seconds, preparing, step.nbytes
    )
