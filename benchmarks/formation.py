"""Time and efficiency against workers, by formation: ``python -m benchmarks.formation``.

A formation of 2x3 is two nodes of three workers each. Each is opened behind a real Slurm on this
machine, whose nodes share its cores, and 1xN also as N local workers. Units take as long as those
of real runs of ``svm_grid`` and ``nn_bagging`` took, scaled, and take it asleep: like a unit on a
GPU they need no core of the host, and more workers than cores can be measured. What is measured is
drawn solid, what is replayed dashed; the study's own formations are the default.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import places
from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.replay.__main__ import COMMANDS
from benchmarks.replay.measured import Drawn, Measured
from benchmarks.replay.work import besides, span, units_of
from pipelines.run.options import OneLineParser
from pipelines.run.pace import queue_of
from pipelines.run.schedule import Lives, makespan
from tests.slurm_on_one_machine.configuration import CORES_PER_NODE, NODES

COMMAND = "benchmarks.formation"
FIGURE = Path("docs/images/formation.png")
STUDY = ("1x1", "1x2", "1x3", "3x1", "2x3", "3x3", "4x3")
REPLAYED = (1, 2, 3, 4, 6, 8, 9, 12, 16, 24, 32)


@dataclass(frozen=True)
class Formation:
    """So many nodes of so many workers each."""

    nodes: int
    a_node: int

    @classmethod
    def parse(cls, text: str) -> Formation:
        """From words like ``2x3``."""
        found = re.fullmatch(r"(\d+)x(\d+)", text)
        numbers = [int(one) for one in found.groups()] if found else [0, 0]
        most = (len(NODES), CORES_PER_NODE)
        if not all(1 <= one <= limit for one, limit in zip(numbers, most, strict=True)):
            raise argparse.ArgumentTypeError(
                f"must be nodes x workers of each, 1x1 to {most[0]}x{most[1]}, got {text!r}"
            )
        return cls(*numbers)

    @property
    def n_workers(self) -> int:
        return self.nodes * self.a_node

    def __str__(self) -> str:
        return f"{self.nodes}x{self.a_node}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument(
        "--formation", type=Formation.parse, action="append", metavar="NxM",
        help=f"nodes x workers of each; may be given again (default: {' '.join(STUDY)})",
    )  # fmt: skip
    add_count(parser, "--seconds", 60, "that all units of a run take together")
    both = (places.LOCAL, places.SLURM)
    parser.add_argument("--only", choices=both, help="this machine's workers, or Slurm's, alone")
    add_results(parser)
    parser.add_argument("--figure", default=str(FIGURE), metavar="FILE", help=f"default: {FIGURE}")
    return parser


def _run(options: argparse.Namespace) -> None:
    from benchmarks.formations import draw

    wanted = (options.only,) if options.only else (places.LOCAL, places.SLURM)
    left_out = {place: why for place in wanted if (why := places.missing(place))}
    formations = options.formation or [Formation.parse(text) for text in STUDY]
    lines = []
    for place in wanted:
        if place not in left_out:
            for line in _measured(place, formations, options.seconds):
                print(line, flush=True)
                lines.append(line)
    record = stamped(
        "formation",
        seconds=options.seconds,
        lines=lines,
        replayed=replayed(options.seconds, lines),
        left_out=left_out,
    )
    draw(record, Path(options.figure))
    text = page(record)
    path = keep(Path(options.results), "formation", record, text)
    print(f"\n{text}\nkept in {path}, drawn in {options.figure}")


def _draw(command: str) -> Drawn:
    measured = Measured.load(command)
    return measured.draw(measured.n_units, np.random.default_rng(0))


def _measured(
    place: str, formations: Sequence[Formation], seconds: float
) -> Iterator[dict[str, Any]]:
    """A line for each formation and command that this place can open."""
    here = [one for one in formations if place == places.SLURM or one.nodes == 1]
    with places.everywhere([place]) as profiles:
        for formation in here:
            profile = places.formed(profiles[place], formation.nodes, formation.a_node)
            with places.workers(place, formation.n_workers, profile) as client:
                nodes = places.nodes_of(client)
                beside = besides(client, formation.n_workers)
                for command in COMMANDS:
                    units = units_of(_draw(command), seconds)
                    took = span(client, units)
                    yield {
                        "place": place,
                        "formation": str(formation),
                        "n_workers": formation.n_workers,
                        "n_nodes_seen": len(nodes),
                        "command": command,
                        "n_units": len(units),
                        "besides_seconds": beside,
                        "seconds": took,
                        "efficiency": seconds / (formation.n_workers * took),
                    }


def replayed(seconds: float, lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same units on other numbers of workers, with what a unit cost besides in the median."""
    beside = float(np.median([line["besides_seconds"] for line in lines])) if lines else 0.0
    found = []
    for command in COMMANDS:
        units = units_of(_draw(command), seconds)
        took = np.array([unit.seconds + beside for unit in units])
        for n_workers in REPLAYED:
            end = makespan(queue_of(units, took), Lives.equal(n_workers))
            found.append(
                {"command": command, "n_workers": n_workers, "seconds": end,
                 "efficiency": seconds / (n_workers * end)}
            )  # fmt: skip
    return found


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    parts = [
        f"# Formations, {record['date']}\n\nUnits of real runs, {record['seconds']} seconds of "
        "sleep together; seconds from the first one's start to the last one's end, and the share "
        "of the workers' time in which they are at work."
    ]
    by_replay = {(one["command"], one["n_workers"]): one for one in record["replayed"]}
    for command in COMMANDS:
        rows = [
            [
                one["formation"], str(one["n_workers"]), one["place"], f"{one['seconds']:.2f}",
                f"{one['efficiency']:.1%}", _replay_of(by_replay.get((command, one["n_workers"]))),
            ]
            for one in record["lines"]
            if one["command"] == command
        ]  # fmt: skip
        header = ["formation", "workers", "where", "seconds", "efficiency", "replayed, seconds"]
        parts.append(f"## {command}\n\n{markdown_table(header, rows)}")
    parts += [f"Not run on {place}: {why}." for place, why in record["left_out"].items()]
    parts.append(f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n")
    return "\n\n".join(parts)


def _replay_of(line: dict[str, Any] | None) -> str:
    return "–" if line is None else f"{line['seconds']:.2f}"


if __name__ == "__main__":
    sys.exit(main())
