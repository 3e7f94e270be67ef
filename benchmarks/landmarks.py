"""Searches on landmarks against scikit-learn's pipeline of ``Nystroem`` and ``LinearSVC``.

python -m benchmarks.landmarks --rows 20000 --landmarks 1000
"""

from __future__ import annotations

import os
import resource
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.keep import RESULTS, keep, markdown_table, stamped
from benchmarks.machine import in_words
from pipelines.data.fits import Fit
from pipelines.run.options import OneLineParser
from pipelines.svm.landmarks.landmark_search import solve_landmarks
from pipelines.svm.settings import Settings

GAMMA, CS, N_FOLDS = 0.02, np.logspace(-2, 3, 12), 5


def draw_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes of several clusters, a tenth of them with the other's label."""
    X, y = make_classification(
        n,
        50,
        n_informative=20,
        n_redundant=10,
        flip_y=0.2,
        n_clusters_per_class=4,
        random_state=0,
    )
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32), y


def ours(X: np.ndarray, y: np.ndarray, n_landmarks: int, cores: int) -> tuple[float, np.ndarray]:
    """Seconds, and the mean error of each C."""
    folds, wrong = list(StratifiedKFold(N_FOLDS).split(X, y)), np.zeros(len(CS))
    began = time.perf_counter()
    settings = Settings(n_landmarks=n_landmarks, n_threads=cores)
    for item in solve_landmarks(X, y, [GAMMA], CS.tolist(), folds, settings):
        if isinstance(item, Fit) and callable(item.predict):
            truth = y[folds[item.split][1]]
            wrong[item.candidate] += np.count_nonzero(item.predict("predict", "test") != truth)
    return time.perf_counter() - began, wrong / len(y)


def theirs(X: np.ndarray, y: np.ndarray, n_landmarks: int, cores: int) -> tuple[float, np.ndarray]:
    """Seconds, and the mean error of each C, of ``GridSearchCV``."""
    features = Nystroem(gamma=GAMMA, n_components=n_landmarks, random_state=0)
    pipeline = make_pipeline(features, LinearSVC(loss="hinge"))
    began = time.perf_counter()
    search = GridSearchCV(
        pipeline, {"linearsvc__C": CS.tolist()}, cv=StratifiedKFold(N_FOLDS), n_jobs=cores
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is told by the table
        search.set_params(refit=False).fit(X, y)
    return time.perf_counter() - began, 1 - search.cv_results_["mean_test_score"]


def _parser() -> OneLineParser:
    parser = OneLineParser(prog="benchmarks.landmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--no-peer", action="store_true", help="ours alone, for many rows")
    parser.add_argument("--results", type=Path, default=Path(RESULTS))
    return parser


def main() -> None:
    """Run both in turn on the same rows, and keep a table."""
    arguments = _parser().parse_args()
    cores = len(os.sched_getaffinity(0))
    X, y = draw_rows(arguments.rows)
    ours(X[:2000], y[:2000], 50, cores)  # compiles
    searches = {}
    for name, search in {"on landmarks": ours, "GridSearchCV": theirs}.items():
        if name == "GridSearchCV" and arguments.no_peer:
            continue
        seconds, errors = search(X, y, arguments.landmarks, cores)
        searches[name] = {"seconds": seconds, "errors": errors.tolist()}
        print(f"{name:14} {seconds:8.1f} s, least error {errors.min():.2%}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    about = {"rows": len(y), "landmarks": arguments.landmarks, "peak_bytes": peak}
    record = stamped("landmarks", **about, searches=searches)
    keep(arguments.results, f"landmarks-{len(y)}", record, page(record))


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    table = [
        [name, f"{search['seconds']:,.1f}", *(f"{100 * error:.2f}" for error in search["errors"])]
        for name, search in record["searches"].items()
    ]
    Cs = [f"C = {C:.3g}" for C in CS]
    return "\n\n".join(
        [
            f"# Searches on landmarks, {record['date']}",
            f"{record['rows']:,} rows of 50 columns, two classes, a tenth of the labels swapped; "
            f"{len(CS)} C × {N_FOLDS} folds at gamma = {GAMMA}, {record['landmarks']:,} landmarks. "
            "Seconds, and mean errors in percent. The peer is "
            "`GridSearchCV(make_pipeline(Nystroem(), LinearSVC(loss='hinge')))`, as it comes.",
            markdown_table(["search", "seconds", *Cs], table),
            f"Peak memory of this process {record['peak_bytes'] / 1e9:.1f} GB.",
            f"{in_words(record['machine'])}. Repeat it: `python -m benchmarks.landmarks "
            f"--rows {record['rows']} --landmarks {record['landmarks']}`.\n",
        ]
    )


if __name__ == "__main__":
    main()
