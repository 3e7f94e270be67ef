"""One variant on one graph as a task: what goes in, what comes back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pipelines.graph import variants
from pipelines.graph.graph import Graph
from pipelines.graph.iteration import Array, Iterated, Stop
from pipelines.graph.ranks import residual
from pipelines.graph.walk import Walk


@dataclass(frozen=True)
class VariantUnit:
    """A variant to run; hashable."""

    variant: str
    cost: float = 1.0

    @property
    def name(self) -> str:
        return self.variant


@dataclass(frozen=True, eq=False)
class Problem:
    """What all variants of a run share, scattered once."""

    graph: Graph
    walk: Walk
    start: Array
    stop: Stop
    device: str = "cpu"
    n_threads: int | None = None

    def on(self, device: str, n_threads: int) -> Problem:
        """The same, to be computed by workers of a kind."""
        return replace(self, device=device, n_threads=n_threads)


@dataclass(frozen=True, eq=False)
class Answer:
    """Ranks, and the residual that float64 measures."""

    iterated: Iterated
    residual: float

    def row(self, variant: str, alpha: float, worker: str) -> dict[str, Any]:
        """A variant's row of the run's table, with its iterations."""
        return row_of(variant, self.iterated, self.residual, alpha, worker)


def row_of(
    variant: str, iterated: Iterated, residual: float, alpha: float, worker: str
) -> dict[str, Any]:
    """A row of the run's table of variants, with all iterations."""
    return {
        "variant": variant,
        "iterations": len(iterated.changes),
        "change": iterated.changes[-1],
        "residual": residual,
        "bound": iterated.bound(alpha),
        "converged": iterated.converged,
        "preparing_seconds": iterated.preparing,
        "iterating_seconds": sum(iterated.seconds),
        "memory_bytes": iterated.nbytes,
        "worker": worker,
        "status": "ok",
        "changes": iterated.changes,
        "seconds": iterated.seconds,
    }


def run_variant(problem: Problem, unit: VariantUnit) -> Answer:
    """The task."""
    iterated = variants.run(
        variants.VARIANTS[unit.variant],
        problem.graph,
        problem.walk,
        problem.start,
        problem.stop,
        problem.device,
        problem.n_threads,
    )
    return Answer(iterated, residual(problem.graph, problem.walk, iterated.ranks))
