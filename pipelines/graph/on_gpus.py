"""PageRank on several GPUs by ``cugraph.dask``: the one file that knows it and dask-cudf.

Edges have been dealt to partitions as for many workers without GPUs; each worker reads some of
them to its GPU. One call does all iterations, so of the changes only the last is known to lie
below ``tol``; dangling nodes are cuGraph's: their rank goes where the surfer jumps.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.errors import InputError, opt
from pipelines.graph import tasks
from pipelines.graph.iteration import Array, Iterated, Stop
from pipelines.graph.partition import Split
from pipelines.graph.variants import missing
from pipelines.graph.walk import Walk

if TYPE_CHECKING:
    from distributed import Client

NEEDS = ("cugraph", "dask_cudf", "cudf")


def lacks() -> str | None:
    """Why it cannot be run here, or None."""
    return missing(NEEDS)


def refuse(dangling: str, personal: bool) -> None:
    """Raise InputError where it cannot be run here, or would compute something else."""
    why = lacks()
    if why:
        raise InputError(
            f"{opt('variant')} must be pull where cugraph.dask cannot run, got cugraph: {why}; "
            f"leave it out"
        )
    if not spreads(dangling, personal):
        raise InputError(
            f"{opt('dangling')} must be personalised for variant cugraph, or uniform without "
            f"personal vectors, got {dangling}; leave {opt('variant')} out"
        )


def spreads(dangling: str, personal: bool) -> bool:
    """Whether a rule is cuGraph's own: what dangling nodes hold goes where the surfer jumps."""
    return dangling == "personalised" or (dangling == "uniform" and not personal)


def iterate(client: Client, split: Split, walk: Walk, start: Array, stop: Stop) -> Iterated:
    """Ranks of all nodes, by all GPUs of a cluster.

    Parameters
    ----------
    split : of edges that were dealt and compressed
    start : float64 of shape (n, k)
    """
    import cudf
    import cugraph
    import cugraph.dask as mg
    import dask_cudf
    from cugraph.dask.comms import comms

    began = time.perf_counter()
    nodes = np.arange(walk.n_nodes, dtype=np.int32)
    with client.as_current():
        comms.initialize(p2p=True)
        try:
            everyone = range(split.n_partitions)
            frames = client.map(read_edges, [split] * split.n_partitions, everyone, pure=False)
            graph = cugraph.MultiGraph(directed=True)
            graph.from_dask_cudf_edgelist(
                dask_cudf.from_delayed(frames), source="source", destination="target",
                edge_attr="weight", renumber=True, store_transposed=True,
            )  # fmt: skip
            preparing, began = time.perf_counter() - began, time.perf_counter()
            columns, converged = [], stop.tol is not None
            for vector in range(walk.n_vectors):
                personal = None
                if walk.personal is not None:
                    some = np.flatnonzero(walk.personal[:, vector]).astype(np.int32)
                    values = walk.personal[some, vector]
                    personal = cudf.DataFrame({"vertex": some, "values": values})
                begin = cudf.DataFrame({"vertex": nodes, "values": start[:, vector].copy()})
                answer, done = mg.pagerank(
                    graph, alpha=walk.alpha, personalization=personal, nstart=begin,
                    max_iter=stop.most(walk.alpha), tol=stop.tol or 1e-300,
                    fail_on_nonconvergence=False,
                )  # fmt: skip
                found = answer.compute().to_pandas()
                ranks = np.zeros(walk.n_nodes)
                ranks[found["vertex"].to_numpy()] = found["pagerank"].to_numpy()
                columns.append(ranks)
                converged &= bool(done)
        finally:
            comms.destroy()
    sizes = [tasks.size_on_disk(split, p) for p in range(split.n_partitions)]
    return Iterated(
        np.stack(columns, axis=1),
        [stop.tol if converged and stop.tol is not None else float("nan")],
        converged,
        max(size.rounding for size in sizes),
        [time.perf_counter() - began],
        preparing,
        sum(size.nbytes for size in sizes),
    )


def read_edges(split: Split, p: int) -> Any:
    """A partition's edges as a frame on this worker's GPU.

    A node without edges that point at it has one of no weight, to itself: cuGraph knows a node by
    its edges alone.
    """
    import cudf

    begin, end = split.bounds[p], split.bounds[p + 1]
    needs = [np.load(split.path(p, f"needs-{q:03d}")) for q in range(split.n_partitions)]
    others = [some + low for some, low in zip(needs, split.bounds, strict=False)]
    name = np.concatenate([np.arange(begin, end), *others]).astype(np.int32)
    first, source = np.load(split.path(p, "first")), np.load(split.path(p, "source"))
    target = np.repeat(name[: end - begin], np.diff(first))
    path = split.path(p, "weight")
    weight = np.load(path) if path.exists() else np.ones(len(source))
    alone = name[: end - begin][np.diff(first) == 0]
    return cudf.DataFrame(
        {
            "source": np.concatenate([name[source], alone]),
            "target": np.concatenate([target, alone]),
            "weight": np.concatenate([weight, np.zeros(len(alone))]),
        }
    )
