"""Voting and stacking: parts that are equal in several candidates are fitted once for a split."""

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
# With these values of a parameter a class has a ``random_state`` that it never looks at. (``SVC``
# and ``Lasso`` draw from it what they do not need, and others then draw other numbers.)
DETERMINISTIC_VALUES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "LogisticRegression": ("solver", ("lbfgs", "newton-cg", "newton-cholesky")),
    "Ridge": ("solver", ("auto", "cholesky", "svd", "lsqr", "sparse_cg")),
    "RidgeClassifier": ("solver", ("auto", "cholesky", "svd", "lsqr", "sparse_cg")),
}


@dataclass
class PartMemory:
    """Parts that were fitted, and what they answered, by what they were given."""

    fitted: dict[Hashable, Any] = field(default_factory=dict)
    answers: dict[Hashable, Any] = field(default_factory=dict)


class CachedPart:
    """A part in the place of which an equal one, fitted on equal rows, may serve."""

    def __init__(self, part: Any, memory: PartMemory) -> None:
        self.part, self.memory = part, memory

    def fit(self, X: Any, y: Any) -> CachedPart:
        """Fit the part, or take one that was fitted before."""
        key = identity(self.part), joblib.hash(X), joblib.hash(y)
        if key not in self.memory.fitted:
            self.memory.fitted[key] = self.part.fit(X, y)
            if drew_at_random(self.part):
                raise ValueError("a part draws without a seed: candidates do not share it")
        self.part = self.memory.fitted[key]
        return self

    def __getattr__(self, name: str) -> Any:
        if name in ("part", "memory"):  # they are not set yet: this is being copied
            raise AttributeError(name)
        value = getattr(self.part, name)  # where the part has none, this has none
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
        return True  # where the part is not, it says so


class Composites(SharedEstimators):
    """``VotingClassifier``, ``StackingClassifier`` and those of regression."""

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
        """Whether all parts, and the splits within, are the same each time they are made."""
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
        """See ``SharedFit.partition``: candidates that have no part in common are apart."""
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
        memory = PartMemory()
        return [self._fit_of(estimator, memory, X, y) for estimator in estimators]

    def _fit_of(self, composite: Any, memory: PartMemory, X: Any, y: Any) -> Any:
        parts, n_jobs = composite.estimators, composite.n_jobs
        composite.estimators = [
            (name, CachedPart(part, memory) if hasattr(part, "fit") else part)
            for name, part in parts
        ]
        composite.n_jobs = 1  # other processes would remember nothing
        try:
            composite.fit(X, y)
        finally:  # where it fails it is fitted by itself, and says why
            composite.estimators, composite.n_jobs = parts, n_jobs
        composite.estimators_ = [fitted.part for fitted in composite.estimators_]
        for name, fitted in composite.named_estimators_.items():
            if isinstance(fitted, CachedPart):
                composite.named_estimators_[name] = fitted.part
        return composite

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Answers of all candidates, for which each part is asked once."""
        memory, answers = PartMemory(), []
        for composite in fitted:
            composite_copy = copy.copy(composite)
            composite_copy.estimators_ = [
                CachedPart(part, memory) for part in composite.estimators_
            ]
            answers.append(getattr(composite_copy, method)(X))
        return answers


def ignores_random_state(estimator: Any) -> bool:
    """Whether what an estimator has a ``random_state`` for is not done with its parameters.

    Of an analysis whose solver depends on the rows ``drew_at_random`` tells it, once it is fitted.
    """
    if narrowing_of(estimator) is COMPONENTS:
        return True
    name, values = DETERMINISTIC_VALUES.get(type(estimator).__name__, ("", ()))
    return getattr(estimator, name, None) in values if name else False


SHARED_FITS = (Composites(),)
