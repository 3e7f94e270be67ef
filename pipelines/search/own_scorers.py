"""``--scoring FILE.py:NAME``: the user's own scorers."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.dataset import copy_of
from pipelines.data.user_files import load_object
from pipelines.errors import InputError, opt

PARAMETERS = ("estimator", "X", "y")


def own_scorer_names(texts: Iterable[str]) -> dict[str, str]:
    """The given texts that name the user's own scorers, by score name.

    The score name is the name in the file, ``profit``, or ``mine.profit`` if scikit-learn or
    another file has a scorer of that name.

    Parameters
    ----------
    texts : iterable of str
        Values of ``--scoring``: names of scikit-learn's scorers, or ``FILE.py:NAME``.

    Returns
    -------
    dict of str to str

    Raises
    ------
    InputError
        Two scorers would have the same name.
    """
    names = dict[str, str]()
    for text in texts:
        if ":" not in text or text in names.values():
            continue
        from sklearn.metrics import (
            get_scorer_names,
        )  # imported here, as it takes half a second that few runs need

        path, _, name = text.rpartition(":")
        if name in names or name in get_scorer_names() or name.startswith("neg_"):
            name = f"{Path(path).stem}.{name}"
        if name in names:
            raise InputError(
                f"{opt('scoring')} must not name two scorers {name}, got {names[name]} and {text}; "
                "rename one"
            )
        names[name] = text
    return names


@dataclass(frozen=True, eq=False)
class OwnScorer:
    """One of the user's own scorers, called as scikit-learn calls scorers; it sees class labels.

    Attributes
    ----------
    text : str
        ``FILE.py:NAME`` or ``package.module:NAME``.
    labels : array of shape (n_classes,), optional
        Labels of the class codes; None for a regression.
    """

    text: str
    labels: np.ndarray | None = None

    @cached_property
    def scorer(self) -> Any:
        """The function or scorer that the text names; each process imports it by itself.

        Raises
        ------
        InputError
            It cannot be imported, or its arguments are not those of a scorer.
        """
        scorer = load_object("scoring", self.text)
        rule = f"{opt('scoring')} must be a function of {', '.join(PARAMETERS)}, or a scorer that "
        rule += f"make_scorer made, got {self.text}"
        if not callable(scorer) or inspect.isclass(scorer):
            raise InputError(f"{rule}, which is a {type(scorer).__name__}; name a function")
        if self.is_function:
            try:
                signature = inspect.signature(scorer)
            except (TypeError, ValueError):  # a compiled function may have no signature
                return scorer
            try:
                signature.bind(*PARAMETERS)
            except TypeError:
                name = self.text.rpartition(":")[2]
                raise InputError(
                    f"{rule}, which takes {signature}; a function of truth and predictions becomes "
                    f"one by scikit-learn's make_scorer({name})"
                ) from None
        return scorer

    @cached_property
    def is_function(self) -> bool:
        """Whether it is a plain function, which may call any method of an estimator.

        A scorer that ``make_scorer`` made declares the methods that it calls.
        """
        from pipelines.sklearn_private import BaseScorer

        return not isinstance(load_object("scoring", self.text), BaseScorer)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        if self.labels is not None:
            estimator, y = LabelledEstimator(estimator, self.labels), self.labels[np.asarray(y)]
        if self.is_function:  # it may write to its rows, which other fits share
            X = copy_of(X)
        score = self.scorer(estimator, X, copy_of(y))
        if np.ndim(score) or isinstance(score, str):
            raise TypeError(f"a score is a number, got {score!r}")
        return float(score)


class LabelledEstimator:
    """A wrapper of an estimator that was fitted on class codes; it predicts labels."""

    def __init__(self, estimator: Any, labels: np.ndarray) -> None:
        self._estimator, self._labels = estimator, labels

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._estimator, name)
        return self._labels[np.asarray(attribute)] if name == "classes_" else attribute

    def predict(self, X: Any) -> np.ndarray:
        """Predict labels, of shape (n_rows,)."""
        return np.asarray(self._labels[np.asarray(self._estimator.predict(X)).astype(int)])

    def __sklearn_tags__(self) -> Any:
        return self._estimator.__sklearn_tags__()


def check_own_scorers(names: Mapping[str, str]) -> None:
    """Load the user's own scorers, so that an error in one shows before any fit."""
    for text in names.values():
        _ = OwnScorer(text).scorer
