"""How many tasks a scheduler serves: ``python -m benchmarks.dask_limits``.

Tasks that do nothing, by the program's own path, beside as many by Dask's ``client.map``, on the
same workers in turn, over TLS as all clusters have it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

if TYPE_CHECKING:
    from distributed import Client

COMMAND = "benchmarks.dask_limits"
WARM_UP = 100  # tasks: connections are made, functions travel


@dataclass(frozen=True)
class Nothing:
    """A task that is done as soon as it begins."""

    number: int
    cost: float

    @property
    def name(self) -> str:
        return f"nothing-{self.number}"


def number_of(shared: None, task: Nothing) -> int:
    """The work of the program's tasks."""
    return task.number


def same(number: int) -> int:
    """The work of the peer's tasks."""
    return number


def ours(client: Client, n: int) -> int:
    """The program's way, each task with a priority of its own; how many came back."""
    from pipelines.run.runners import OnCluster

    tasks = [Nothing(number, 1.0 + number) for number in range(n)]
    outcomes = OnCluster(client).outcomes(number_of, None, tasks)
    return sum(outcome.result is not None for outcome in outcomes)


def client_map(client: Client, n: int) -> int:
    """As Dask's documentation has it; how many came back."""
    return len(client.gather(client.map(same, range(n), pure=False)))


WAYS: dict[str, Callable[[Client, int], int]] = {"ours": ours, "client.map": client_map}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--tasks", 100_000, "of ours")
    add_count(parser, "--mapped", 10_000, "of client.map, which keeps its rate")
    add_count(parser, "--workers", 2)
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    from benchmarks.machine import in_words
    from cluster_setup import open_cluster

    lines = []
    with open_cluster("local", options.workers, dashboard="off") as client:
        client.wait_for_workers(options.workers)
        for name, n in (("ours", options.tasks), ("client.map", options.mapped)):
            WAYS[name](client, WARM_UP)
            began = time.perf_counter()
            if WAYS[name](client, n) != n:
                raise RuntimeError(f"{name} lost tasks")
            seconds = time.perf_counter() - began
            lines.append({"way": name, "n_tasks": n, "seconds": seconds, "rate": n / seconds})
            print(lines[-1], flush=True)
    record = stamped("dask_limits", n_workers=options.workers, lines=lines)
    table = markdown_table(
        ["way", "tasks", "seconds", "tasks a second"],
        [
            [line["way"], f"{line['n_tasks']:,}", f"{line['seconds']:.1f}", f"{line['rate']:,.0f}"]
            for line in lines
        ],
    )
    text = (
        f"# What a scheduler serves, {record['date']}\n\nTasks that do nothing on "
        f"{options.workers} local workers over TLS.\n\n{table}\n\n{in_words(record['machine'])}. "
        f"Repeat it: `python -m {COMMAND}`.\n"
    )
    print(f"\n{text}\nkept in {keep(Path(options.results), 'dask-limits', record, text)}")


if __name__ == "__main__":
    sys.exit(main())
