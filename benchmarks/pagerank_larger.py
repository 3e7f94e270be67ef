"""PageRank of a file larger than memory: ``python -m benchmarks.pagerank_larger``.

Writes an edge list (R-MAT by seed) some times as large as the memory that each worker may take,
and ranks its nodes on that many workers. Dask's nanny ends a worker that takes 95 % of its limit.
The ranks are held against those of one process that has the whole graph in memory.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.memory import peak_bytes
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.pagerank_larger"
MIB = 2**20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--memory", 768, "MiB that each worker may take")
    add_count(parser, "--times", 4, "size of the file, in that memory")
    add_count(parser, "--workers", 4)
    add_count(parser, "--nodes", 2_000_000)
    parser.add_argument("--folder", metavar="DIR", help="for the file; default: a temporary one")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        record = measure(options, Path(folder))
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'pagerank-larger', record, text)}")


def write_edges(path: Path, n_nodes: int, n_bytes: int) -> int:
    """Blocks of an R-MAT graph as text, until the file is that large; the number of edges."""
    import pyarrow as pa
    from pyarrow import csv

    from pipelines.graph.random_graphs import RandomGraph

    graph = RandomGraph("rmat", n_nodes, n_nodes // 2)  # more blocks than will be drawn
    names, n_edges, block = pa.schema([("source", pa.int32()), ("target", pa.int32())]), 0, 0
    with path.open("wb") as file, csv.CSVWriter(file, names) as writer:
        while file.tell() < n_bytes:
            edges = pa.table(list(graph.block(block)), schema=names)
            writer.write_table(edges)
            block, n_edges = block + 1, n_edges + len(edges)
    return n_edges


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Seconds, the most memory of each process, and how far the ranks are from one process's."""
    import dask
    import numpy as np
    from distributed import Client, LocalCluster

    from cluster_setup.settings import SETTINGS
    from pipelines.graph import pagerank
    from pipelines.graph.distributed import distributed_pagerank
    from pipelines.graph.files import open_edges

    path, limit = folder / "edges.csv", options.memory * MIB
    n_edges = write_edges(path, options.nodes, options.times * limit)
    print(f"{path.stat().st_size / MIB:,.0f} MiB, {n_edges:,} edges", flush=True)
    with (
        dask.config.set(SETTINGS),
        LocalCluster(
            n_workers=options.workers, threads_per_worker=1, memory_limit=limit,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        began = time.perf_counter()

        def show(iteration: int, change: float) -> None:
            spent = time.perf_counter() - began
            print(f"{spent:.0f} s, iteration {iteration}: change {change:.2g}", flush=True)

        pids = set(client.run(_pid).values())
        ours = distributed_pagerank(client, open_edges(path), folder / "work", callback=show)
        seconds = time.perf_counter() - began
        peaks = client.run(peak_bytes)
        survived = set(client.run(_pid).values()) == pids
    launcher = peak_bytes()
    whole = pagerank(path)
    assert (whole.nodes == ours.nodes).all()
    assert ours.n_edges == n_edges
    return stamped(
        "pagerank_larger",
        n_nodes=len(ours.nodes),
        n_edges=ours.n_edges,
        file_bytes=path.stat().st_size,
        limit_bytes=limit,
        n_iterations=len(ours.iterated.changes),
        seconds=seconds,
        iterating_seconds=sum(ours.iterated.seconds),
        worker_peak_bytes=sorted(peaks.values()),
        no_worker_was_ended=survived,
        launcher_peak_bytes=launcher,
        in_one_process_peak_bytes=peak_bytes(),
        differs_by=float(np.abs(ours.iterated.ranks - whole.values).sum()),
    )


def _pid() -> int:
    import os

    return os.getpid()


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    peaks = record["worker_peak_bytes"]
    table = markdown_table(
        ["", ""],
        [
            ["nodes, edges", f"{record['n_nodes']:,}, {record['n_edges']:,}"],
            ["file", f"{record['file_bytes'] / MIB:,.0f} MiB"],
            ["limit of a worker", f"{record['limit_bytes'] / MIB:,.0f} MiB"],
            ["most that a worker held", f"{peaks[-1] / MIB:,.0f} MiB, of {len(peaks)} workers"],
            ["workers ended for their memory", "none" if record["no_worker_was_ended"] else "some"],
            ["most that the launcher held", f"{record['launcher_peak_bytes'] / MIB:,.0f} MiB"],
            ["one process with all edges", f"{record['in_one_process_peak_bytes'] / MIB:,.0f} MiB"],
            ["seconds", f"{record['seconds']:.0f}"],
            [
                f"of them {record['n_iterations']} iterations",
                f"{record['iterating_seconds']:.0f}, "
                f"{record['iterating_seconds'] / record['n_iterations']:.2f} each",
            ],
            ["ranks differ by (L1)", f"{record['differs_by']:.1e}"],
        ],
    )
    return (
        f"# PageRank of a file larger than memory, {record['date']}\n\n{table}\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
