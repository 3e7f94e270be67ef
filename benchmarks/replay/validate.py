"""Predicted against measured: ``python -m benchmarks.replay.validate``.

Units that sleep as long as real ones took, scaled, are run by the program itself on 1, 2, 3 and 4
local workers, and replayed beside it. What a unit costs besides its sleep is told from other units,
of one length. Sleeping units take no core: more workers than cores can be held against the replay.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, exit_status
from benchmarks.keep import RESULTS, keep, markdown_table
from benchmarks.replay.__main__ import COMMANDS
from benchmarks.replay.measured import Drawn, Measured
from pipelines.run.options import OneLineParser
from pipelines.run.pace import queue_of
from pipelines.run.schedule import Lives, makespan

COMMAND = "benchmarks.replay.validate"


@dataclass(frozen=True)
class Sleeper:
    """A unit that takes a time and no core."""

    name: str
    cost: float
    seconds: float
    needs: tuple[str, ...] = ()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--workers", 4, "1 to so many")
    add_count(parser, "--seconds", 40, "of sleep in each run, of all units together")
    parser.add_argument("--results", default=RESULTS, metavar="DIR", help=f"default: {RESULTS}")
    return parser


def _run(options: argparse.Namespace) -> None:
    record = measure(options.workers, options.seconds)
    text = page(record)
    print(f"{text}\nkept in {keep(Path(options.results), 'replay-validated', record, text)}")


def sleepers(drawn: Drawn, seconds: float) -> list[Sleeper]:
    """Units of a draw, their times scaled so that all together take so long."""
    scaled = drawn.seconds * (seconds / drawn.seconds.sum())
    return [
        Sleeper(f"unit-{i}", cost, one, tuple(f"unit-{k}" for k in drawn.needs.get(i, ())))
        for i, (cost, one) in enumerate(zip(drawn.costs.tolist(), scaled.tolist(), strict=True))
    ]


def sleep(shared: None, unit: Sleeper, needed: object = None) -> None:
    """The work."""
    time.sleep(unit.seconds)


def measure(most: int, seconds: float) -> dict[str, Any]:
    """Seconds from the first unit's start to the last one's end, as measured and as replayed."""
    from benchmarks.machine import describe_machine
    from cluster_setup import open_cluster
    from pipelines.run.environment import commit, versions

    lines = []
    for n_workers in range(1, most + 1):
        with open_cluster("local", n_workers) as client:
            besides = _besides(client, n_workers)
            for command in COMMANDS:
                measured = Measured.load(command)
                drawn = measured.draw(measured.n_units, np.random.default_rng(n_workers))
                units = sleepers(drawn, seconds)
                took = np.array([unit.seconds + besides for unit in units])
                lines.append(
                    {
                        "command": command,
                        "n_workers": n_workers,
                        "n_units": len(units),
                        "besides_seconds": besides,
                        "predicted": makespan(queue_of(units, took), Lives.equal(n_workers)),
                        "measured": _span(client, units),
                    }
                )
                print(lines[-1], flush=True)
    return {
        "benchmark": "replay_validated",
        "date": date.today().isoformat(),
        "lines": lines,
        "machine": describe_machine(),
        "versions": versions(),
        "commit": commit(),
    }


def _besides(client: Any, n_workers: int) -> float:
    """What a worker takes for a unit besides its sleep, on units of another length."""
    count, nap = 30 * n_workers, 0.1
    units = [Sleeper(f"nap-{i}", 1.0, nap) for i in range(count)]
    _span(client, units[: 2 * n_workers])  # connections are made, functions travel
    return max(0.0, _span(client, units) * n_workers / count - nap)


def _span(client: Any, units: list[Sleeper]) -> float:
    from pipelines.run.tasks import OnCluster

    outcomes = list(OnCluster(client).outcomes(sleep, None, units))
    begun = min(one.started for one in outcomes)
    return max(one.started + one.seconds for one in outcomes) - begun


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    table = markdown_table(
        ["units of", "workers", "units", "besides, ms a unit", "predicted", "measured", "error"],
        [
            [
                one["command"], str(one["n_workers"]), str(one["n_units"]),
                f"{1000 * one['besides_seconds']:.1f}", f"{one['predicted']:.2f} s",
                f"{one['measured']:.2f} s", f"{one['predicted'] / one['measured'] - 1:+.1%}",
            ]
            for one in record["lines"]
        ],
    )  # fmt: skip
    return (
        f"# Replay against the clock, {record['date']}\n\nUnits that sleep as long as measured "
        f"ones took, scaled; run by the program on local workers.\n\n{table}\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
