"""Options of a command that computes PageRank: the graph, the surfer, when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pipelines.errors import InputError, opt
from pipelines.run.options import at_least, inside_unit_interval, option
from pipelines.run_folder import names

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.graph.iteration import Problem, Stop
    from pipelines.graph.source import GraphSource


@dataclass(frozen=True)
class GraphOptions:
    """Which graph, how the surfer walks on it, and when the iteration ends."""

    group: ClassVar[str] = "graph"

    edges: str | None = option(
        None,
        "edge list: .csv or .tsv with a header line, .txt as of SNAP, .mtx (Matrix Market) or "
        ".parquet; without it a random graph",
        metavar="PATH", path="file",
    )  # fmt: skip
    source: str | None = option(
        None, "column of the nodes that edges leave (default: the first; those of a .txt are "
        "called 1, 2, ...)", metavar="COLUMN",
    )  # fmt: skip
    target: str | None = option(
        None, "column of the nodes that edges point at (default: the second)", metavar="COLUMN"
    )
    weight: str | None = option(
        None, "column of weights (default: every edge counts 1; a matrix: its values)",
        metavar="COLUMN",
    )  # fmt: skip
    random: str = option("rmat", "the random graph", choices=("erdos", "rmat", "ring"))
    nodes: int = option(
        100_000, "nodes of the random graph", parse=int, check=at_least(2), metavar="N"
    )
    degree: float = option(
        8.0, "edges that leave a node of the random graph, on average",
        parse=float, check=at_least(1), metavar="NUMBER",
    )  # fmt: skip
    self_loops: str = option(
        "keep", "what becomes of edges from a node to itself", choices=("keep", "drop")
    )
    repeated: str = option(
        "sum", "an edge that stands there more than once counts as often, or once",
        choices=("sum", "once"),
    )  # fmt: skip
    alpha: float = option(
        0.85, "damping: how likely the surfer follows an edge", parse=float,
        check=inside_unit_interval, metavar="NUMBER",
    )  # fmt: skip
    personalise: str | None = option(
        None,
        "where to jump: a table whose first column names nodes and whose others are vectors",
        metavar="FILE", path="file",
    )  # fmt: skip
    dangling: str = option(
        "uniform", "where the surfer goes from a node that no edge leaves",
        choices=("uniform", "personalised", "none"),
    )  # fmt: skip
    tol: float = option(
        1e-6, "end when the L1 norm of the change is this small; 0: never", parse=float,
        check=at_least(0), metavar="NUMBER",
    )  # fmt: skip
    iterations: int | None = option(
        None, "at most (default: as many as --tol can need)", parse=int, check=at_least(1),
        metavar="N",
    )  # fmt: skip
    start: str | None = option(
        None, "begin with the ranks of an earlier run, of a graph that has changed since",
        metavar="RUN", path="folder",
    )  # fmt: skip

    def graph_source(self, seed: int) -> GraphSource:
        """The file of edges that is named, else a random graph; raises as these do."""
        from pipelines.graph.files import open_edges
        from pipelines.graph.random_graphs import RandomGraph
        from pipelines.graph.source import GraphSource

        if self.edges is not None:
            return GraphSource(open_edges(self.edges, self.source, self.target, self.weight))
        return GraphSource(RandomGraph(self.random, self.nodes, self.degree, seed))

    def stop(self) -> Stop:
        """When the iteration ends; raises InputError where the two do not go together."""
        from pipelines.graph.iteration import Stop

        return Stop(self.tol or None, self.iterations)

    def earlier_ranks(self) -> pd.DataFrame | None:
        """The ranks of ``--start``, by node.

        Raises
        ------
        InputError
            It is no run that has ranks.
        """
        if self.start is None:
            return None
        import pandas as pd

        path = Path(self.start) / names.RANKS
        if not path.is_file():
            raise InputError(
                f"{opt('start')} must be the folder of a finished run of pagerank, got "
                f"{self.start}, which has no {names.RANKS}; name another, or leave it out"
            )
        try:
            return pd.read_parquet(path).set_index("node")
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{opt('start')} must hold ranks by node in {names.RANKS}, got {path} "
                f"({' '.join(str(error).split())}); leave it out"
            ) from None

    def problem(self, source: GraphSource) -> tuple[Problem, list[str]]:
        """The graph in memory with its walk, and the names of the vectors."""
        from pipelines.graph.iteration import Problem
        from pipelines.graph.personal import walk_over
        from pipelines.graph.ranks import graph_of

        graph = graph_of(source.edges, self_loops=self.self_loops, repeated=self.repeated)
        walk, vectors, start = walk_over(
            graph.nodes, self.alpha, self.dangling, self.personalise, self.earlier_ranks()
        )
        return Problem(graph, walk, start, self.stop()), vectors
