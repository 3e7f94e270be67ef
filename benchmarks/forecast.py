"""What runs take, beside their forecasts: ``python -m benchmarks.forecast``.

Tasks are run in this process right after the probes, so that both meet the machine as it is.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.command import add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.forecast"
MNIST, TABLE = "--dataset mnist", "--dataset {table}"
STUDY = "--n-c 24 --log-c -3 6 --log-gamma -6 -2"
FOREST = "--estimator forest --param n_estimators=50,100 --param max_depth=4,8,16"
FEW = "--n-bootstrap 3 --n-tuning 4"
# Name of the line, command, options.
CONV = "--network conv --n-bootstrap 2 --n-tuning 2"
RUNS = (
    ("digits, 24 x 24 SVMs", "svm_grid", "--n-c 24 --n-gamma 24"),
    ("MNIST, 3,000 rows, 24 x 6", "svm_grid", f"{MNIST} --limit 3000 {STUDY} --n-gamma 6"),
    ("MNIST, 6,000 rows, 24 x 6", "svm_grid", f"{MNIST} --limit 6000 {STUDY} --n-gamma 6"),
    ("MNIST, 10,000 rows, 24 x 6", "svm_grid", f"{MNIST} --limit 10000 {STUDY} --n-gamma 6"),
    ("MNIST, 20,000 rows, 24 x 3", "svm_grid", f"{MNIST} --limit 20000 {STUDY} --n-gamma 3"),
    ("MNIST, 60,000 rows, 24 x 3", "svm_grid", f"{MNIST} {STUDY} --n-gamma 3 --memory 12"),
    ("noisy table, 4,000 rows, 8 x 8", "svm_grid", f"{TABLE} --limit 4000"),
    ("table, 20,000 rows, the usual estimators", "cross_validate", TABLE),
    ("table, 20,000 rows, six forests", "cross_validate", f"{TABLE} {FOREST}"),
    ("MNIST, 4,000 rows, the usual estimators", "cross_validate", f"{MNIST} --limit 4000"),
    ("digits, 3 members x 4 networks", "nn_bagging", FEW),
    ("MNIST, 1,000 rows, 2 x 2 networks", "nn_bagging", f"{MNIST} --limit 1000 {CONV}"),
    (
        "table, 5,000 rows, 3 x 4",
        "nn_bagging",
        f"{TABLE} --limit 5000 --n-bootstrap 3 --n-tuning 4",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run them, print the table, keep both."""
    parser = OneLineParser(prog=COMMAND, description=str(__doc__).partition("\n")[0])
    parser.add_argument("--data-dir", help="where MNIST is kept")
    parser.add_argument(
        "--only", default="", help="runs whose names have one of these in them: a|b"
    )
    add_results(parser)
    return exit_status(COMMAND, lambda: run(parser.parse_args(argv)))


def run(options: argparse.Namespace) -> None:
    """Run what is asked for."""
    lines = []
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "table.csv"
        write_table(table)
        for label, command, words in RUNS:
            if any(part in label for part in options.only.split("|")):
                argv = words.format(table=table).split()
                if options.data_dir and "mnist" in argv:
                    argv += ["--data-dir", options.data_dir]
                figures = forecast_and_run(command, argv)
                lines.append({"run": label, "command": command, "options": words, **figures})
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


def forecast_and_run(command: str, argv: Sequence[str]) -> dict[str, float]:
    """Forecast a run, then carry out its tasks, one after another, in this process.

    Returns
    -------
    seconds of the processor, of all threads, that were forecast, that the tasks took, and that the
    probes did; and what the forecast had said by the clock, and the clock then
    """
    from pipelines.search import probes
    from pipelines.search.forecast import Pace, probe

    problem, tasks, run = plan_of(command, argv)
    threads = 2 if command == "svm_grid" else 1
    stretches = list[float]()

    def stretch(measured: probes.Measurement) -> float:
        stretches.append(measured.wall / measured.seconds[-1])
        return 1.0

    of_steps = partial(probes.measure_steps, now=time.process_time)
    with (
        patch.object(probes.Measurement, "stretch", property(stretch)),
        patch("pipelines.search.forecast.measure_steps", of_steps),
    ):
        began, clock = time.process_time(), time.perf_counter()
        pace = Pace(problem, probe(problem, tasks, threads, run))
        probed, clock_of_probes = time.process_time() - began, time.perf_counter() - clock
    expected = sum(map(pace.seconds, tasks))
    clock = time.perf_counter()
    took = 0.0
    for task in tasks:
        cpu = time.process_time()
        deque(run(problem, task, n_threads=threads), maxlen=0)
        took += time.process_time() - cpu
    return {
        "forecast": expected,
        "took": took,
        "probes": probed,
        "clock_of_probes": clock_of_probes,
        "clock": time.perf_counter() - clock,
        "stretch": sum(stretches) / len(stretches) if stretches else clock_of_probes / probed,
    }


def make_plan(command: str, argv: Sequence[str]) -> Any:
    """The plan of a run, from its command line."""
    from pipelines.run.options import parse_options

    job = import_module(f"pipelines.{command}").JOB()
    argv = job.argv(argv)
    options, _ = parse_options(job.options_class, command, job.description, argv, ())
    return job.plan(options, job.load(options, "local"), {})


def plan_of(command: str, argv: Sequence[str]) -> tuple[Any, list[Any], Callable[..., Any]]:
    """The problem of a run on one worker, the tasks of its searches, and what runs one."""
    from pipelines.data.placement import FoldedData
    from pipelines.search.tasks import Task, run_task

    plan = make_plan(command, argv)
    tasks = [task for task in plan.tasks_for("local", 1) if isinstance(task, Task)]
    if command != "nn_bagging":
        return plan.make_problem("cpu", 2 if command == "svm_grid" else 1), tasks, run_task
    from pipelines.bagging.work import run_member_task as run_training

    trainings = plan.trainings_on("cpu")
    problem = trainings.problem(FoldedData.of(plan.data), plan.scoring)
    return problem, tasks, partial(run_training, shared_fit=trainings.shared_fit)


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    lines = record["lines"]
    factors = [line["forecast"] / line["took"] for line in lines]
    rows = [
        [
            line["run"],
            *(f"{line[name]:.0f}" for name in ("forecast", "took")),
            f"{factor:.2f}",
            f"{line['forecast'] * line['stretch'] / line['clock']:.2f}",
            f"{line['probes']:.1f}",
        ]
        for line, factor in zip(lines, factors, strict=True)
    ]
    header = ["run", "forecast, s", "took, s", "forecast / took", "by the clock", "probes, s"]
    within = sum(1 / 1.5 <= factor <= 1.5 for factor in factors)
    typical = math.exp(np.mean(np.abs(np.log(factors))))
    return (
        f"# Forecasts, {record['date']}\n\n"
        "Forecasts of all tasks of a run by a few probes, and what the tasks then took in the same "
        "process, both in seconds of the processor: other programs had this machine's cores at the "
        "same time, more at some times than at others. By the clock they were as far apart as "
        "the column beside says, which the other programs decide as much as the forecast."
        f"\n\n{markdown_table(header, rows)}\n\n"
        f"Within a factor of 1.5: {within} of {len(factors)}; typically {typical:.2f}.\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND} --data-dir DIR`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
