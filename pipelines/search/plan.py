"""Make the plan of a cross-validation from options and data: candidates, scorers, splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipelines.data.dataset import Dataset
from pipelines.errors import InputError, opt
from pipelines.search.candidates import Candidate, Grid, candidates_of
from pipelines.search.estimators import estimator_of, refuse_unknown
from pipelines.search.preprocessing import parameter_name, pipeline_of
from pipelines.search.splits import Split, inner_splits, shorter, splits_of
from pipelines.search.tasks import CURVE, INNER, OUTER, SEARCH

USUAL = {"classification": ("logistic", "knn", "forest", "boosting", "svm"),
         "regression": ("ridge", "knn", "forest", "boosting", "svm")}  # fmt: skip
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8)  # of the training rows, for a learning curve


def make_candidates(
    names: Sequence[str], grids: Mapping[str, Grid], data: Dataset, seed: int, preprocess: str
) -> list[Candidate]:
    """Return every combination of parameters of every algorithm.

    Raises
    ------
    InputError
        An estimator or a parameter is not known, or is none for the task.
    """
    from sklearn.base import clone

    found = []
    for name in names:
        estimator = estimator_of(name, data.task, seed)
        whole = pipeline_of(estimator, data, preprocess)
        grid = {parameter_name(whole, key): values for key, values in grids.get(name, {}).items()}
        for given, key in zip(grids.get(name, {}), grid, strict=True):
            if key.endswith(given) and key != given:
                refuse_unknown(estimator, [given], name)
            else:
                refuse_unknown(whole, [key], name)
        typed = list(grids.get(name, {}))
        for parameters in candidates_of(grid):
            made = clone(whole).set_params(**parameters)
            shown = dict(zip(typed, parameters.values(), strict=True))
            found.append(Candidate(name, shown, made))
    return found


def make_splits(
    data: Dataset, cv: str, n_folds: int, n_repeats: int, seed: int, nested: int | None,
    learning_curve: bool,
) -> dict[tuple[str, float], list[Split]]:  # fmt: skip
    """Return the splits of every stage.

    ``SEARCH`` has those of the cross-validation, ``CURVE`` the same with shares of their
    training rows; ``OUTER`` the outer folds of a nested one, and ``INNER`` those within, one
    outer fold after the other.

    Raises
    ------
    InputError
        See ``splits_of``.
    """
    X, y, groups, task = data.X_train, data.y_train, data.groups, data.task
    classes = data.classes if len(data.classes) else None
    rows = (X, y, groups, task, classes)
    splits = {(SEARCH, 1.0): splits_of(cv, n_folds, n_repeats, seed, *rows)}
    if nested is not None:
        kind = "auto" if cv == "repeated" else cv
        if cv.endswith(".py") or ":" in cv:
            raise InputError(
                f"{opt('nested')} needs a {opt('cv')} by its name, got {cv}; leave one of them out"
            )
        outer = splits_of(kind, nested, 1, seed + 1, *rows)
        inner = inner_splits(outer, cv, n_folds, n_repeats, seed, *rows)
        splits[OUTER, 1.0] = outer
        splits[INNER, 1.0] = [split for one in inner for split in one]
    if learning_curve:
        for share in SHARES:
            splits[CURVE, share] = [
                shorter(split, share, y, task, cv == "time", seed + i)
                for i, split in enumerate(splits[SEARCH, 1.0])
            ]
    return splits


def ratio_of(splits: Sequence[Split]) -> float:
    """Return validation rows for each training row, the mean over the splits."""
    return float(np.mean([len(test) / len(train) for train, test in splits]))


def as_recorded(parameters: Mapping[str, Any]) -> str:
    """Return parameters as a person reads them."""
    return ", ".join(f"{name}={value}" for name, value in parameters.items()) or "defaults"
