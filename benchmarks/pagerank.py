"""PageRank against its peers on one random graph: ``python -m benchmarks.pagerank``.

Every line has the graph in its own form before the clock runs, the same damping, the same rule
for its end and as many threads as it can use, up to ``--threads``. The lines run in turn, in one
process: A B C, A B C, ...
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

COMMAND = "benchmarks.pagerank"
OURS = "pull"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--nodes", 1_000_000)
    add_count(parser, "--degree", 5, "edges that leave a node, on average")
    add_count(parser, "--threads", 2)
    add_count(parser, "--repeat", 5, "turns of a line")
    parser.add_argument("--tol", type=float, default=1e-6, metavar="NUMBER")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    record = measure(options)
    text = page(record)
    path = keep(Path(options.results), f"pagerank-rmat-{options.nodes}", record, text)
    print(f"\n{text}\nkept in {path}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of every line, how far its ranks are from the reference, and the floor."""
    import numpy as np

    from benchmarks.machine import installed
    from benchmarks.pagerank_peers import Ran, iteration_bytes, make_lines, read_bandwidth
    from benchmarks.timing import in_turn, ratios
    from pipelines.graph import compute_pagerank
    from pipelines.graph.graph import graph_of
    from pipelines.graph.random_graphs import RandomGraph
    from pipelines.run.environment import versions

    drawn = RandomGraph("rmat", options.nodes, options.degree, options.seed)
    # Not every peer takes an edge twice.
    graph = graph_of(drawn, repeated="once")
    reference = compute_pagerank(graph, tol=1e-10).values[:, 0]
    prepared_lines = make_lines(graph, options.tol, options.threads)
    for line in prepared_lines.lines.values():  # to compile, and to fill caches of their own
        line()
    timed = in_turn(prepared_lines.lines, options.repeat)
    bandwidth = read_bandwidth(options.threads)
    by_name = {timed_line.name: timed_line for timed_line in timed}
    ours: Ran = by_name[OURS].result
    assert ours.n_iterations is not None
    lines = [
        {
            "line": timed_line.name,
            "seconds": list(timed_line.seconds),
            "making_seconds": prepared_lines.making[timed_line.name],
            "n_iterations": timed_line.result.n_iterations,
            "error": float(np.abs(timed_line.result.ranks - reference).sum()),
            "times_ours": ratios(timed_line, by_name[OURS]),
        }
        for timed_line in timed
    ]
    return stamped(
        "pagerank",
        n_nodes=graph.n_nodes,
        n_edges=graph.n_edges,
        alpha=0.85,
        tol=options.tol,
        threads=options.threads,
        lines=lines,
        missing=prepared_lines.missing,
        iterating_seconds=ours.iterating,
        preparing_seconds=ours.preparing,
        giga_edges_a_second=graph.n_edges * ours.n_iterations / ours.iterating / 1e9,
        bandwidth_gb_a_second=bandwidth / 1e9,
        floor_ms=1000 * iteration_bytes(graph) / bandwidth,
        iteration_ms=1000 * ours.iterating / ours.n_iterations,
        versions=versions() | installed(("networkit", "igraph", "networkx")),
    )


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from statistics import median

    from benchmarks.machine import in_words

    table = markdown_table(
        [
            "line",
            "seconds",
            "fastest and slowest",
            "against pull",
            "iterations",
            "L1 distance to the reference",
            "its graph was made in",
        ],
        [
            [
                line["line"],
                f"{median(line['seconds']):.3f}",
                f"{min(line['seconds']):.3f} to {max(line['seconds']):.3f}",
                f"{line['times_ours'][0]:.2f} ×",
                str(line["n_iterations"] or "not said"),
                f"{line['error']:.1e}",
                f"{line['making_seconds']:.1f} s" if line["making_seconds"] else "the same arrays",
            ]
            for line in record["lines"]
        ],
    )
    missing = f" Not installed: {', '.join(record['missing'])}." if record["missing"] else ""
    return (
        f"# PageRank beside its peers, {record['date']}\n\n"
        f"R-MAT, {record['n_nodes']:,} nodes, {record['n_edges']:,} edges (none twice), alpha "
        f"{record['alpha']}, up to {record['threads']} threads, "
        f"{len(record['lines'][0]['seconds'])} turns.{missing}\n\n{table}\n\n"
        f"All end at an L1 change of {record['tol']:g}: pull and scipy by `tol`, NetworKit by "
        f"`norm = L1_NORM` and `tol`, networkx by tol / n (it multiplies by n); igraph's PRPACK "
        f"has no tolerance to set and goes on to its own 1e-10. The reference was iterated to 1e-10"
        f" in float64. `pull` is timed with its preparation ({record['preparing_seconds']:.3f} s), "
        f"which numbers the nodes anew.\n\n"
        f"`pull`, iterations alone: **{record['giga_edges_a_second']:.2f} G edges a second**, "
        f"{record['iteration_ms']:.2f} ms each. The floor, every byte of an iteration once at the "
        f"{record['bandwidth_gb_a_second']:.1f} GB a second that {record['threads']} threads read "
        f"in the same run: {record['floor_ms']:.2f} ms.\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
