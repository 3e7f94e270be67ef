"""``--cv``: splits of the rows into training and validation rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipelines.data.dataset import CLASSIFICATION, Dataset, copy_of, take_rows
from pipelines.data.folds import make_folds
from pipelines.data.user_files import USER_ERRORS, load_object
from pipelines.errors import InputError, opt
from pipelines.search.shared.base import Split
from pipelines.search.tasks import CURVE, INNER, OUTER, SEARCH

CURVE_FRACTIONS = (0.1, 0.2, 0.4, 0.6, 0.8)  # fractions of the training rows, for a learning curve
CV_METHODS = ("auto", "stratified", "kfold", "repeated", "group", "time")


class SplitsOfStages(dict[tuple[str, float], list[Split]]):
    """The splits by stage and fraction of the rows; splits of a fraction are made on demand.

    They are the splits of the stage, restricted to a random subset of the rows. So every row stays
    on its side of a split, and groups stay together.

    Parameters
    ----------
    splits : mapping of (str, float) to list of Split
        Splits by stage and fraction.
    y : array of shape (n_rows,)
        Targets; a subset has the classes in proportion.
    task : {"classification", "regression"}
    seed : int
        Determines the subsets.
    """

    def __init__(self, splits: Mapping[Any, list[Split]], y: Any, task: str, seed: int) -> None:
        super().__init__(splits)
        self.y, self.task, self.seed = y, task, seed

    def __missing__(self, key: tuple[str, float]) -> list[Split]:
        stage, fraction = key
        if fraction >= 1 or stage not in (SEARCH, INNER):
            raise KeyError(key)
        is_chosen = self._rows(fraction)
        self[key] = [
            (train[is_chosen[train]], test[is_chosen[test]]) for train, test in self[stage, 1.0]
        ]
        return self[key]

    def _rows(self, fraction: float) -> np.ndarray:
        """Whether each row is in the subset of a fraction; larger subsets contain smaller ones."""
        order = np.random.default_rng(self.seed).permutation(len(self.y))
        position = np.empty(len(self.y))  # of each row within its class, from 0 to 1
        groups = [order]
        if self.task == CLASSIFICATION:
            groups = [order[self.y[order] == code] for code in np.unique(self.y)]
        for rows in groups:
            position[rows] = np.arange(len(rows)) / len(rows)
        return position < fraction


def make_splits(
    data: Dataset,
    cv: str,
    n_folds: int,
    n_repeats: int,
    seed: int,
    nested: int | None,
    learning_curve: bool,
) -> SplitsOfStages:
    """Make the splits of every stage of a run.

    ``SEARCH`` has the splits of the cross-validation, and ``CURVE`` the same splits with fractions
    of their training rows. ``OUTER`` has the outer folds of a nested cross-validation, and
    ``INNER`` the splits within them, one outer fold after the other.

    Parameters
    ----------
    data : Dataset
    cv : str
        See ``splits_of``.
    n_folds : int
    n_repeats : int
        Repeats of a repeated cross-validation.
    seed : int
    nested : int or None
        Number of outer folds; None for no nested cross-validation.
    learning_curve : bool

    Returns
    -------
    SplitsOfStages

    Raises
    ------
    InputError
        The rows cannot be split like this, or ``nested`` is combined with the user's own function.
    """
    X, y, groups, task = data.X_train, data.y_train, data.groups, data.task
    classes = data.classes if len(data.classes) else None
    rows = (X, y, groups, task, classes)
    splits = {(SEARCH, 1.0): splits_of(cv, n_folds, n_repeats, seed, *rows)}
    if nested is not None:
        outer_cv = "auto" if cv == "repeated" else cv
        if cv.endswith(".py") or ":" in cv:
            raise InputError(
                f"{opt('nested')} needs a {opt('cv')} by its name, got {cv}; leave one of them out"
            )
        splits[OUTER, 1.0] = splits_of(outer_cv, nested, 1, seed + 1, *rows)
        splits[INNER, 1.0] = [
            (train[fit], train[validation])
            for train, _ in splits[OUTER, 1.0]
            for fit, validation in splits_of(
                cv,
                n_folds,
                n_repeats,
                seed,
                take_rows(X, train),
                y[train],
                None if groups is None else groups[train],
                task,
                classes,
            )
        ]
    if learning_curve:
        for fraction in CURVE_FRACTIONS:
            splits[CURVE, fraction] = [
                shorten_training(split, fraction, y, task, cv == "time", seed + i)
                for i, split in enumerate(splits[SEARCH, 1.0])
            ]
    return SplitsOfStages(splits, y, task, seed)


def splits_of(
    cv: str,
    n_folds: int,
    n_repeats: int,
    seed: int,
    X: Any,
    y: np.ndarray,
    groups: np.ndarray | None,
    task: str,
    classes: np.ndarray | None = None,
) -> list[Split]:
    """The training and validation rows of every fold.

    Parameters
    ----------
    cv : str
        ``"stratified"``; ``"kfold"``, shuffled; ``"repeated"``, either of them by the task,
        ``n_repeats`` times; ``"group"``, a group is never on both sides; ``"time"``, rows are in
        order of time and later ones validate; ``"auto"``, stratified for classes, else kfold; or
        ``"FILE.py:function"`` of X, y and groups, which returns pairs of index arrays or a
        splitter.
    n_folds : int
    n_repeats : int
    seed : int
    X : array or DataFrame
        Rows of the search.
    y : array of shape (n_rows,)
        Class codes or numbers.
    groups : array of shape (n_rows,) or None
    task : {"classification", "regression"}
    classes : array, optional
        Labels, to name a class in an error.

    Returns
    -------
    list of (array, array)
        Row numbers.

    Raises
    ------
    InputError
        The rows cannot be split like this.
    """
    if cv not in CV_METHODS:
        return _of_function(cv, X, y, groups)
    if cv == "auto":
        cv = "stratified" if task == CLASSIFICATION else "kfold"
    if cv == "stratified" and task != CLASSIFICATION:
        raise InputError(
            f"{opt('cv')} must not be stratified where the target is a number; use "
            f"{opt('cv', 'kfold')}"
        )
    if cv == "repeated":
        return [
            split
            for repeat in range(n_repeats)
            for split in splits_of("auto", n_folds, 1, seed + repeat, X, y, None, task, classes)
        ]
    if cv == "stratified":
        return make_folds(y, n_folds, seed, classes)
    from sklearn import model_selection  # imported here, as the folds above need no scikit-learn

    n, what = len(y), "rows"
    if cv == "group":
        assert groups is not None  # options were checked
        n, what = len(np.unique(groups)), "groups"
    if n_folds > n - (cv == "time"):
        raise InputError(f"{opt('folds')} must not exceed the {n} {what}, got {n_folds}; use fewer")
    if cv == "group":
        return list(model_selection.GroupKFold(n_folds).split(y, y, groups))
    splitter: Any = model_selection.TimeSeriesSplit(n_folds)
    if cv == "kfold":
        splitter = model_selection.KFold(n_folds, shuffle=True, random_state=seed)
    return list(splitter.split(y))


def _of_function(cv: str, X: Any, y: np.ndarray, groups: np.ndarray | None) -> list[Split]:
    if not cv.rpartition(":")[0].endswith(".py"):
        raise InputError(
            f"{opt('cv')} must be one of {', '.join(CV_METHODS)} or FILE.py:function, got {cv!r}; "
            f"check the spelling"
        )
    function = load_object("cv", cv)
    try:
        X, y, groups = map(copy_of, (X, y, groups))  # the function may write to them
        result = function(X, y, groups)
        result = result.split(X, y, groups) if hasattr(result, "split") else result
        splits = [(np.asarray(train), np.asarray(test)) for train, test in result]
        for rows in (part for split in splits for part in split):
            if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
                raise ValueError("a side of a split is no array of row numbers, or empty")
            if rows.min() < 0 or rows.max() >= len(y):
                raise ValueError(f"a row number is not below {len(y)}")
        if len(splits) < 2:
            raise ValueError(f"it gave {len(splits)} splits; at least 2 are compared")
    except USER_ERRORS as error:
        raise InputError(
            f"{opt('cv')} must be a function of X, y and groups that returns (train, validation) "
            f"rows, got {cv} ({type(error).__name__}: {error}); correct it"
        ) from None
    return splits


def shorten_training(
    split: Split, fraction: float, y: np.ndarray, task: str, in_order: bool, seed: int
) -> Split:
    """The split with a fraction of its training rows; classes keep their proportions.

    Parameters
    ----------
    split : (array, array)
        Training and validation rows.
    fraction : float
    y : array of shape (n_rows,)
    task : {"classification", "regression"}
    in_order : bool
        Whether rows are in order of time: then the latest training rows are kept.
    seed : int
    """
    train, test = split
    n = max(2, round(fraction * len(train)))
    if in_order:
        return train[-n:], test
    if task == CLASSIFICATION:
        from pipelines.data.folds import stratified_subset

        _, codes = np.unique(y[train], return_inverse=True)
        n = max(n, int(codes.max()) + 1)
        return train[stratified_subset(codes, n, seed)], test
    order = np.random.default_rng(seed).permutation(len(train))
    return train[np.sort(order[:n])], test
