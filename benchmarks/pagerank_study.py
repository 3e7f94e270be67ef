"""The study's dense case in every variant: ``python -m benchmarks.pagerank_study``.

A random graph of 10,000 nodes (Erdős and Rényi), 200 iterations whatever they change. What the
study found: to move the scaling out of the loop by a product with a diagonal matrix costs n³ to
save 200 times n². What it did not try: the same by multiplying columns, which costs n² once.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.graph import cugraph
from pipelines.graph.graph import Graph, graph_of
from pipelines.graph.iteration import IterationResult, RandomSurfer, StoppingRule, rounding_error
from pipelines.graph.pull import reciprocal_of
from pipelines.graph.random_graphs import RandomGraph
from pipelines.graph.ranks import GraphProblem
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.pagerank_study"
Variant = Callable[[Graph, StoppingRule], IterationResult]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--nodes", 10_000)
    add_count(parser, "--degree", 50, "edges that leave a node, on average")
    add_count(parser, "--iterations", 200)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    add_results(parser)

    def run() -> None:
        options = parser.parse_args(argv)
        record = measure(options.nodes, options.degree, options.iterations, options.device)
        text = page(record)
        path = keep(Path(options.results), f"pagerank-study-{options.device}", record, text)
        print(f"\n{text}\nkept in {path}")

    return exit_status(COMMAND, run)


def time_on_gpu() -> None:
    """The study's case on a GPU, for ``make gpu-check``: what each variant took."""
    from benchmarks.gpu.figures import note

    record = measure(10_000, 50, 200, "gpu")
    for line in record["lines"]:
        note(
            f"{line['variant']}: {line['preparing_seconds']:.3f} s, then "
            f"{line['iterating_seconds']:.3f} s"
        )
    note(_lesson(record))


class ScipyArrays:
    """scipy.sparse on a CPU, and the same calls in cupy on a GPU."""

    def __init__(self, device: str) -> None:
        if device == "gpu":
            import cupy as xp
            from cupyx.scipy import sparse
        else:
            import numpy as xp
            from scipy import sparse
        self._sparse, self.array = sparse, xp.asarray

    def host(self, values: Any) -> Any:
        return values.get() if hasattr(values, "get") else values

    def csr(self, weight: Any, source: Any, first: Any) -> Any:
        n = len(first) - 1
        return self._sparse.csr_matrix((weight, source, first), shape=(n, n))

    def dense(self, matrix: Any) -> Any:
        return matrix.toarray()


class TorchArrays:
    """PyTorch on a CPU or a GPU."""

    def __init__(self, device: str) -> None:
        self._device = "cuda" if device == "gpu" else "cpu"

    def array(self, values: Any) -> Any:
        import torch

        return torch.as_tensor(values, device=self._device)

    def host(self, values: Any) -> Any:
        return values.cpu().numpy()

    def csr(self, weight: Any, source: Any, first: Any) -> Any:
        import torch

        n = len(first) - 1
        with warnings.catch_warnings():  # torch says that its sparse tensors are young
            warnings.filterwarnings("ignore", "Sparse (CSR tensor|invariant checks)", UserWarning)
            return torch.sparse_csr_tensor(first, source, weight, (n, n))

    def dense(self, matrix: Any) -> Any:
        return matrix.to_dense()


def rank_by_matrices(
    arrays: ScipyArrays | TorchArrays, layout: str, scaling: str, graph: Graph, stop: StoppingRule
) -> IterationResult:
    """PageRank by products of a matrix and a vector, in float64, from ranks that are all alike.

    Parameters
    ----------
    layout : "sparse" or "dense"
    scaling : where ranks are divided by the number of edges that leave their node: "inside" the
        loop; or before it, in the matrix, by a "product" with a diagonal matrix (n³ operations
        where it is dense) or a "broadcast" over its columns (n²)
    graph : unweighted
    """
    import numpy as np

    began = time.perf_counter()
    n, rows, alpha = graph.n_nodes, graph.rows, RandomSurfer(graph.n_nodes).alpha
    reciprocal = reciprocal_of(graph.out_weight)
    factors, dangling = arrays.array(reciprocal), arrays.array((reciprocal == 0).astype(float))
    weight = reciprocal[rows.source] if scaling == "broadcast" and layout == "sparse" else None
    matrix = arrays.csr(
        arrays.array(np.ones(rows.n_edges) if weight is None else weight),
        arrays.array(rows.source),
        arrays.array(rows.first.astype(np.int32)),
    )
    nbytes = 12 * rows.n_edges + 4 * n
    diagonal = None
    if scaling == "product":
        places = np.arange(n + 1, dtype=np.int32)
        diagonal = arrays.csr(factors, arrays.array(places[:-1]), arrays.array(places))
    if layout == "dense":
        matrix, nbytes = arrays.dense(matrix), 8 * n**2
        diagonal = None if diagonal is None else arrays.dense(diagonal)
        matrix = matrix * factors if scaling == "broadcast" else matrix
    matrix = matrix if diagonal is None else matrix @ diagonal
    ranks = arrays.array(np.full(n, 1 / n))
    setup_seconds = time.perf_counter() - began
    changes, seconds = list[float](), list[float]()
    while not stop.reached(changes) and len(changes) < stop.most(alpha):
        began, before = time.perf_counter(), ranks
        scaled = factors * ranks if scaling == "inside" else ranks
        ranks = alpha * (matrix @ scaled) + (1 - alpha + alpha * (dangling @ ranks)) / n
        changes.append(float(abs(ranks - before).sum()))
        seconds.append(time.perf_counter() - began)
    error = rounding_error(np.diff(rows.first))
    return IterationResult(
        arrays.host(ranks)[:, None],
        changes,
        stop.reached(changes),
        error,
        seconds,
        setup_seconds,
        nbytes,
    )


def variants(device: str) -> tuple[dict[str, Variant], dict[str, str]]:
    """Every way to rank that can run on a device, by name, and why others cannot."""
    matrices = "scipy" if device == "cpu" else "cupy"
    libraries: dict[str, type[ScipyArrays | TorchArrays]] = {
        matrices: ScipyArrays,
        "torch": TorchArrays,
    }
    able: dict[str, Variant] = {}
    missing: dict[str, str] = {}
    if device == "cpu" or cugraph.can_rank("uniform", personal=False):
        able["pull" if device == "cpu" else "cugraph"] = lambda graph, stop: GraphProblem(
            graph, RandomSurfer(graph.n_nodes), ["rank"], stop, device
        ).solve()
    else:
        missing["cugraph"] = "cugraph or cudf is not installed"
    for library, kind in libraries.items():
        if importlib.util.find_spec(library) is None:
            missing[library] = f"{library} is not installed"
            continue
        arrays = kind(device)
        for layout in ("sparse", "dense"):
            for scaling in ("inside", "product", "broadcast"):
                variant = partial(rank_by_matrices, arrays, layout, scaling)
                able[f"{library}-{layout}-{scaling}"] = variant
    return able, missing


def measure(n_nodes: int, degree: float, n_iterations: int, device: str) -> dict[str, Any]:
    """Every variant that can run on the device, once to warm up on a small graph, then once."""
    import numpy as np

    able, left_out = variants(device)
    stop, lines = StoppingRule(None, n_iterations), list[dict[str, Any]]()
    for nodes in (100, n_nodes):
        graph = graph_of(RandomGraph("erdos", nodes, min(degree, nodes / 2)))
        lines.clear()
        first = None
        for name, variant in able.items():
            done = variant(graph, stop)
            first = done.values if first is None else first
            lines.append(
                {
                    "variant": name,
                    "preparing_seconds": done.setup_seconds,
                    "iterating_seconds": sum(done.seconds),
                    "memory_bytes": done.nbytes,
                    "differs_from_first": float(np.abs(done.values - first).sum()),
                }
            )
            if nodes == n_nodes:
                print(f"{name}: {done.setup_seconds:.2f} s, then {sum(done.seconds):.2f} s")
    return stamped(
        "pagerank_study",
        n_nodes=n_nodes,
        n_edges=graph.n_edges,
        n_iterations=n_iterations,
        device=device,
        lines=lines,
        left_out=left_out,
    )


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    table = markdown_table(
        ["variant", "before the loop", "the loop", "together", "held", "differs by (L1)"],
        [
            [
                line["variant"],
                f"{line['preparing_seconds']:.3f} s",
                f"{line['iterating_seconds']:.3f} s",
                f"{line['preparing_seconds'] + line['iterating_seconds']:.3f} s",
                f"{line['memory_bytes'] / 2**20:.1f} MiB",
                f"{line['differs_from_first']:.0e}",
            ]
            for line in record["lines"]
        ],
    )
    left_out = "; ".join(f"{name}: {why}" for name, why in record["left_out"].items())
    return (
        f"# The study's PageRank in every variant, {record['date']}\n\n"
        f"Erdős–Rényi, {record['n_nodes']:,} nodes, {record['n_edges']:,} edges, "
        f"{record['n_iterations']} iterations, float64, on the {record['device']}.\n\n{table}\n\n"
        f"{_lesson(record)}\n\nLeft out: {left_out or 'none'}.\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


def _lesson(record: dict[str, Any]) -> str:
    """What the dense variants say of where to scale, in words with their numbers."""
    by_name = {line["variant"]: line for line in record["lines"]}
    sentences = []
    for library in ("scipy", "cupy", "torch"):
        inside, product, broadcast = (
            by_name.get(f"{library}-dense-{scaling}")
            for scaling in ("inside", "product", "broadcast")
        )
        if inside is None or product is None or broadcast is None:
            continue
        together = [
            line["preparing_seconds"] + line["iterating_seconds"]
            for line in (inside, product, broadcast)
        ]
        sentences.append(
            f"{library}, dense: scaling moved out by a matrix product takes "
            f"{together[1] / together[0]:.1f} times as long as scaling inside the loop; moved out "
            f"by a broadcast {together[2] / together[0]:.2f} times."
        )
    return " ".join(sentences)


if __name__ == "__main__":
    sys.exit(main())
