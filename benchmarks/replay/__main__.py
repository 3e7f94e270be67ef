"""Schedules replayed to 10,000 workers: ``python -m benchmarks.replay``.

Task times are those of real runs (``--take RUN`` keeps another's), drawn anew for every replay and
for more tasks than were measured. Nothing is run but the rule by which tasks are handed out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table
from benchmarks.replay.bound import lower_bound
from benchmarks.replay.measured import Drawn, Measured, take
from benchmarks.replay.schedules import SCHEDULES, Place
from pipelines.run.options import OneLineParser
from pipelines.run.schedule import WorkerLifetimes

COMMAND = "benchmarks.replay"
COMMANDS = [one for one in ("svm_grid", "nn_bagging") if Measured.is_kept(one)]
STRONG = (1, 2, 3, 4, 6, 8, 9, 12, 16, 24, 32, 48, 64, 96, 120)
WEAK = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
FIGURE = Path("docs/images/replay.png")
SCENARIO_WORKERS = 32


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add = parser.add_argument
    add(
        "--take",
        nargs="+",
        metavar="RUN",
        help="keep the task times of this run's folder, the shortest where several ran the same, "
        "and replay nothing",
    )
    add_count(parser, "--draws", 100, "replays of each point")
    add_count(parser, "--tasks", 20, "tasks for each worker, where their number grows with it")
    add_count(parser, "--most", 10_000, "workers")
    add(
        "--per-task",
        type=float,
        default=0.001,
        metavar="SECONDS",
        help="of the scheduler for a task, one after the other (default: 0.001)",
    )
    add(
        "--mean",
        type=float,
        default=50.0,
        metavar="SECONDS",
        help="of a task, where the scheduler's time counts (default: 50, one gamma on one fold "
        "of MNIST's 60,000 rows on a core)",
    )
    add_results(parser)
    add("--figure", default=str(FIGURE), metavar="FILE", help=f"default: {FIGURE}")
    return parser


def _run(options: argparse.Namespace) -> None:
    if options.take:
        print(f"kept in {take([Path(run) for run in options.take])}")
        return
    from benchmarks.replay.figure import draw

    record = replay(options)
    draw(record, Path(options.figure))
    path = keep(Path(options.results), "replay", record, page(record))
    print(f"{page(record)}\nkept in {path}, drawn in {options.figure}")


def replay(options: argparse.Namespace) -> dict[str, Any]:
    """Every schedule on each number of workers, and on workers that are not alike."""
    lines: list[dict[str, Any]] = []
    for command in COMMANDS:
        measured = Measured.load(command)
        for n_workers in STRONG:
            if n_workers <= measured.n_tasks:
                lines += _point(measured, "measured", n_workers, measured.n_tasks, options)
    grid = Measured.load("svm_grid")
    for n_workers in [one for one in WEAK if one <= options.most]:
        lines += _point(grid, "grown", n_workers, options.tasks * n_workers, options)
        print(f"{n_workers:,} workers", flush=True)
    return {
        "benchmark": "replay",
        "date": date.today().isoformat(),
        "draws": options.draws,
        "tasks_per_worker": options.tasks,
        "per_task_seconds": options.per_task,
        "mean_seconds": options.mean,
        "measured_tasks": {one: Measured.load(one).n_tasks for one in COMMANDS},
        "lines": lines,
        "scenarios": scenarios(grid, options),
    }


def _point(
    measured: Measured, job: str, n_workers: int, n_tasks: int, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """A line for each schedule: its time over the bound, as median and as a band of 90 %."""
    lifetimes = WorkerLifetimes.equal(n_workers)
    over = _over(
        lambda generator: measured.draw(n_tasks, generator, options.mean),
        lambda generator: Place(lifetimes, options.per_task), options.draws,
    )  # fmt: skip
    return [
        {
            "command": measured.command, "job": job, "schedule": name, "n_workers": n_workers,
            "n_tasks": n_tasks, **_band(ratios),
        }
        for name, ratios in over.items()
    ]  # fmt: skip


def _over(draw_tasks: Any, draw_place: Any, draws: int) -> dict[str, list[float]]:
    """Times over the bound of each schedule, on the same draws."""
    over: dict[str, list[float]] = {name: [] for name in SCHEDULES}
    for number in range(draws):
        generator = np.random.default_rng(number)
        drawn: Drawn = draw_tasks(generator)
        place: Place = draw_place(generator)
        bound = lower_bound(drawn.seconds, place.lifetimes)
        for name, schedule in SCHEDULES.items():
            over[name].append(schedule(drawn, place, generator) / bound)
    return over


def _band(ratios: list[float]) -> dict[str, Any]:
    """Median and band; how many did not end counts apart, and makes the rest None."""
    whole = np.isfinite(ratios)
    low, median, high = np.quantile(ratios, [0.05, 0.5, 0.95], method="nearest")
    return {
        "median": _or_none(median), "low": _or_none(low), "high": _or_none(high),
        "ended": float(whole.mean()),
    }  # fmt: skip


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def scenarios(grid: Measured, options: argparse.Namespace) -> list[dict[str, Any]]:
    """32 workers that are alike, and some that are not, with the same number of tasks each.

    Everything is held against the bound of workers that are there from first to last.
    """
    n, n_tasks = SCENARIO_WORKERS, options.tasks * SCENARIO_WORKERS
    whole = options.tasks * options.mean  # seconds of a run in which nobody waits
    ones, never = np.ones(n), np.full(n, np.inf)

    def some(share: float, generator: np.random.Generator) -> Any:
        return generator.permutation(n) < round(share * n)

    kinds = {
        "all alike": lambda g: WorkerLifetimes.equal(n),
        "half the cards half as fast": lambda g: WorkerLifetimes(
            np.where(some(0.5, g), 0.5, 1.0), np.zeros(n), never
        ),
        "come over the first third": lambda g: WorkerLifetimes(
            ones, g.random(n) * whole / 3, never
        ),
        "a tenth die": lambda g: WorkerLifetimes(
            ones, np.zeros(n), np.where(some(0.1, g), g.random(n) * whole, np.inf)
        ),
        "a walltime of 0.9 of that, 5 % until the next": lambda g: WorkerLifetimes(
            ones, np.zeros(n), np.full(n, 0.9 * whole), whole / 20
        ),
    }
    lines = []
    for kind, draw_lives in kinds.items():
        over = _over(
            lambda generator: grid.draw(n_tasks, generator, options.mean),
            lambda generator, lifetimes=draw_lives: Place(lifetimes(generator), options.per_task),
            options.draws,
        )
        for name, ratios in over.items():
            lines.append({"workers": kind, "schedule": name, **_band(ratios)})
    return lines


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    parts = [
        f"# Schedules replayed, {record['date']}\n\nTime over the bound that no schedule beats: "
        f"median of {record['draws']} draws, in brackets the band of 90 %. The scheduler takes "
        f"{1000 * record['per_task_seconds']:g} ms for a task, a task "
        f"{record['mean_seconds']:g} s in the mean."
    ]
    for command in COMMANDS:
        n_tasks = record["measured_tasks"][command]
        parts.append(f"{command}, the {n_tasks} tasks that were measured:")
        parts.append(_table(record, command, "measured", (4, 9, 12, 16, 32)))
    parts.append(
        f"svm_grid, {record['tasks_per_worker']} tasks for each worker, more than measured:"
    )
    parts.append(_table(record, "svm_grid", "grown", WEAK))
    kinds = list(dict.fromkeys(one["workers"] for one in record["scenarios"]))
    by = {(one["workers"], one["schedule"]): one for one in record["scenarios"]}
    parts.append(f"{SCENARIO_WORKERS} workers, {record['tasks_per_worker']} tasks for each:")
    parts.append(
        markdown_table(
            ["schedule", *kinds],
            [[name, *(_said(by[kind, name]) for kind in kinds)] for name in SCHEDULES],
        )
    )
    return "\n\n".join(parts) + f"\n\nRepeat it: `python -m {COMMAND}`.\n"


def _table(record: dict[str, Any], command: str, job: str, workers: Sequence[int]) -> str:
    by = {
        (one["schedule"], one["n_workers"]): one
        for one in record["lines"]
        if (one["command"], one["job"]) == (command, job)
    }
    shown = [one for one in workers if ("ours", one) in by]
    rows = [[name, *(_said(by[name, n]) for n in shown)] for name in SCHEDULES]
    return markdown_table(["schedule", *(f"{n:,} workers" for n in shown)], rows)


def _said(line: dict[str, Any]) -> str:
    if line["median"] is None:
        return f"ends in {line['ended']:.0%}"
    high = f"{line['high']:.2f}" if line["high"] is not None else "no end"
    return f"{line['median']:.3f} ({line['low']:.2f} to {high})"


if __name__ == "__main__":
    sys.exit(main())
