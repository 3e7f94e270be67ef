"""Regressors of transformed targets: the targets are transformed once for all candidates."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline

from pipelines.data.dataset import copy_of, read_only
from pipelines.search.shared.base import SharedEstimators, identity, is_repeatable
from pipelines.search.shared.pipeline_steps import decompose


class StandIn(RegressorMixin, BaseEstimator):
    """Stands for a regressor: keeps the targets of its fit, and predicts ``answer``."""

    answer: Any = None

    def fit(self, X: Any, y: Any) -> StandIn:
        """Keep the targets."""
        self.targets_ = y
        return self

    def predict(self, X: Any) -> Any:
        """The values that were set as ``answer``, whatever the rows are."""
        return self.answer


class TransformedTargets(SharedEstimators):
    """``TransformedTargetRegressor`` around regressors that share work, or their pipelines.

    The targets are transformed once, and equal first steps of the pipelines are fitted once.
    """

    takes_weights = True
    name = "targets transformed once"
    types = (TransformedTargetRegressor,)
    shared = ("regressor",)

    def group_key(self, estimator: Any) -> Hashable | None:
        """See ``SharedFit.group_key``; it contains the regressor's key and the steps before it."""
        transformer, parts = estimator.transformer, decompose(estimator.regressor)
        if parts is None or not (transformer is None or is_repeatable(transformer)):
            return None
        steps = tuple((step.name, step.key, step.width) for step in parts[0])
        inner = _shared_fit_of(parts[1])
        key = None if inner is None else inner.group_key(parts[1])
        return None if key is None else (identity(estimator, self.shared), steps, key)

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``.

        Raises
        ------
        ValueError
            The regressors share nothing on these rows, or take no weights.
        """
        # The stand-in catches the transformed targets, with the wrapper's own checks of them.
        wrapper = clone(estimators[0]).set_params(regressor=StandIn()).fit(X, y)
        regressors = [clone(estimator.regressor) for estimator in estimators]
        targets = read_only(wrapper.regressor_.targets_)
        rows, steps = X, dict[str, Any]()
        parts = [part for part in map(decompose, regressors) if part is not None]
        for step in parts[0][0]:
            steps[step.name] = clone(step.transformer)
            rows = steps[step.name].fit_transform(copy_of(rows), copy_of(targets))
        inner = _shared_fit_of(parts[0][1])
        if inner is None or not inner.shares_on(rows) or (weights and not inner.takes_weights):
            raise ValueError("these regressors share nothing on rows like these")
        finals = inner.fit([final for _, final in parts], read_only(rows), targets, **weights)
        for estimator, regressor, final in zip(estimators, regressors, finals, strict=True):
            vars(estimator).update(vars(wrapper) | vars(estimator))
            estimator.regressor_ = final
            if isinstance(regressor, Pipeline):
                ends = dict(regressor.steps) | steps | {regressor.steps[-1][0]: final}
                estimator.regressor_ = regressor.set_params(steps=list(ends.items()))
            if hasattr(estimator.regressor_, "feature_names_in_"):
                estimator.feature_names_in_ = estimator.regressor_.feature_names_in_
        return list(estimators)

    def draw(self, estimator: Any) -> None:
        """See ``SharedFit.draw``; it draws what the regressor draws."""
        parts = decompose(estimator.regressor)
        inner = None if parts is None else _shared_fit_of(parts[1])
        if parts is not None and inner is not None:
            inner.draw(parts[1])

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """See ``SharedEstimators.predict``; predictions are on the scale of the targets."""
        finals, rows = [estimator.regressor_ for estimator in fitted], X
        if isinstance(finals[0], Pipeline):
            rows = finals[0][:-1].transform(copy_of(X))
            finals = [pipeline.steps[-1][1] for pipeline in finals]
        inner = _shared_fit_of(finals[0])
        answers = None if inner is None else inner.predict(finals, method, rows)
        if answers is None:
            return None
        predictions = []
        for estimator, values in zip(fitted, answers, strict=True):
            wrapper = copy.copy(estimator)
            wrapper.regressor_ = StandIn()
            wrapper.regressor_.answer = values
            predictions.append(wrapper.predict(rows))
        return predictions


def _shared_fit_of(regressor: Any) -> SharedEstimators | None:
    """The shared fit of a regressor, if it is one that yields fitted estimators."""
    from pipelines.search.shared import shared_fit_of

    shared_fit = shared_fit_of(regressor)
    return shared_fit if isinstance(shared_fit, SharedEstimators) else None


SHARED_FITS = (TransformedTargets(),)
