"""Checks the scorers of a search and scores what its candidates predict."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pipelines.data.dataset import CLASSIFICATION, Dataset, copy_of
from pipelines.data.fits import Fit, Predictions
from pipelines.errors import InputError, error_line, nearest, opt
from pipelines.search.own_scorers import OwnScorer, check_own_scorers, own_scorer_names
from pipelines.search.shared.base import SplitRows

# These are scored without scikit-learn, as its import takes longer than a short search; the log
# loss only if a solver measures it.
ACCURACY = "accuracy"
NEG_LOG_LOSS, NEG_SQUARED_ERROR = "neg_log_loss", "neg_mean_squared_error"
METHOD_OF = {ACCURACY: "predict", NEG_LOG_LOSS: "predict_proba", NEG_SQUARED_ERROR: "predict"}
PREDICTIONS = {"predict", "decision_function"}  # methods that every shared fit provides
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
DEFAULT_SCORING = {"classification": ACCURACY, "regression": "r2"}
INSTEAD = {
    "classification": "use for instance balanced_accuracy, f1_macro or matthews_corrcoef",
    "regression": "use for instance neg_mean_absolute_error",
}


@dataclass(frozen=True, eq=False)
class CandidateScorer:
    """Scores candidates, by names of scorers or by the scorer of a scikit-learn search.

    Attributes
    ----------
    names : sequence of str
        Names of scorers; the first decides which candidate is best.
    search_scorer : optional
        In place of names, what scikit-learn's search calls: a scorer, several in one, or a
        callable.
    labels : array of shape (n_classes,), optional
        Labels of the class codes of ``y``, if scorers should see labels.
    own_scorers : mapping of str to str
        The user's own scorers among ``names``, with the text that names each; see
        ``own_scorer_names``.
    own_labels : array of shape (n_classes,), optional
        As ``labels``, for the user's own scorers.
    error_score : float or "raise", default nan
        Score of a fit that fails, or whose scoring fails; for ``search_scorer``.
    train_scores : bool, default False
        Whether the training rows are scored as well.
    fit_params, score_params : mapping, optional
        As scikit-learn's ``_fit_and_score`` takes them.
    """

    names: Sequence[str] = (ACCURACY,)
    search_scorer: Any = None
    labels: np.ndarray | None = None
    own_scorers: Mapping[str, str] = field(default_factory=dict)
    own_labels: np.ndarray | None = None
    error_score: Any = np.nan
    train_scores: bool = False
    fit_params: Mapping[str, Any] | None = None
    score_params: Mapping[str, Any] | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of a split that are scored: "test", perhaps "train"."""
        return ("test", "train") if self.train_scores else ("test",)

    @cached_property
    def scorer(self) -> Any:
        """The scorer in the form that ``_fit_and_score`` takes."""
        if self.search_scorer is not None:
            return self.search_scorer
        from sklearn.metrics import get_scorer

        from pipelines.sklearn_private import MultimetricScorer

        scorers = {
            name: OwnScorer(self.own_scorers[name], self.own_labels)
            if name in self.own_scorers
            else get_scorer(name)
            for name in self.names
        }
        return MultimetricScorer(scorers=scorers, raise_exc=False)

    @cached_property
    def methods(self) -> set[str]:
        """Methods of an estimator that the scorers call; "?" if that is unknown."""
        if self.search_scorer is None and METHOD_OF.keys() >= set(self.names):
            return {METHOD_OF[name] for name in self.names}
        return methods_of(self.scorer)

    @cached_property
    def may_write(self) -> bool:
        """Whether a function other than scikit-learn's metrics gets the predictions."""
        return self.search_scorer is not None and not is_of_metrics(self.search_scorer)

    @cached_property
    def is_accuracy(self) -> bool:
        """Whether accuracy is the only score, so that the number of errors is enough."""
        if self.score_params:
            return False
        if self.search_scorer is None:
            return tuple(self.names) == (ACCURACY,)
        from pipelines.sklearn_private import PassthroughScorer

        return isinstance(self.search_scorer, PassthroughScorer) or (
            getattr(getattr(self.search_scorer, "_score_func", None), "__name__", "")
            == "accuracy_score"
            and not self.search_scorer._kwargs
        )

    def _numpy_scores(self, fit: Fit, truth: Any, part: str) -> dict[str, float] | None:
        """The score if numpy can compute it, a log loss or squared error, equal to the last bit.

        None for other scores, and for predictions that are not finite numbers: scikit-learn then
        raises its own error.
        """
        if self.search_scorer is not None or self.score_params:
            return None
        if tuple(self.names) == (NEG_LOG_LOSS,) and fit.loss is not None and part == "test":
            return {NEG_LOG_LOSS: -fit.loss}
        if tuple(self.names) != (NEG_SQUARED_ERROR,) or fit.predict is None:
            return None
        predicted = np.asarray(fit.predict("predict", part))
        arrays = truth, predicted
        if not all(isinstance(array, np.ndarray) and array.dtype == np.float64 for array in arrays):
            return None
        if predicted.shape != truth.shape or truth.ndim != 1 or not np.isfinite(predicted).all():
            return None
        return {NEG_SQUARED_ERROR: -float(np.mean((truth - predicted) ** 2))}

    def score_fit(self, fit: Fit, estimator: Any, rows: SplitRows) -> None:
        """Score a fit and replace its model by the result, in the form of ``_fit_and_score``.

        Parameters
        ----------
        fit : Fit
            Changed in place: it gets ``scores`` and loses its predictions and estimator.
        estimator : scikit-learn estimator
            Fitted; unfitted if the fit has predictions only.
        rows : SplitRows
        """
        test = rows.row_numbers(fit.split, "test")
        if fit.error is not None:
            fit.scores, fit.classes = self.failed(fit.error, len(test)), None
            fit.scores["fit_time"] = fit.fit_seconds
            return
        fit.scores = {
            "fit_error": None,
            "n_test_samples": len(test),
            "fit_time": fit.fit_seconds,
        }
        for part in self.parts:
            started, n_errors = time.perf_counter(), None
            truth = rows.targets(fit.split, part)
            if fit.classes is not None and fit.predict is not None:
                wrong = fit.predict("predict", part) != np.asarray(truth)
                n_errors = int(np.count_nonzero(wrong))
            if n_errors is not None and self.is_accuracy:
                accuracy = (len(truth) - n_errors) / len(truth)
                scores: Any = accuracy if self.search_scorer is not None else {ACCURACY: accuracy}
            elif (scores := self._numpy_scores(fit, truth, part)) is None:
                scores = self._score(fit, estimator, rows, part)
            fit.scores[f"{part}_scores"] = scores
            if part == "test":
                fit.n_errors = n_errors
                seconds = fit.score_seconds + time.perf_counter() - started
                fit.scores["score_time"] = seconds
        fit.predict = fit.estimator = fit.classes = None

    def _score(self, fit: Fit, estimator: Any, rows: SplitRows, part: str) -> Any:
        """Score a part of a split, with its rows as they were before the first step.

        Return a number, or a dict of numbers by scorer name.
        """
        X, truth = rows.part_rows(fit.split, part)
        if not hasattr(estimator, "fit"):  # a candidate of a search that does without scikit-learn
            estimator = estimator.as_estimator()
        if self.search_scorer is None:
            return self.by_name(estimator, X, truth, fit, part)
        from pipelines.sklearn_private import score

        if self.may_write:  # targets and predictions are shared with other fits
            truth = copy_of(truth)
        if "?" in self.methods:  # it may use the estimator in any way
            X = copy_of(X)
        else:
            estimator = PredictedEstimator(estimator, fit, X, part, self.labels, self.may_write)
        params = rows.metadata(self.score_params, rows.row_numbers(fit.split, part))
        return score(estimator, X, truth, self.search_scorer, params, self.error_score)

    def by_name(
        self, estimator: Any, X: Any, truth: np.ndarray, fit: Fit | None = None, part: str = "test"
    ) -> dict[str, Any]:
        """Score predictions by each of the names.

        Parameters
        ----------
        estimator : scikit-learn estimator
        X : rows
        truth : array of shape (n_samples,)
            Targets: class codes or numbers.
        fit : Fit, optional
            Has the predictions of these rows; by default the estimator predicts.
        part : str, default "test"
            The part of the split to which the rows belong.

        Returns
        -------
        dict
            A float for each name, or a str that says why there is no score.
        """
        predicted = PredictedEstimator(
            estimator,
            fit or Fit(0, 0),
            X,
            part,
            self.labels,
            copies=bool(self.own_scorers),
            as_targets=truth.dtype,
        )
        labels = truth if self.labels is None else self.labels[truth]
        if self.search_scorer is None and self.is_accuracy:
            # The quick way; scikit-learn's own takes half of a short fit. If this one fails, that
            # one follows and reports the error.
            with suppress(Exception):
                if len(predicted.classes_):  # scikit-learn refuses a classifier without them
                    return {ACCURACY: accuracy_of(labels, predicted.predict(X))}
        return {
            name: error_line(score).rstrip(".") if isinstance(score, str) else score
            for name, score in self.scorer(predicted, X, labels).items()
        }

    def failed(self, reason: str, n_rows: int) -> dict[str, Any]:
        """The result of a failed fit, in the form of ``_fit_and_score``.

        Raises
        ------
        ValueError
            ``error_score`` is ``"raise"``.
        """
        if self.error_score == "raise":
            raise ValueError(reason)
        scores = self.error_score
        names = (
            getattr(self.search_scorer, "_scorers", None)
            if self.search_scorer is not None
            else self.names
        )
        if names is not None:
            scores = dict.fromkeys(names, scores)
        return {
            "test_scores": scores,
            "n_test_samples": n_rows,
            "fit_time": 0.0,
            "score_time": 0.0,
            "fit_error": reason,
            **({"train_scores": scores} if self.train_scores else {}),
        }


def methods_of(scorer: Any) -> set[str]:
    """Methods of an estimator that a scikit-learn scorer calls; "?" if unknown."""
    from pipelines.sklearn_private import BaseScorer, MultimetricScorer, PassthroughScorer

    if isinstance(scorer, MultimetricScorer):
        return set().union(*map(methods_of, scorer._scorers.values()))
    if isinstance(scorer, PassthroughScorer):
        return {"predict"}
    if isinstance(scorer, OwnScorer):
        return methods_of(scorer.scorer)
    if not isinstance(scorer, BaseScorer):
        return {"?"}
    methods = scorer._response_method
    if isinstance(methods, str):
        return {methods}
    return {"decision_function" if "decision_function" in methods else methods[0]}


def is_of_metrics(scorer: Any) -> bool:
    """Whether a scorer calls only scikit-learn's metrics, which never write to their arguments."""
    scorers = getattr(scorer, "_scorers", None)
    if scorers is not None:
        return all(map(is_of_metrics, scorers.values()))
    function = getattr(scorer, "_score_func", None)
    return str(getattr(function, "__module__", "")).startswith("sklearn.metrics.")


def predictions_as(dtype: np.dtype[Any], values: Any) -> np.ndarray:
    """Predictions in the form of the targets: one-dimensional, class codes as integers.

    Codes that were predicted as floats, booleans or objects are converted if no value changes.

    Parameters
    ----------
    dtype : numpy dtype
        Type of the targets.
    values : array-like
        What ``predict`` returned.
    """
    predicted = np.asarray(values)
    if predicted.ndim == 2 and predicted.shape[1] == 1:
        predicted = predicted[:, 0]
    if dtype.kind not in "iu" or predicted.dtype == dtype:
        return predicted
    with suppress(TypeError, ValueError, OverflowError), np.errstate(invalid="ignore"):
        codes = predicted.astype(dtype)
        if np.array_equal(codes, predicted):
            return codes
    return predicted


def accuracy_of(truth: Any, predicted: Any) -> float:
    """The accuracy as scikit-learn computes it, without its checks where these cannot fail."""
    arrays = truth, predicted
    kinds = {part.dtype.kind if type(part) is np.ndarray else "?" for part in arrays}
    if kinds == {"O"} and {type(label) for part in arrays for label in part.flat} == {str}:
        kinds = {"U"}
    if kinds in ({"i"}, {"U"}, {"b"}) and truth.ndim == predicted.ndim == 1:
        n_rows = len(truth)
        if 0 < n_rows == len(predicted):
            return np.count_nonzero(truth == predicted) / n_rows
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(truth, predicted))


class PredictedEstimator:
    """An estimator whose predictions of the rows of a split are known already; for a scorer.

    Other rows, other arguments and other attributes are passed on to the estimator.
    """

    def __init__(
        self,
        estimator: Any,
        fit: Fit,
        X: Any,
        part: str,
        labels: np.ndarray | None,
        copies: bool = False,
        as_targets: np.dtype[Any] | None = None,
    ) -> None:
        self._estimator, self._fit, self._X, self._part = estimator, fit, X, part
        self._labels, self._copies, self._as_targets = labels, copies, as_targets

    def __getattr__(self, name: str) -> Any:
        if name == "classes_" and self._fit.classes is not None:
            return self._labelled(self._fit.classes)
        attribute = getattr(self._estimator, name)  # AttributeError if the estimator has none
        if name not in METHODS:
            return attribute

        def predict(X: Any, **options: Any) -> Any:
            if X is not self._X or options or self._fit.predict is None:
                values = attribute(copy_of(X) if X is self._X else X, **options)
            else:
                values = self._fit.predict(name, self._part)
                values = copy_of(values) if self._copies else values
            if name != "predict":
                return values
            if self._as_targets is not None:
                values = predictions_as(self._as_targets, values)
            return values if self._fit.predict is None else self._labelled(values)

        predict.__name__ = name  # scikit-learn looks at the name
        return predict

    def _labelled(self, codes: np.ndarray) -> np.ndarray:
        return codes if self._labels is None else self._labels[codes]

    def score(self, X: Any, y: Any = None, **weights: Any) -> float:
        """The estimator's own score; from the known predictions if it is a mixin's ``score``."""
        from sklearn.base import ClassifierMixin, RegressorMixin

        from pipelines.search.shared import shared_fit_of

        final = last_step(self._estimator)
        for mixin in (ClassifierMixin, RegressorMixin):
            # The ``score`` of nearest neighbours is the usual one, except that it can do without X.
            if isinstance(final, mixin) and (
                type(final).score is mixin.score or shared_fit_of(final) is not None
            ):
                if mixin is ClassifierMixin and not weights:
                    return accuracy_of(y, self.predict(X))
                return float(mixin.score(self, X, y, **weights))
        return float(self._estimator.score(copy_of(X), copy_of(y), **weights))

    def __sklearn_tags__(self) -> Any:
        return self._estimator.__sklearn_tags__()


def last_step(estimator: Any) -> Any:
    """The last step of a pipeline; any other estimator itself."""
    return estimator.steps[-1][1] if type(estimator).__name__ == "Pipeline" else estimator


def make_scoring(
    names: Sequence[str], data: Dataset, of_predictions: bool = False
) -> tuple[str, ...]:
    """Check the scorers of a search and return their names, by default the task's usual scorer.

    Parameters
    ----------
    names : sequence of str
        Values of ``--scoring``.
    data : Dataset
    of_predictions : bool, default False
        See ``check_scoring``.

    Raises
    ------
    InputError
        A scorer cannot be used, see ``check_scoring``; or one of the user's own cannot be loaded.
    """
    code = own_scorer_names(names)
    if of_predictions and code:
        raise InputError(
            f"{opt('scoring')} of svm-grid must be a scorer that scikit-learn knows, got "
            f"{next(iter(code.values()))}: one of your own goes with cross-validate --estimator svm"
        )
    check_own_scorers(code)
    by_text = {text: name for name, text in code.items()}
    chosen_names = tuple(dict.fromkeys(by_text.get(name, name) for name in names))
    chosen_names = chosen_names or (DEFAULT_SCORING[data.task],)
    classes = data.classes if of_predictions else np.arange(len(data.classes))
    for name in chosen_names:
        if name not in code:
            check_scoring(name, classes, data.task, of_predictions)
    return chosen_names


def check_scoring(
    name: str, classes: np.ndarray, task: str = CLASSIFICATION, of_predictions: bool = True
) -> None:
    """Check that one of scikit-learn's scorers can be used.

    Parameters
    ----------
    name : str
    classes : array of shape (n_classes,)
        Labels; the scorer is tried on a few artificial rows of them.
    task : {"classification", "regression"}
    of_predictions : bool, default True
        Whether candidates provide predictions and decision values only, no probabilities.

    Raises
    ------
    InputError
        There is no such scorer, it is for the other task, it needs probabilities, or it cannot
        score these classes, as ``roc_auc`` with more than two.
    """
    if name == DEFAULT_SCORING[task]:
        return
    from sklearn.metrics import get_scorer, get_scorer_names

    if name not in get_scorer_names():
        way_out = nearest(name, get_scorer_names(), INSTEAD[task])
        raise InputError(
            f"{opt('scoring')} must be a scorer that scikit-learn knows, got {name!r}; {way_out}"
        )
    scorer = get_scorer(name)
    # No public attribute tells the task of a scorer, but the module of its function does.
    module = scorer._score_func.__module__.rsplit(".", 1)[-1]
    of_clusters = module.endswith("supervised") and not of_predictions
    if of_clusters or (module == "_regression") == (task == CLASSIFICATION):
        raise InputError(f"{opt('scoring')} must be one for {task}, got {name}; {INSTEAD[task]}")
    if of_predictions and not methods_of(scorer) <= PREDICTIONS:
        raise InputError(
            f"{opt('scoring')} must work with predictions or decision values, but {name} "
            f"needs probabilities; {INSTEAD[task]}; {opt('probability')} gives the best candidate's"
        )
    if task != CLASSIFICATION:
        return
    from sklearn.linear_model import LogisticRegression

    n, truth = len(classes), np.repeat(np.arange(len(classes)), 2)
    values = np.eye(n)[truth]
    made_up = {
        "predict": np.roll(truth, 1),
        "predict_proba": values,
        "decision_function": values[:, 1] if n == 2 else values,
    }
    fit = Fit(0, 0, Predictions(made_up), classes=np.arange(n))
    trial = CandidateScorer((name,), labels=classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = trial.by_name(LogisticRegression(), truth[:, None], truth, fit)[name]
    if isinstance(result, str) or not math.isfinite(result):
        raise InputError(
            f"{opt('scoring', name)} cannot score these {n} classes ({result}); {INSTEAD[task]}"
        )


def expected_calibration_error(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """The expected calibration error: the mean gap between certainty and accuracy.

    Rows are put in 15 bins of equal width by their certainty, the probability of the most probable
    class; the gaps of the bins are weighted by their numbers of rows.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_classes)
    truth : int array of shape (n_samples,)
        Class codes.

    Returns
    -------
    float
        A fraction in [0, 1].

    References
    ----------
    Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks, ICML, 2017.
    """
    certainty = probabilities.max(axis=1)
    is_right = probabilities.argmax(axis=1) == truth
    bins = np.ceil(np.minimum(certainty, 1) * 15).astype(int)
    gaps = np.bincount(bins, weights=is_right - certainty)
    return float(np.abs(gaps).sum() / len(truth))


def log_loss(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """The mean negative natural logarithm of the probability of the true class."""
    from sklearn import metrics

    return float(metrics.log_loss(truth, probabilities, labels=range(probabilities.shape[1])))
