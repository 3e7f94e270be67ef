"""PageRank by cuGraph, on one GPU or several; no other file of this package uses RAPIDS.

cuGraph does all iterations in one call. So only the last change is known, as at most
``tol``. The rank of dangling nodes goes where the surfer jumps, as cuGraph has no other rule.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_setup.installation import install_line
from pipelines.data.placement import scatter
from pipelines.errors import InputError, opt
from pipelines.graph.graph import CompressedRows, Graph
from pipelines.graph.iteration import IterationResult, RandomSurfer, StoppingRule, rounding_error
from pipelines.graph.partitions import Partitioning

if TYPE_CHECKING:
    from distributed import Client

NEEDS = ("cugraph", "cudf")
NEEDS_ON_SEVERAL = (*NEEDS, "dask_cudf", "raft_dask")


def can_rank(dangling: str, personal: bool, needs: tuple[str, ...] = NEEDS) -> bool:
    """Whether cuGraph is installed, and has this rule for dangling nodes; see ``check``."""
    try:
        check(dangling, personal, needs)
    except InputError:
        return False
    return True


def check(dangling: str, personal: bool, needs: tuple[str, ...] = NEEDS) -> None:
    """Raise InputError if cuGraph cannot run here, or would compute something else.

    Parameters
    ----------
    dangling : {"uniform", "personalised", "none"}
        The rule for dangling nodes.
    personal : bool
        Whether there are personalisation vectors; without any, "uniform" and "personalised" are the
        same.
    needs : tuple of str
        Packages that must be installed.
    """
    for name in needs:
        if importlib.util.find_spec(name) is None:
            raise InputError(
                f"{opt('device')} must be cpu where cuGraph cannot run, got gpu: {name} is not "
                f"installed; run {install_line('gpu')}, or leave it out"
            )
    if dangling == "none" or (dangling == "uniform" and personal):
        raise InputError(
            f"{opt('dangling')} must be personalised for cuGraph, or uniform without personal "
            f"vectors, got {dangling}; take the CPU"
        )


def rank_graph(graph: Graph, surfer: RandomSurfer, stop: StoppingRule) -> IterationResult:
    """Rank the nodes of a graph in memory, on one GPU."""
    import cugraph

    began = time.perf_counter()
    rows = graph.rows
    edges = cugraph.MultiGraph(directed=True)
    edges.from_cudf_edgelist(_frame(rows, 0), **NAMES)
    setup_seconds = time.perf_counter() - began
    error = rounding_error(np.diff(rows.first))
    return _rank(cugraph.pagerank, edges, surfer, stop, error, setup_seconds, rows.nbytes)


def rank_partitions(
    client: Client, partitioning: Partitioning, surfer: RandomSurfer, stop: StoppingRule
) -> IterationResult:
    """Rank the nodes of a graph in partitions, on all GPUs of a cluster.

    cuGraph's code on the client's side makes frames on a GPU, so it runs as a task of a worker.

    Parameters
    ----------
    client : distributed.Client
        A client of workers with a GPU each.
    partitioning : Partitioning
        In a folder that all workers can reach.
    surfer, stop : RandomSurfer, StoppingRule
    """
    surfer_data = scatter(client, surfer)  # its vectors are as long as the graph has nodes
    result: IterationResult = client.submit(
        _rank_partitions, partitioning, surfer_data, stop, pure=False
    ).result()
    return result


def _rank_partitions(
    partitioning: Partitioning, surfer: RandomSurfer, stop: StoppingRule
) -> IterationResult:
    import cugraph
    import cugraph.dask as mg
    import dask_cudf
    from cugraph.dask.comms import comms
    from distributed import worker_client
    from raft_dask.common.comms import Comms

    began = time.perf_counter()
    with worker_client() as client, client.as_current():
        # By default NCCL's root is on the scheduler, which may be in a process without a GPU.
        raft_comms = Comms(comms_p2p=True, client=client, nccl_root_location="worker")
        raft_comms.init()
        comms.initialize(raft_comms)
        try:
            comms.subcomm_init(None, None, 1)
            numbers = range(partitioning.n_partitions)
            frames = client.map(partial(read_edges, partitioning), numbers, pure=False)
            edges = cugraph.MultiGraph(directed=True)
            edges.from_dask_cudf_edgelist(dask_cudf.from_delayed(frames), **NAMES)
            setup_seconds = time.perf_counter() - began
            error, nbytes = partitioning.rounding_error(), partitioning.nbytes()
            return _rank(mg.pagerank, edges, surfer, stop, error, setup_seconds, nbytes)
        finally:
            comms.destroy()


def read_edges(partitioning: Partitioning, p: int) -> Any:
    """The edges of partition p as a frame on this worker's GPU."""
    return _frame(partitioning.rows(p), partitioning.bounds[p])


# Keywords of cuGraph: the columns of a frame, and that the graph is stored transposed, as its
# PageRank needs it.
NAMES: dict[str, Any] = {
    "source": "source",
    "destination": "target",
    "edge_attr": "weight",
    "renumber": True,
    "store_transposed": True,
}


def _frame(rows: CompressedRows, first_node: int) -> Any:
    """Edges as a frame on this GPU.

    cuGraph knows only nodes that have edges. So a node that no edge points at gets an edge from
    itself, of weight 0.
    """
    import cudf

    n_in = np.diff(rows.first)
    nodes = np.arange(first_node, first_node + len(n_in), dtype=np.int32)
    weight, alone = np.ones(rows.n_edges) if rows.weight is None else rows.weight, nodes[n_in == 0]
    columns = {
        "source": np.concatenate([rows.source, alone]),
        "target": np.concatenate([np.repeat(nodes, n_in), alone]),
        "weight": np.concatenate([weight, np.zeros(len(alone))]),
    }
    return cudf.DataFrame(columns)


def _rank(
    rank: Callable[..., Any],
    edges: Any,
    surfer: RandomSurfer,
    stop: StoppingRule,
    error: float,
    setup_seconds: float,
    nbytes: int,
) -> IterationResult:
    """Compute the ranks of each vector in turn, by ``cugraph.pagerank`` or its Dask version.

    Parameters
    ----------
    rank : function
        ``cugraph.pagerank`` or ``cugraph.dask.pagerank``.
    edges : cugraph.Graph
    surfer, stop : RandomSurfer, StoppingRule
    error : float
        The rounding error of an iteration.
    setup_seconds, nbytes : float, int
        For the result: what it took to build the graph, and the bytes of its rows.
    """
    import cudf

    began = time.perf_counter()
    nodes = np.arange(surfer.n_nodes, dtype=np.int32)
    start = surfer.start()
    ranks, converged = np.zeros(start.shape), stop.tol is not None
    # cuGraph always has a tolerance; this one ends it only at a change of 0.
    limits = {"max_iter": stop.most(surfer.alpha), "tol": stop.tol or 1e-300}
    settings = {"alpha": surfer.alpha, **limits, "fail_on_nonconvergence": False}
    for vector in range(surfer.n_vectors):
        personalization = None
        if surfer.personalisation is not None:
            jump_nodes = np.flatnonzero(surfer.personalisation[:, vector]).astype(np.int32)
            values = surfer.personalisation[jump_nodes, vector]
            personalization = cudf.DataFrame({"vertex": jump_nodes, "values": values})
        begin = cudf.DataFrame({"vertex": nodes, "values": start[:, vector].copy()})
        answer, has_converged = rank(
            edges, personalization=personalization, nstart=begin, **settings
        )
        frame = (answer.compute() if hasattr(answer, "compute") else answer).to_pandas()
        ranks[frame["vertex"].to_numpy(), vector] = frame["pagerank"].to_numpy()
        converged &= bool(has_converged)
    change = stop.tol if converged and stop.tol is not None else float("nan")
    seconds = [time.perf_counter() - began]
    return IterationResult(ranks, [change], converged, error, seconds, setup_seconds, nbytes)
