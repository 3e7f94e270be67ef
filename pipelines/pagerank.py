"""PageRank of a graph, in one way or in all: ``python -m pipelines.pagerank``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.errors import InputError
from pipelines.graph.options import GraphOptions
from pipelines.run import job
from pipelines.run.cluster import Cluster
from pipelines.run.errors import RunStopped
from pipelines.run.groups import RunOptions
from pipelines.run.lifecycle import Session
from pipelines.run.options import at_least, number, option
from pipelines.run.summary import wall_time

if TYPE_CHECKING:
    from pipelines.graph.iteration import Array
    from pipelines.graph.source import GraphSource

PARTITIONS = "partitions"  # folder of a run on many workers, until it is finished
BY_VARIANT = "by_variant"  # folder of each variant's ranks, until they have been compared


@dataclass(frozen=True)
class Options(GraphOptions, RunOptions):
    """Options of ``pagerank``."""

    group: ClassVar[str] = "variant"

    variant: str = option(
        "auto",
        "how it is computed: a variant, all (side by side), or auto: pull on CPU cores, cuGraph "
        "on a GPU where it is installed",
        metavar="NAME",
    )
    memory: float = option(
        8.0, "GiB that a variant's dense matrices may take", parse=float, check=at_least(0.001),
        metavar="GIB", changes_results=False,
    )  # fmt: skip
    distributed: bool = option(
        False, "deal the edges to all workers; for a graph larger than one machine"
    )
    checkpoint_every: int = number(
        10, "with --distributed: iterations between checkpoints of the ranks",
        changes_results=False,
    )  # fmt: skip


class PageRank(job.Job[Options]):
    """Ranks of all nodes by the walk of a surfer who follows edges and sometimes jumps."""

    command = "pagerank"
    description = "PageRank of a graph: an edge list or a random one, in one variant or in all."
    kind_of_options = Options
    examples = (
        "--edges links.csv",
        "--random rmat --nodes 100000 --degree 8 --variant all",
        "--edges huge.tsv --distributed --cluster slurm --workers 4",
    )

    def load(self, kind: str) -> GraphSource:
        """The head of the file; edges are read by ``plan``, or by the workers."""
        self.options.stop()  # what is wrong with these is said before anything is read
        return self.options.graph_source(self.options.seed)

    def plan(self, data: GraphSource) -> list[str]:
        """Read the graph and the vectors, but for a run on many workers."""
        options, self.source = self.options, data
        walk = f"walk       alpha {options.alpha:g}, dangling {options.dangling}"
        if options.distributed:
            if options.variant not in ("auto", "pull", "cugraph"):
                raise InputError(
                    f"--variant must be pull with --distributed, or cugraph on GPUs, got "
                    f"{options.variant}; leave it out"
                )
            if options.variant == "cugraph":
                from pipelines.graph import on_gpus

                on_gpus.refuse(options.dangling, options.personalise is not None)
            return [f"graph      {data.name}, dealt to all workers", walk]
        self.problem, self.vectors = options.problem(data)
        graph = self.problem.graph
        also = "" if self.vectors == ["rank"] else f", {len(self.vectors)} personal vectors"
        return [
            f"graph      {data.name}: {graph.n_nodes:,} nodes, {graph.n_edges:,} edges",
            walk + also,
        ]

    def n_workers(self, kind: str) -> int | None:
        """One process with all threads, unless edges are dealt to many."""
        if self.options.workers is None and kind == "local" and not self.options.distributed:
            return 1
        return self.options.workers

    def recall(self, session: Session) -> None:
        """Rows of variants that were run before."""
        self.rows = {
            row["variant"]: row
            for record in session.journal.records
            for row in record["rows"]
            if not row["status"].startswith("failed")
        }

    def settle(self, cluster: Cluster) -> dict[str, Any]:
        """The variants, by what the workers have."""
        options = self.options
        if options.distributed:
            from pipelines.graph import on_gpus
            from pipelines.graph.variants import find_variant

            self.chosen, self.together = ["distributed"], options.variant
            left_out: dict[str, str] = {}
            if options.variant == "auto":
                fits = on_gpus.spreads(options.dangling, options.personalise is not None)
                able = cluster.device == "gpu" and fits and on_gpus.lacks() is None
                self.together = "cugraph" if able else "pull"
            elif options.variant == "cugraph":
                find_variant("cugraph", cluster.device, 0, None)
        else:
            from pipelines.graph.variants import choose_variants

            self.chosen, left_out = choose_variants(
                self.options.variant, cluster.device, self.problem.graph.n_nodes,
                int(self.options.memory * 2**30),
            )  # fmt: skip
        return {"solver": ", ".join(self.chosen), "left_out": left_out}

    def work(self, session: Session, cluster: Cluster) -> dict[str, Any]:
        """Run what is left of the variants, or the one iteration of all workers."""
        if self.options.distributed:
            return self._work_together(session, cluster)
        import numpy as np

        from pipelines.graph.units import VariantUnit, run_variant

        for name, why in session.record.get("left_out", {}).items():
            session.say(f"left out   {name}: {why}")
        ranks = session.path / BY_VARIANT
        ranks.mkdir(exist_ok=True)
        todo = [
            VariantUnit(name) for name in self.chosen
            if name not in self.rows or not (ranks / f"{name}.npy").exists()
        ]  # fmt: skip
        problem = self.problem.on(cluster.device, cluster.threads)
        with session.books(cluster, todo) as books:
            for outcome in cluster.runner.outcomes(run_variant, problem, todo):
                name = outcome.unit.variant
                if outcome.error is None:
                    np.save(ranks / f"{name}.npy", outcome.result.iterated.ranks)
                    row = outcome.result.row(name, self.options.alpha, outcome.worker)
                else:
                    row = {"variant": name, "worker": outcome.worker,
                           "status": f"failed: {outcome.error}"}  # fmt: skip
                books.enter(outcome, [row])
                self.rows[name] = row
        return {}

    def _work_together(self, session: Session, cluster: Cluster) -> dict[str, Any]:
        """Edges dealt to all workers; what a session leaves, the next goes on from."""
        from pipelines.graph.distributed import distributed_pagerank

        options, every = self.options, self.options.checkpoint_every

        def told(iteration: int, change: float) -> None:
            if iteration % every == 0:
                session.say(f"iteration  {iteration:,}: change {change:.2g}")

        try:
            done = distributed_pagerank(
                cluster.client, self.source.edges, session.path / PARTITIONS,
                self_loops=options.self_loops, repeated=options.repeated, alpha=options.alpha,
                personalise=options.personalise, dangling=options.dangling, stop=options.stop(),
                start=options.earlier_ranks(), checkpoint_every=every, variant=self.together,
                told=told,
            )  # fmt: skip
        except InputError as error:
            session.folder.update(status="stopped", reason=str(error))
            raise
        self.done = done
        self.rows = {"distributed": done.row("distributed", options.alpha)}
        return {"n_partitions": done.n_partitions}

    def answer(self, session: Session, cluster: Cluster | None) -> dict[str, Any]:
        """Compare the variants, write ranks and tables, name the highest."""
        from pipelines.graph import answer

        path, rows = session.path, [self.rows[name] for name in self.chosen]
        if self.options.distributed:
            facts = answer.write(
                path, rows, self.done.nodes, self.done.iterated.ranks, self.done.vectors,
                self.done.n_edges,
            )  # fmt: skip
            shutil.rmtree(path / PARTITIONS)
            return facts
        import numpy as np

        by_variant: dict[str, Array] = {
            row["variant"]: np.load(path / BY_VARIANT / f"{row['variant']}.npy", mmap_mode="r")
            for row in rows
            if not row["status"].startswith("failed")
        }
        if not by_variant:
            raise RunStopped(f"no variant gave ranks: {rows[0]['status']}")
        first = next(iter(by_variant.values()))
        for row in rows:
            if row["variant"] in by_variant:
                differs = abs(by_variant[row["variant"]] - first).sum(axis=0).max()
                row["differs_from_first"] = float(differs)
        graph = self.problem.graph
        facts = answer.write(path, rows, graph.nodes, np.array(first), self.vectors, graph.n_edges)
        shutil.rmtree(path / BY_VARIANT)
        return facts

    def lines(self, record: Mapping[str, Any]) -> list[str]:
        """The highest ranks, how exact they are, the time."""
        top = ", ".join(f"{one['node']} ({one['rank']:.3g})" for one in record["top"][:5])
        end = "" if record["converged"] else "; the iteration ended before --tol was reached"
        failed = f"; {record['n_failed']} of {record['n_cells']} variants failed"
        return [
            f"highest    {top}",
            f"exact to   {record['bound']:.2g} (L1), residual {record['residual']:.2g}, after "
            f"{record['n_iterations']} iterations, change {record['change']:.2g}{end}",
            wall_time(record) + (failed if record["n_failed"] else ""),
        ]


main, run, check = PageRank.main, PageRank.run, PageRank.check

if __name__ == "__main__":
    sys.exit(main())
