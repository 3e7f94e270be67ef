"""Everything that needs a GPU, in one command: ``make gpu-check PYTHON=python3``.

It runs with the Python it was started with, installs nothing, says by name what
is missing, and ends within ten minutes: a check that takes two minutes and twice the seconds it
was planned for is ended, and those whose turn does not come are named. The table is kept in
``benchmarks/results``, anew after every check; ``--resume`` goes on with what has not passed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from benchmarks.gpu.carry_out import FAILED, NOT_RUN, PASSED, carry_out
from benchmarks.gpu.checks import CHECKS, chosen
from benchmarks.gpu.device import driver, gpus
from benchmarks.gpu.page import describe, page, passed_in, table
from benchmarks.keep import RESULTS, keep, slug

SECONDS = 590  # ten minutes, less what starting and writing take
DATA_DIR = "PLEASINGLY_DATA_DIR"


def main(argv: Sequence[str] | None = None) -> int:
    """Run every check; give the exit status: 0, 1 if one failed, 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__)
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help=f"folder that holds MNIST, for the benchmarks (default: ${DATA_DIR}, else digits)",
    )
    parser.add_argument("--results", default=RESULTS, metavar="DIR", help=f"default: {RESULTS}")
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="the check of that name, or of names that contain it; may be given several times",
    )
    parser.add_argument(
        "--resume", action="store_true", help="take from today's table what has passed"
    )
    options = parser.parse_args(argv)
    try:
        checks = chosen(options.only, CHECKS)
    except LookupError as error:
        print(f"gpu_check: --only {error}", file=sys.stderr)
        return 2
    cards = gpus()
    if not cards:
        print(
            "gpu_check: needs an NVIDIA GPU with its driver, and CUDA sees none here; "
            "run make gpu-check PYTHON=python3 on a machine that has one",
            file=sys.stderr,
        )
        return 2
    if options.data_dir:
        os.environ[DATA_DIR] = str(Path(options.data_dir).resolve())
    today, folder = date.today().isoformat(), Path(options.results)
    name = slug(" ".join(["gpu-check", cards[0].name, *options.only]))
    earlier = folder / f"{today}-{name}.json"
    passed = passed_in(earlier, checks) if options.resume and earlier.exists() else {}
    outcomes = list(passed.values())
    remaining, reports = (
        [check for check in checks if check.name not in passed],
        folder / f"{name}-running",
    )
    if not options.resume:
        shutil.rmtree(reports, ignore_errors=True)  # of a day, and a code, that are gone
    for outcome in carry_out(remaining, SECONDS, reports):
        outcomes = [result for result in outcomes if result.check != outcome.check] + [outcome]
        record = describe(outcomes, cards, driver(), today)
        keep(folder, name, record, page(record))  # a machine that is taken away leaves what was
    record = describe(outcomes, cards, driver(), today)
    path = keep(folder, name, record, page(record))
    if reports.exists() and not any(reports.iterdir()):
        reports.rmdir()
    failed = [result for result in outcomes if result.status == FAILED]
    for result in failed:
        print(f"\n{result.check.name} {FAILED}:\n{result.reason}", file=sys.stderr)
    counts = ", ".join(
        f"{sum(result.status == status for result in outcomes)} {status}"
        for status in (PASSED, FAILED, NOT_RUN)
    )
    print(f"\n{table(record)}\n\n{counts}; kept in {path}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
