"""PageRank on many workers: edges are dealt, ranks iterated from checkpoint to checkpoint.

Edges are a Dask bag of parts, dealt once to partitions by destination.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from dask import bag

from pipelines.errors import InputError, opt
from pipelines.graph import on_gpus, partition, tasks
from pipelines.graph.edges import no_edges, refuse_many
from pipelines.graph.files import PART_BYTES, EdgeFile
from pipelines.graph.held import LOST, MOST_FAILURES, Held
from pipelines.graph.iteration import SINGLE, Array, Iterated, Stop, Told
from pipelines.graph.partition import Source, Split
from pipelines.graph.personal import walk_over
from pipelines.graph.random_graphs import RandomGraph
from pipelines.graph.units import Answer
from pipelines.graph.variants.pull import precision
from pipelines.graph.walk import Walk
from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client

# Edges are written by ranges of the nodes they point at, cells; partitions are cut between these.
CELLS = 4096
CELLS_FOR_EACH = 64
# Parts of a text that a thread's memory would hold: names and numbers take ten times a part.
PARTS_IN_MEMORY = 96
SPLIT = "split.json"
STATE = "state.json"
PROBE = ".seen-by-all"


@dataclass(frozen=True, eq=False)
class Partitioned(Answer):
    """The answer of many workers.

    iterated : ranks of shape (n, k), changes of all iterations, also of an earlier session
    residual : the L1 norm of what one more iteration in float64 changes
    nodes : the n names
    vectors : names of the k columns
    n_partitions, n_edges : as they were dealt
    """

    nodes: pd.Index
    vectors: list[str]
    n_partitions: int
    n_edges: int


def distributed_pagerank(
    client: Client,
    edges: EdgeFile | RandomGraph,
    folder: str | Path,
    *,
    self_loops: str = "keep",
    repeated: str = "sum",
    alpha: float = 0.85,
    personalise: Any = None,
    dangling: str = "uniform",
    stop: Stop | None = None,
    start: pd.DataFrame | None = None,
    n_partitions: int | None = None,
    checkpoint_every: int = 10,
    part_bytes: int | None = None,
    variant: str = "pull",
    told: Told = lambda iteration, change: None,
) -> Partitioned:
    """PageRank of a graph whose edges fit into the memory of all workers together.

    Parameters
    ----------
    client : of a cluster with at least one worker
    folder : one that all workers and this process reach; what an earlier call with the same
        arguments left there, partitions and ranks, is used
    n_partitions : None: one for each worker
    checkpoint_every : iterations between checkpoints, at least 1; what a worker's death can cost
    variant : "pull", or "cugraph": ``cugraph.dask`` on GPUs, which tells of no iteration
    part_bytes : of a text that a worker reads at once; None: what its memory bears

    The other parameters are those of ``pagerank``.

    Raises
    ------
    InputError
        As ``pagerank`` does; checkpoint_every or n_partitions is less than 1; or a worker does
        not see the folder.
    RunStopped
        Workers died so often that nothing was gained; ranks so far are in the folder.
    """
    if variant == "cugraph":
        on_gpus.refuse(dangling, personalise is not None)
    if checkpoint_every < 1:
        raise InputError(
            f"{opt('checkpoint_every')} must be at least 1, got {checkpoint_every}; take 10"
        )
    if n_partitions is None:
        n_partitions = len(client.scheduler_info(n_workers=-1)["workers"])
    if n_partitions < 1:
        raise InputError(
            f"{opt('n_partitions')} must be at least 1, got {n_partitions}; leave it out"
        )
    stop = stop or Stop()
    run = _Run(client, Path(folder), checkpoint_every)
    run.refuse_unshared()
    Walk(1, alpha, None, dangling)
    part_bytes = part_bytes or _part_bytes(client)
    dealt = run.deal(edges, n_partitions, self_loops, repeated, part_bytes)
    nodes = partition.read_nodes(str(folder), dealt.n_nodes, dealt.first_name)
    walk, names, begin = walk_over(nodes, alpha, dangling, personalise, start)
    if variant == "cugraph":
        iterated, residual = run.iterate_on_gpus(dealt, walk, begin, stop)
    else:
        iterated, residual = run.iterate(dealt, walk, begin, stop, told)
    return Partitioned(iterated, residual, nodes, names, dealt.split.n_partitions, dealt.n_edges)


@dataclass(frozen=True)
class _Dealt:
    """What ``SPLIT`` says: edges lie in partitions."""

    split: Split
    n_nodes: int
    first_name: int | None
    n_edges: int
    weighted: bool


class _Run:
    """A client, a folder, and how often to write to it."""

    def __init__(self, client: Client, folder: Path, checkpoint_every: int):
        self._client, self._folder, self._every = client, folder, checkpoint_every
        folder.mkdir(parents=True, exist_ok=True)

    def refuse_unshared(self) -> None:
        """Have every worker look for a file that was just written."""
        probe = self._folder.resolve() / PROBE
        probe.touch()
        try:
            found = self._client.run(partition.sees, str(probe))
        finally:
            probe.unlink()
        blind = [address for address, seen in found.items() if not seen]
        if blind:
            raise InputError(
                f"the folder of partitions must be one that all workers reach, got "
                f"{self._folder.resolve()}, which {len(blind)} of {len(found)} do not see "
                f"({blind[0]}); name one on a shared file system"
            )

    def deal(
        self,
        edges: EdgeFile | RandomGraph,
        n_partitions: int,
        self_loops: str,
        repeated: str,
        part_bytes: int,
    ) -> _Dealt:
        """Edges into partitions, once."""
        wanted = {"edges": _fingerprint(edges), "rules": [self_loops, repeated]}
        kept = _read(self._folder / SPLIT)
        if kept is not None and kept["wanted"] == wanted:
            split = Split(str(self._folder), tuple(kept["bounds"]), self_loops, repeated)
            dealt = {one: kept[one] for one in ("n_nodes", "first_name", "n_edges", "weighted")}
            return _Dealt(split, **dealt)
        for earlier in self._folder.glob("partition-*"):
            shutil.rmtree(earlier)
        (self._folder / partition.WHOLE_NUMBERS).unlink(missing_ok=True)
        source, nodes = self._nodes(edges, part_bytes)
        first_name = int(nodes[0]) if isinstance(nodes, pd.RangeIndex) else None
        where = partial(partition.read_nodes, str(self._folder), len(nodes), first_name)
        parts = source.parts(part_bytes)
        n_cells = min(len(nodes), max(CELLS, CELLS_FOR_EACH * n_partitions))
        numbered = list(enumerate(parts))
        deal = partial(partition.deal, source, str(self._folder), where, n_cells)
        n_in = sum(self._over_parts(deal, numbered))
        self._client.run(partition.forget_nodes, on_error="ignore")
        bounds = partition.balanced_bounds(n_in, len(nodes), n_partitions)
        split = Split(str(self._folder), bounds, self_loops, repeated)
        compress = partial(partition.compress, split, n_in, len(parts))
        n_edges = self._over_parts(compress, list(range(n_partitions)))
        if not sum(n_edges):
            raise no_edges()
        shutil.rmtree(self._folder / partition.PIECES, ignore_errors=True)
        dealt = {
            "n_nodes": len(nodes),
            "first_name": first_name,
            "n_edges": sum(n_edges),
            "weighted": isinstance(edges, EdgeFile) and edges.weight is not None,
        }
        _write(self._folder / SPLIT, {"wanted": wanted, "bounds": bounds, **dealt})
        (self._folder / STATE).unlink(missing_ok=True)
        return _Dealt(split, **dealt)

    def _nodes(self, edges: EdgeFile | RandomGraph, part_bytes: int) -> tuple[Source, pd.Index]:
        """The nodes of all edges, and how to read them."""
        if isinstance(edges, RandomGraph):
            return Source(edges), pd.RangeIndex(edges.n_nodes)
        source = Source(edges)
        if not source.parts(part_bytes):
            raise no_edges()
        if edges.nodes is not None:
            return source, edges.nodes
        names = self._union(source, part_bytes)
        if names is None:
            source = Source(edges, text=True)
            names = self._union(source, part_bytes)
        nodes = pd.Index(names.to_pandas())
        refuse_many(len(nodes))
        partition.write_nodes(str(self._folder), nodes)
        return source, nodes

    def _union(self, source: Source, part_bytes: int) -> Any:
        parts = source.parts(part_bytes)
        survey = partial(partition.survey, source)
        names = bag.from_sequence(parts, npartitions=len(parts)).map(survey)
        united = names.reduction(partition.union, partition.union, split_every=4)
        return self._again(lambda: self._client.compute(united))

    def _over_parts(self, function: Any, parts: Sequence[Any]) -> list[Any]:
        """A function of each part, on the workers: the bag of parts, one a partition."""
        if not parts:
            return []
        mapped = bag.from_sequence(parts, npartitions=len(parts)).map(function)
        return list(self._again(lambda: self._client.compute(mapped)))

    def _again(self, submit: Any) -> Any:
        """The result of a future; where workers died once too often under it, tried again."""
        for _ in range(MOST_FAILURES):
            future = submit()
            try:
                return future.result()
            except LOST as error:
                last = str(error)
                future.cancel()  # else the failed task would be found under its name
        raise RunStopped(f"workers died {MOST_FAILURES} times in one step: {last}")

    def iterate(
        self, dealt: _Dealt, walk: Walk, begin: Array, stop: Stop, told: Told
    ) -> tuple[Iterated, float]:
        """From the last checkpoint, or from ``begin``, to the end; then the residual."""
        split, kind = dealt.split, precision(stop, walk.alpha)
        state = self._state(split, walk, begin)
        changes, seconds = state["changes"], state["seconds"]
        most = stop.most(walk.alpha)
        done = bool(changes) and stop.tol is not None and changes[-1] <= stop.tol
        with closing(Held(self._client, split, _bare(walk), dealt.weighted)) as held:
            while not done and len(changes) < most:
                earlier, began = len(changes), time.perf_counter()
                total = held.batch(earlier, min(self._every, most - earlier), stop.tol, kind)
                done = total.done
                spent = (time.perf_counter() - began) / len(total.changes)
                for change in total.changes:
                    changes.append(change)
                    seconds.append(spent)
                    told(len(changes), change)
                _write(self._folder / STATE, {**state, "iteration": len(changes)})
                _forget(split, earlier)
            residual = held.batch(len(changes), 1, None, np.float64).changes[0]
            _forget(split, len(changes) + 1)
        ranks = np.concatenate(
            [np.load(tasks.checkpoint(split, p, len(changes))) for p in range(split.n_partitions)]
        )
        sizes = [tasks.size_on_disk(split, p) for p in range(split.n_partitions)]
        roundoff = max(size.rounding for size in sizes) + (SINGLE if kind is np.float32 else 0)
        nbytes = sum(size.nbytes for size in sizes)
        return Iterated(ranks, changes, done, roundoff, seconds, 0.0, nbytes), residual

    def iterate_on_gpus(
        self, dealt: _Dealt, walk: Walk, begin: Array, stop: Stop
    ) -> tuple[Iterated, float]:
        """By cuGraph to the end; then the residual, by one iteration of ours."""
        split = dealt.split
        iterated = on_gpus.iterate(self._client, split, walk, begin, stop)
        _write_start(split, walk, iterated.ranks)
        (self._folder / STATE).unlink(missing_ok=True)
        with closing(Held(self._client, split, _bare(walk), dealt.weighted)) as held:
            return iterated, held.batch(0, 1, None, np.float64).changes[0]

    def _state(self, split: Split, walk: Walk, begin: Array) -> dict[str, Any]:
        """Where an earlier call left off, if it was one of this walk; else a beginning."""
        described = _described(walk, begin)
        state: dict[str, Any] | None = _read(self._folder / STATE)
        if state is None or state["walk"] != described:
            state = {"walk": described, "iteration": 0, "changes": [], "seconds": []}
            _write_start(split, walk, begin)
            _write(self._folder / STATE, state)
        return state


def _bare(walk: Walk) -> Walk:
    """Without its vectors, which are in the folder."""
    personal = None if walk.personal is None else np.empty((0, walk.n_vectors))
    return Walk(walk.n_nodes, walk.alpha, personal, walk.dangling)


def _write_start(split: Split, walk: Walk, begin: Array) -> None:
    """Where each partition's ranks begin."""
    for p in range(split.n_partitions):
        mine = slice(split.bounds[p], split.bounds[p + 1])
        jump = walk.jump if walk.personal is None else walk.jump[mine]
        tasks.write_start(split, p, begin[mine], jump)


def _part_bytes(client: Client) -> int:
    """Of a text, so that each thread of a worker has memory for what becomes of a part."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    limits = [one["memory_limit"] // one["nthreads"] for one in workers if one["memory_limit"]]
    return min([PART_BYTES, *(limit // PARTS_IN_MEMORY for limit in limits)])


def _forget(split: Split, iteration: int) -> None:
    """Remove a checkpoint."""
    for p in range(split.n_partitions):
        tasks.checkpoint(split, p, iteration).unlink(missing_ok=True)


def _fingerprint(edges: EdgeFile | RandomGraph) -> list[Any]:
    described: list[Any] = [json.loads(json.dumps(asdict(edges)))]
    if isinstance(edges, EdgeFile):
        for path in sorted({part.path for part in edges.parts()}):
            status = os.stat(path)
            described.append([path, status.st_size, status.st_mtime_ns])
    return described


def _described(walk: Walk, begin: Array) -> list[Any]:
    """What ranks in a checkpoint depend on."""
    import hashlib

    digest = hashlib.sha256(np.ascontiguousarray(begin).view(np.uint8).data)
    digest.update(np.ascontiguousarray(walk.jump).view(np.uint8).data)
    return [walk.n_nodes, walk.alpha, walk.dangling, digest.hexdigest()]


def _read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.is_file() else None


def _write(path: Path, record: Any) -> None:
    with partition.whole(path) as unfinished:
        unfinished.write_text(json.dumps(record))
