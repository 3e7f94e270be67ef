"""The command ``pleasingly pagerank``: PageRank of a graph."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pipelines.errors import InputError, opt
from pipelines.graph.record import ITERATIONS, RANKS, GraphAnswer, GraphRecord
from pipelines.run import job
from pipelines.run.cluster import Cluster
from pipelines.run.errors import RunStopped
from pipelines.run.groups import RunOptions, encoding_option
from pipelines.run.lifecycle import Session
from pipelines.run.options import at_least, fraction, number, option, real
from pipelines.run.summary import wall_time
from pipelines.run_folder import names

if TYPE_CHECKING:
    from pipelines.graph.files import EdgeFile
    from pipelines.graph.iteration import Array, StoppingRule
    from pipelines.graph.random_graphs import RandomGraph
    from pipelines.graph.ranks import GraphProblem, Ranks

PARTITIONS = "partitions"  # folder in that of a distributed run, until it is finished
TOP = 100  # nodes that run.json lists
BINS = 60  # of the histogram of ranks


def ranks_file(text: str) -> str:
    """Path of a table of ranks: the path itself, or the table in a run folder."""
    return os.path.join(text, RANKS) if os.path.isdir(os.path.expanduser(text)) else text


@dataclass(frozen=True)
class Options(RunOptions):
    """Options of ``pagerank``: the graph, the damping, the stopping rule and where it runs."""

    group: ClassVar[str] = "graph"
    elsewhere: ClassVar = {"--dataset": "--edges"}  # options of other commands

    edges: str | None = option(
        None,
        "edge list: text (.csv, .tsv, .txt) with or without a header line, or .parquet; without it "
        "a random graph",
        metavar="PATH",
        path="data",
    )
    source: str | None = option(
        None,
        "column of source nodes (default: the one called source, from or the like, else the first; "
        "without a header line columns are called 1, 2, ...)",
        metavar="COLUMN",
    )
    target: str | None = option(
        None,
        "column of target nodes (default: the one called target, to or the like, else the second)",
        metavar="COLUMN",
    )
    weight: str | None = option(None, "column of edge weights (default: 1 each)", metavar="COLUMN")
    header: bool = option(False, "the first line of the edge list is a header")
    no_header: bool = option(False, "the first line of the edge list is an edge")
    encoding: str | None = encoding_option()
    undirected: bool = option(False, "treat edges as undirected; a self-loop counts once")
    random: str = option("rmat", "kind of random graph", choices=("erdos", "rmat"))
    nodes: int = number(100_000, "nodes of the random graph", rule=at_least(2))
    degree: float = real(8.0, "mean out-degree of the random graph", rule=at_least(1))
    self_loops: str = option("keep", "self-loops", choices=("keep", "drop"))
    repeated: str = option(
        "sum",
        "duplicate edges: sum their weights, or count them once",
        choices=("sum", "once"),
    )
    alpha: float = fraction(
        0.85, "damping factor: probability of following an edge", metavar="NUMBER"
    )
    personalise: str | None = option(
        None,
        "personalisation: a table with nodes in its first column and a vector in each other",
        metavar="FILE",
        path="file",
    )
    dangling: str = option(
        "uniform",
        "where the surfer goes from a dangling node, one without out-links",
        choices=("uniform", "personalised", "none"),
    )
    start: str | None = option(
        None,
        "warm start: ranks of a similar graph, as the folder of a run or a table of nodes and "
        "ranks; fewer iterations give the same ranks",
        parse=ranks_file,
        metavar="RUN|FILE",
        path="file",
    )
    tol: float = real(
        1e-6, "stop once the L1 norm of the change is at most this; 0: never", rule=at_least(0)
    )
    iterations: int | None = number(None, "maximum iterations (default: as many as --tol can need)")
    distributed: bool = option(
        False, "partition the edges over the workers, for a graph larger than memory"
    )
    checkpoint_every: int = number(
        10, "with --distributed: iterations between checkpoints of the ranks", changes_results=False
    )

    def check(self) -> None:
        super().check()
        if self.header and self.no_header:
            raise InputError(
                f"{opt('header')} and {opt('no_header')} contradict each other about the first "
                "line; give one"
            )

    def stop(self) -> StoppingRule:
        """The stopping rule.

        Raises
        ------
        InputError
            An option is out of its range, or there is no rule.
        """
        from pipelines.graph.iteration import StoppingRule

        return StoppingRule(self.tol or None, self.iterations)


@dataclass(frozen=True, eq=False, kw_only=True)
class PageRankPlan(job.Plan[Options]):
    """Plan of a PageRank: a random surfer on a graph.

    Attributes
    ----------
    problem : Problem or None
        The graph and the surfer; None if the workers read the edges.
    notes : sequence of str
        Notes on the edges, for the terminal and ``run.json``.
    device : str
        Where ranks are computed: "cpu" or "gpu".
    """

    problem: GraphProblem | None
    notes: Sequence[str]
    device: str = "cpu"

    @property
    def lines(self) -> list[str]:
        """Lines on the graph and the surfer."""
        options, problem = self.options, self.problem
        surfer = f"surfer     damping {options.alpha:g}, dangling nodes {options.dangling}"
        if problem is None:
            graph = f"graph      {self.data.name}, in partitions on all workers"
        else:
            graph = (
                f"graph      {self.data.name}: {problem.graph.n_nodes:,} nodes, "
                f"{problem.graph.n_edges:,} edges"
            )
            if (n_vectors := len(problem.vectors)) > 1:
                surfer += f", {n_vectors} personal vectors"
        return [graph, surfer, *note_lines(self.notes)]

    def n_workers(self, kind: str) -> int | None:
        """Number of workers: one with all threads, or as many as there are if distributed."""
        if self.options.workers is None and kind == "local" and not self.options.distributed:
            return 1
        return self.options.workers

    def on(self, cluster: Cluster) -> Self:
        """The plan with cuGraph as the solver, if there are GPUs and it supports the options."""
        from pipelines.graph import cugraph

        options = self.options
        needs = cugraph.NEEDS_ON_SEVERAL if options.distributed else cugraph.NEEDS
        is_able = cugraph.can_rank(options.dangling, options.personalise is not None, needs)
        device = "gpu" if is_able and cluster.device == "gpu" else "cpu"
        solver = "cugraph" if device == "gpu" else "pull"
        return replace(self, device=device, entries={"solver": solver})


class PageRank(job.Job[Options]):
    """Job of ``pagerank``: the probabilities that a random surfer is at each node."""

    command = "pagerank"
    description = "PageRank of a graph: an edge list or a random one."
    options_class = Options
    record = GraphRecord
    page = "pipelines.pages.pagerank:GraphReport"
    examples = (
        "--edges links.csv",
        "--edges links.csv --personalise topics.csv",
        "--edges huge.tsv --distributed --cluster slurm --workers 4",
    )

    def packages(self, options: Options, record: Mapping[str, Any]) -> tuple[str, ...]:
        return ("numpy", "scipy")

    def load(self, options: Options, kind: str) -> EdgeFile | RandomGraph:
        """Open the edge list. The edges are read by ``plan``, or by the workers."""
        from pipelines.graph.files import open_edges
        from pipelines.graph.random_graphs import RandomGraph

        options.stop()  # contradictory options are refused before anything is read
        if options.edges is None:
            return RandomGraph(options.random, options.nodes, options.degree, options.seed)
        return open_edges(
            options.edges,
            options.source,
            options.target,
            options.weight,
            header=options.header if options.header or options.no_header else None,
            encoding=options.encoding,
        )

    def plan(
        self, options: Options, data: EdgeFile | RandomGraph, record: Mapping[str, Any]
    ) -> PageRankPlan:
        """Read the graph and the vectors; in a distributed run the workers do that."""
        fields: dict[str, Any] = {"options": options, "data": data, "record": record}
        if options.distributed:
            return PageRankPlan(**fields, problem=None, notes=data.edge_notes(options.undirected))
        from pipelines.graph.graph import graph_of
        from pipelines.graph.iteration import surfer_on
        from pipelines.graph.ranks import GraphProblem

        graph = graph_of(
            data,
            self_loops=options.self_loops,
            repeated=options.repeated,
            undirected=options.undirected,
        )
        surfer, vectors, notes = surfer_on(
            graph.nodes, options.alpha, options.dangling, options.personalise, options.start
        )
        graph = replace(graph, notes=(*graph.notes, *notes))
        problem = GraphProblem(graph, surfer, vectors, options.stop())
        return PageRankPlan(**fields, problem=problem, notes=graph.notes)

    def execute(
        self, plan: PageRankPlan, done: job.Done, session: Session, cluster: Cluster
    ) -> Ranks:
        """Compute the ranks on one worker, or on all, which resume from their last checkpoint."""
        from pipelines.graph.ranks import GraphProblem, RankTask

        options, interval = plan.options, plan.options.checkpoint_every
        if plan.problem is None:
            from pipelines.graph.distributed import distributed_pagerank

            def show(iteration: int, change: float) -> None:
                session.journal.check()
                if iteration % interval == 0:
                    session.echo(f"iteration  {iteration:,}: change {change:.2g}")

            graph_options = ("self_loops", "repeated", "undirected")
            option_names = (*graph_options, "alpha", "personalise", "dangling", "start")
            solver_options: dict[str, Any] = {name: getattr(options, name) for name in option_names}
            solver_options |= {
                "stop": options.stop(),
                "checkpoint_every": interval,
                "device": plan.device,
            }
            folder = session.path / PARTITIONS
            folder.mkdir(exist_ok=True)
            ranks = distributed_pagerank(
                cluster.client, plan.data, folder, callback=show, **solver_options
            )
            for line in note_lines(ranks.notes[len(plan.notes) :]):
                session.echo(line)
            return ranks
        problem = replace(plan.problem, device=plan.device, n_threads=cluster.threads)
        todo = [RankTask()]
        with session.journal_writer(cluster, todo) as journal_writer:
            (outcome,) = cluster.runner.outcomes(GraphProblem.solve, problem, todo)
            status = "ok" if outcome.error is None else f"failed: {outcome.error}"
            journal_writer.record(outcome, [{"worker": outcome.worker, "status": status}])
        if outcome.error is not None:
            raise RunStopped(f"no ranks were computed: {status}")
        return outcome.result

    def unfinished(self, path: Path, done: Collection[str]) -> str:
        """Number of iterations of the checkpoint of a distributed run, in words; may be empty."""
        if not (path / PARTITIONS).is_dir():
            return ""
        from pipelines.graph.distributed import iterations_kept

        n_kept = iterations_kept(path / PARTITIONS)
        return f"ranks after {n_kept:,} iterations" if n_kept else ""

    def answer(
        self, plan: PageRankPlan, computed: Any, session: Session, cluster: Cluster | None
    ) -> GraphAnswer:
        """Write the tables of ranks and iterations. The answer has the top ranks and the error."""
        import pandas as pd

        ranks: Ranks = computed
        frame = pd.DataFrame(ranks.values, columns=ranks.vectors)
        frame.insert(0, "node", ranks.nodes)
        names.write_table(frame, session.path / RANKS, index=False)
        steps = enumerate(zip(ranks.changes, ranks.seconds, strict=True), 1)
        table = [(i, change, seconds) for i, (change, seconds) in steps]
        iterations = pd.DataFrame(table, columns=["iteration", "change", "seconds"])
        names.write_table(iterations, session.path / ITERATIONS, index=False)
        shutil.rmtree(session.path / PARTITIONS, ignore_errors=True)
        entries = {
            **({} if ranks.n_partitions is None else {"n_partitions": ranks.n_partitions}),
            "n_nodes": len(ranks.nodes),
            "n_edges": ranks.n_edges,
            "vectors": ranks.vectors,
            "remarks": list(ranks.notes),
            "n_cells": 1,
            "n_iterations": len(ranks.changes),
            "change": ranks.change,
            "residual": ranks.residual,
            "bound": ranks.bound,
            "converged": ranks.converged,
            "setup_seconds": ranks.setup_seconds,
            "iterating_seconds": sum(ranks.seconds),
            "memory_bytes": ranks.nbytes,
            "top": [
                {"node": str(node), "rank": float(rank)} for node, rank in ranks.top(TOP).items()
            ],
            "distribution": score_histogram(ranks.values[:, 0]),
        }
        return GraphAnswer.of(entries)

    def summary_lines(self, record: Mapping[str, Any], path: Path) -> list[str]:
        """Lines on the highest ranks, the error and the time."""
        top = ", ".join(f"{entry['node']} ({entry['rank']:.3g})" for entry in record["top"][:5])
        end = "" if record["converged"] else "; not converged: --tol was not reached"
        return [
            f"highest    {top}",
            f"precision  L1 error at most {record['bound']:.2g}, residual {record['residual']:.2g}"
            f", after {record['n_iterations']} iterations, change {record['change']:.2g}{end}",
            wall_time(record),
        ]


def note_lines(notes: Iterable[str]) -> list[str]:
    """Notes on the edges as lines of the terminal."""
    return [f"note       {note}" for note in notes]


def score_histogram(ranks: Array) -> dict[str, list[float]]:
    """Histogram of ranks, in ``BINS`` bins of equal width on a logarithmic axis.

    Parameters
    ----------
    ranks : float array of shape (n_nodes,)
        Ranks of 0 have no logarithm and are left out.

    Returns
    -------
    dict of str to list
        ``bounds`` of the bins and ``counts`` of nodes; empty lists if no rank is above 0.
    """
    import numpy as np

    positive = ranks[ranks > 0]
    if not len(positive):
        return {"bounds": [], "counts": []}
    low, high = float(positive.min()), float(positive.max())
    bounds = np.geomspace(low * (1 - 1e-9), high * (1 + 1e-9), BINS + 1)
    counts, _ = np.histogram(positive, bounds)
    return {"bounds": bounds.tolist(), "counts": counts.tolist()}


JOB = PageRank
main, run = JOB.main, JOB.run


def __dir__() -> list[str]:
    return ["main", "run"]


if __name__ == "__main__":
    sys.exit(main())
