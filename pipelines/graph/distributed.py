"""PageRank on many workers: edges go to partitions, ranks from checkpoint to checkpoint.

Edges are a Dask bag of parts, written once to partitions by destination.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from dask import bag

from pipelines.errors import InputError, opt
from pipelines.graph import cugraph, partitions
from pipelines.graph.edges import check_node_count, no_edges_error
from pipelines.graph.files import PART_BYTES, EdgeFile
from pipelines.graph.iteration import (
    Array,
    Callback,
    IterationResult,
    RandomSurfer,
    Stop,
    ignore,
)
from pipelines.graph.partitions import Partitioning
from pipelines.graph.personalisation import surfer_on
from pipelines.graph.random_graphs import RandomGraph
from pipelines.graph.ranks import Ranks
from pipelines.graph.worker_partitions import LOST, MOST_FAILURES, WorkerPartitions, workers_of
from pipelines.run.cluster import refuse_unshared
from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client

# Edges are written by ranges of the nodes they point at, cells; partitions are cut between these.
CELLS = 4096
CELLS_FOR_EACH = 64
# Parts of a text that a thread's memory would hold: names and numbers take ten times a part.
PARTS_IN_MEMORY = 96
PARTITIONING = "partitioning.json"
STATE = "state.json"


@dataclass(frozen=True, eq=False)
class DistributedRanks(Ranks):
    """The answer of many workers; changes are of all iterations, also of an earlier session."""

    n_partitions: int


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
    n_partitions: int | None = None,
    checkpoint_every: int = 10,
    part_bytes: int | None = None,
    device: str = "cpu",
    callback: Callback = ignore,
) -> DistributedRanks:
    """Return PageRank of a graph whose edges may be larger than the memory of all workers together.

    Parameters
    ----------
    client : of a cluster with at least one worker
    folder : one that all workers and this process reach; what an earlier call with the same
        arguments left there, partitions and ranks, is used
    n_partitions : None: one for each worker
    checkpoint_every : iterations between checkpoints, at least 1; what a worker's death can cost
    part_bytes : of a text that a worker reads at once; None: what its memory bears
    device : "cpu", or "gpu": ``cugraph.dask``, which tells of no iteration

    The other parameters are those of ``pagerank``.

    Raises
    ------
    InputError
        As ``pagerank`` does; checkpoint_every or n_partitions is less than 1; or a worker does
        not see the folder.
    RunStopped
        Workers died so often that nothing was gained; ranks so far are in the folder.
    """
    if device == "gpu":
        cugraph.check(dangling, personalise is not None, cugraph.NEEDS_ON_SEVERAL)
    if checkpoint_every < 1:
        raise InputError(
            f"{opt('checkpoint_every')} must be at least 1, got {checkpoint_every}; take 10"
        )
    workers = workers_of(client)
    if n_partitions is None:
        n_partitions = len(workers)
    if n_partitions < 1:
        raise InputError(
            f"{opt('n_partitions')} must be at least 1, got {n_partitions}; leave it out"
        )
    RandomSurfer(1, alpha, None, dangling)  # before edges are read
    stop, folder = stop or Stop(), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    refuse_unshared(client, folder, "the folder of partitions")
    if part_bytes is None:
        limits = [one["memory_limit"] // one["nthreads"] for one in workers.values()]
        part_bytes = min([PART_BYTES, *(limit // PARTS_IN_MEMORY for limit in limits if limit)])
    graph = _write_partitions(client, folder, edges, n_partitions, self_loops, repeated, part_bytes)
    nodes = partitions.read_nodes(graph.folder, graph.n_nodes, graph.first_node)
    surfer, names = surfer_on(nodes, alpha, dangling, personalise)
    begin = surfer.start()
    # The workers read its vectors from the folder.
    vectors = None if surfer.personalisation is None else np.empty((0, surfer.n_vectors))
    bare = RandomSurfer(surfer.n_nodes, alpha, vectors, dangling)
    on_workers = WorkerPartitions(client, graph, bare)
    if device == "gpu":
        iterated = cugraph.rank_partitions(client, graph, surfer, stop)
        write_start(graph, surfer, iterated.ranks)
        (folder / STATE).unlink(missing_ok=True)
        residual = on_workers.iterate(0, 1, None, np.float64).changes[0]
    else:
        state = _read_or_begin(graph, surfer, begin)
        iterated = _iterate(graph, on_workers, state, alpha, stop, checkpoint_every, callback)
        begun = len(iterated.changes)
        residual = on_workers.iterate(begun, 1, None, np.float64).changes[0]
        _remove_checkpoint(graph, begun + 1)
    return DistributedRanks(
        nodes, names, iterated, alpha, residual, graph.n_edges, graph.n_partitions
    )


def _write_partitions(
    client: Client,
    folder: Path,
    edges: EdgeFile | RandomGraph,
    n_partitions: int,
    self_loops: str,
    repeated: str,
    part_bytes: int,
) -> Partitioning:
    """Return edges into partitions, once; those of an earlier call where nothing has changed."""
    wanted: list[Any] = [json.loads(json.dumps(asdict(edges))), self_loops, repeated]
    if isinstance(edges, EdgeFile):
        for name in sorted({part.path for part in edges.parts()}):
            status = os.stat(name)
            wanted.append([name, status.st_size, status.st_mtime_ns])
    earlier = _read(folder / PARTITIONING)
    if earlier is not None and earlier["wanted"] == wanted:
        bounds = tuple(earlier["graph"].pop("bounds"))
        return Partitioning(str(folder), bounds, **earlier["graph"])
    for path in folder.glob("partition-*"):
        shutil.rmtree(path)
    (folder / partitions.WHOLE_NUMBERS).unlink(missing_ok=True)
    edges, nodes = _find_nodes(client, folder, edges, part_bytes)
    n_nodes = len(nodes)
    first_node = int(nodes[0]) if isinstance(nodes, pd.RangeIndex) else None
    parts = edges.parts(part_bytes)
    read_nodes = partial(partitions.read_nodes, str(folder), n_nodes, first_node)
    n_cells = min(n_nodes, max(CELLS, CELLS_FOR_EACH * n_partitions))
    write_edges = partial(partitions.write_edges_by_cell, edges, str(folder), read_nodes, n_cells)
    n_in = sum(_map_parts(client, write_edges, list(enumerate(parts))))
    client.run(partitions.clear_node_cache, on_error="ignore")
    bounds = partitions.balanced_bounds(n_in, n_nodes, n_partitions)
    weighted = isinstance(edges, EdgeFile) and edges.weight is not None
    graph = Partitioning(str(folder), bounds, weighted, first_node)
    write_rows = partial(partitions.write_rows, graph, self_loops, repeated, n_in, len(parts))
    n_edges = sum(_map_parts(client, write_rows, list(range(n_partitions))))
    if not n_edges:
        raise no_edges_error()
    shutil.rmtree(folder / partitions.PIECES, ignore_errors=True)
    described = {
        "bounds": bounds, "weighted": weighted, "first_node": first_node, "n_edges": n_edges
    }  # fmt: skip
    _write(folder / PARTITIONING, {"wanted": wanted, "graph": described})
    (folder / STATE).unlink(missing_ok=True)
    return Partitioning(str(folder), bounds, weighted, first_node, n_edges)


def _find_nodes(
    client: Client, folder: Path, edges: EdgeFile | RandomGraph, part_bytes: int
) -> tuple[EdgeFile | RandomGraph, pd.Index]:
    """Choose how to read the edges, and find all their nodes."""
    parts = edges.parts(part_bytes)
    if not parts:
        raise no_edges_error()
    if isinstance(edges, RandomGraph):
        return edges, edges.nodes

    def names_by(edges: EdgeFile) -> Any:
        read = partial(partitions.names_in_part, edges)
        names = bag.from_sequence(parts, npartitions=len(parts)).map(read)
        return _compute(client, names.reduction(partitions.union, partitions.union, split_every=4))

    names = names_by(edges)
    if names is None:
        edges = replace(edges, text=True)
        names = names_by(edges)
    nodes = pd.Index(names.to_pandas())
    check_node_count(len(nodes))
    partitions.write_nodes(str(folder), nodes)
    return edges, nodes


def _map_parts(client: Client, function: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    """Apply a function to each part on the workers; return the bag of results, one a partition."""
    if not parts:
        return []
    mapped = bag.from_sequence(parts, npartitions=len(parts)).map(function)
    return list(_compute(client, mapped))


def _compute(client: Client, collection: Any) -> Any:
    """Return the value of a collection; where workers died once too often under it, tried again."""
    for _ in range(MOST_FAILURES):
        future = client.compute(collection)
        try:
            return future.result()
        except LOST as error:
            last = str(error)
            future.cancel()  # else the failed task would be found under its name
    raise RunStopped(f"workers died {MOST_FAILURES} times in one step: {last}")


def _read_or_begin(graph: Partitioning, surfer: RandomSurfer, begin: Array) -> dict[str, Any]:
    """Resume from the checkpoint of an equal earlier call, or begin."""
    digest = hashlib.sha256(np.ascontiguousarray(begin).view(np.uint8).data)
    digest.update(np.ascontiguousarray(surfer.jump).view(np.uint8).data)
    described = [surfer.n_nodes, surfer.alpha, surfer.dangling, digest.hexdigest()]
    path = Path(graph.folder) / STATE
    state: dict[str, Any] | None = _read(path)
    if state is None or state["surfer"] != described:
        state = {"surfer": described, "iteration": 0, "changes": [], "seconds": []}
        write_start(graph, surfer, begin)
        _write(path, state)
    return state


def _iterate(
    graph: Partitioning,
    on_workers: WorkerPartitions,
    state: dict[str, Any],
    alpha: float,
    stop: Stop,
    checkpoint_every: int,
    callback: Callback,
) -> IterationResult:
    """Iterate from the last checkpoint to the end."""
    changes, seconds = state["changes"], state["seconds"]
    kind, most = stop.precision(alpha), stop.most(alpha)
    while not stop.reached(changes) and len(changes) < most:
        begun, began = len(changes), time.perf_counter()
        totals = on_workers.iterate(begun, min(checkpoint_every, most - begun), stop.tol, kind)
        spent = (time.perf_counter() - began) / len(totals.changes)
        for change in totals.changes:
            changes.append(change)
            seconds.append(spent)
            callback(len(changes), change)
        _write(Path(graph.folder) / STATE, {**state, "iteration": len(changes)})
        _remove_checkpoint(graph, begun)
    everyone = range(graph.n_partitions)
    return IterationResult(
        np.concatenate([np.load(graph.checkpoint(p, len(changes))) for p in everyone]),
        changes,
        stop.reached(changes),
        max(graph.rounding_error(p, kind) for p in everyone),
        seconds,
        nbytes=sum(graph.nbytes(p) for p in everyone),
    )


def write_start(graph: Partitioning, surfer: RandomSurfer, begin: Array) -> None:
    """Write the initial ranks of each partition."""
    for p in range(graph.n_partitions):
        mine = slice(graph.bounds[p], graph.bounds[p + 1])
        jump = surfer.jump if surfer.personalisation is None else surfer.jump[mine]
        partitions.save_array(graph.checkpoint(p, 0), begin[mine])
        partitions.save_array(graph.path(p, "jump"), jump)


def _remove_checkpoint(graph: Partitioning, iteration: int) -> None:
    for p in range(graph.n_partitions):
        graph.checkpoint(p, iteration).unlink(missing_ok=True)


def _read(path: Path) -> Any:
    """Return the content of a JSON file; None where there is none."""
    return json.loads(path.read_text()) if path.is_file() else None


def _write(path: Path, record: Any) -> None:
    with partitions.atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(record))
