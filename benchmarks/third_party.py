"""Estimators of other packages, searched everywhere alike: ``python -m benchmarks.third_party``.

Each is searched by ``GridSearch`` on threads of this process, on processes of Dask on this
machine and, with ``--profile``, on the jobs of a queue. Scores of every split
are held against those of scikit-learn's ``GridSearchCV``; those of estimators that draw from
global generators, where there are no two equal searches of scikit-learn's, against one thread's.
Estimators whose package is missing are listed. One that differs or fails ends with status 1.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.peers.estimators import CLASSES, ENTRIES, NUMBERS, PACKAGES, TOLERANCE, Entry
from pipelines.errors import error_line
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.third_party"
EQUAL, DIFFERS, FAILED, MISSING = "equal", "differs", "failed", "missing"
THREADS, PROCESSES = "threads", "processes"


def main(argv: Sequence[str] | None = None) -> int:
    """Search them all; give the exit status: 0, 1 where one differs or fails, 2 for bad input."""
    bad: list[str] = []
    status = exit_status(COMMAND, lambda: bad.extend(_run(_parser().parse_args(argv))))
    for line in bad:
        print(line, file=sys.stderr)
    return status or (1 if bad else 0)


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add = parser.add_argument
    add("--profile", metavar="NAME", help="of a queue whose jobs search, too")
    add("--kind", action="append", help="whose estimators, for instance xgboost; default: all")
    add_count(parser, "--workers", 2, "of the processes on this machine, and jobs of the queue")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> list[str]:
    from cluster_setup import open_cluster

    entries = [entry for entry in ENTRIES if options.kind is None or entry.kind in options.kind]
    data = _rows()
    with ExitStack() as stack:
        places: dict[str, Any] = {THREADS: None}
        places[PROCESSES] = stack.enter_context(open_cluster("local", options.workers))
        if options.profile:
            queue = open_cluster("slurm", options.workers, profile=options.profile)
            places["slurm"] = stack.enter_context(queue)
        comparisons = [_compared(entry, data[entry.task], places) for entry in entries]
    record = stamped(
        "third_party", packages=_versions(), places=list(places), estimators=comparisons
    )
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'third-party', record, text)}")
    return [
        f"{entry['kind']} {entry['name']} on {runner}: {outcome['outcome']}: {outcome['says']}"
        for entry in comparisons
        for runner, outcome in entry["places"].items()
        if outcome["outcome"] in (DIFFERS, FAILED)
    ]


def _rows() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return rows and targets of each task, mixed."""
    from sklearn.datasets import load_diabetes, load_wine
    from sklearn.utils import shuffle

    return {
        task: tuple(array[:170].copy() for array in shuffle(*load(return_X_y=True), random_state=0))
        for task, load in ((CLASSES, load_wine), (NUMBERS, load_diabetes))
    }


def _versions() -> dict[str, str | None]:
    """Return the version of each package; None of one that is missing."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES.values():
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def _compared(
    entry: Entry, rows: tuple[np.ndarray, np.ndarray], places: Mapping[str, Any]
) -> dict[str, Any]:
    """Search an estimator everywhere; say what became of it in each place."""
    from sklearn.model_selection import GridSearchCV

    from pipelines import GridSearch

    about: dict[str, Any] = {"kind": entry.kind, "name": entry.name, "against": "GridSearchCV"}
    try:
        estimator = entry.make()
    except ImportError as error:
        outcome = {"outcome": MISSING, "says": error_line(error)}
        return about | {"places": dict.fromkeys(places, outcome)}
    how: dict[str, Any] = {"cv": 3, "refit": False, "error_score": "raise"}
    if entry.repeatable:
        expected = _scores(GridSearchCV(estimator, entry.grid, **how), rows)
    else:
        about["against"] = "GridSearch on one thread"
        expected = _scores(GridSearch(estimator, entry.grid, **how), rows)
    outcomes = {}
    for runner, client in places.items():
        # Threads share a generator: there one at a time.
        n_jobs = None if client or not entry.repeatable else 2
        search = GridSearch(estimator, entry.grid, client=client, n_jobs=n_jobs, **how)
        outcomes[runner] = _outcome(search, rows, expected, entry.tolerance)
    print(
        entry.kind,
        entry.name,
        *(f"{runner} {result['outcome']}" for runner, result in outcomes.items()),
    )
    return about | {"places": outcomes}


def _scores(search: Any, rows: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the score of each split and candidate."""
    from joblib import parallel_config

    from pipelines.data.generators import seed_generators

    seed_generators(COMMAND)
    with warnings.catch_warnings(), parallel_config("threading"):
        warnings.simplefilter("ignore")
        search.fit(*(array.copy() for array in rows))
    return np.stack([search.cv_results_[f"split{i}_test_score"] for i in range(3)])


def _outcome(
    search: Any, rows: tuple[np.ndarray, np.ndarray], expected: np.ndarray, tolerance: float
) -> dict[str, str]:
    try:
        difference = float(np.abs(_scores(search, rows) - expected).max())
    except Exception as error:
        return {"outcome": FAILED, "says": error_line(error)}
    equal = difference <= tolerance  # not where it is NaN
    return {
        "outcome": EQUAL if equal else DIFFERS,
        "says": f"largest difference of a score {difference:.2g}",
    }


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    estimators, places = record["estimators"], record["places"]
    kinds = list(dict.fromkeys(entry["kind"] for entry in estimators))
    outcomes = EQUAL, DIFFERS, FAILED, MISSING
    counts = []
    for kind in [*kinds, "all"]:
        of_kind = [entry for entry in estimators if kind in (entry["kind"], "all")]
        for runner in places:
            n = Counter(entry["places"][runner]["outcome"] for entry in of_kind)
            counts.append(
                [kind, runner, str(len(of_kind)), *(str(n[outcome]) for outcome in outcomes)]
            )
    rest = [
        [entry["kind"], entry["name"], runner, outcome["outcome"], outcome["says"]]
        for entry in estimators
        for runner, outcome in entry["places"].items()
        if outcome["outcome"] != EQUAL
    ]
    every = [
        [
            entry["kind"],
            entry["name"],
            entry["against"],
            *(entry["places"][p]["says"] for p in places),
        ]
        for entry in estimators
    ]
    packages = ", ".join(
        f"{name} {version or 'missing'}" for name, version in record["packages"].items()
    )
    about = ["whose", "estimator"]
    tolerances = "".join(
        f", of {entry.name} {entry.tolerance:g}"
        for entry in ENTRIES
        if entry.tolerance != TOLERANCE
    )
    return (
        f"# Estimators of other packages, {record['date']}\n\n"
        "Each searched by `GridSearch` with two or more candidates on three folds, and every score "
        f"held against the same search elsewhere; equal is within {TOLERANCE:g}{tolerances}. "
        f"scikit-learn {record['versions'].get('scikit-learn', '?')}; {packages}.\n\n"
        f"{markdown_table(['whose', 'on', 'estimators', *outcomes], counts)}\n\n"
        "## What is not equal\n\n"
        + (markdown_table([*about, "on", "outcome", "it says"], rest) if rest else "Nothing.")
        + f"\n\n## All\n\n{markdown_table([*about, 'held against', *places], every)}\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`, with "
        "`--profile` on the jobs of a queue, too.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
