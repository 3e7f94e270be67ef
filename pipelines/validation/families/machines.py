"""Support vector machines: the path solver, for all C, gamma and epsilon on a fold at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from pipelines.validation.families.base import Family


class Machines(Family):
    """One search of the path solver for all C and gamma.

    Within the stopping tolerance its machines are those of ``SVC``; they are never made, only
    what they say of the rows that are validated.
    """

    name = "the path solver"
    shared = ("C", "gamma", "cache_size", "shrinking", "verbose")
    takes_weights = False
    answers_only = True

    def types(self) -> Collection[type]:
        """See ``Family.types``."""
        from sklearn.svm import SVC

        return (SVC,)

    def accepts(self, estimator: Any) -> bool:
        """A kernel the solver knows, and answers that it has."""
        return (
            _is_known(estimator)
            and estimator.probability in (False, "deprecated")
            and not estimator.break_ties
        )

    def fit(
        self, estimators: Sequence[Any], X: Any, y: Any, test: Any, **weights: Any
    ) -> list[Any]:
        """See ``Family.fit``."""
        from pipelines.svm.cpu.path import cross_validate_path
        from pipelines.svm.multiclass import class_values

        train, asked = np.asarray(X, dtype=np.float64), np.asarray(test, dtype=np.float64)
        rows = np.vstack([train, asked])
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        if len(classes) < 2:
            raise ValueError("the training rows are of one class")
        fold = (np.arange(len(train)), np.arange(len(train), len(rows)))
        labels = np.concatenate([codes, np.zeros(len(asked), codes.dtype)])  # not looked at
        by_gamma = defaultdict(list)
        for i, one in enumerate(estimators):
            by_gamma[_gamma_of(one, train)].append(i)
        kept: dict[str, np.ndarray] = {}
        fitted: list[Any] = [None] * len(estimators)
        for gamma, members in by_gamma.items():
            Cs = sorted({float(estimators[i].C) for i in members})
            found = cross_validate_path(
                rows, labels, gamma, Cs, [fold], kept=kept, return_predictions=True,
                return_decisions=True, n_threads=_threads(),
                **self._problem(estimators[0], classes),
            )  # fmt: skip
            assert found.predictions is not None
            assert found.decisions is not None
            for i in members:
                place = Cs.index(float(estimators[i].C))
                decisions, shape = (
                    found.decisions[0][0][place],
                    estimators[i].decision_function_shape,
                )
                fitted[i] = Told(
                    estimators[i], bool(found.status[0, place, 0]), classes_=classes,
                    predicted=classes[found.predictions[0][0][place]],
                    # SVC's values speak for the second class where there are two.
                    decisions=class_values(decisions, len(classes), "ovo")
                    if shape == "ovr" or len(classes) == 2 else decisions,
                )  # fmt: skip
        return fitted

    def _problem(self, one: Any, classes: np.ndarray) -> dict[str, Any]:
        from pipelines.svm.parameters import factors_by_code

        weight = one.class_weight
        if isinstance(weight, dict):
            weight = factors_by_code(weight, classes)
        return {
            "kernel": one.kernel, "degree": one.degree, "coef0": one.coef0, "tol": one.tol,
            "max_iter": one.max_iter,
            "class_weight": weight,
        }  # fmt: skip

    def answers(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """See ``Family.answers``; of the rows that were named when it was fitted."""
        name = {"predict": "predicted", "decision_function": "decisions"}.get(method)
        return None if name is None else [getattr(one, name) for one in fitted]


class Tubes(Family):
    """One walk of the path solver along C for each gamma and epsilon of ``SVR``.

    Within the stopping tolerance its machines are those of ``SVR``, and are never made.
    """

    name = "the path solver"
    shared = ("C", "gamma", "epsilon", "cache_size", "shrinking", "verbose")
    takes_weights = False
    answers_only = True

    def types(self) -> Collection[type]:
        """See ``Family.types``."""
        from sklearn.svm import SVR

        return (SVR,)

    def accepts(self, estimator: Any) -> bool:
        """A kernel the solver knows."""
        return _is_known(estimator) and estimator.epsilon >= 0

    def fit(
        self, estimators: Sequence[Any], X: Any, y: Any, test: Any, **weights: Any
    ) -> list[Any]:
        """See ``Family.fit``; plainly where the rows are too many for the solver."""
        from pipelines.svm.cpu.regression import cross_validate_regression, fits

        train, asked = np.asarray(X, dtype=np.float64), np.asarray(test, dtype=np.float64)
        if not fits(len(train)):
            fitted = [one.fit(train, y) for one in estimators]
            return [Told(one, predicted=one.predict(asked)) for one in fitted]
        targets = np.concatenate([np.asarray(y, np.float64), np.zeros(len(asked))])
        fold = (np.arange(len(train)), np.arange(len(train), len(targets)))
        by_gamma = defaultdict(list)
        for i, one in enumerate(estimators):
            by_gamma[_gamma_of(one, train)].append(i)
        told: list[Any] = [None] * len(estimators)
        for gamma, members in by_gamma.items():
            Cs = sorted({float(estimators[i].C) for i in members})
            epsilons = sorted({float(estimators[i].epsilon) for i in members})
            one = estimators[0]
            found = cross_validate_regression(
                np.vstack([train, asked]), targets, gamma, Cs, epsilons, [fold], tol=one.tol,
                max_iter=one.max_iter, n_threads=_threads(), kernel=one.kernel,
                degree=one.degree, coef0=one.coef0,
            )  # fmt: skip
            for i in members:
                place = (
                    epsilons.index(float(estimators[i].epsilon)),
                    Cs.index(float(estimators[i].C)),
                )
                told[i] = Told(
                    estimators[i], predicted=found.predictions[0][place],
                    not_converged=bool(found.status[(*place, 0)]),
                )  # fmt: skip
        return told

    def answers(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """See ``Family.answers``; of the rows that were named when it was fitted."""
        return [one.predicted for one in fitted] if method == "predict" else None


class Told:
    """A machine by what it says; all else is asked of the estimator it stands for."""

    def __init__(self, estimator: Any, not_converged: bool = False, **said: np.ndarray) -> None:
        self.estimator, self.not_converged = estimator, not_converged
        vars(self).update(said)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["estimator"], name)

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()


def _is_known(estimator: Any) -> bool:
    return (
        estimator.kernel in ("rbf", "linear", "poly", "sigmoid")
        and estimator.C > 0
        and (estimator.gamma in ("scale", "auto") or estimator.gamma > 0)
    )


def _gamma_of(estimator: Any, X: np.ndarray) -> float:
    if estimator.kernel == "linear":
        return 1.0  # it has none
    if estimator.gamma == "scale":
        variance = float(X.var())
        return 1.0 / (X.shape[1] * variance) if variance else 1.0
    return 1.0 / X.shape[1] if estimator.gamma == "auto" else float(estimator.gamma)


def _threads() -> int:
    """As many as BLAS may use: what a worker was given."""
    from threadpoolctl import threadpool_info

    return max([one["num_threads"] for one in threadpool_info()], default=1)
