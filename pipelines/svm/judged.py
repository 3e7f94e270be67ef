"""Cells judged by any of scikit-learn's scorers: the units of ``SVMGridSearch``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics._scorer import _BaseScorer, _MultimetricScorer, _PassthroughScorer
from sklearn.model_selection._validation import _fit_and_score, _score

from pipelines.data.placement import FoldedData, to_device, to_host
from pipelines.select.answers import Answers
from pipelines.select.calibration import Calibration
from pipelines.svm.multiclass import class_values
from pipelines.svm.refit import for_labels
from pipelines.svm.solvers import Settings, load_solver
from pipelines.svm.solvers.base import NOT_CONVERGED, OK, OUT_OF_MEMORY, Cells
from pipelines.svm.solvers.path_cpu import ONE_CLASS, PathSolver
from pipelines.svm.units import Place, Unit

Result = dict[str, Any]  # of one fit, with the keys of scikit-learn's ``_fit_and_score``
ANSWERS = {"predict", "decision_function"}


@dataclass(frozen=True, eq=False)
class Judge:
    """How fits are scored.

    Attributes
    ----------
    scorer : what scikit-learn's searches call: a scorer, several in one, or a callable
    classes : array of shape (n_classes,), the labels that class codes stand for
    error_score : float or "raise", where a fit or its scoring fails
    train_scores : bool, whether the training rows are scored, too
    weights : float array of shape (n_samples,) or None, for fits
    weighs_scores : bool, whether for scorers, too
    """

    scorer: Any
    classes: np.ndarray
    error_score: Any = np.nan
    train_scores: bool = False
    weights: np.ndarray | None = None
    weighs_scores: bool = False

    @property
    def asks_answers_only(self) -> bool:
        """Whether predictions and decision values are all it takes."""
        return needed(self.scorer) <= ANSWERS

    @property
    def is_accuracy(self) -> bool:
        """Whether the number of errors is all it takes."""
        plain = isinstance(self.scorer, _PassthroughScorer) or (
            getattr(getattr(self.scorer, "_score_func", None), "__name__", "") == "accuracy_score"
            and not self.scorer._kwargs
        )
        return plain and not self.weighs_scores and not self.train_scores

    def score(self, fitted: Any, X: Any, y: np.ndarray, rows: np.ndarray) -> Any:
        """What the scorer says of some rows: a number, or a dict of numbers."""
        more = {"sample_weight": self._weights_of(rows)} if self.weighs_scores else {}
        return _score(fitted, X, self.classes[y[rows]], self.scorer, more, self.error_score)

    def _weights_of(self, rows: np.ndarray) -> np.ndarray:
        assert self.weights is not None
        return self.weights[rows]

    def failed(self, reason: str, n_rows: int) -> Result:
        """The result of a fit that gave nothing.

        Raises
        ------
        ValueError
            ``error_score`` is ``"raise"``.
        """
        if self.error_score == "raise":
            raise ValueError(reason)
        scores = self.error_score
        if isinstance(self.scorer, _MultimetricScorer):
            scores = dict.fromkeys(self.scorer._scorers, scores)
        trained = {"train_scores": scores} if self.train_scores else {}
        return _result(scores, n_rows, 0.0, 0.0, reason) | trained


def needed(scorer: Any) -> set[str]:
    """Methods of an estimator that a scorer asks for; "?" where that cannot be known."""
    if isinstance(scorer, _MultimetricScorer):
        return set().union(*map(needed, scorer._scorers.values()))
    if isinstance(scorer, _PassthroughScorer):
        return {"predict"}
    if not isinstance(scorer, _BaseScorer):
        return {"?"}
    methods = scorer._response_method
    if isinstance(methods, str):
        return {methods}
    return {"decision_function" if "decision_function" in methods else methods[0]}


def _result(scores: Any, n_rows: int, fit: float, score: float, error: str | None = None) -> Result:
    return {
        "test_scores": scores, "n_test_samples": n_rows, "fit_time": fit, "score_time": score,
        "fit_error": error, "n_iterations": 0, "status": OK,
    }  # fmt: skip


def judge_unit(
    data: FoldedData, unit: Unit, solver: str, settings: Settings, judge: Judge
) -> list[Result]:
    """Fit and score the cells of one unit; a result for each of ``unit.cells``."""
    found = load_solver(solver, settings.device)
    X = data.scaled(found.device)
    if isinstance(found, PathSolver):
        return _by_the_path(found, X, data, unit, settings, judge)
    return [_by_itself(found, X, data, cell, settings, judge) for cell in unit.cells]


def _by_the_path(
    solver: PathSolver, X: Any, data: FoldedData, unit: Unit, settings: Settings, judge: Judge
) -> list[Result]:
    """All cells of a unit at once, judged by what the path says of their rows."""
    folds = [data.folds[fold] for fold in unit.folds]
    asked = [
        (train, np.concatenate([test, train]) if judge.train_scores else test)
        for train, test in folds
    ]
    options: Result = {} if judge.weights is None else {"sample_weight": judge.weights}
    alone = not judge.is_accuracy
    try:
        found = solver.search(
            X, data.y, asked, Cells(unit.gammas, unit.Cs, tuple(range(len(asked)))), settings,
            return_predictions=alone, return_decisions=alone, **options,
        )  # fmt: skip
    except MemoryError:
        return [judge.failed(OUT_OF_MEMORY, len(data.folds[f][1])) for _, _, f in unit.cells]
    results = []
    for g, (fold, (train, test)), c in product(
        range(len(unit.gammas)), enumerate(folds), range(len(unit.Cs))
    ):
        if np.ptp(data.y[train]) == 0:
            results.append(judge.failed(ONE_CLASS, len(test)))
            continue
        place, started = (g, c, fold), perf_counter()
        if judge.is_accuracy:
            scores: Any = (len(test) - int(found.n_errors[place])) / len(test)
            trained: Result = {}
        else:
            assert found.predictions is not None
            assert found.decisions is not None
            # Of the classes of all rows: a fold may lack one.
            values = class_values(
                found.decisions[g][fold][c], len(judge.classes), settings.decision
            )
            labels = judge.classes[found.predictions[g][fold][c]]
            n = len(test)
            told = Answers(judge.classes, labels[:n], values[:n])
            scores = judge.score(told, X[to_device(test, solver.device)], data.y, test)
            trained = {}
            if judge.train_scores:
                told = Answers(judge.classes, labels[n:], values[n:])
                rows = X[to_device(train, solver.device)]
                trained = {"train_scores": judge.score(told, rows, data.y, train)}
        seconds = float(found.score_seconds[place]) + perf_counter() - started
        result = _result(scores, len(test), float(found.fit_seconds[place]), seconds) | trained
        result["n_iterations"] = int(found.n_iterations[place])
        result["status"] = NOT_CONVERGED if found.status[place] else OK
        results.append(result)
    return results


def _by_itself(
    solver: Any, X: Any, data: FoldedData, cell: Place, settings: Settings, judge: Judge
) -> Result:
    """One cell by a solver that shares nothing."""
    C, gamma, fold = cell
    train, test = data.folds[fold]
    started = perf_counter()
    try:
        fitted = solver.fit(
            X[to_device(train, solver.device)], judge.classes[data.y[train]], C, gamma,
            for_labels(settings, judge.classes),
        )  # fmt: skip
    except MemoryError:
        return judge.failed(OUT_OF_MEMORY, len(test))
    except ValueError as error:
        return judge.failed(str(error), len(test))
    between = perf_counter()
    scores = judge.score(_on_host(solver, fitted), X[to_device(test, solver.device)], data.y, test)
    result = _result(scores, len(test), between - started, perf_counter() - between)
    if judge.train_scores:
        rows = X[to_device(train, solver.device)]
        result["train_scores"] = judge.score(_on_host(solver, fitted), rows, data.y, train)
    _, result["n_iterations"], converged = solver.summarise(fitted)
    result["status"] = OK if converged else NOT_CONVERGED
    return result


def _on_host(solver: Any, fitted: Any) -> Any:
    """The fitted estimator with answers that a scorer takes."""
    return fitted if solver.device == "cpu" else _Fetched(fitted)


class _Fetched(Answers):
    """An estimator on a device whose answers come to the host."""

    def __init__(self, fitted: Any) -> None:
        self.fitted, self.classes_ = fitted, to_host(fitted.classes_)

    def predict(self, X: Any) -> np.ndarray:
        return to_host(self.fitted.predict(X))

    def decision_function(self, X: Any) -> np.ndarray | None:
        return to_host(self.fitted.decision_function(X))


@dataclass(frozen=True, eq=False)
class Alone:
    """One candidate on one fold, by a fit of its own.

    Attributes
    ----------
    number : int, of the candidate
    estimator : unfitted, with the candidate's parameters
    """

    number: int
    fold: int
    estimator: Any
    cost: float = 1.0

    @property
    def name(self) -> str:
        """As the dashboard shows it."""
        return f"svm-candidate={self.number} fold={self.fold}"


def judge_alone(data: FoldedData, unit: Alone, judge: Judge) -> list[Result]:
    """As ``judge_unit``, by scikit-learn's own function."""
    train, test = data.folds[unit.fold]
    result: Result = _fit_and_score(
        clone(unit.estimator), data.X, judge.classes[data.y],
        scorer=judge.scorer, train=train, test=test, verbose=0, parameters=None,
        fit_params={} if judge.weights is None else {"sample_weight": judge.weights},
        score_params={"sample_weight": judge.weights} if judge.weighs_scores else {},
        return_train_score=judge.train_scores, return_n_test_samples=True, return_times=True,
        error_score=judge.error_score,
    )  # fmt: skip
    return [{"n_iterations": 0, "status": OK, **result}]


@dataclass(frozen=True, eq=False)
class Best:
    """The best candidate, to be fitted on all rows.

    Attributes
    ----------
    estimator : unfitted, with its parameters
    probability : bool, whether to calibrate it on the folds of the search
    """

    estimator: Any
    probability: bool = False
    cost: float = 1.0
    name: str = "refit-best"


def fit_best(data: FoldedData, unit: Best, judge: Judge) -> tuple[Any, Calibration | None]:
    """Fit on all rows; the calibration is of decision values of rows a fit has not seen."""
    labels = judge.classes[data.y]
    if not unit.probability:
        return clone(unit.estimator).fit(data.X, labels, judge.weights), None
    calibrated = CalibratedClassifierCV(
        clone(unit.estimator), method="sigmoid", cv=list(data.folds), ensemble=False
    ).fit(data.X, labels, sample_weight=judge.weights)
    return calibrated.calibrated_classifiers_[0].estimator, Calibration.of(calibrated)
