"""scikit-learn's own searches on the joblib backend: ``python -m benchmarks.own_searches``.

Each search runs plainly and on the backend ``"pleasingly"`` in turns, in one process and on one
thread, after a first one that loads what is needed. CPU seconds, the least of the turns, and
whether both chose the same candidate; ``benchmarks.scripts`` has whole scripts, with all that a
process begins with.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.own_searches"


def main(argv: Sequence[str] | None = None) -> int:
    """Run them; give the exit status: 0, 1 where candidates differ, 2 for bad input."""
    differing: list[str] = []
    status = exit_status(COMMAND, lambda: differing.extend(_run(_parser().parse_args(argv))))
    for name in differing:
        print(f"{name}: another candidate is the best", file=sys.stderr)
    return status or (1 if differing else 0)


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--repeat", 3, "turns of a search")
    parser.add_argument("--search", metavar="TEXT", help="part of its name; default: all")
    add_results(parser)
    return parser


def searches() -> dict[str, Callable[[], Any]]:
    """Searches by name, each a function that gives one, fitted."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.datasets import (
        load_breast_cancer,
        load_diabetes,
        load_digits,
        make_classification,
    )
    from sklearn.decomposition import PCA
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        RandomForestClassifier,
        VotingClassifier,
    )
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.linear_model import Lasso, LogisticRegression, Ridge
    from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR
    from sklearn.tree import DecisionTreeClassifier

    digits, cancer, diabetes = (
        load(return_X_y=True) for load in (load_digits, load_breast_cancer, load_diabetes)
    )
    C, gamma = np.logspace(-1, 3, 6), np.logspace(-5, -2, 6)
    dense_grid = {"C": np.logspace(-1, 3, 200), "gamma": np.logspace(-5, -2, 200)}
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    trees = {"ccp_alpha": np.linspace(0, 0.02, 10)}
    small = make_classification(200, 10, n_informative=5, flip_y=0.1, random_state=0)
    depths = {"max_depth": range(1, 21), "min_samples_leaf": range(1, 41)}
    forest = RandomForestClassifier(50, random_state=0)
    steps = make_pipeline(StandardScaler(), PCA(), KNeighborsClassifier())
    return {
        "GridSearchCV(SVC), digits": lambda: GridSearchCV(SVC(), {"C": C, "gamma": gamma}).fit(
            *digits
        ),
        "RandomizedSearchCV(SVC), digits": lambda: RandomizedSearchCV(
            SVC(), dense_grid, n_iter=30, random_state=0
        ).fit(*digits),
        "HalvingGridSearchCV(SVC), digits": lambda: HalvingGridSearchCV(
            SVC(), {"C": C, "gamma": gamma}, random_state=0
        ).fit(*digits),
        "GridSearchCV(KNeighborsClassifier), digits": lambda: GridSearchCV(
            KNeighborsClassifier(), {"n_neighbors": range(1, 21)}
        ).fit(*digits),
        "GridSearchCV(StandardScaler, LogisticRegression), digits": lambda: GridSearchCV(
            logistic, {"logisticregression__C": np.logspace(-3, 3, 13)}
        ).fit(*digits),
        "GridSearchCV(Lasso), diabetes": lambda: GridSearchCV(
            Lasso(), {"alpha": np.logspace(-3, 1, 30)}
        ).fit(*diabetes),
        "GridSearchCV(DecisionTreeClassifier), breast cancer": lambda: GridSearchCV(
            DecisionTreeClassifier(random_state=0), trees
        ).fit(*cancer),
        # Nothing is shared: what it costs to carry out 4,000 fits of a millisecond.
        "GridSearchCV(DecisionTreeClassifier, 800 candidates), 200 rows": lambda: GridSearchCV(
            DecisionTreeClassifier(random_state=0), depths
        ).fit(*small),
        "GridSearchCV(RandomForestClassifier), breast cancer": lambda: GridSearchCV(
            forest, trees
        ).fit(*cancer),
        "GridSearchCV(GaussianNB), digits": lambda: GridSearchCV(
            GaussianNB(), {"var_smoothing": np.logspace(-12, -1, 40)}
        ).fit(*digits),
        "GridSearchCV(SVR), diabetes": lambda: GridSearchCV(
            SVR(),
            {"C": np.logspace(0, 4, 8), "epsilon": [0.1, 1, 10], "gamma": np.logspace(-2, 1, 4)},
        ).fit(*diabetes),
        "GridSearchCV(Ridge), digits": lambda: GridSearchCV(
            Ridge(), {"alpha": np.logspace(-3, 3, 25)}
        ).fit(*digits),
        "GridSearchCV(RandomForestClassifier, n_estimators), digits": lambda: GridSearchCV(
            forest, {"n_estimators": [25, 50, 100, 200]}
        ).fit(*digits),
        "GridSearchCV(GradientBoostingClassifier), breast cancer": lambda: GridSearchCV(
            GradientBoostingClassifier(random_state=0), {"n_estimators": [25, 50, 100, 200]}
        ).fit(*cancer),
        "GridSearchCV(VotingClassifier), breast cancer": lambda: GridSearchCV(
            VotingClassifier([("forest", forest), ("nearest", KNeighborsClassifier())]),
            {"nearest__n_neighbors": [1, 3, 5, 9], "weights": [None, [2, 1]]},
        ).fit(*cancer),
        "GridSearchCV(TransformedTargetRegressor), diabetes": lambda: GridSearchCV(
            TransformedTargetRegressor(Lasso(), func=np.log1p, inverse_func=np.expm1),
            {"regressor__alpha": np.logspace(-4, 0, 30)},
        ).fit(*diabetes),
        "GridSearchCV(StandardScaler, PCA, KNeighborsClassifier), digits": lambda: GridSearchCV(
            steps,
            {"pca__n_components": [10, 20, 40], "kneighborsclassifier__n_neighbors": [1, 3, 5, 9]},
        ).fit(*digits),
    }


def measure(search: Callable[[], Any], repeat: int) -> dict[str, Any]:
    """CPU seconds of a search, plainly and on the backend, and what both found."""
    from joblib import parallel_config

    import pipelines  # noqa: F401  registers the backend

    ways: dict[str, Callable[[], Any]] = {
        "plain": nullcontext,
        "accelerated": lambda: parallel_config("pleasingly"),
    }
    with ways["accelerated"]():
        search()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    fitted = {}
    for _ in range(repeat):
        for name, way in ways.items():
            started = time.process_time()
            with way():
                fitted[name] = search()
            seconds[name].append(time.process_time() - started)
    plain, ours = (fitted[name].cv_results_["mean_test_score"] for name in ways)
    same = str(fitted["plain"].best_params_) == str(fitted["accelerated"].best_params_)
    alike = len(plain) == len(ours)
    return {
        **{f"{name}_seconds": min(values) for name, values in seconds.items()},
        "n_candidates": len(plain),
        "same_candidate": same,
        "difference": float(np.max(np.abs(plain - ours))) if alike else None,
    }


def _run(options: argparse.Namespace) -> list[str]:
    from threadpoolctl import threadpool_limits

    lines = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, search in searches().items():
            if (options.search or "") in name:
                line = {"search": name, **measure(search, options.repeat)}
                lines.append(line)
                print(" ".join(_cells(line)), flush=True)
    header = "search", "candidates", "plain, s", "accelerated, s", "ratio", "best", "mean scores"
    table = markdown_table(header, [_cells(line) for line in lines])
    text = f"# scikit-learn's own searches on the joblib backend\n\n{__doc__}\n{table}\n"
    record = stamped("own_searches", repeat=options.repeat, searches=lines)
    print(f"\nkept in {keep(Path(options.results), 'own-searches', record, text)}")
    return [line["search"] for line in lines if not line["same_candidate"]]


def _cells(line: dict[str, Any]) -> list[str]:
    plain, ours = line["plain_seconds"], line["accelerated_seconds"]
    return [
        line["search"],
        str(line["n_candidates"]),
        f"{plain:.2f}",
        f"{ours:.2f}",
        f"{plain / ours:.1f}",
        "same" if line["same_candidate"] else "another",
        "rounds differ" if line["difference"] is None else f"differ by {line['difference']:.1e}",
    ]


if __name__ == "__main__":
    sys.exit(main())
