"""Ensembles of trees: a smaller one is the beginning of a larger one.

Forests and bagging draw the seed of each tree from one generator, in order; boosting adds
trees one by one. So what is fitted with the most members has all smaller ones in it.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import ensemble

from pipelines.search.shared.base import SharedEstimators

TREES_AT_ONCE = 8  # for each thread: what they say is held until it is added up, in order


class Prefixes(SharedEstimators):
    """Ensembles of several sizes from one fit of the largest, whose first members they are."""

    by_chance = True
    size = "n_estimators"
    lists: Sequence[str] = ("estimators_",)  # fitted attributes with an element for each member

    @property
    def shared(self) -> Collection[str]:  # type: ignore[override]
        """The number of members alone."""
        return (self.size,)

    def accepts(self, estimator: Any) -> bool:
        """Return a number of members, and nothing that depends on members to come."""
        size = getattr(estimator, self.size)
        # Rows out of the bag are estimated for all members at once.
        of_all = any(getattr(estimator, name, False) for name in ("warm_start", "oob_score"))
        return isinstance(size, int) and size > 0 and not of_all

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        largest = max(estimators, key=self.size_of)
        largest.fit(X, y, **weights)
        return [self.cut(largest, self.size_of(one)) for one in estimators]

    def size_of(self, estimator: Any) -> int:
        """Return the number of members of an ensemble."""
        return int(getattr(estimator, self.size))

    def cut(self, largest: Any, n: int) -> Any:
        """Return the estimator of the first ``n`` members."""
        smaller = copy.copy(largest)
        setattr(smaller, self.size, n)
        for name in self.lists:
            if hasattr(largest, name):
                setattr(smaller, name, getattr(largest, name)[:n])
        return smaller


class Forests(Prefixes):
    """Random forests and extremely randomised trees; their trees are asked once."""

    name = "prefixes of one forest"
    types = (
        ensemble.RandomForestClassifier,
        ensemble.RandomForestRegressor,
        ensemble.ExtraTreesClassifier,
        ensemble.ExtraTreesRegressor,
    )

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Return sums over the first trees, in the order in which the forest itself adds them."""
        largest = max(fitted, key=self.size_of)
        if largest.n_outputs_ > 1:
            return None
        of_classes = hasattr(largest, "classes_")
        ask = "predict_proba" if of_classes else "predict"
        X, trees, n_jobs = largest._validate_X_predict(X), iter(largest.estimators_), largest.n_jobs
        at_once = TREES_AT_ONCE * (1 if n_jobs in (None, 1) else 8)
        wanted, total, n, means = {self.size_of(one) for one in fitted}, 0.0, 0, {}
        with Parallel(n_jobs=n_jobs or 1, require="sharedmem") as parallel:
            while some := list(islice(trees, at_once)):
                for votes in parallel(
                    delayed(getattr(tree, ask))(X, check_input=False) for tree in some
                ):
                    total, n = total + votes, n + 1
                    if n in wanted:
                        means[n] = total / n
        found = [means[self.size_of(one)] for one in fitted]
        if not of_classes or method == "predict_proba":
            return found
        if method == "predict_log_proba":
            return [np.log(one) for one in found]
        return [largest.classes_.take(np.argmax(one, axis=1)) for one in found]


class Bags(Prefixes):
    """Bagging of any estimator."""

    name = "prefixes of one bag"
    types = (ensemble.BaggingClassifier, ensemble.BaggingRegressor)
    lists = ("estimators_", "estimators_features_", "_seeds")


class Boosting(Prefixes):
    """Gradient boosting; the stages are asked once, one after the other."""

    name = "stages of one boosting"
    types = (ensemble.GradientBoostingClassifier, ensemble.GradientBoostingRegressor)
    lists: Sequence[str] = ("estimators_", "train_score_", "oob_improvement_", "oob_scores_")

    def accepts(self, estimator: Any) -> bool:
        """See ``SharedFit.accepts``; one that may end early does not end by its size."""
        return super().accepts(estimator) and estimator.n_iter_no_change is None

    def cut(self, largest: Any, n: int) -> Any:
        smaller = super().cut(largest, n)
        if hasattr(smaller, "n_estimators_"):
            smaller.n_estimators_ = n
        if hasattr(smaller, "oob_scores_"):
            smaller.oob_score_ = smaller.oob_scores_[-1]
        return smaller

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Predict with ensembles of all sizes in one pass through the stages."""
        largest = max(fitted, key=self.size_of)
        staged = getattr(largest, f"staged_{method}", None)
        if staged is None:
            return None
        wanted = {self.size_of(one) for one in fitted}
        # A stage may be an array that the next one is added to.
        found = {
            n: np.array(stage, copy=True) for n, stage in enumerate(staged(X), 1) if n in wanted
        }
        return [found[self.size_of(one)] for one in fitted]


class HistogramBoosting(Boosting):
    """Gradient boosting on histograms, where no row is held out to end it early."""

    types = (ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor)
    size = "max_iter"
    lists = ("_predictors",)

    def accepts(self, estimator: Any) -> bool:
        """See ``SharedFit.accepts``; ``"auto"`` depends on the number of rows."""
        return Prefixes.accepts(self, estimator) and estimator.early_stopping in (False, "auto")

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """Fit as ``SharedEstimators.fit`` says.

        Raises
        ------
        ValueError
            It ended early: sizes are not what was asked for.
        """
        fitted = super().fit(estimators, X, y, **weights)
        if fitted[0].do_early_stopping_:
            raise ValueError("boosting that may end early shares nothing")
        return fitted


KINDS = (Forests(), Bags(), Boosting(), HistogramBoosting())
