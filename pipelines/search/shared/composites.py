"""Voting and stacking: parts that several candidates have in common are fitted once per split."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.ensemble import (
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)

from pipelines.search.shared.base import SEED, SharedEstimators, identity, values_inside
from pipelines.search.shared.narrowing import (
    COMPONENTS,
    drew_at_random,
    is_seed,
    is_unseeded_splitter,
    narrowing_of,
)

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform")
# Classes that never use their ``random_state`` while a parameter has one of these values. ``SVC``
# and ``Lasso`` are not among them: they draw numbers that they do not need, so that whatever shares
# the generator draws other numbers.
DETERMINISTIC_VALUES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "LogisticRegression": ("solver", ("lbfgs", "newton-cg", "newton-cholesky")),
    "Ridge": ("solver", ("auto", "cholesky", "svd", "lsqr", "sparse_cg")),
    "RidgeClassifier": ("solver", ("auto", "cholesky", "svd", "lsqr", "sparse_cg")),
}


@dataclass
class PartMemory:
    """Fitted parts and their predictions, by parameters and rows.

    Attributes
    ----------
    fitted : dict
        Parts by their identity, and the hashes of the rows and targets that they were fitted on.
    answers : dict
        Predictions by fitted part, method and the hash of the predicted rows.
    """

    fitted: dict[Hashable, Any] = field(default_factory=dict)
    answers: dict[Hashable, Any] = field(default_factory=dict)


class CachedPart:
    """Stands for a part of a composite, and reuses an equal part that was fitted on equal rows."""

    def __init__(self, part: Any, memory: PartMemory) -> None:
        self.part, self.memory = part, memory

    def fit(self, X: Any, y: Any) -> CachedPart:
        """Fit the part, or take the equal one that was fitted before.

        Raises
        ------
        ValueError
            The part draws random numbers without a seed, so that candidates cannot share it.
        """
        key = identity(self.part), joblib.hash(X), joblib.hash(y)
        if key not in self.memory.fitted:
            self.memory.fitted[key] = self.part.fit(X, y)
            if drew_at_random(self.part):
                raise ValueError("a part draws without a seed: candidates do not share it")
        self.part = self.memory.fitted[key]
        return self

    def __getattr__(self, name: str) -> Any:
        if name in ("part", "memory"):  # not set yet while ``copy`` makes this: do not recurse
            raise AttributeError(name)
        value = getattr(self.part, name)  # scikit-learn asks ``hasattr``: only what the part has
        if name not in METHODS:
            return value

        def answer(X: Any) -> Any:
            key = id(self.part), name, joblib.hash(X)
            if key not in self.memory.answers:
                self.memory.answers[key] = value(X)
            return copy.copy(self.memory.answers[key])

        answer.__name__ = name
        return answer

    def __sklearn_clone__(self) -> CachedPart:
        return CachedPart(clone(self.part), self.memory)

    def __sklearn_tags__(self) -> Any:
        return self.part.__sklearn_tags__()

    def __sklearn_is_fitted__(self) -> bool:
        return True  # a part that is not fitted raises its own error when it predicts


class Composites(SharedEstimators):
    """Voting and stacking, for classification and regression, with parts in common."""

    name = "parts that are equal"
    types = (VotingClassifier, VotingRegressor, StackingClassifier, StackingRegressor)
    shared = (
        "estimators",
        "final_estimator",
        "flatten_transform",
        "n_jobs",
        "passthrough",
        "stack_method",
        "verbose",
        "voting",
        "weights",
    )
    takes_weights = False
    fits_each = True

    def accepts(self, estimator: Any) -> bool:
        """Whether all parts, and the splits that stacking makes, are the same in each fit."""
        if getattr(estimator, "cv", None) == "prefit" or estimator.verbose:
            return False
        return all(
            type(owner).__module__.startswith("sklearn.")
            and (name != SEED or is_seed(value) or ignores_random_state(owner))
            and (name != "score_func")
            and not is_unseeded_splitter(value)
            for owner, name, value in values_inside(estimator)
        )

    def partition(self, estimators: Sequence[Any], n_workers: int) -> list[list[int]]:
        """See ``SharedFit.partition``; a task has the candidates connected by common parts."""
        groups = list[tuple[set[Hashable], list[int]]]()
        for index, estimator in enumerate(estimators):
            parts = {identity(part) for _, part in estimator.estimators if hasattr(part, "fit")}
            members = [index]
            for group in [group for group in groups if group[0] & parts]:
                groups.remove(group)
                parts |= group[0]
                members = group[1] + members
            groups.append((parts, members))
        return sorted(sorted(members) for _, members in groups)

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``; the candidates share one cache of fitted parts."""
        memory = PartMemory()
        return [self._fit_of(estimator, memory, X, y) for estimator in estimators]

    def _fit_of(self, composite: Any, memory: PartMemory, X: Any, y: Any) -> Any:
        """Fit a composite whose parts are looked up in the memory, and put its own parts back."""
        parts, n_jobs = composite.estimators, composite.n_jobs
        composite.estimators = [
            (name, CachedPart(part, memory) if hasattr(part, "fit") else part)
            for name, part in parts
        ]
        composite.n_jobs = 1  # other processes would not see the memory
        try:
            composite.fit(X, y)
        finally:  # after a failure the engine fits the candidate by itself, as it was
            composite.estimators, composite.n_jobs = parts, n_jobs
        composite.estimators_ = [fitted.part for fitted in composite.estimators_]
        for name, fitted in composite.named_estimators_.items():
            if isinstance(fitted, CachedPart):
                composite.named_estimators_[name] = fitted.part
        return composite

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Predictions of all candidates, for which each part predicts only once."""
        memory, answers = PartMemory(), []
        for composite in fitted:
            composite_copy = copy.copy(composite)
            composite_copy.estimators_ = [
                CachedPart(part, memory) for part in composite.estimators_
            ]
            answers.append(getattr(composite_copy, method)(X))
        return answers


def ignores_random_state(estimator: Any) -> bool:
    """Whether an estimator with these parameters makes no use of its ``random_state``.

    For a principal component analysis, whose solver may depend on the rows, the answer is True
    here; ``drew_at_random`` shows after the fit whether it was used.
    """
    if narrowing_of(estimator) is COMPONENTS:
        return True
    name, values = DETERMINISTIC_VALUES.get(type(estimator).__name__, ("", ()))
    return getattr(estimator, name, None) in values if name else False


SHARED_FITS = (Composites(),)
