"""The interface of work that candidates share.

A kind of shared work is one file beside this and an entry in ``FILES``. It fits the
candidates of a group on the splits of a task, and hands over what each predicts as soon as that
is known; the engine scores, journals and shows it.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from pipelines.search.shared.rows import SplitRows

SEED = "random_state"
Split = tuple[np.ndarray, np.ndarray]  # row numbers: training, validation
Report = Callable[[float], None]  # of the fraction of a task that is done


@dataclass(frozen=True, eq=False)
class Response:
    """The predictions of a candidate on a split.

    Attributes
    ----------
    candidate, split : int, their places in the task
    predict : function of the name of a method (``"predict"``, ``"decision_function"``, ...) and
        of a part of the rows (``"test"``, ``"train"``), which gives the array
    estimator : fitted; or unfitted, where there are predictions only
    classes : the labels of a classifier that has predictions only
    error : str, why there is no fit
    n_fits : 1 where a fit was made for this candidate, 0 where another's serves it
    """

    candidate: int
    split: int
    predict: Callable[[str, str], Any]
    estimator: Any = None
    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    converged: bool = True
    n_support: int | None = None
    n_iterations: int | None = None
    classes: np.ndarray | None = None
    error: str | None = None
    n_fits: int = 1


Respond = Callable[[Response], None]


class SharedFit(ABC):
    """Estimators of one kind whose fits share work.

    Attributes
    ----------
    name : str
        For rows and pages.
    types : the classes it knows; a subclass may do anything, so it is none of them
    shared : names of the parameters in which members of a group may differ
    by_chance : bool
        Whether a fit depends on its seed: then equal seeds are needed.
    takes_weights : bool
        Whether it takes ``sample_weight``.
    predictions_only : bool
        Whether there are predictions and no fitted model: then it serves only where scores
        need nothing else.
    splits_together : bool
        Whether a task may hold all splits of a group.
    one_launch : bool
        Whether a task is one launch on a GPU, of which no part ends before the whole.
    """

    name: ClassVar[str]
    types: ClassVar[Collection[type]]
    shared: ClassVar[Collection[str]]
    by_chance: ClassVar[bool] = False
    takes_weights: bool = True
    predictions_only: ClassVar[bool] = False
    splits_together: bool = False
    one_launch: bool = False

    def knows(self, estimator: Any) -> bool:
        """Return whether the estimator is of a class that shares this work."""
        return type(estimator) in self.types

    def group_key(self, estimator: Any) -> Hashable | None:
        """Return equal for estimators that share work; None for one that cannot."""
        if not self.accepts(estimator) or (self.by_chance and not is_repeatable(estimator)):
            return None
        return identity(estimator, {*self.shared, *(() if self.by_chance else (SEED,))})

    def accepts(self, estimator: Any) -> bool:
        """Return whether, with these parameters, sharing gives what separate fits would give."""
        return True

    def partition(self, estimators: Sequence[Any], n_workers: int) -> list[list[int]]:
        """Return places of the estimators of a group, cut where no work is lost by it."""
        return [list(range(len(estimators)))]

    def describe(self, estimators: Sequence[Any]) -> str:
        """Return what names these estimators within their group; empty if nothing does."""
        return ""

    def cost(self, estimators: Sequence[Any], n_rows: int, n_features: int) -> float:
        """Predict the time on one split, in any unit that is the same for all tasks of a run."""
        return float(len(estimators))

    @abstractmethod
    def fit_and_respond(
        self,
        rows: SplitRows,
        estimators: Sequence[Any],
        methods: Collection[str],
        respond: Respond,
        report: Report,
    ) -> None:
        """Fit estimators of one group on every split.

        Parameters
        ----------
        estimators : unfitted; they may be used up
        methods : what scores need of them, such as ``predict``
        respond : called with what a candidate predicts on a split, once for each of both
        """


class SharedEstimators(SharedFit):
    """Kinds that give a fitted estimator for each candidate, split by split.

    Attributes
    ----------
    one_fit : bool
        Whether the whole group is one fit; otherwise each is one, made cheaper by the last.
    """

    one_fit: ClassVar[bool] = True

    @abstractmethod
    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """Fit all estimators, each as a separate fit would have left it.

        Parameters
        ----------
        estimators : unfitted; they may be used up
        X, y : training rows
        weights : ``sample_weight``, where there is one
        """

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Return each estimator's response; None where each is to be called by itself."""
        return None

    def fit_and_respond(
        self,
        rows: SplitRows,
        estimators: Sequence[Any],
        methods: Collection[str],
        respond: Respond,
        report: Report,
    ) -> None:
        from sklearn.base import clone
        from sklearn.exceptions import ConvergenceWarning

        for split in range(rows.n_splits):
            (X, y), weights = rows.train(split), rows.weights(split)
            several = rows.n_splits > 1
            fresh = [clone(one) for one in estimators] if several else list(estimators)
            options = {} if weights is None else {"sample_weight": weights}
            started = time.perf_counter()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fitted = self.fit(fresh, X, y, **options)
            seconds = (time.perf_counter() - started) / len(fitted)
            for one in caught:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
            warned = any(issubclass(one.category, ConvergenceWarning) for one in caught)
            cache = ResponseCache(self, fitted, rows.asked(split))
            for i, one in enumerate(fitted):
                converged = not _at_limit(one, warned, len(fitted))
                made = int(i == 0 or not self.one_fit)
                predict = partial(cache.predict, i)
                respond(Response(i, split, predict, one, seconds, converged=converged, n_fits=made))
            report((split + 1) / rows.n_splits)


class PlainFits(SharedEstimators):
    """Fits that share nothing but the steps before them."""

    name = "plain"
    types = ()
    shared = ()
    one_fit = False

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        return [estimator.fit(X, y, **weights) for estimator in estimators]


class ResponseCache:
    """Responses of the fitted estimators of a group, computed for all of them at once."""

    def __init__(
        self, kind: SharedEstimators, fitted: Sequence[Any], asked: Mapping[str, Any]
    ) -> None:
        self._kind, self._fitted, self._asked = kind, fitted, asked
        self._found: dict[tuple[str, str], list[np.ndarray] | None] = {}

    def predict(self, i: int, method: str, part: str) -> np.ndarray:
        """Return the response of estimator ``i`` for a part of the rows."""
        if (method, part) not in self._found:
            together = len(self._fitted) > 1
            self._found[method, part] = (
                self._kind.predict(self._fitted, method, self._asked[part]) if together else None
            )
        found = self._found[method, part]
        if found is not None:
            return found[i]
        alone: np.ndarray = getattr(self._fitted[i], method)(self._asked[part])
        return alone


def _at_limit(fitted: Any, warned: bool, n: int) -> bool:
    """Return whether a fit of a group stopped at its iteration limit, one of them having warned."""
    if not warned or n == 1:
        return warned
    limit, taken = getattr(fitted, "max_iter", None), getattr(fitted, "n_iter_", None)
    return limit is None or taken is None or bool(np.max(taken) >= limit)


def identity(estimator: Any, without: Collection[str] = ()) -> Hashable:
    """Return equal for estimators of one class with equal parameters, some of which do not count.

    Parameters
    ----------
    estimator : anything with ``get_params``, unfitted
    without : names of the parameters that do not count

    Raises
    ------
    Exception
        A parameter is such that Python cannot pickle it.
    """

    def of_value(value: Any) -> Hashable:
        if isinstance(value, bool | int | float | str | bytes | None):
            return type(value).__name__, value
        if hasattr(value, "get_params") and not isinstance(value, type):
            return identity(value)
        import joblib

        return joblib.hash(value)

    params = estimator.get_params(deep=True)
    return type(estimator), tuple(
        (name, of_value(value)) for name, value in sorted(params.items()) if name not in without
    )


def is_repeatable(estimator: Any) -> bool:
    """Return whether fits are repeatable: every ``random_state`` inside is an integer."""
    params = estimator.get_params(deep=True)
    return all(
        isinstance(value, int) and not isinstance(value, bool)
        for name, value in params.items()
        if name.rsplit("__", 1)[-1] == "random_state"
    )
