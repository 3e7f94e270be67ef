"""The ``run.json`` schema of ``pagerank``."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from pipelines.run_folder.record import Record
from pipelines.run_folder.schema import Count, Number, Part, Positive, Seconds, Share


class RankedNode(Part):
    """A node and its rank."""

    node: str
    rank: Share


class Distribution(Part):
    """A histogram of ranks: the number of nodes between neighbouring bounds."""

    bounds: list[Positive] = []
    counts: list[Count] = []

    @model_validator(mode="after")
    def _a_count_between_two_bounds(self) -> Self:
        if len(self.bounds) != len(self.counts) + bool(self.bounds):
            raise ValueError("a count lies between two bounds")
        return self


class GraphRecord(Record):
    """The ``run.json`` of a run of ``pagerank``."""

    answer = (
        "top", "n_iterations", "change", "residual", "bound", "converged",
    )  # fmt: skip
    tests_rows = False

    n_nodes: Count | None = None
    n_edges: Count | None = None
    n_iterations: Count | None = None
    change: Number | None = None
    residual: Number | None = None
    bound: Number | None = None
    converged: bool | None = None
    top: list[RankedNode] | None = None
    distribution: Distribution = Distribution()
    setup_seconds: Seconds | None = None
    iterating_seconds: Seconds | None = None
    memory_bytes: Count | None = None
