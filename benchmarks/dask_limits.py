"""How many units a scheduler serves: ``python -m benchmarks.dask_limits``.

Units that do nothing, 100 to 100,000 of them, by the program's own path, beside the same number of
tasks by Dask's ``client.map`` alone; with TLS, as all clusters have it, and without. Each case is a
process of its own, so that its memory is known. Goals: 1,000 units a second, and 1.5 GB at 100,000.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, count, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.limits.case import WAYS
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.dask_limits"
UNITS = (100, 1_000, 10_000, 100_000)
GOAL_RATE, GOAL_BYTES = 1000, 1.5e9
MB = 1e6


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    said = " ".join(map(str, UNITS))
    parser.add_argument(
        "--units", type=count, nargs="+", default=UNITS, metavar="N", help=f"default: {said}"
    )
    add_count(parser, "--workers", 2)
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:

    lines = []
    for n_units in options.units:
        for tls in (True, False):
            for way in WAYS:
                lines.append(_in_a_process(way, n_units, options.workers, tls))
                print(" ".join(_cells(lines[-1])), flush=True)
    record = stamped("dask_limits", n_workers=options.workers, lines=lines)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'dask-limits', record, text)}")


def _in_a_process(way: str, n_units: int, n_workers: int, tls: bool) -> dict[str, Any]:
    words = [way, str(n_units), str(n_workers), "tls" if tls else "in the clear"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.limits", *words], capture_output=True, text=True
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise InputError(f"a case must end, {' '.join(words)} did not: {reason[0]}; try fewer")
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return line


HEADER = [
    "units", "connections", "way", "seconds", "units a second", "CPU s of the caller",
    "CPU s of its process", "peak memory", "grown by",
]  # fmt: skip


def _cells(line: dict[str, Any]) -> list[str]:
    grown = line["peak_bytes"] - line["bytes_before"]
    return [
        f"{line['n_units']:,}",
        "TLS" if line["tls"] else "in the clear",
        line["way"],
        f"{line['seconds']:.2f}",
        f"{line['n_units'] / line['seconds']:,.0f}",
        f"{line['caller_cpu_seconds']:.2f}",
        f"{line['cpu_seconds']:.2f}",
        f"{line['peak_bytes'] / MB:,.0f} MB",
        f"{grown / MB:,.0f} MB",
    ]


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    return (
        f"# What a scheduler serves, {record['date']}\n\nUnits that do nothing on "
        f"{record['n_workers']} local workers, each unit with a priority of its own and its result "
        "taken as it comes; `client.map` and `client.gather` of as many functions that do nothing "
        "beside them. Scheduler and client are one process, as in every cluster that the program "
        "opens: the memory is that of both.\n\n"
        f"{markdown_table(HEADER, [_cells(line) for line in record['lines']])}\n\n"
        f"{_verdict(record['lines'])}\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


def _verdict(lines: Sequence[dict[str, Any]]) -> str:
    """The goals, held against the most units of ours."""
    most = max(line["n_units"] for line in lines)
    said = []
    for line in lines:
        if line["way"] != "ours" or line["n_units"] != most:
            continue
        rate = line["n_units"] / line["seconds"]
        met = rate >= GOAL_RATE and line["peak_bytes"] <= GOAL_BYTES
        said.append(
            f"{'with' if line['tls'] else 'without'} TLS {rate:,.0f} a second and "
            f"{line['peak_bytes'] / 1e9:.2f} GB: {'met' if met else 'missed'}"
        )
    return (
        f"Goals at {most:,} units, {GOAL_RATE:,} a second and {GOAL_BYTES / 1e9:g} GB: "
        f"{'; '.join(said)}."
    )


if __name__ == "__main__":
    sys.exit(main())
