"""The study's dense case in every variant: ``python -m benchmarks.pagerank_study``.

A random graph of 10,000 nodes (Erdős and Rényi), 200 iterations whatever they change. What the
study found: to move the scaling out of the loop by a product with a diagonal matrix costs n³ to
save 200 times n². What it did not try: the same by multiplying columns, which costs n² once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.pagerank_study"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> None:
    record = measure(options.nodes, options.degree, options.iterations, options.device)
    text = page(record)
    path = keep(Path(options.results), f"pagerank-study-{options.device}", record, text)
    print(f"\n{text}\nkept in {path}")


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--nodes", 10_000)
    add_count(parser, "--degree", 50, "edges that leave a node, on average")
    add_count(parser, "--iterations", 200)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    add_results(parser)
    return parser


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


def measure(n_nodes: int, degree: float, n_iterations: int, device: str) -> dict[str, Any]:
    """Every variant that can run on the device, once to warm up on a small graph, then once."""
    import numpy as np

    from pipelines.graph.iteration import Problem, Stop
    from pipelines.graph.random_graphs import RandomGraph
    from pipelines.graph.ranks import graph_of
    from pipelines.graph.variants import VARIANTS, choose_variants, run
    from pipelines.graph.walk import Walk

    chosen, left_out = choose_variants("all", device, n_nodes, None)
    stop, lines = Stop(None, n_iterations), list[dict[str, Any]]()
    for nodes in (100, n_nodes):
        graph = graph_of(RandomGraph("erdos", nodes, min(degree, nodes / 2)))
        walk, first = Walk(nodes), None
        lines.clear()
        for name in chosen:
            done = run(VARIANTS[name], Problem(graph, walk, walk.start(), stop, device))
            first = done.ranks if first is None else first
            lines.append(
                {
                    "variant": name,
                    "preparing_seconds": done.preparing,
                    "iterating_seconds": sum(done.seconds),
                    "memory_bytes": done.nbytes,
                    "differs_from_first": float(np.abs(done.ranks - first).sum()),
                }
            )
            if nodes == n_nodes:
                print(f"{name}: {done.preparing:.2f} s, then {sum(done.seconds):.2f} s")
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
    said = []
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
        said.append(
            f"{library}, dense: scaling moved out by a matrix product takes "
            f"{together[1] / together[0]:.1f} times as long as scaling inside the loop; moved out "
            f"by a broadcast {together[2] / together[0]:.2f} times."
        )
    return " ".join(said)


if __name__ == "__main__":
    sys.exit(main())
