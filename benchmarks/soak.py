"""A run of thousands of units, watched for what grows: ``python -m benchmarks.soak``.

``pipelines.svm_grid`` itself, with its journal, on local workers, 2,000 units for each; from
outside, the memory and the open files of launcher (it holds the scheduler) and workers, and the
size of the journal, against the units that are done. What grows is told by a slope with its
interval, and is flat where the whole interval is below a limit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.soaked.trend import CONFIDENCE, trend
from benchmarks.soaked.watch import LAUNCHER, Watched, watch
from pipelines.errors import InputError, opt
from pipelines.run.options import OneLineParser
from pipelines.run_folder.names import JOURNAL

COMMAND = "benchmarks.soak"
FIGURE = Path("docs/images/soak.png")
LOOK_EVERY = 0.25  # seconds
# Bytes a unit that a process may grow by: ten thousand units are then 10 MB of a worker. The
# launcher keeps the rows of a unit, of which it makes the table at the end.
LIMITS = {LAUNCHER: 4096.0, "worker": 1024.0}
FILES = 1e-3  # open files a unit
SPREAD = 0.05  # of the bytes of a unit in the journal, from the first half to the second
FOLDS = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--units", 2000, "units for each worker")
    add_count(parser, "--workers", 2)
    add_count(parser, "--limit", 400, "rows of the digits")
    add_results(parser)
    parser.add_argument("--figure", default=str(FIGURE), metavar="FILE", help=f"default: {FIGURE}")
    return parser


def _run(options: argparse.Namespace) -> None:

    from benchmarks.soaked.figure import draw

    seen = soak(options.units * options.workers, options.workers, options.limit)
    record = stamped(
        "soak",
        units_a_worker=options.units,
        n_workers=options.workers,
        limit=options.limit,
        **judged(seen),
    )
    draw(seen, Path(options.figure))
    text = page(record)
    path = keep(Path(options.results), "soak", record, text)
    print(f"\n{text}\nkept in {path}, drawn in {options.figure}")


def soak(n_units: int, n_workers: int, n_rows: int) -> Watched:
    """Run a grid of so many gammas, each of which is a unit, and watch it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        command = [
            sys.executable, "-m", "pipelines.svm_grid", "--cluster", "local", "--workers",
            str(n_workers), "--device", "cpu", "--limit", str(n_rows), "--n-c", "2", "--n-gamma",
            str(n_units), "--folds", str(FOLDS), "--dashboard", "off", "--results", str(folder),
        ]  # fmt: skip
        with (Path(place) / "said").open("w+") as said:
            run = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
            try:
                seen = watch(run, folder / JOURNAL, LOOK_EVERY)
            finally:
                run.terminate()
                run.wait()
            said.seek(0)
            if run.returncode:
                last = said.read().strip().splitlines()[-1:] or [f"status {run.returncode}"]
                raise InputError(f"{opt('units')} must be a run that ends, it did not: {last[0]}")
    return seen


def judged(seen: Watched) -> dict[str, Any]:
    """The trend of each process's memory and files, and of the journal, and whether it is flat."""
    n_units = max(seen.units)
    at_work = [i for i, n in enumerate(seen.units) if 0 < n < n_units]
    units = [seen.units[i] for i in at_work]
    lines, brief = [], set[str]()
    for what, of, limits in (
        ("memory", seen.memory, LIMITS),
        ("open files", seen.files, dict.fromkeys(LIMITS, FILES)),
    ):
        for name in sorted(of):
            looks = [of[name][i] for i in at_work]
            if sum(one is not None for one in looks) < len(looks) / 2:
                brief.add(name)  # it ended, and another took its place
                continue
            found = trend(units, looks)
            limit = limits[LAUNCHER if name == LAUNCHER else "worker"]
            lines.append(
                {"what": what, "process": name, **asdict(found), "limit": limit,
                 "flat": found.is_flat(limit)}
            )  # fmt: skip
    half = min(range(len(seen.units)), key=lambda i: abs(seen.units[i] - n_units / 2))
    first = seen.journal_bytes[half] / seen.units[half]
    second = (seen.journal_bytes[-1] - seen.journal_bytes[half]) / (n_units - seen.units[half])
    return {
        "n_units": n_units,
        "seconds": seen.seconds[-1],
        "looks": len(at_work),
        "ended_early": sorted(brief),
        "lines": lines,
        "journal": {
            "first_half": first, "second_half": second,
            "flat": abs(second / first - 1) < SPREAD,
        },
    }  # fmt: skip


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    journal = record["journal"]
    return (
        f"# A long run, {record['date']}\n\n{record['n_units']:,} units of `svm_grid` on "
        f"{record['n_workers']} local workers ({record['limit']} rows of the digits, "
        f"{record['seconds']:.0f} seconds, {record['looks']:,} looks). What a process holds alone, "
        "and how it changes with each unit that is done, after the first fifth: slope and "
        f"interval of {CONFIDENCE:.0%}. The launcher holds the scheduler, and keeps every row for "
        "the table at the end.\n\n"
        f"{markdown_table(HEADER, [_cells(line) for line in record['lines']])}\n\n"
        f"{_of_those_that_ended(record['ended_early'])}"
        f"The journal takes {journal['first_half']:,.0f} bytes a unit in the first half and "
        f"{journal['second_half']:,.0f} in the second: {_word(journal['flat'])}.\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


HEADER = ["what", "process", "level", "slope a unit", "limit a unit", ""]


def _cells(line: dict[str, Any]) -> list[str]:
    ends = [line[name] for name in ("slope", "low", "high", "limit")]
    if line["what"] == "memory":
        level = f"{line['level'] / 1e6:,.0f} MB"
        slope, low, high, limit = (f"{value:,.0f}" for value in ends)
        unit = " bytes"
    else:
        level = f"{line['level']:.1f}"
        slope, low, high, limit = (f"{value:.5f}" for value in ends)
        unit = ""
    said = f"{slope}{unit} ({low} to {high})"
    return [line["what"], line["process"], level, said, limit, _word(line["flat"])]


def _of_those_that_ended(names: Sequence[str]) -> str:
    return (
        f"Not judged, as they were there for less than half of it: {', '.join(names)}.\n\n"
        * bool(names)
    )


def _word(flat: bool) -> str:
    return "flat" if flat else "grows"


if __name__ == "__main__":
    sys.exit(main())
