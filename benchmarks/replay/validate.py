"""Predicted against measured: ``python -m benchmarks.replay.validate``.

Units as long as real ones took, scaled, are run by the program itself on 1, 2, 3 and 4 workers of
this machine, and as jobs of a real Slurm on it, and replayed beside it. Some sleep: they take no
core, and hold the schedule and its handing-out against the replay. Some compute: they hold the
machine against it, whose cores the workers share. What a unit costs besides, and how fast a core is
alone and beside the others, is told from other units, of one length, on one worker and on as many
as there are cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import places
from benchmarks.command import add_count, exit_status
from benchmarks.keep import RESULTS, keep, markdown_table
from benchmarks.replay.__main__ import COMMANDS
from benchmarks.replay.measured import Measured
from benchmarks.replay.shared import makespan_on_cores, speeds
from benchmarks.replay.work import besides, span, turns_a_second, units_of
from pipelines.run.options import OneLineParser
from pipelines.run.pace import queue_of
from pipelines.run.schedule import Lives, makespan

COMMAND = "benchmarks.replay.validate"
GOAL = 0.05
KINDS = ("sleep", "compute")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--workers", 4, "1 to so many")
    add_count(parser, "--seconds", 40, "that all units of a run take together")
    both = (places.LOCAL, places.SLURM)
    parser.add_argument("--only", choices=both, help="this machine's workers, or Slurm's, alone")
    parser.add_argument("--results", default=RESULTS, metavar="DIR", help=f"default: {RESULTS}")
    return parser


def _run(options: argparse.Namespace) -> None:
    wanted = (options.only,) if options.only else (places.LOCAL, places.SLURM)
    left_out = {place: why for place in wanted if (why := places.missing(place))}
    here = [place for place in wanted if place not in left_out]
    record = measure(here, options.workers, options.seconds) | {"left_out": left_out}
    text = page(record)
    print(f"{text}\nkept in {keep(Path(options.results), 'replay-validated', record, text)}")


def measure(where: Sequence[str], most: int, seconds: float) -> dict[str, Any]:
    """Seconds from the first unit's start to the last one's end, as measured and as replayed."""
    from benchmarks.machine import describe_machine
    from pipelines.run.environment import commit, versions

    machine = describe_machine()
    n_cores = int(machine["cores"] or 1)
    lines: list[dict[str, Any]] = []
    with places.everywhere(where) as profiles:
        for place, profile in profiles.items():
            alone, when_full = _rates(place, profile, n_cores)
            for n_workers in range(1, most + 1):
                speed = speeds(n_workers, n_cores, when_full)
                for line in _runs(place, profile, n_workers, seconds, alone, speed):
                    print(line, flush=True)
                    lines.append(line)
    return {
        "benchmark": "replay_validated",
        "date": date.today().isoformat(),
        "lines": lines,
        "machine": machine,
        "versions": versions(),
        "commit": commit(),
    }


def _rates(place: str, profile: str | None, n_cores: int) -> tuple[float, float]:
    """Turns a second of a worker alone, and the share of that while all cores compute."""
    rates = []
    for n_workers in (1, n_cores):
        with places.workers(place, n_workers, profile) as client:
            rates.append(turns_a_second(client, n_workers))
    return rates[0], rates[1] / rates[0]


def _runs(
    place: str, profile: str | None, n_workers: int, seconds: float, alone: float, speed: Any
) -> Iterator[dict[str, Any]]:
    """A line for each command and kind of unit, on one cluster."""
    with places.workers(place, n_workers, profile) as client:
        beside = besides(client, n_workers)
        for command in COMMANDS:
            measured = Measured.load(command)
            for kind in KINDS:
                generator = np.random.default_rng(n_workers)
                drawn = measured.draw(measured.n_units, generator)
                units = units_of(drawn, seconds, alone if kind == "compute" else None)
                took = np.array([unit.seconds + unit.turns / alone + beside for unit in units])
                queue = queue_of(units, took)
                yield {
                    "place": place,
                    "kind": kind,
                    "command": command,
                    "n_workers": n_workers,
                    "n_units": len(units),
                    "besides_seconds": beside,
                    "speed": float(speed[-1]) if kind == "compute" else 1.0,
                    "predicted": makespan_on_cores(queue, speed)
                    if kind == "compute"
                    else makespan(queue, Lives.equal(n_workers)),
                    "measured": span(client, units),
                }


def error_of(line: dict[str, Any]) -> float:
    """By how much the replay is off, as a share of what was measured."""
    return float(line["predicted"] / line["measured"] - 1)


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    lines = record["lines"]
    table = markdown_table(
        ["workers", "of", "units of", "that", "units", "besides, ms a unit",
         "speed of each, all at work", "predicted", "measured", "error"],
        [
            [
                str(one["n_workers"]), one["place"], one["command"], one["kind"],
                str(one["n_units"]), f"{1000 * one['besides_seconds']:.1f}", f"{one['speed']:.2f}",
                f"{one['predicted']:.2f} s", f"{one['measured']:.2f} s", f"{error_of(one):+.1%}",
            ]
            for one in lines
        ],
    )  # fmt: skip
    within = sum(abs(error_of(one)) <= GOAL for one in lines)
    worst = max(abs(error_of(one)) for one in lines)
    left_out = "".join(f"Not run on {one}: {why}.\n\n" for one, why in record["left_out"].items())
    return (
        f"# Replay against the clock, {record['date']}\n\nUnits as long as measured ones took, "
        "scaled, run by the program itself. Those that sleep hold the schedule against the replay, "
        "those that compute the machine, whose cores the workers share.\n\n"
        f"{table}\n\n{within} of {len(lines)} runs are predicted within {GOAL:.0%}, the worst is "
        f"off by {worst:.1%}. No run was used for calibration.\n\n{left_out}"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
