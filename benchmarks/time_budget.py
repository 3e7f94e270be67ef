"""Thirty runs with a time budget: ``python -m benchmarks.time_budget``.

Every command that has the option, each as a process of its own, from its start to its end: whether
it is over in time, has an answer, and what it had tried by then.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser
from pipelines.search.budget import OVERTIME, SECONDS_OF_OVERTIME

COMMAND = "benchmarks.time_budget"
MNIST = "--dataset mnist --limit"
GRID = "--n-c 24 --n-gamma 24 --log-c -3 6 --log-gamma -6 -2"
SVC = "--estimator svm --param C=0.1,1,10,100,1000 --param gamma=0.0003,0.001,0.003,0.01"
RUNS = [
    *((seconds, f"svm_grid {MNIST} 6000 {GRID}") for seconds in (20, 45, 90, 180)),
    *((seconds, f"svm_grid {MNIST} 20000 {GRID}") for seconds in (60, 180)),
    *((seconds, f"svm_grid {MNIST} 6000 {GRID} --strategy race") for seconds in (20, 45, 90)),
    (120, f"svm_grid {MNIST} 20000 {GRID} --strategy race"),
    (30, f"svm_grid {MNIST} 3000 --strategy random --n-iter 200"),
    (30, f"svm_grid {MNIST} 3000 --strategy tpe --n-iter 200"),
    (45, f"svm_grid {MNIST} 6000 {GRID} --strategy halving"),
    (30, f"svm_grid {MNIST} 3000 {GRID} --solver sklearn"),
    (60, f"svm_grid {MNIST} 3000 {GRID} --cluster local --workers 2"),
    *((seconds, f"cross_validate {MNIST} 4000") for seconds in (20, 60, 120)),
    (45, f"cross_validate {MNIST} 3000 {SVC}"),
    (45, f"cross_validate {MNIST} 3000 {SVC} --strategy race --folds 10"),
    (
        30,
        "cross_validate --dataset digits --estimator forest --param n_estimators=100,200,400 "
        "--param max_features=0.1,0.2,0.4,0.8",
    ),
    (
        30,
        "cross_validate --dataset digits --estimator boosting "
        "--param learning_rate=0.03,0.1,0.3 --param max_leaf_nodes=7,15,31",
    ),
    (60, "cross_validate --dataset digits --estimator network --param learning_rate=0.001,0.01"),
    (
        30,
        "cross_validate --dataset digits --estimator knn --param n_neighbors={int:[1,30]} "
        "--estimator forest --param max_features={uniform:[0.05,1]} --strategy tpe",
    ),
    (20, "cross_validate --dataset digits --strategy race --folds 10"),
    *((seconds, "nn_bagging --dataset digits") for seconds in (20, 60, 120)),
    (90, f"nn_bagging {MNIST} 2000 --space small --network conv"),
    (60, "nn_bagging --dataset digits --strategy race"),
]


@dataclass(frozen=True)
class Line:
    """A run: its budget and what it took, in seconds; how it ended, and how much it had tried."""

    budget: float
    command: str
    seconds: float
    status: int
    answer: str
    n_rows: int

    @property
    def is_in_time(self) -> bool:
        """Whether it was over within the budget and what may come after it."""
        return self.seconds <= self.budget + max(OVERTIME * self.budget, SECONDS_OF_OVERTIME)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--runs", len(RUNS), "the first of the list")
    parser.add_argument("--data-dir", default="data", metavar="DIR", help="default: data")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    lines = list[Line]()
    for budget, command in RUNS[: options.runs]:
        lines.append(line := timed(budget, command, options.data_dir))
        print(line, flush=True)
    record = stamped("time_budget", lines=[asdict(line) for line in lines])
    text = page(record, lines)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'time-budget', record, text)}")


def timed(budget: float, command: str, data_dir: str) -> Line:
    """Carry out a run, and look at what it left."""
    module, *words = command.split()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run")
        where = ["--time-budget", f"{budget:g}s", "--results", str(path), "--data-dir", data_dir]
        began = time.monotonic()
        ended = subprocess.run(
            [sys.executable, "-m", f"pipelines.{module}", *words, *where],
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - began
        answer, n_rows = ended.stderr.strip().splitlines()[-1:], 0
        if (path / "run.json").exists():
            record = json.loads((path / "run.json").read_text())
            error = record.get("test_error", record.get("vote_test_error"))
            answer = [f"test error {100 * error:.2f} %"] if error is not None else answer
            records = map(json.loads, (path / "journal.jsonl").read_text().splitlines())
            n_rows = sum(len(task.get("rows", ())) for task in records)
    return Line(budget, command, seconds, ended.returncode, "".join(answer), n_rows)


def page(record: dict[str, Any], lines: Sequence[Line]) -> str:
    """The page of a result."""
    rows = [
        [
            line.command,
            f"{line.budget:g}",
            f"{line.seconds:.0f}",
            f"{line.n_rows:,}",
            line.answer if line.status == 0 else f"exit status {line.status}: {line.answer}",
        ]
        for line in lines
    ]
    late = sum(not line.is_in_time for line in lines)
    answered = sum(line.status == 0 for line in lines)
    return "\n".join(
        [
            "# Runs with a time budget",
            "",
            f"{record['date']}, `python -m {COMMAND}`: whole processes, one after another. A run "
            f"may take its budget and {OVERTIME:.0%} of it, or {SECONDS_OF_OVERTIME:g} s.",
            "",
            markdown_table(["run", "budget s", "took s", "rows", "answer"], rows),
            "",
            f"{late} of {len(lines)} were late, {answered} have an answer.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
