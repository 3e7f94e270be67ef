"""A digest of fixed runs: what users get of every command and estimator, in one JSON file.

Rows, candidates, predictions, models, attributes, exit status and error lines, to hold a
change against what was there before it::

    python -m tests.digest --write FILE.json      # of the code as it stands
    python -m tests.digest --against FILE.json    # a line for each difference, then exit status 1
    python -m tests.digest --against FILE.json --only pagerank --only path_svc

Left out is what differs from run to run: times, workers, memory, ports, process ids, versions,
the commit, paths, images, how much was done before a run was interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from tests.command_runs import command_line, start, wait_for_tasks

# Old name -> new name, of columns, files, fields of run.json and attributes.
RENAMED: dict[str, str] = {}

# Sums in another order differ by 1e-7 in single precision, and a network trained on them by a
# little more; a change of what is computed shows in the third or fourth digit. Models of the
# path solver are exact to its tolerance alone (1e-3 of decision values): work that is cut in
# another way may move them, and not the predictions. Such a difference is for a person to judge.
RELATIVE, ABSOLUTE = 1e-5, 1e-9
# Rows of a table that are stored themselves; of a longer one, a summary of each column.
MOST_ROWS = 90
VOLATILE = re.compile(
    r"seconds|time|^worker|workers$|memory|started|finished|session_began|^argv$|^options$"
    r"|^versions$|^files$|^commit$|^machine$|^cluster$|busy_share|^fingerprint$"
    r"|steps_made$"  # the worker that comes first to a step that candidates share makes it
    r"|^preparation$"  # a zip archive, with the time of day in it
)
HERE = Path(__file__).resolve().parents[1]

Run = Callable[[Path], dict[str, Any]]


# What is recorded of numbers, tables, folders and estimators


def array(values: Any) -> Any:
    """A short array itself; of a longer one a hash, or for floats sums that a tolerance fits."""
    values = np.asarray(values)
    if values.dtype == object or values.dtype.kind in "US":
        values = np.array([_plain(value) for value in values.ravel().tolist()], dtype=object)
        if values.size <= MOST_ROWS:
            return values.tolist()
        return {"n": values.size, "sha": _sha(json.dumps(values.tolist()).encode())}
    if values.size <= MOST_ROWS:
        return _plain(values.tolist())
    if values.dtype.kind != "f":
        content = np.ascontiguousarray(values.astype(np.int64)).tobytes()
        return {"shape": list(values.shape), "sha": _sha(content)}
    flat = values.astype(np.float64).ravel()
    finite = np.where(np.isfinite(flat), flat, 0.0)
    places = np.arange(flat.size)
    return {
        "shape": list(values.shape),
        "not_finite": int((~np.isfinite(flat)).sum()),
        "size": float(np.abs(finite).sum()),
        # That no number has changed, nor its place.
        "sums": [float(finite @ np.cos(places * step)) for step in (0.0, 1.0, 1.7)],
    }


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return array(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is pd.NA or value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, bool | int | float | str) else repr(value)


def table(frame: pd.DataFrame) -> dict[str, Any]:
    """The columns of a table, less those that differ from run to run."""
    columns = {}
    for name in frame.columns:
        if VOLATILE.search(str(name)):
            continue
        column = frame[name]
        numbers = pd.api.types.is_numeric_dtype(column) and column.notna().all()
        columns[str(name)] = array(column.to_numpy() if numbers else column.astype(object))
    return {"n_rows": len(frame), "columns": columns}


def without_volatile(record: Any) -> Any:
    """``run.json`` without the fields that differ from run to run."""
    if isinstance(record, dict):
        return {k: without_volatile(v) for k, v in record.items() if not VOLATILE.search(k)}
    if isinstance(record, list):
        record = [without_volatile(one) for one in record]
        return record if len(record) <= MOST_ROWS else array(record)
    return _plain(record)


def folder(path: Path) -> dict[str, Any]:
    """What a run left: tables, models, ``run.json`` and the names of its files."""
    found: dict[str, Any] = {}
    for file in sorted(path.rglob("*")):
        name = str(file.relative_to(path))
        if name.startswith("checkpoints"):  # as many as there was time for
            continue
        if file.suffix == ".parquet":
            found[name] = table(pd.read_parquet(file))
        elif file.suffix == ".csv":
            found[name] = table(pd.read_csv(file))
        elif file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                found[name] = {key: array(arrays[key]) for key in sorted(arrays)}
        elif file.suffix == ".safetensors":
            arrays = sorted(load_file(file).items())
            found[name] = {k: array(one) for k, one in arrays if not VOLATILE.search(k)}
    if (path / "run.json").exists():
        found["run.json"] = without_volatile(json.loads((path / "run.json").read_text()))
    found["files"] = sorted(
        file.name for file in path.iterdir() if file.suffix not in {".png", ".svg"}
    )
    return found


def estimator(fitted: Any, X: Any) -> dict[str, Any]:
    """Attributes of a fitted estimator, and what it says of rows."""
    found: dict[str, Any] = {}
    if hasattr(fitted, "cv_results_"):
        found["cv_results_"] = {
            key: array(values) if key != "params" else [json.dumps(_plain(one)) for one in values]
            for key, values in dict(fitted.cv_results_).items()
            if not VOLATILE.search(key) and not key.startswith("param_")
        }
    for name in (
        "best_params_", "best_score_", "best_index_", "classes_", "n_features_in_", "multimetric_",
        "n_splits_", "fits", "support_", "n_support_", "dual_coef_", "intercept_", "fit_status_",
        "selective_prediction_.certainty",
    ):  # fmt: skip
        with contextlib.suppress(AttributeError):
            found[name] = _plain(getattr(fitted, name))
    for name in ("predict", "decision_function", "predict_proba", "member_proba"):
        with contextlib.suppress(AttributeError):
            found[name] = array(getattr(fitted, name)(X))
    return found


def lines(said: str, place: Path) -> list[str]:
    """Error lines without the paths of this machine."""
    said = said.replace(str(place), "TEMPORARY").replace(str(HERE), "HERE")
    return [re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", line) for line in said.splitlines()]


# The runs


def command(place: Path, *options: str) -> dict[str, Any]:
    """A command as a person starts it, and what it left."""
    results = place / "run"
    done = subprocess.run(
        command_line(*options, "--results", str(results)),
        capture_output=True, text=True, cwd=place, env=_environment(), check=False,
    )  # fmt: skip
    found = folder(results) if results.exists() else {}
    return {"status": done.returncode, "errors": lines(done.stderr, place), **found}


def _environment() -> dict[str, str]:
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def gaps(place: Path) -> str:
    """A table with gaps, categories, and a target for each task."""
    rng = np.random.default_rng(7)
    n = 120
    width, height = rng.normal(3, 1, n), rng.gamma(2, 2, n)
    colour = rng.choice(["red", "green", "blue"], n)
    value = width + 0.4 * height + (colour == "red") + rng.normal(0, 0.3, n)
    frame = pd.DataFrame(
        {
            "width": np.where(rng.random(n) < 0.1, np.nan, width.round(4)),
            "height": height.round(4),
            "colour": np.where(rng.random(n) < 0.08, None, colour),
            "price": value.round(4),
            "kind": np.where(value > np.quantile(value, 0.6), "large",
                             np.where(value > np.quantile(value, 0.3), "middle", "small")),
        }
    )  # fmt: skip
    path = place / "gaps.csv"
    frame.to_csv(path, index=False)
    return str(path)


def svm_grid_local(place: Path) -> dict[str, Any]:
    options = "--limit 500 --n-c 4 --n-gamma 4 --log-gamma -6 -2 --cluster local --workers 2"
    return command(place, "svm_grid", *options.split())


def svm_grid_threads(place: Path) -> dict[str, Any]:
    options = (
        "--limit 300 --n-c 3 --n-gamma 3 --log-gamma -6 -2 --folds 3 --cluster threads "
        "--scoring f1_macro --probability --kernel poly --coef0 1 --decision ovr "
        "--class-weight balanced"
    )
    return command(place, "svm_grid", *options.split())


def svm_grid_gaps(place: Path) -> dict[str, Any]:
    options = "--target kind --leave-out price --n-c 4 --n-gamma 3 --cluster threads"
    return command(place, "svm_grid", "--dataset", gaps(place), *options.split())


def svm_grid_resumed(place: Path) -> dict[str, Any]:
    # A solver that shares nothing, so that there are many tasks to come between.
    options = (
        "--limit 400 --n-c 4 --n-gamma 4 --log-gamma -6 -2 --cluster local --workers 2 "
        "--solver sklearn"
    )
    results = place / "run"
    with patch.dict(os.environ, _environment()):
        program = start("svm_grid", *options.split(), "--results", str(results))
        wait_for_tasks(results, 8, program)
        program.send_signal(signal.SIGTERM)
        _, said = program.communicate()
    done = subprocess.run(
        command_line("svm_grid", "--resume", str(results)),
        capture_output=True, text=True, cwd=place, env=_environment(), check=False,
    )  # fmt: skip
    # How many tasks were done is a matter of time.
    stopped = [re.sub(r"\d[\d,]*", "N", line) for line in lines(said, place)]
    return {
        "stopped": {"status": program.returncode, "errors": stopped},
        "status": done.returncode,
        "errors": lines(done.stderr, place),
        **folder(results),
    }


def svm_grid_refused(place: Path) -> dict[str, Any]:
    from pipelines.svm_grid import main

    def csv(name: str, text: str) -> str:
        path = place / f"{name}.csv"
        path.write_text(text)
        return str(path)

    asked = {
        "unknown option": ["--n-cs", "3"],
        "unknown data set": ["--dataset", "minst"],
        "missing file": ["--dataset", str(place / "none.csv"), "--target", "y"],
        "no such column": ["--dataset", csv("a", "a,label\n1,2\n"), "--target", "lable"],
        "missing cell": ["--dataset", csv("b", "a,y\n1,0\n,1\n"), "--target", "y",
                         "--missing", "refuse"],
        "infinity": ["--dataset", csv("c", "a,y\n1,0\n-inf,1\n"), "--target", "y"],
        "rare classes": ["--dataset", csv("d", "a,y\n" + "1,3\n" * 20 + "2,4\n" * 20 + "3,26\n")],
        "one class": ["--dataset", csv("e", "a,y\n1,0\n2,0\n3,0\n"), "--target", "y"],
        "few rows": ["--dataset", csv("f", "a,y\n" + "1,0\n" * 20 + "2,1\n" * 4), "--target", "y"],
        "folds": ["--folds", "1"],
        "no C": ["--n-c", "0"],
        "one gamma twice": ["--log-gamma", "-2", "-2"],
        "scoring": ["--scoring", "f1_marco"],
        "solver": ["--cluster", "threads", "--solver", "svm"],
        "kernel": ["--kernel", "rbff"],
        "tolerance": ["--tol", "0"],
        "workers": ["--workers", "0"],
        "device": ["--cluster", "threads", "--device", "gpu"],
        "results": ["--results", "/dev/null/run"],
        "resume": ["--resume", str(place / "nowhere")],
    }  # fmt: skip
    found: dict[str, Any] = {}
    for name, options in asked.items():
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                status = main(options)
            except SystemExit as ended:
                status = ended.code
        found[name] = {"status": status, "errors": lines(said.getvalue(), place)[-1:]}
    return found


def nn_bagging(place: Path) -> dict[str, Any]:
    options = (
        "--limit 300 --n-bootstrap 2 --n-tuning 2 --folds 2 --max-epochs 3 "
        "--cluster local --workers 2"
    )
    return command(place, "nn_bagging", *options.split())


def cross_validate_classes(place: Path) -> dict[str, Any]:
    options = (
        "--target kind --leave-out price --folds 3 --nested 2 --cluster threads "
        "--scoring accuracy f1_macro --estimator knn --param n_neighbors=1,3,9 "
        "--estimator forest --param n_estimators=10,30 --estimator svm --param C=1,10 gamma=0.1,1 "
        "--estimator ridge --param alpha=0.1,10"
    )
    return command(place, "cross_validate", "--dataset", gaps(place), *options.split())


def cross_validate_numbers(place: Path) -> dict[str, Any]:
    options = (
        "--target price --leave-out kind --folds 4 --cluster local --workers 2 "
        "--estimator knn --param n_neighbors=2,5 --estimator forest --param n_estimators=10,20 "
        "--estimator ridge --param alpha=0.1,1,10 --estimator lasso --param alpha=0.01,0.1 "
        "--estimator svm --param C=1,10"
    )
    return command(place, "cross_validate", "--dataset", gaps(place), *options.split())


def pagerank(place: Path) -> dict[str, Any]:
    options = "--random rmat --nodes 300 --cluster local --workers 2"
    return command(place, "pagerank", *options.split())


def data_parallel(place: Path) -> dict[str, Any]:
    options = "--points 1000 --epochs 3 --cluster local --workers 2"
    return command(place, "data_parallel", *options.split())


def classes() -> tuple[np.ndarray, np.ndarray]:
    """Images of four digits, scaled, and names."""
    from sklearn.datasets import load_digits

    X, y = load_digits(n_class=4, return_X_y=True)
    return (X[:300] - 8) / 4.6, np.array(["zero", "one", "two", "three"])[y[:300]]


def numbers() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return X[:150], (y[:150] - 150) / 75


def svm_grid_search(place: Path) -> dict[str, Any]:
    from pipelines import SVMGridSearch

    X, y = classes()
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.001, 0.01], "cv": 3}
    weights = np.random.default_rng(3).uniform(0.2, 3, len(y))
    searches: dict[str, Callable[[], Any]] = {
        f"kernel {kernel}": lambda kernel=kernel: SVMGridSearch(**grid, kernel=kernel, coef0=0.5)
        for kernel in ("rbf", "linear", "poly", "sigmoid")
    }
    searches |= {
        "several scores": lambda: SVMGridSearch(
            **grid, scoring=["accuracy", "f1_macro", "roc_auc_ovr"], refit="f1_macro",
            return_train_score=True,
        ),
        "function": lambda: SVMGridSearch(**grid, scoring=lambda one, X, y: one.score(X, y)),
        "balanced, one-vs-rest": lambda: SVMGridSearch(
            **grid, decision="ovr", class_weight="balanced", return_train_score=True
        ),
        "scale": lambda: SVMGridSearch(C=[1, 10], gamma="scale", cv=3),
        "probability": lambda: SVMGridSearch(**grid, probability=True),
        "one bad candidate": lambda: SVMGridSearch(
            param_grid={"C": [1.0, -1.0], "gamma": [0.01]}, cv=3, error_score=-1.0
        ),
        "solver sklearn": lambda: SVMGridSearch(**grid, solver="sklearn"),
        "no refit": lambda: SVMGridSearch(**grid, refit=False),
    }  # fmt: skip
    found = {name: fitted(make, X, y) for name, make in searches.items()}
    found["weights"] = fitted(lambda: SVMGridSearch(**grid), X, y, sample_weight=weights)
    two = np.isin(y, ["zero", "one"])
    found["two classes"] = fitted(
        lambda: SVMGridSearch(**grid, scoring="roc_auc", probability=True), X[two], y[two]
    )
    found["errors"] = {
        "C": fitted(lambda: SVMGridSearch(C=[-1.0]), X, y),
        "scoring": fitted(lambda: SVMGridSearch(scoring="f1_marco"), X, y),
        "one class": fitted(SVMGridSearch, X, np.zeros(len(y))),
        "no such class": fitted(lambda: SVMGridSearch(class_weight={"four": 2.0}), X, y),
    }
    return found


def fitted(make: Callable[[], Any], X: Any, y: Any, **more: Any) -> dict[str, Any]:
    """Attributes of what is fitted, its warnings, or its error."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = estimator(make().fit(X, y, **more), X)
    except (ValueError, TypeError) as error:
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    kinds = (FutureWarning, DeprecationWarning, ResourceWarning)
    names = {one.category.__name__ for one in caught if not issubclass(one.category, kinds)}
    return {**found, "warnings": sorted(names)}


def grid_search(place: Path) -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR

    from pipelines import GridSearch

    X, y = classes()
    C = [0.1, 1.0, 10.0]
    behind = {"svc__C": C, "svc__gamma": [0.001, 0.01]}
    of_classes = {
        "svc": lambda: GridSearch(SVC(), {"C": C, "gamma": [0.001, 0.01]}, cv=3),
        "svc, several scores": lambda: GridSearch(
            SVC(), {"C": C, "kernel": ["rbf", "linear"]}, cv=3, scoring=["accuracy", "f1_macro"],
            refit="accuracy", return_train_score=True,
        ),
        "svc behind scaling": lambda: GridSearch(
            make_pipeline(StandardScaler(), SVC()), behind, cv=3
        ),
        "one bad candidate": lambda: GridSearch(SVC(), {"C": [1.0, -1.0]}, cv=3, error_score=-1.0),
        "neighbours": lambda: GridSearch(
            KNeighborsClassifier(), {"n_neighbors": [1, 3, 5], "weights": ["uniform", "distance"]},
            cv=3, return_train_score=True,
        ),
        "forest": lambda: GridSearch(
            RandomForestClassifier(random_state=0), {"n_estimators": [5, 10, 20]}, cv=3
        ),
        "logistic": lambda: GridSearch(LogisticRegression(), {"C": [0.01, 1.0]}, cv=3),
    }  # fmt: skip
    found = {name: fitted(make, X, y) for name, make in of_classes.items()}
    weights = np.random.default_rng(3).uniform(0.2, 3, len(y))
    found["weights"] = fitted(of_classes["svc"], X, y, sample_weight=weights)
    Z, z = numbers()
    of_numbers = {
        "svr": lambda: GridSearch(
            SVR(), {"C": C, "epsilon": [0.1, 0.3]}, cv=3, return_train_score=True
        ),
        "ridge": lambda: GridSearch(Ridge(), {"alpha": [0.01, 0.1, 1.0]}, cv=3),
        "ridge behind scaling": lambda: GridSearch(
            make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 1.0]}, cv=3,
            scoring="neg_mean_absolute_error",
        ),
    }  # fmt: skip
    found |= {name: fitted(make, Z, z) for name, make in of_numbers.items()}
    return found


def path_svc(place: Path) -> dict[str, Any]:
    from pipelines import PathSVC

    X, y = classes()
    weights = np.random.default_rng(3).uniform(0.2, 3, len(y))
    made: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
        "rbf": (partial(PathSVC, C=10.0), {}),
        "poly": (partial(PathSVC, kernel="poly", coef0=1.0, class_weight={"one": 3.0}), {}),
        "one-vs-rest": (partial(PathSVC, decision="ovr", class_weight="balanced"), {}),
        "weights": (partial(PathSVC, gamma=0.01), {"sample_weight": weights}),
        "probability": (partial(PathSVC, gamma=0.01, probability=True), {}),
        "bad C": (partial(PathSVC, C=-1.0), {}),
    }
    found = {name: fitted(make, X, y, **more) for name, (make, more) in made.items()}
    file = place / "path_svc.safetensors"
    PathSVC(C=10.0).fit(X, y).save(file)
    found["stored"] = {key: array(one) for key, one in sorted(load_file(file).items())}
    return {**found, "loaded": estimator(PathSVC.load(file), X)}


def bagged_nets(place: Path) -> dict[str, Any]:
    from sklearn.datasets import load_iris

    from pipelines import BaggedNets

    X, y = load_iris(return_X_y=True)
    # Without a client cv_results_ is a DataFrame.
    made = {
        "search": BaggedNets(n_estimators=2, n_iter=2, cv=2, max_epochs=5, random_state=0),
        "together": BaggedNets(n_estimators=3, random_state=0, max_epochs=20, defer_error=0.1),
    }
    found: dict[str, Any] = {}
    for name, one in made.items():
        one.fit(X, y)
        said = {key: array(getattr(one, key)(X)) for key in ("predict", "predict_proba")}
        tables = {"cv_results_": table(one.cv_results_), "candidates_": table(one.candidates_)}
        found[name] = {**said, "member_proba": array(one.member_proba(X)), **tables}
        found[name]["classes_"] = array(one.classes_)
    return found


@contextlib.contextmanager
def cuml_of_scikit_learn() -> Iterator[None]:
    """Modules called ``cuml`` and ``cupy``: scikit-learn's SVC, and arrays on the host."""
    from sklearn import svm

    class SVC(svm.SVC):
        def __init__(self, C: float = 1.0, gamma: Any = "scale", **named: Any) -> None:
            known = svm.SVC().get_params()
            super().__init__(C=C, gamma=gamma, **{k: v for k, v in named.items() if k in known})

    modules: dict[str, Any] = {}
    for name in ("cuml", "cuml.svm", "cupy"):
        modules[name] = ModuleType(name)
        modules[name].__spec__ = ModuleSpec(name, None)
    modules["cuml"].svm, modules["cuml.svm"].SVC = modules["cuml.svm"], SVC
    modules["cupy"].asarray, modules["cupy"].asnumpy = np.asarray, np.asarray
    modules["cupy"].ndarray = np.ndarray
    with patch.dict(sys.modules, modules):
        yield


def cuml(place: Path) -> dict[str, Any]:
    from pipelines import SVMGridSearch

    X, y = classes()
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.001, 0.01], "cv": 3, "n_jobs": 1}
    named = {
        "ovo": {},
        "ovr": {"decision": "ovr", "class_weight": "balanced"},
        "scores": {
            "scoring": ["accuracy", "f1_macro"], "refit": "accuracy", "return_train_score": True
        },
        "poly": {"kernel": "poly", "class_weight": {"one": 2.0}, "probability": True},
    }  # fmt: skip
    with cuml_of_scikit_learn():
        return {
            name: fitted(
                partial(SVMGridSearch, **grid, **more, solver="cuml", device="gpu"), X, y
            )
            for name, more in named.items()
        }  # fmt: skip


RUNS: dict[str, Run] = {
    run.__name__: run
    for run in (
        svm_grid_local, svm_grid_threads, svm_grid_gaps, svm_grid_resumed, svm_grid_refused,
        nn_bagging, cross_validate_classes, cross_validate_numbers, pagerank, data_parallel,
        svm_grid_search, grid_search, path_svc, bagged_nets, cuml,
    )
}  # fmt: skip


# What differs


def renamed(value: Any) -> Any:
    """With the new names of what was renamed."""
    if isinstance(value, dict):
        return {RENAMED.get(key, key): renamed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [RENAMED.get(one, one) if isinstance(one, str) else renamed(one) for one in value]
    return value


def same(old: Any, new: Any, size: float = 0.0) -> bool:
    """Whether two values are, floats within the tolerance."""
    numbers = (int, float)
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if isinstance(old, int) and isinstance(new, int):
        return old == new
    if isinstance(old, numbers) and isinstance(new, numbers):
        return math.isclose(old, new, rel_tol=RELATIVE, abs_tol=ABSOLUTE + RELATIVE * size)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        # A number near zero among large ones is as exact as those.
        sizes = [abs(one) for one in old if isinstance(one, float) and math.isfinite(one)]
        size = max(size, max(sizes, default=0.0) * 0.1)
        return all(same(*pair, size) for pair in zip(old, new, strict=True))
    return bool(old == new)


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """A line for each value that is not the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        size = old.get("size", 0.0) if "sums" in old else 0.0
        for key in [*old, *(key for key in new if key not in old)]:
            where = f"{place} / {key}" if place else key
            if key not in new:
                yield f"{where}: gone, was {_short(old[key])}"
            elif key not in old:
                yield f"{where}: new, {_short(new[key])}"
            elif key == "sums" and not same(old[key], new[key], size):
                yield f"{where}: {_short(old[key])} -> {_short(new[key])}"
            elif key != "sums":
                yield from differences(old[key], new[key], where)
    elif not same(old, new):
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            pairs = list(zip(old, new, strict=True))
            other = [place for place, pair in enumerate(pairs) if not same(*pair)]
            for first in other[:1]:
                yield (
                    f"{place}: {len(other)} of {len(old)} differ, the first at {first}: "
                    f"{_short(old[first])} -> {_short(new[first])}"
                )
            if other:
                return
        yield f"{place}: {_short(old)} -> {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 300 else text[:297] + "..."


def carry_out(names: list[str]) -> dict[str, Any]:
    """The digest of runs, each in a folder of its own; one that breaks says so."""
    digest = {}
    for name in names:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            try:
                digest[name] = json.loads(json.dumps(_plain(RUNS[name](Path(place).resolve()))))
            except Exception as error:  # the others are of use without it
                digest[name] = {"broken": f"{type(error).__name__}: {error}"}
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return digest


def main() -> int:
    """Write a digest, or hold one against what is computed now."""
    as_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tests.digest", None, __doc__, formatter_class=as_is)
    parser.add_argument("--write", metavar="FILE.json", type=Path)
    parser.add_argument("--against", metavar="FILE.json", type=Path)
    parser.add_argument("--only", metavar="NAME", action="append", choices=list(RUNS))
    options = parser.parse_args()
    if options.write is None and options.against is None:
        parser.error("one of --write and --against is needed")
    names = options.only or list(RUNS)
    digest = carry_out(names)
    if options.write is not None:
        kept = json.loads(options.write.read_text()) if options.write.exists() else {}
        digest = kept | digest if options.only else digest
        runs = (f"{json.dumps(name)}: {json.dumps(digest[name])}" for name in digest)
        options.write.write_text("{\n" + ",\n".join(runs) + "\n}\n")
    if options.against is None:
        return 0
    before = json.loads(options.against.read_text())
    found = [
        line
        for name in names
        for line in differences(renamed(before.get(name, {})), renamed(digest[name]), name)
    ]
    print("\n".join(found) if found else f"{len(names)} runs: no difference")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
