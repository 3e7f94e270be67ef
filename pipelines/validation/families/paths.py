"""Lasso, elastic net, logistic regression: each begins where the next stronger penalty ended."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

from pipelines.validation.families.base import Family


class Paths(Family):
    """Warm starts along a path of penalties, the strongest first.

    Every fit ends at the optimum that a plain one ends at, each within its own ``tol``.
    """

    one_fit = False

    def fit(
        self, estimators: Sequence[Any], X: Any, y: Any, test: Any, **weights: Any
    ) -> list[Any]:
        """See ``Family.fit``."""
        fitted: list[Any] = [None] * len(estimators)
        order = sorted(range(len(estimators)), key=lambda i: self.strength(estimators[i]))
        walker = copy.copy(estimators[order[-1]]).set_params(warm_start=True)
        for i in reversed(order):
            walker.set_params(**{name: getattr(estimators[i], name) for name in self.shared})
            walker.fit(X, y, **weights)
            fitted[i] = copy.deepcopy(walker).set_params(warm_start=False)
        return fitted

    def strength(self, estimator: Any) -> float:
        """How strongly it penalises."""
        return float(estimator.alpha)


class Lassos(Paths):
    """Lasso and elastic net."""

    name = "a warm-started path of alpha"
    types = (Lasso, ElasticNet)
    shared = ("alpha",)

    def accepts(self, estimator: Any) -> bool:
        """Coordinates in order: a random order would not be that of a plain fit."""
        return not estimator.warm_start and estimator.selection == "cyclic" and estimator.alpha > 0


class Logistic(Paths):
    """Logistic regression by a solver that can start from given coefficients."""

    name = "a warm-started path of C"
    types = (LogisticRegression,)
    shared = ("C",)

    def accepts(self, estimator: Any) -> bool:
        """Solvers without chance: they end at the optimum whatever the order of the rows."""
        return (
            estimator.solver in ("lbfgs", "newton-cg", "newton-cholesky")
            and not estimator.warm_start
            and estimator.C > 0
        )

    def strength(self, estimator: Any) -> float:
        """See ``Paths.strength``."""
        return 1.0 / estimator.C
