"""What a run of ``pagerank`` leaves: its files and their schemas."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import model_validator

from pipelines.run_folder.record import Answer, OptionMetadata, Record
from pipelines.run_folder.schema import Count, Fraction, Number, Positive, RecordPart, Seconds

RANKS = "ranks.parquet"
ITERATIONS = "iterations.parquet"


class GraphOptionMetadata(OptionMetadata):
    """Options of ``pagerank``."""

    alpha: Fraction | None = None
    tol: Number | None = None


class RankedNode(RecordPart):
    """A node and its rank."""

    node: str
    rank: Fraction


class RankHistogram(RecordPart):
    """A histogram of ranks: the number of nodes between neighbouring bounds."""

    bounds: list[Positive] = []
    counts: list[Count] = []

    @model_validator(mode="after")
    def _a_count_between_two_bounds(self) -> Self:
        if len(self.bounds) != len(self.counts) + bool(self.bounds):
            raise ValueError("a count lies between two bounds")
        return self


class GraphAnswer(Answer):
    """The results of ``pagerank``: the highest ranks, how exact they are, and what they cost."""

    needed: ClassVar[tuple[str, ...]] = (
        "top",
        "n_iterations",
        "change",
        "residual",
        "bound",
        "converged",
    )

    n_nodes: Count | None = None
    n_edges: Count | None = None
    n_iterations: Count | None = None
    change: Number | None = None
    residual: Number | None = None
    bound: Number | None = None
    converged: bool | None = None
    top: list[RankedNode] | None = None
    distribution: RankHistogram = RankHistogram()
    setup_seconds: Seconds | None = None
    iterating_seconds: Seconds | None = None
    memory_bytes: Count | None = None


class GraphRecord(GraphAnswer, Record):
    """``run.json`` of ``pagerank``."""

    options: GraphOptionMetadata = GraphOptionMetadata()
