"""What runs take, beside their forecasts: ``python -m benchmarks.forecast``.

Each run forecasts itself at its start, as commands do, and short runs here, too. What is compared
is the time from the first task's begin to the last one's end, in the same process tree and right
after the probes: both meet the machine as it is.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser
from pipelines.run_folder.names import JOURNAL

COMMAND = "benchmarks.forecast"
MNIST, TABLE = "--dataset mnist", "--dataset {table}"
STUDY = "--n-c 24 --log-c -3 6 --log-gamma -6 -2"
FOREST = "--estimator forest --param n_estimators=50,100 --param max_depth=4,8,16"
FEW = "--n-bootstrap 3 --n-tuning 4"
# Name of the line, command, options.
RUNS = (
    ("digits, 24 x 24 SVMs", "svm_grid", "--n-c 24 --n-gamma 24"),
    ("MNIST, 3,000 rows, 24 x 8", "svm_grid", f"{MNIST} --limit 3000 {STUDY} --n-gamma 8"),
    ("MNIST, 6,000 rows, 24 x 8", "svm_grid", f"{MNIST} --limit 6000 {STUDY} --n-gamma 8"),
    ("MNIST, 10,000 rows, 24 x 6", "svm_grid", f"{MNIST} --limit 10000 {STUDY} --n-gamma 6"),
    ("MNIST, 20,000 rows, 24 x 3", "svm_grid", f"{MNIST} --limit 20000 {STUDY} --n-gamma 3"),
    ("noisy table, 4,000 rows, 8 x 8", "svm_grid", f"{TABLE} --limit 4000"),
    ("table, 20,000 rows, the usual estimators", "cross_validate", TABLE),
    ("table, 20,000 rows, six forests", "cross_validate", f"{TABLE} {FOREST}"),
    ("MNIST, 4,000 rows, the usual estimators", "cross_validate", f"{MNIST} --limit 4000"),
    ("digits, 3 members x 4 networks", "nn_bagging", FEW),
    (
        "table, 5,000 rows, 3 x 4",
        "nn_bagging",
        f"{TABLE} --limit 5000 --n-bootstrap 3 --n-tuning 4",
    ),
)
FORECAST = re.compile(r"^forecast .* about ([\d.]+) (s|min|h|d) ", re.MULTILINE)
UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def main(argv: Sequence[str] | None = None) -> int:
    """Run them, print the table, keep both."""
    parser = OneLineParser(prog=COMMAND, description=str(__doc__).partition("\n")[0])
    parser.add_argument("--data-dir", help="where MNIST is kept")
    parser.add_argument("--only", default="", help="runs whose line has this in its name")
    add_results(parser)
    return exit_status(COMMAND, lambda: run(parser.parse_args(argv)))


def run(options: argparse.Namespace) -> None:
    """Run what is asked for."""
    from pipelines.search import forecast

    forecast.SHORT = forecast.WORTH_A_FORECAST = 0.0  # short runs, too
    lines = []
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "table.csv"
        write_table(table)
        for label, command, words in RUNS:
            if options.only in label:
                argv = words.format(table=table).split()
                if options.data_dir and "mnist" in argv:
                    argv += ["--data-dir", options.data_dir]
                folder = Path(name) / label.replace(" ", "-").replace(",", "")
                found = forecast_and_run(command, argv, folder)
                lines.append({"run": label, "command": command, "options": words, **found})
                print(json.dumps(lines[-1]), flush=True)
    record = stamped(COMMAND, lines=lines)
    path = keep(Path(options.results), "forecast", record, page(record))
    print(page(record), path, sep="\n")


def write_table(path: Path, n_rows: int = 25_000, n_features: int = 20) -> None:
    """A table of two classes that overlap, a twentieth of them mislabelled."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_rows, n_features))
    score = X[:, 0] * X[:, 1] + X[:, 2] ** 2 - X[:, 3] + 0.5 * generator.normal(size=n_rows)
    y = (score > np.median(score)) ^ (generator.random(n_rows) < 0.05)
    header = ",".join([f"x{i}" for i in range(n_features)] + ["class"])
    table = np.column_stack([X.round(4), y])
    np.savetxt(path, table, fmt="%g", delimiter=",", header=header, comments="")


def forecast_and_run(command: str, argv: Sequence[str], folder: Path) -> dict[str, Any]:
    """Carry out a run; the seconds that it forecast and took, and those of its probes."""
    said, status = io.StringIO(), None
    began = time.time()
    with redirect_stdout(said):
        status = import_module(f"pipelines.{command}").main([*argv, "--results", str(folder)])
    if status:
        raise RuntimeError(f"{command} ended with status {status}:\n{said.getvalue()}")
    found = FORECAST.search(said.getvalue())
    if found is None:
        raise RuntimeError(f"{command} gave no forecast:\n{said.getvalue()}")
    record = json.loads((folder / "run.json").read_text())
    tasks = list(_tasks(folder))
    first = min(task["started"] for task in tasks)
    compiled = max(task.get("compile_seconds", 0.0) for task in tasks)
    return {
        "forecast": float(found[1]) * UNITS[found[2]],
        "took": max(task["started"] + task["seconds"] for task in tasks) - first - compiled,
        "probes": first - record["session_began"],
        "total": time.time() - began,
    }


def _tasks(folder: Path) -> Iterator[dict[str, Any]]:
    for line in (folder / JOURNAL).read_text().splitlines():
        task = json.loads(line)
        if "started" in task:
            yield task


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    factors = [line["forecast"] / line["took"] for line in record["lines"]]
    rows = [
        [
            line["run"],
            line["command"],
            f"{line['forecast']:.0f}",
            f"{line['took']:.0f}",
            f"{factor:.2f}",
            f"{line['probes']:.1f}",
        ]
        for line, factor in zip(record["lines"], factors, strict=True)
    ]
    header = ["run", "command", "forecast, s", "took, s", "forecast / took", "probes, s"]
    within = sum(1 / 1.5 <= factor <= 1.5 for factor in factors)
    typical = math.exp(np.mean(np.abs(np.log(factors))))
    return (
        f"# Forecasts, {record['date']}\n\n"
        "Forecasts at the start of runs, and what their tasks then took, from the first one's "
        "begin to the last one's end. Other programs had this machine's cores at the same time, "
        f"more at some times than at others.\n\n{markdown_table(header, rows)}\n\n"
        f"Within a factor of 1.5: {within} of {len(factors)}; typically {typical:.2f}.\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND} --data-dir DIR`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
