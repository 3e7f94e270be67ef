"""PageRank on many workers: edges in partitions on disk, ranks in checkpoints.

An iteration is one task for each partition, and one that combines what they share. All tasks from
one checkpoint of the ranks to the next are submitted at once. Dask computes again what a lost
worker had in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import asdict, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
from distributed import KilledWorker, wait
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from cluster_setup.workers import forecast_workers
from pipelines.errors import InputError, opt
from pipelines.graph import cugraph, partitions
from pipelines.graph.edge_files import PART_BYTES, EdgeFile
from pipelines.graph.edges import check_node_count, comment_notes, no_edges_error
from pipelines.graph.iteration import (
    Array,
    Callback,
    IterationResult,
    RandomSurfer,
    StoppingRule,
    ignore,
    surfer_on,
)
from pipelines.graph.node_names import sorted_nodes
from pipelines.graph.partitions import Partitioning, read_array
from pipelines.graph.random_graphs import RandomGraph
from pipelines.graph.ranks import Ranks
from pipelines.run.cluster import refuse_unshared
from pipelines.run.errors import RunStopped, stop_if_lost
from pipelines.run_folder.names import replacing

if TYPE_CHECKING:
    from distributed import Client, Future

Value = TypeVar("Value")

# Nodes are divided into at least this many equal ranges; edges are counted in each, and partitions
# are cut between them.
RANGES = 4096
RANGES_PER_WORKER = 64
# The most edges of a partition, which a task may have in memory: 12 to 44 bytes each.
PARTITION_EDGES = 1 << 22
# A part of a text is at most 1 / 96 of a thread's memory: its names and numbers take ten times as
# much as the part.
PARTS_IN_MEMORY = 96
GRAPH = "graph.json"
NODES = "nodes.parquet"
STATE = "state.json"
# In a row, of one step.
MOST_FAILURES = 10
SECONDS_FOR_A_WORKER = 300
# What Dask raises if workers died too often under a task, or the connection to the scheduler broke.
LOST = (KilledWorker, CancelledError, FutureCancelledError, CommClosedError)


def distributed_pagerank(
    client: Client,
    edges: EdgeFile | RandomGraph,
    folder: str | Path,
    *,
    self_loops: str = "keep",
    repeated: str = "sum",
    undirected: bool = False,
    alpha: float = 0.85,
    personalise: Any = None,
    dangling: str = "uniform",
    start: Any = None,
    stop: StoppingRule | None = None,
    checkpoint_every: int = 10,
    part_bytes: int | None = None,
    device: str = "cpu",
    callback: Callback = ignore,
) -> Ranks:
    """PageRank of a graph whose edges may be larger than the memory of all workers together.

    Parameters
    ----------
    client : distributed.Client
        The client of a cluster with at least one worker.
    edges : EdgeFile or RandomGraph
    folder : str or Path
        A folder that all workers and this process can reach. Partitions and ranks that an earlier
        call with the same arguments left there are used.
    self_loops, repeated, undirected, alpha, personalise, dangling, start
        As in ``compute_pagerank``.
    stop : StoppingRule, optional
        When the iteration ends; by default at a change of 1e-6.
    checkpoint_every : int, default 10
        Iterations between checkpoints, at least 1.
    part_bytes : int, optional
        Bytes of a text that a task reads at once; by default what the workers' memory allows.
    device : {"cpu", "gpu"}, default "cpu"
        "gpu" is ``cugraph.dask``, which does not report its iterations.
    callback : function, optional
        Called with the number of each iteration and its change.

    Returns
    -------
    Ranks
        Its changes cover all iterations, including those of an earlier call.

    Raises
    ------
    InputError
        As ``compute_pagerank`` does; or a worker does not see the folder.
    RunStopped
        Workers died again and again in one step, or none is left. The ranks of the last checkpoint
        are in the folder.
    """
    if device == "gpu":
        cugraph.check(dangling, personalise is not None, cugraph.NEEDS_ON_SEVERAL)
    RandomSurfer(1, alpha, None, dangling)  # checks its arguments before edges are read
    stop, folder = stop or StoppingRule(), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    refuse_unshared(client, folder, "the folder of partitions")
    rules = (self_loops, repeated, undirected)
    graph, nodes, notes = _write_partitions(client, folder, edges, rules, part_bytes)
    surfer, names, vector_notes = surfer_on(nodes, alpha, dangling, personalise, start)
    if device == "gpu":
        iterated = cugraph.rank_partitions(client, graph, surfer, stop)
        partitions.write_start(graph, surfer, iterated.values)
        (folder / STATE).unlink(missing_ok=True)
        iteration = 0
    else:
        iterated = _iterate(client, graph, surfer, stop, checkpoint_every, callback)
        iteration = len(iterated.changes)
    (residual,) = _iterations(client, graph, surfer, iteration, StoppingRule(None, 1), save=False)
    return Ranks(
        **vars(iterated),
        nodes=nodes,
        vectors=names,
        alpha=alpha,
        residual=residual,
        n_edges=graph.n_edges,
        n_partitions=graph.n_partitions,
        notes=(*notes, *vector_notes),
    )


def _write_partitions(
    client: Client,
    folder: Path,
    edges: EdgeFile | RandomGraph,
    rules: tuple[str, str, bool],
    part_bytes: int | None,
) -> tuple[Partitioning, pd.Index, tuple[str, ...]]:
    """Write edges to partitions, or use those of an earlier call if nothing has changed since.

    Returns
    -------
    graph : Partitioning
    nodes : pandas.Index
        Names of all nodes.
    notes : tuple of str
        What was noticed in the edges.
    """
    self_loops, repeated, undirected = rules
    identity: list[Any] = [json.loads(json.dumps(asdict(edges))), *rules]
    if isinstance(edges, EdgeFile):
        for name in sorted({part.path for part in edges.parts()}):
            status = os.stat(name)
            identity.append([name, status.st_size, status.st_mtime_ns])
    if (stored_graph := _read(folder / GRAPH)) is not None and stored_graph["wanted"] == identity:
        bounds = tuple(stored_graph["bounds"])
        graph = Partitioning(str(folder), bounds, stored_graph["weighted"], stored_graph["n_edges"])
        notes = tuple(stored_graph["notes"])
        if isinstance(edges, RandomGraph):
            return graph, edges.nodes, notes
        return graph, partitions.read_nodes(folder / NODES), notes
    for path in folder.glob("partition-*"):
        shutil.rmtree(path)
    # Not by ``client.scheduler_info``: the client's periodic query in the background, which names
    # no workers, may overwrite the answer before it is returned.
    workers = client.sync(client.scheduler.identity, n_workers=-1)["workers"].values()
    if part_bytes is None:
        limits = [worker["memory_limit"] // worker["nthreads"] for worker in workers]
        part_bytes = min([PART_BYTES, *(limit // PARTS_IN_MEMORY for limit in limits if limit)])
    parts: list[Any] = list(edges.parts(part_bytes))
    if not parts:
        raise no_edges_error()
    if isinstance(edges, RandomGraph):
        nodes, all_notes = edges.nodes, list[str]()
    else:
        names = _with_retries(client, partial(_names, client, edges, parts))
        if names is None:
            edges = replace(edges, text=True)
            names = _with_retries(client, partial(_names, client, edges, parts))
        array, n_comments = names
        nodes, spelling_notes = sorted_nodes([array], numbers=edges.layout is not None)
        all_notes = [*edges.edge_notes(undirected), *comment_notes(n_comments), *spelling_notes]
        if not len(nodes):
            raise no_edges_error()
        check_node_count(len(nodes))
        with replacing(folder / NODES) as path:
            pd.DataFrame({"node": nodes}).to_parquet(path)
    n_ranges = min(len(nodes), max(RANGES, RANGES_PER_WORKER * len(workers)))

    def write_pieces() -> list[Any]:
        node_names: Any = nodes
        if isinstance(edges, EdgeFile):
            node_names = client.submit(partitions.read_nodes, folder / NODES, pure=False)
        write = partial(partitions.write_piece, edges, str(folder), n_ranges)
        arguments = ([value] * len(parts) for value in (node_names, undirected))
        return _gather(client, client.map(write, *arguments, range(len(parts)), parts, pure=False))

    pieces = _with_retries(client, write_pieces)
    n_in, has_usual_weights = sum(n for n, _ in pieces), all(is_usual for _, is_usual in pieces)
    if repeated == "once" and not has_usual_weights:
        raise InputError(
            f"{opt('weight')} must lie between 1e-30 and 1e24 with {opt('distributed')} and "
            f"{opt('repeated', 'once')}, some do not; multiply all weights by one number"
        )
    # The same number for each worker, and none of more edges than a task may hold.
    n_each = -(-int(n_in.sum()) // (PARTITION_EDGES * len(workers)))
    bounds = partitions.balanced_bounds(n_in, len(nodes), n_each * len(workers))
    weighted = isinstance(edges, EdgeFile) and edges.weight is not None
    graph = Partitioning(str(folder), bounds, weighted)

    def write_rows() -> list[Any]:
        write = partial(
            partitions.write_rows, graph, self_loops, repeated, len(parts), has_usual_weights
        )
        row_futures = client.map(write, range(graph.n_partitions), pure=False)
        reciprocal_future = client.submit(
            partitions.write_reciprocals, graph, row_futures, pure=False
        )
        return _gather(client, [*row_futures, reciprocal_future])[:-1]

    n_edges = sum(_with_retries(client, write_rows))
    if not n_edges:
        raise no_edges_error()
    shutil.rmtree(folder / partitions.PIECES, ignore_errors=True)
    # Ranks of earlier partitions do not fit these. GRAPH is written last: a folder without it is
    # begun anew.
    (folder / STATE).unlink(missing_ok=True)
    description = {"bounds": bounds, "weighted": weighted, "n_edges": n_edges, "notes": all_notes}
    _write(folder / GRAPH, {"wanted": identity, **description})
    return replace(graph, n_edges=n_edges), nodes, tuple(all_notes)


def _names(client: Client, edges: EdgeFile, parts: list[Any]) -> Any:
    """The names of all nodes and the number of comments; None if names are not integers.

    The arrays of parts are united four at a time, by tasks.
    """
    names = client.map(partial(partitions.names_in_part, edges), parts, pure=False)
    while len(names) > 1:
        fours = [names[i : i + 4] for i in range(0, len(names), 4)]
        names = [client.submit(partitions.union, four, pure=False) for four in fours]
    return partitions.union(_gather(client, names))


def _iterate(
    client: Client,
    graph: Partitioning,
    surfer: RandomSurfer,
    stop: StoppingRule,
    checkpoint_every: int,
    callback: Callback,
) -> IterationResult:
    """Iterate from the last checkpoint of an earlier call with the same surfer, or from the start.

    Parameters
    ----------
    client : distributed.Client
    graph : Partitioning
    surfer, stop : RandomSurfer, StoppingRule
    checkpoint_every : int
        Iterations between checkpoints.
    callback : function
        Called after each checkpoint with the number and the change of each iteration since the
        last.
    """
    arrays = [surfer.jump] if surfer.initial is None else [surfer.jump, surfer.initial]
    digests = [hashlib.sha256(np.ascontiguousarray(array).data).hexdigest() for array in arrays]
    description = [surfer.n_nodes, surfer.alpha, surfer.dangling, *digests]
    path = Path(graph.folder) / STATE
    state: dict[str, Any] | None = _read(path)
    if state is None or state["surfer"] != description:
        state = {"surfer": description, "iteration": 0, "changes": [], "seconds": []}
        partitions.write_start(graph, surfer, surfer.start())
        _write(path, state)
    changes, seconds = state["changes"], state["seconds"]
    numbers, max_iterations = range(graph.n_partitions), stop.most(surfer.alpha)
    while not stop.reached(changes) and len(changes) < max_iterations:
        iteration, began = len(changes), time.perf_counter()
        next_stop = replace(stop, iterations=min(checkpoint_every, max_iterations - iteration))
        new_changes = _iterations(client, graph, surfer, iteration, next_stop, save=True)
        seconds_each = (time.perf_counter() - began) / len(new_changes)
        changes += new_changes
        seconds += [seconds_each] * len(new_changes)
        _write(path, {**state, "iteration": len(changes)})
        for number, change in enumerate(new_changes, iteration + 1):
            callback(number, change)
        # Only now, as a restart needs the old checkpoint until STATE names the new one.
        for p in numbers:
            graph.checkpoint(p, iteration).unlink(missing_ok=True)
    ranks: Array = np.concatenate([read_array(graph.checkpoint(p, len(changes))) for p in numbers])
    converged, rounding = stop.reached(changes), graph.rounding_error(stop.precision(surfer.alpha))
    return IterationResult(ranks, changes, converged, rounding, seconds, nbytes=graph.nbytes())


def _iterations(
    client: Client,
    graph: Partitioning,
    surfer: RandomSurfer,
    iteration: int,
    stop: StoppingRule,
    *,
    save: bool,
) -> tuple[float, ...]:
    """Iterate from a checkpoint; yield the change of each iteration.

    Parameters
    ----------
    client : distributed.Client
    graph : Partitioning
    surfer : RandomSurfer
    iteration : int
        The checkpoint's iteration.
    stop : StoppingRule
        When to stop, at the latest after its ``iterations``.
    save : bool
        Whether to save the final ranks as a checkpoint.
    """
    submit, dtype = partial(client.submit, pure=False), stop.precision(surfer.alpha)
    surfer = replace(surfer, initial=None)
    if surfer.personalisation is not None:  # workers read its vectors from the folder
        surfer = replace(surfer, personalisation=np.empty((0, surfer.n_vectors)))

    def exchanged(previous: Future | None, states: list[Future]) -> Future:
        parts = [submit(partitions.shared, state) for state in states]
        return submit(partitions.exchange, previous, stop.tol, parts)

    def iterate() -> tuple[float, ...]:
        numbers = range(graph.n_partitions)
        states = [submit(partitions.begin_partition, graph, p, iteration, dtype) for p in numbers]
        exchange = exchanged(None, states)
        for _ in range(stop.most(surfer.alpha)):
            states = [
                submit(partitions.advance, graph, surfer, p, state, exchange)
                for p, state in enumerate(states)
            ]
            exchange = exchanged(exchange, states)
        changes = submit(attrgetter("changes"), exchange)
        saved = [
            submit(partitions.save_state, graph, p, iteration, state, exchange)
            for p, state in enumerate(states if save else ())
        ]
        return tuple(_gather(client, [changes, *saved])[0])

    return _with_retries(client, iterate)


def _with_retries(client: Client, step: Callable[[], Value]) -> Value:
    """The result of a step, which is begun anew if workers died too often under one of its tasks.

    Raises
    ------
    RunStopped
        That happened ``MOST_FAILURES`` times, or the cluster is lost.
    """
    address = client.scheduler.address
    for _ in range(MOST_FAILURES):
        try:
            return step()
        except LOST as error:
            stop_if_lost(client, address)
            last = str(error)
    raise RunStopped(
        f"workers died {MOST_FAILURES} times in one step ({last}); give each more memory, or take "
        f"more of them"
    )


def _gather(client: Client, futures: list[Future]) -> list[Any]:
    """The results of all futures; waits as long as there is a worker, or one is still to come.

    Raises
    ------
    RunStopped
        No worker is left, and none is on its way.
    """
    while True:
        try:
            with client.as_current():
                wait(futures, timeout=SECONDS_FOR_A_WORKER)
            return list(client.gather(futures))
        except TimeoutError:
            try:
                client.wait_for_workers(1, timeout=1)
            except TimeoutError:
                forecast = forecast_workers(client)
                if not forecast.coming:  # jobs in a batch queue are waited for, however long
                    reason = forecast.reason or "no worker is left"
                    raise RunStopped(f"{reason}; ranks so far are kept") from None


def iterations_kept(folder: Path) -> int:
    """The iterations of an earlier call, by its last checkpoint in a folder; 0 if there is none."""
    state = _read(folder / STATE)
    return 0 if state is None else int(state["iteration"])


def _read(path: Path) -> Any:
    """The content of a JSON file; None if there is no such file."""
    return json.loads(path.read_text()) if path.is_file() else None


def _write(path: Path, record: Any) -> None:
    with replacing(path) as unfinished:
        unfinished.write_text(json.dumps(record))
