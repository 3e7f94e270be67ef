"""Everything that needs a GPU, in one command: ``make gpu-check PYTHON=python3``.

It runs with the Python it was started with, installs nothing, says by name what
is missing, and ends within ten minutes: a check that takes more than 300 seconds is
ended, and those whose turn does not come are named. The table is kept in
``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from benchmarks.gpu.carry_out import FAILED, NOT_RUN, PASSED, carry_out
from benchmarks.gpu.checks import CHECKS, chosen
from benchmarks.gpu.device import driver, gpus
from benchmarks.gpu.page import describe, page, table
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
    options = parser.parse_args(argv)
    try:
        checks = chosen(options.only, CHECKS)
    except LookupError as error:
        print(f"gpu_check: --only {error}", file=sys.stderr)
        return 2
    found = gpus()
    if not found:
        print(
            "gpu_check: needs an NVIDIA GPU with its driver, and CUDA sees none here; "
            "run make gpu-check PYTHON=python3 on a machine that has one",
            file=sys.stderr,
        )
        return 2
    if options.data_dir:
        os.environ[DATA_DIR] = str(Path(options.data_dir).resolve())
    outcomes = list(carry_out(checks, SECONDS))
    record = describe(outcomes, found, driver(), date.today().isoformat())
    name = slug(" ".join(["gpu-check", found[0].name, *options.only]))
    path = keep(Path(options.results), name, record, page(record))
    failed = [one for one in outcomes if one.status == FAILED]
    for one in failed:
        print(f"\n{one.check.name} {FAILED}:\n{one.reason}", file=sys.stderr)
    counts = ", ".join(
        f"{sum(one.status == status for one in outcomes)} {status}"
        for status in (PASSED, FAILED, NOT_RUN)
    )
    print(f"\n{table(record)}\n\n{counts}; kept in {path}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
