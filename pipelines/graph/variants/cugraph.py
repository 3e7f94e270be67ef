"""cuGraph's own PageRank, through pylibcugraph.

One call does all iterations, so there is one time, and of the changes only that the last lies
below ``tol``. It spreads what dangling nodes hold as ``jump`` says, and knows no other rule.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.data.placement import to_device, to_host
from pipelines.errors import InputError, opt
from pipelines.graph.graph import Graph
from pipelines.graph.iteration import Iterated, Problem, Told, rounding

to_gpu = partial(to_device, device="gpu")


def run(name: str, problem: Problem, told: Told) -> Iterated:
    """PageRank by cuGraph; see ``pipelines.graph.variants.run``."""
    import pylibcugraph

    graph, walk, start, stop = problem.graph, problem.walk, problem.start, problem.stop
    fits = "uniform" if walk.personal is None else "personalised"
    if walk.dangling not in (fits, "personalised"):
        raise InputError(
            f"{opt('dangling')} must be {fits} for variant cugraph, got {walk.dangling!r}"
        )
    began = time.perf_counter()
    handle = pylibcugraph.ResourceHandle()
    nodes = to_gpu(np.arange(graph.n_nodes, dtype=np.int32))
    held = _make(pylibcugraph, handle, graph, nodes)
    preparing = time.perf_counter() - began
    tol = stop.tol or 1e-300
    most = stop.most(walk.alpha)
    columns: list[NDArray[np.float64]] = []
    converged, seconds = True, 0.0
    for vector in range(walk.n_vectors):
        began = time.perf_counter()
        common: dict[str, Any] = {
            "precomputed_vertex_out_weight_vertices": None,
            "precomputed_vertex_out_weight_sums": None,
            "initial_guess_vertices": nodes,
            "initial_guess_values": to_gpu(start[:, vector].copy()),
            "alpha": walk.alpha,
            "epsilon": tol,
            "max_iterations": most,
            "do_expensive_check": False,
            "fail_on_nonconvergence": False,
        }
        if walk.personal is None:
            answer = pylibcugraph.pagerank(handle, held, **common)
        else:
            answer = pylibcugraph.personalized_pagerank(
                handle,
                held,
                personalization_vertices=nodes,
                personalization_values=to_gpu(walk.personal[:, vector].copy()),
                **common,
            )
        found, values, done = answer
        ranks = np.empty(graph.n_nodes)
        ranks[to_host(found)] = to_host(values)
        columns.append(ranks)
        converged &= bool(done)
        seconds += time.perf_counter() - began
    told(most, tol)
    return Iterated(
        np.stack(columns, axis=1),
        [tol if converged else float("nan")],
        converged and stop.tol is not None,
        rounding(graph.rows),
        [seconds],
        preparing,
        graph.rows.nbytes,
    )


def _make(pylibcugraph: Any, handle: Any, graph: Graph, nodes: Any) -> Any:
    rows = graph.rows
    target = np.repeat(np.arange(graph.n_nodes, dtype=np.int32), np.diff(rows.first))
    weight = np.ones(rows.n_edges) if rows.weight is None else rows.weight
    return pylibcugraph.SGGraph(
        handle,
        pylibcugraph.GraphProperties(is_symmetric=False, is_multigraph=True),
        to_gpu(rows.source),
        to_gpu(target),
        weight_array=to_gpu(weight),
        store_transposed=True,
        renumber=True,
        do_expensive_check=False,
        vertices_array=nodes,
    )
