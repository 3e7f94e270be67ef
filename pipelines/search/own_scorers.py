"""``--scoring FILE.py:NAME``: scorers of the user's own."""

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
    """The texts that name scorers of the user's own, by the names that scores go by.

    That is the name in the file, ``profit``; where scikit-learn or another file has it, too,
    ``mine.profit``.
    """
    names = dict[str, str]()
    for text in texts:
        if ":" not in text or text in names.values():
            continue
        from sklearn.metrics import get_scorer_names  # here: few runs need its half a second

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
    """A scorer of the user's own, called as scikit-learn calls one; it sees labels, no codes.

    Attributes
    ----------
    text : ``FILE.py:NAME`` or ``package.module:NAME``
    labels : of shape (n_classes,), those of the class codes; None of a regression
    """

    text: str
    labels: np.ndarray | None = None

    @cached_property
    def scorer(self) -> Any:
        """What the text names: loaded in each process.

        Raises
        ------
        InputError
            It cannot be imported, or takes other arguments than a scorer.
        """
        scorer = load_object("scoring", self.text)
        rule = f"{opt('scoring')} must be a function of {', '.join(PARAMETERS)}, or a scorer that "
        rule += f"make_scorer made, got {self.text}"
        if not callable(scorer) or inspect.isclass(scorer):
            raise InputError(f"{rule}, which is a {type(scorer).__name__}; name a function")
        if self.is_function:
            try:
                signature = inspect.signature(scorer)
            except (TypeError, ValueError):  # of what is compiled there is none
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
        """Whether it may ask an estimator for anything; one of make_scorer says for what."""
        from pipelines.sklearn_private import BaseScorer

        return not isinstance(load_object("scoring", self.text), BaseScorer)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        if self.labels is not None:
            estimator, y = LabelledEstimator(estimator, self.labels), self.labels[np.asarray(y)]
        if self.is_function:  # which may write to its rows, and others share them
            X = copy_of(X)
        score = self.scorer(estimator, X, copy_of(y))
        if np.ndim(score) or isinstance(score, str):
            raise TypeError(f"a score is a number, got {score!r}")
        return float(score)


class LabelledEstimator:
    """An estimator fitted on class codes that predicts labels."""

    def __init__(self, estimator: Any, labels: np.ndarray) -> None:
        self._estimator, self._labels = estimator, labels

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._estimator, name)
        return self._labels[np.asarray(attribute)] if name == "classes_" else attribute

    def predict(self, X: Any) -> np.ndarray:
        """Labels of shape (n_rows,)."""
        return np.asarray(self._labels[np.asarray(self._estimator.predict(X)).astype(int)])

    def __sklearn_tags__(self) -> Any:
        return self._estimator.__sklearn_tags__()


def check_own_scorers(names: Mapping[str, str]) -> None:
    """Load scorers, which says before any fit what is wrong with one."""
    for text in names.values():
        _ = OwnScorer(text).scorer
