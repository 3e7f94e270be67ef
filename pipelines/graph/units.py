"""One variant on one graph as a task: what goes in, what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.graph import variants
from pipelines.graph.iteration import Iterated, Problem
from pipelines.graph.ranks import residual


@dataclass(frozen=True)
class VariantUnit:
    """A variant to run; hashable."""

    variant: str
    cost: float = 1.0

    @property
    def name(self) -> str:
        return self.variant


@dataclass(frozen=True, eq=False)
class Answer:
    """Ranks, and the residual that float64 measures."""

    iterated: Iterated
    residual: float

    def row(self, variant: str, alpha: float, worker: str = "") -> dict[str, Any]:
        """A row of the run's table of variants, with all iterations."""
        iterated = self.iterated
        return {
            "variant": variant,
            "iterations": len(iterated.changes),
            "change": iterated.changes[-1],
            "residual": self.residual,
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
    iterated = variants.run(variants.VARIANTS[unit.variant], problem)
    return Answer(iterated, residual(problem.graph, problem.walk, iterated.ranks))
