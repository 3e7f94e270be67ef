"""Predicted against measured: ``python -m benchmarks.replay.validate``.

Units as long as real ones took, scaled, are run by the program itself on 1, 2, 3 and 4 workers of
this machine, and as jobs of a real Slurm on it, and replayed beside it. Some sleep: they take no
core, and hold the schedule and its handing-out against the replay. Some compute: they hold the
machine against it, whose cores the workers share. What a unit costs besides, and how fast a core is
just before a run and after, is told from other units on the same workers; how much slower it is
beside others on one and on as many as there are cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import places
from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.replay.__main__ import COMMANDS
from benchmarks.replay.measured import Measured
from benchmarks.replay.shared import makespan_on_cores, speeds
from benchmarks.replay.work import besides, span, turns_a_second, units_of
from pipelines.run.options import OneLineParser
from pipelines.run.pace import queue_of
from pipelines.run.schedule import Lives, makespan

COMMAND = "benchmarks.replay.validate"
GOAL = 0.05


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--workers", 4, "1 to so many")
    add_count(parser, "--seconds", 40, "that all units of a run take together")
    both = (places.LOCAL, places.SLURM)
    parser.add_argument("--only", choices=both, help="this machine's workers, or Slurm's, alone")
    add_results(parser)
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

    machine = describe_machine()
    n_cores = int(machine["cores"] or 1)
    lines: list[dict[str, Any]] = []
    with places.everywhere(where) as profiles:
        for place, profile in profiles.items():
            when_full = _when_full(place, profile, n_cores)
            for n_workers in range(1, most + 1):
                speed = speeds(n_workers, n_cores, when_full)
                for line in _runs(place, profile, n_workers, seconds, speed):
                    print(line, flush=True)
                    lines.append(line)
    return stamped("replay_validated", lines=lines)


def _when_full(place: str, profile: str | None, n_cores: int) -> float:
    """How fast a worker is while all cores compute, as a share of one alone."""
    rates = []
    for n_workers in (1, n_cores):
        with places.workers(place, n_workers, profile) as client:
            rates.append(turns_a_second(client, n_workers))
    return rates[1] / rates[0]


def _runs(
    place: str, profile: str | None, n_workers: int, seconds: float, speed: Any
) -> Iterator[dict[str, Any]]:
    """A line for each command and kind of unit, on one cluster."""
    with places.workers(place, n_workers, profile) as client:
        beside = besides(client, n_workers)
        for command in COMMANDS:
            measured = Measured.load(command)
            generator = np.random.default_rng(n_workers)
            drawn = measured.draw(measured.n_units, generator)
            line = {"place": place, "command": command, "n_workers": n_workers,
                    "n_units": len(drawn.seconds), "besides_seconds": beside}  # fmt: skip
            units = units_of(drawn, seconds)
            queue = queue_of(units, np.array([unit.seconds + beside for unit in units]))
            predicted = makespan(queue, Lives.equal(n_workers))
            yield line | {"kind": "sleep", "predicted": predicted, "measured": span(client, units)}
            # A core's speed drifts: it is told before a run and after, by half as many units.
            others = measured.draw(measured.n_units // 2, generator).seconds
            lengths = (others * seconds / drawn.seconds.sum()).tolist()
            before = turns_a_second(client, n_workers, lengths)
            units = units_of(drawn, seconds, before / float(speed[-1]))
            took = span(client, units)
            after = turns_a_second(client, n_workers, lengths)
            alone = (before + after) / 2 / float(speed[-1])
            queue = queue_of(units, np.array([unit.turns / alone + beside for unit in units]))
            predicted = makespan_on_cores(queue, speed)
            yield line | {
                "kind": "compute", "predicted": predicted, "measured": took,
                "speed": float(speed[-1]), "drift": after / before - 1,
            }  # fmt: skip


def error_of(line: dict[str, Any]) -> float:
    """By how much the replay is off, as a share of what was measured."""
    return float(line["predicted"] / line["measured"] - 1)


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    lines = record["lines"]
    table = markdown_table(
        ["workers", "of", "units of", "that", "units", "besides, ms a unit",
         "speed of each, all at work", "its drift", "predicted", "measured", "error"],
        [
            [
                str(one["n_workers"]), one["place"], one["command"], one["kind"],
                str(one["n_units"]), f"{1000 * one['besides_seconds']:.1f}",
                f"{one['speed']:.2f}" if "speed" in one else "–",
                f"{one['drift']:+.1%}" if "drift" in one else "–",
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
