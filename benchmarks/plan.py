"""How many workers to ask for, told from a smaller run: ``python -m benchmarks.plan --run RUN``.

    python -m benchmarks.plan --run results/pilot --efficiency 0.9 -- --n-c 24 --n-gamma 24

What stands after ``--`` are the options in which the whole run differs from the smaller one;
without them it is that run itself. It runs nothing. The commands' own ``--dry-run --pilot RUN``
says the same, for an efficiency of 0.9.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, exit_status
from cluster_setup import resolve_kind
from pipelines.errors import InputError, opt
from pipelines.run import forecast
from pipelines.run.job import Job
from pipelines.run.options import OneLineParser, parse_options
from pipelines.run_folder.names import RECORD

COMMAND = "benchmarks.plan"
JOBS = {"svm_grid": "Search", "nn_bagging": "Bagging"}


def main(argv: Sequence[str] | None = None) -> int:
    """Say the plan; exit status 0, or 2 for bad input."""
    argv = list(sys.argv[1:] if argv is None else argv)
    cut = argv.index("--") if "--" in argv else len(argv)
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv[:cut]), argv[cut + 1 :]))


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=f"python -m {COMMAND}", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--run", required=True, metavar="RUN", help="folder of a run of svm_grid or nn_bagging")
    add(
        "--efficiency",
        type=_share,
        default=forecast.EFFICIENCY,
        metavar="SHARE",
        help=f"of their time that workers are to be at work (default: {forecast.EFFICIENCY})",
    )
    add_count(parser, "--workers", None, "not more than these")
    return parser


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, got {text}")
    return value


def _run(asked: argparse.Namespace, more: Sequence[str]) -> None:
    path = Path(asked.run)
    job = job_like(path, more)
    kind = resolve_kind(job.options.cluster, job.options.profile)
    for line in job.plan(job.load(kind)):
        print(line)
    pilot = forecast.PilotRun.read(path, job.command, "run")
    best = forecast.most_workers(
        pilot, partial(job.tasks_for, kind), asked.efficiency, asked.workers
    )
    for line in forecast.lines(best, asked.efficiency):
        print(line)


def job_like(path: Path, more: Sequence[str]) -> Job[Any]:
    """The job of a run's folder, with other options where they are given.

    Raises
    ------
    InputError
        It is not the folder of a run of ``JOBS``, or an option breaks its rule.
    """
    try:
        record = json.loads((path / RECORD).read_text())
        command, recorded = record["command"], record["options"]
    except (OSError, ValueError, KeyError):
        raise InputError(
            f"{opt('run')} must be the folder of a run that began, got {path}; name one that "
            f"holds {RECORD}"
        ) from None
    if command not in JOBS:
        raise InputError(
            f"{opt('run')} must be of {' or '.join(JOBS)}, got one of {command}; name another"
        )
    kind = getattr(import_module(f"pipelines.{command}"), JOBS[command])
    _, given = parse_options(kind.kind_of_options, command, "", list(more))
    known = {field.name for field in dataclasses.fields(kind.kind_of_options)}
    # Where the run was carried out, and what became of it, is not of the other one.
    own = {"results", "resume", "pilot", "dry_run", "quiet"}
    kept = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in recorded.items()
        if name in known - own
    }
    job: Job[Any] = kind(kind.kind_of_options(**(kept | given)), {})
    return job


if __name__ == "__main__":
    sys.exit(main())
