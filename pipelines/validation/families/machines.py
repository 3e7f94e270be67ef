"""Support vector machines: the path solver, for all C, gamma and epsilon on a fold at once.

Within the stopping tolerance its machines are those of scikit-learn; they are never made, only
what they say of the rows that are validated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.svm import SVC, SVR

from pipelines.validation.families.base import Family


class ByPath(Family):
    """Machines that the path solver finds."""

    name = "the path solver"
    takes_weights = False
    answers_only = True
    says: ClassVar[dict[str, str]] = {"predict": "predicted"}  # method -> attribute of ``Told``

    def accepts(self, estimator: Any) -> bool:
        """A kernel the solver knows."""
        return (
            estimator.kernel in ("rbf", "linear", "poly", "sigmoid")
            and estimator.C > 0
            and (estimator.gamma in ("scale", "auto") or estimator.gamma > 0)
        )

    def answers(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """See ``Family.answers``; of the rows that were named when it was fitted."""
        name = self.says.get(method)
        return None if name is None else [getattr(one, name) for one in fitted]


class Machines(ByPath):
    """One search of the path solver for all C and gamma of ``SVC``."""

    types = (SVC,)
    shared = ("C", "gamma", "cache_size", "shrinking", "verbose")
    says = ByPath.says | {"decision_function": "decisions"}

    def accepts(self, estimator: Any) -> bool:
        """See ``ByPath.accepts``; and answers that it has."""
        plain = estimator.probability in (False, "deprecated") and not estimator.break_ties
        return super().accepts(estimator) and plain

    def fit(
        self, estimators: Sequence[Any], X: Any, y: Any, test: Any, **weights: Any
    ) -> list[Any]:
        """See ``Family.fit``."""
        from pipelines.svm.cpu.path import cross_validate_path
        from pipelines.svm.multiclass import class_values
        from pipelines.svm.parameters import factors_by_code

        train, asked = np.asarray(X, dtype=np.float64), np.asarray(test, dtype=np.float64)
        rows = np.vstack([train, asked])
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        if len(classes) < 2:
            raise ValueError("the training rows are of one class")
        fold = (np.arange(len(train)), np.arange(len(train), len(rows)))
        labels = np.concatenate([codes, np.zeros(len(asked), codes.dtype)])  # not looked at
        weight = estimators[0].class_weight
        if isinstance(weight, dict):
            weight = factors_by_code(weight, classes)
        kept: dict[str, np.ndarray] = {}
        fitted: list[Any] = [None] * len(estimators)
        for gamma, members in _by_gamma(estimators, train).items():
            Cs = sorted({float(estimators[i].C) for i in members})
            found = cross_validate_path(
                rows, labels, gamma, Cs, [fold], kept=kept, return_predictions=True,
                return_decisions=True, class_weight=weight, **_options(estimators[0]),
            )  # fmt: skip
            assert found.predictions is not None
            assert found.decisions is not None
            for i in members:
                place = Cs.index(float(estimators[i].C))
                decisions = found.decisions[0][0][place]
                shape = estimators[i].decision_function_shape
                fitted[i] = Told(
                    estimators[i], bool(found.status[0, place, 0]), classes_=classes,
                    predicted=classes[found.predictions[0][0][place]],
                    # SVC's values speak for the second class where there are two.
                    decisions=class_values(decisions, len(classes), "ovo")
                    if shape == "ovr" or len(classes) == 2 else decisions,
                )  # fmt: skip
        return fitted


class Tubes(ByPath):
    """One walk of the path solver along C for each gamma and epsilon of ``SVR``."""

    types = (SVR,)
    shared = ("C", "gamma", "epsilon", "cache_size", "shrinking", "verbose")

    def accepts(self, estimator: Any) -> bool:
        """See ``ByPath.accepts``."""
        return super().accepts(estimator) and estimator.epsilon >= 0

    def fit(
        self, estimators: Sequence[Any], X: Any, y: Any, test: Any, **weights: Any
    ) -> list[Any]:
        """See ``Family.fit``."""
        from pipelines.svm.cpu.regression import cross_validate_regression

        train, asked = np.asarray(X, dtype=np.float64), np.asarray(test, dtype=np.float64)
        targets = np.concatenate([np.asarray(y, np.float64), np.zeros(len(asked))])
        fold = (np.arange(len(train)), np.arange(len(train), len(targets)))
        rows = np.vstack([train, asked])
        told: list[Any] = [None] * len(estimators)
        for gamma, members in _by_gamma(estimators, train).items():
            Cs = sorted({float(estimators[i].C) for i in members})
            epsilons = sorted({float(estimators[i].epsilon) for i in members})
            found = cross_validate_regression(
                rows, targets, gamma, Cs, epsilons, [fold], **_options(estimators[0])
            )
            for i in members:
                one = estimators[i]
                place = epsilons.index(float(one.epsilon)), Cs.index(float(one.C))
                not_converged = bool(found.status[(*place, 0)])
                told[i] = Told(one, not_converged, predicted=found.predictions[0][place])
        return told


class Told:
    """A machine by what it says; all else is asked of the estimator it stands for."""

    def __init__(self, estimator: Any, not_converged: bool = False, **said: np.ndarray) -> None:
        self.estimator, self.not_converged = estimator, not_converged
        vars(self).update(said)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["estimator"], name)

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()


def _by_gamma(estimators: Sequence[Any], X: np.ndarray) -> dict[float, list[int]]:
    """Places of the estimators by the number that their gamma stands for on these rows."""
    from pipelines.svm.path_svc import PathSVC

    found: dict[float, list[int]] = defaultdict(list)
    for i, one in enumerate(estimators):
        is_linear = one.kernel == "linear"  # it has none
        found[1.0 if is_linear else PathSVC(gamma=one.gamma).gamma_of(X)].append(i)
    return found


def _options(one: Any) -> dict[str, Any]:
    """What the path solver's functions take of an estimator, and as many threads as BLAS may use:
    what a worker was given."""
    from threadpoolctl import threadpool_info

    names = ("kernel", "degree", "coef0", "tol", "max_iter")
    n_threads = max([one["num_threads"] for one in threadpool_info()], default=1)
    return {**{name: getattr(one, name) for name in names}, "n_threads": n_threads}
