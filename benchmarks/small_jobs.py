"""Small searches, ours beside ``GridSearchCV(SVC())``: ``python -m benchmarks.small_jobs``.

Thirty shapes with little work to share: few rows, one gamma, many classes, other kernels, one
class of two hundred.  Both are warm, on one thread; CPU seconds, the median of some turns.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.small_jobs"


@dataclass(frozen=True)
class Job:
    """A generated data set of equally many rows of each class, and a grid.

    rare : int, the second class's rows where there are two that are not equally many
    """

    rows: int
    features: int = 10
    classes: int = 2
    n_C: int = 4
    n_gamma: int = 4
    kernel: str = "rbf"
    rare: int = 0
    folds: int = 4


JOBS = (
    *(Job(rows) for rows in (50, 100, 200, 500)),
    *(Job(rows, n_C=2, n_gamma=1) for rows in (50, 200, 500)),
    *(Job(rows, n_C=1, n_gamma=1) for rows in (50, 500)),
    *(Job(300, n_gamma=1, kernel=kernel) for kernel in ("rbf", "linear", "poly", "sigmoid")),
    *(Job(100, kernel=kernel) for kernel in ("linear", "poly", "sigmoid")),
    *(Job(1005, rare=5, kernel=kernel) for kernel in ("rbf", "linear", "poly", "sigmoid")),
    *(Job(780, classes=26, kernel=kernel) for kernel in ("rbf", "linear", "poly", "sigmoid")),
    Job(780, classes=26, n_C=2, n_gamma=1),
    Job(150, classes=3),
    Job(500, classes=10, kernel="poly"),
    Job(400, classes=50, n_C=2, n_gamma=2),
    Job(100, features=2000),
    Job(500, features=1),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--jobs", len(JOBS), "the first of the list")
    add_count(parser, "--repeat", 7, "turns of each")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    import sklearn.svm  # noqa: F401  the limit holds for libraries that are loaded
    from threadpoolctl import threadpool_limits

    lines = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SVC's, where it does not converge
        for job in JOBS[: options.jobs]:
            lines.append(measure(job, options.repeat))
            print(_cells(lines[-1]), flush=True)
    record = stamped("small_jobs", repeat=options.repeat, lines=lines)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'small-jobs', record, text)}")


def measure(job: Job, repeat: int) -> dict[str, Any]:
    """Return a job with the CPU seconds of both, and by how many rows their scores differ."""
    import numpy as np
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    from pipelines import SVMGridSearch

    generator = np.random.default_rng(0)
    y = np.arange(job.rows) % job.classes
    if job.rare:
        y = (np.arange(job.rows) < job.rare).astype(np.int64)
    centres = generator.normal(size=(job.classes, job.features))
    X = centres[y] + 1.5 * generator.normal(size=(job.rows, job.features))
    Cs = np.logspace(-1, 2, job.n_C).tolist()
    gammas = (np.logspace(-2, 0, job.n_gamma) / job.features).tolist()
    grid = {"C": Cs} if job.kernel == "linear" else {"C": Cs, "gamma": gammas}
    ours = SVMGridSearch(param_grid=grid, kernel=job.kernel, cv=job.folds, n_jobs=1)
    theirs = GridSearchCV(SVC(kernel=job.kernel), grid, cv=job.folds, n_jobs=1)
    ours.fit(X, y)  # compiled, or loaded
    seconds: dict[str, list[float]] = {"ours": [], "SVC": []}
    for _ in range(repeat):
        for name, search in (("ours", ours), ("SVC", theirs)):
            began = time.process_time()
            search.fit(X, y)
            seconds[name].append(time.process_time() - began)
    scores = (search.cv_results_["mean_test_score"] for search in (ours, theirs))
    apart = float(np.abs(np.subtract(*scores)).max()) * job.rows
    return {**asdict(job), "seconds": seconds, "rows_apart": round(apart, 3)}


def _ratio(line: dict[str, Any]) -> float:
    return median(line["seconds"]["SVC"]) / median(line["seconds"]["ours"])


def _cells(line: dict[str, Any]) -> list[str]:
    classes = f"{line['rare']} of {line['rows']}" if line["rare"] else str(line["classes"])
    return [
        line["kernel"],
        str(line["rows"]),
        str(line["features"]),
        classes,
        f"{line['n_C']} × {line['n_gamma']} × {line['folds']}",
        *(f"{1e3 * median(line['seconds'][name]):.1f}" for name in ("ours", "SVC")),
        f"{_ratio(line):.1f} ×",
        f"{line['rows_apart']:g}",
    ]


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    header = ["kernel", "rows", "features", "classes", "C × gamma × folds", "ours, ms", "SVC, ms"]
    lines = record["lines"]
    table = markdown_table([*header, "ratio", "rows that differ"], [_cells(line) for line in lines])
    slow = sum(_ratio(line) < 2 for line in lines)
    return (
        f"# Small jobs, {record['date']}\n\n"
        "`SVMGridSearch` and `GridSearchCV(SVC())`, warm, on one thread; CPU milliseconds, the "
        f"median of {record['repeat']} turns; and by how many rows a candidate's scores differ at "
        f"most.\n\n{table}\n\nBelow 2 ×: {slow} of {len(lines)}.\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
