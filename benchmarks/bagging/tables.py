"""Ten public tables, their splits, and the ensembles that are fitted on them in turn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.errors import InputError

IN_SKLEARN = ("iris", "wine", "breast_cancer", "digits")
# As pydataset and palmerpenguins ship them: the target, and what tells one row from another.
IN_FOLDER: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "Pima.te": (None, ()),
    "crabs": ("sp", ()),
    "fgl": (None, ()),
    "biopsy": (None, ()),
    "penguins-raw": ("Species", ("Individual ID", "Comments")),
    "infert": ("case", ()),
}
OURS, MLPS, FOREST = "BaggedNets", "bagged MLPs", "forest"
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def ensembles() -> dict[str, Callable[[int], Any]]:
    """Name -> function of a seed that gives an estimator; each with its own defaults."""
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pipelines import BaggedNets

    return {
        OURS: lambda seed: BaggedNets(random_state=seed),
        MLPS: lambda seed: BaggingClassifier(
            make_pipeline(StandardScaler(), MLPClassifier()), random_state=seed
        ),
        FOREST: lambda seed: RandomForestClassifier(random_state=seed),
    }


def splits(name: str, folder: Path | None, n_folds: int, repeats: int) -> Iterator[Split]:
    """Training rows, their classes, test rows, theirs: of each fold of each repeat.

    A table as it comes is prepared on the training rows, for all ensembles alike.

    Raises
    ------
    InputError
        The table is not in the folder.
    """
    from sklearn.model_selection import RepeatedStratifiedKFold

    X, y, preprocessor = _load(name, folder)
    dealt = RepeatedStratifiedKFold(n_splits=n_folds, n_repeats=repeats, random_state=2026)
    for train, test in dealt.split(np.zeros(len(y)), y):
        if preprocessor is None:
            yield X[train], y[train], X[test], y[test]
            continue
        prepared = preprocessor().fit(X.iloc[train])
        given, asked = (prepared.transform(X.iloc[rows]) for rows in (train, test))
        yield np.asarray(given), y[train], np.asarray(asked), y[test]


def _load(name: str, folder: Path | None) -> tuple[Any, np.ndarray, Callable[[], Any] | None]:
    from sklearn import datasets

    from pipelines.data.tables import make_preprocessor, read_raw_table

    if name in IN_SKLEARN:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return X, y, None
    path = Path(folder or "") / f"{name}.csv"
    if folder is None or not path.exists():
        raise InputError(
            f"DIR must hold {name}.csv, got {folder}; docs/tables.md says which packages ship it"
        )
    target, leave_out = IN_FOLDER[name]
    table = read_raw_table(path, target, leave_out=leave_out)
    y = np.unique(table.y, return_inverse=True)[1]
    return table.X, y, lambda: make_preprocessor(table.kinds, missing=table.missing)


def measure(parts: Sequence[Split]) -> dict[str, dict[str, Any]]:
    """Fit every ensemble on every split, in turn.

    Returns
    -------
    by ensemble: ``accuracy``, a number for each split; ``seconds`` and ``cpu_seconds`` of
    fitting and predicting, likewise; and of ours ``referred`` and, of those that are not,
    ``accuracy_of_kept``
    """
    made = ensembles()
    found: dict[str, dict[str, Any]] = {
        name: {"accuracy": [], "seconds": [], "cpu_seconds": []} for name in made
    }
    for seed, (X, y, X_test, truth) in enumerate(parts):
        for name, make in made.items():
            model = make(seed)
            began, cpu = time.perf_counter(), time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the MLPs that have not converged
                said = model.fit(X, y).predict(X_test)
            of_this = found[name]
            of_this["seconds"].append(time.perf_counter() - began)
            of_this["cpu_seconds"].append(time.process_time() - cpu)
            of_this["accuracy"].append(float(np.mean(said == truth)))
            if name == OURS:
                deferred = model.predict_ensemble(X_test).deferred
                of_this.setdefault("referred", []).append(float(deferred.mean()))
                right = float(np.mean((said == truth)[~deferred])) if not deferred.all() else None
                of_this.setdefault("accuracy_of_kept", []).append(right)
    return found


def warm_up() -> None:
    """Load what the first fit of each would load."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(int)
    measure([(X, y, X, y)])
