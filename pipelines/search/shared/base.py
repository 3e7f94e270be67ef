"""The interface of work that candidates share.

A kind of shared work is one file beside this and an entry in ``FILES``. It fits the
candidates of a group on the splits of a task, and yields each fit as soon as it is known; the
engine scores, journals and shows it.
"""

from __future__ import annotations

import math
import re
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from pipelines.data.dataset import copy_of, read_only, take_rows
from pipelines.data.fits import Fit, Progress
from pipelines.data.placement import FoldedData, Placement, to_device

SEED = "random_state"
WEIGHTS = "sample_weight"  # the only metadata of fits that share work
# Beginnings of the names of parameters, and the value with which rows are written to.
WRITES = {"copy": False, "inplace": True, "in_place": True, "overwrite": True}
LEAVE_TO_WRITE = re.compile("|".join(WRITES))
PLAIN_VALUES = {float, str, type(None)}  # types of parameters that are equal where they look so
Split = tuple[np.ndarray, np.ndarray]  # row numbers: training, validation


def renumbered(splits: Sequence[Split], rows: np.ndarray, n_rows: int) -> list[Split]:
    """Splits by the places that their rows have among some rows, those that are there.

    Parameters
    ----------
    rows : int array, ascending
    n_rows : all there are
    """
    positions = np.full(n_rows, -1, np.int64)
    positions[rows] = np.arange(len(rows))

    def renumber_part(part: np.ndarray) -> np.ndarray:
        part_positions = positions[np.asarray(part)]
        return part_positions[part_positions >= 0]

    return [(renumber_part(train), renumber_part(test)) for train, test in splits]


@dataclass(frozen=True)
class PipelineRows:
    """The rows of a split on their way through the first steps of a pipeline.

    ``fit`` are the training rows as the next step is fitted on them; ``asked`` those that the
    fitted pipeline will be asked about, by name; ``key`` tells them from others of the data set.
    """

    fit: Any
    prediction_rows: Mapping[str, Any]
    key: Hashable = None
    placement: Placement = field(default_factory=Placement, repr=False)

    @property
    def n_bytes(self) -> int:
        """The approximate number of bytes held, of a sparse matrix its values alone."""
        parts = (self.fit, *self.prediction_rows.values())
        arrays = (part.data if hasattr(part, "tocsr") else part for part in parts)
        return sum(getattr(array, "nbytes", 0) or sys.getsizeof(array) for array in arrays)

    def matrix(self, device: str, y_train: Any, y_test: Any) -> tuple[Any, np.ndarray, list[Split]]:
        """Return all rows as one array on a device; see ``SplitRows.matrix``.

        Made once, as candidates of several tasks may share it, and what is computed from it.
        """

        def join() -> tuple[Any, np.ndarray, list[Split]]:
            train, test = (
                np.asarray(rows, np.float64) for rows in (self.fit, self.prediction_rows["test"])
            )
            X = to_device(np.vstack([train, test]), device)
            train_numbers, test_numbers = np.arange(len(train)), np.arange(len(train), len(X))
            predicted_numbers = (
                np.concatenate([test_numbers, train_numbers])
                if "train" in self.prediction_rows
                else test_numbers
            )
            y = np.concatenate([np.asarray(y_train), np.asarray(y_test)])
            return X, y, [(train_numbers, predicted_numbers)]

        joined: tuple[Any, np.ndarray, list[Split]] = self.placement.get(("matrix", device), join)
        return joined


@dataclass(eq=False)
class SplitRows:
    """The rows of a task's splits; the parts of a split are ``"train"`` and ``"test"``.

    Attributes
    ----------
    data : of the search; where its scaling learns, ``matrix`` is of one split alone
    splits : all there are: what they share does not depend on which of them a task has
    numbers : those of the task, among them
    name : tells these splits from others of the same data
    n_threads : that a fit may use; None for those that BLAS uses
    estimator : one of the candidates, as scikit-learn asks it whether rows are a kernel
    parts : those that are predicted
    fit_params : metadata of all rows, such as ``sample_weight``
    prepared : the rows of one split as they are after the first steps of pipelines
    seed : of the search, for what its fits draw from global generators; None leaves these
    share : of all training rows, that these are
    """

    data: FoldedData
    splits: Sequence[Split]
    numbers: Sequence[int]
    name: Hashable
    n_threads: int | None
    estimator: Any
    parts: Sequence[str] = ("test",)
    fit_params: Mapping[str, Any] | None = None
    prepared: PipelineRows | None = None
    seed: int | str | None = 0
    fraction: float = 1.0
    _part_cache: dict[tuple[int, str], tuple[Any, Any]] = field(default_factory=dict, init=False)

    @property
    def n_splits(self) -> int:
        """The number of the task's splits."""
        return len(self.numbers)

    @property
    def key(self) -> Hashable:
        """Names what is derived from all splits and parts of these rows, as they are prepared."""
        return self.name, tuple(self.parts), self.prepared and self.prepared.key

    def alone(self, split: int) -> SplitRows:
        """Return the rows of one split that shares no array with others."""
        number = self.numbers[split]
        return replace(self, splits=[self.splits[number]], numbers=[0], name=(self.name, number))

    def row_numbers(self, split: int, name: str) -> np.ndarray:
        """Return the numbers of the rows of a part."""
        return self.splits[self.numbers[split]][name == "test"]

    def part_rows(self, split: int, name: str) -> tuple[Any, Any]:
        """Return rows and targets of a part as the data have them, before any step."""
        key, row_numbers = (split, name), self.row_numbers(split, name)
        if key not in self._part_cache:
            X, y = self.data.X, self.data.y
            if not hasattr(self.estimator, "fit"):
                self._part_cache[key] = take_rows(X, row_numbers), y[row_numbers]
            else:
                from sklearn.utils import get_tags

                from pipelines.sklearn_private import safe_split

                of_arrays = all(type(array) is np.ndarray for array in (X, y, row_numbers))
                if of_arrays and not get_tags(self.estimator).input_tags.pairwise:
                    self._part_cache[key] = (
                        X[row_numbers],
                        y[row_numbers],
                    )  # as that has it, after long checks
                else:
                    train = () if name == "train" else (self.row_numbers(split, "train"),)
                    self._part_cache[key] = safe_split(self.estimator, X, y, row_numbers, *train)
        return self._part_cache[key]

    def targets(self, split: int, name: str) -> Any:
        """Return the targets of a part; see ``part_of``."""
        y = self.data.y
        return (
            y[self.row_numbers(split, name)]
            if isinstance(y, np.ndarray)
            else (self.part_rows(split, name)[1])
        )

    def train(self, split: int) -> tuple[Any, Any]:
        """Return training rows of a split and their targets."""
        X, y = self.part_rows(split, "train")
        return (X if self.prepared is None else self.prepared.fit), y

    def prediction_rows(self, split: int) -> Mapping[str, Any]:
        """Return rows to predict: ``test``, and ``train`` where train scores are wanted."""
        if self.prepared is not None:
            return self.prepared.prediction_rows
        return {name: self.part_rows(split, name)[0] for name in self.parts}

    def matrix(self, device: str) -> tuple[Any, np.ndarray, list[Split]]:
        """Return all rows as one array on a device, their targets, and for every split there is the
        numbers of the training rows and of the rows of ``asked``, one part after the other."""
        if self.prepared is not None:
            targets = (self.part_rows(0, name)[1] for name in ("train", "test"))
            return self.prepared.matrix(device, *targets)
        splits = list(self.splits)
        if "train" in self.parts:
            splits = [(train, np.concatenate([test, train])) for train, test in self.splits]
        learned_on = self.splits[0][0] if self.data.scaling.learns else None
        return self.data.scaled(device, rows=learned_on), np.asarray(self.data.y), splits

    def part_slices(self, split: int) -> dict[str, slice]:
        """Return where the parts of a split are among the rows of ``matrix`` that are asked."""
        n_test = len(self.row_numbers(split, "test"))
        return {"test": slice(0, n_test), "train": slice(n_test, None)}

    def weights(self, split: int | None) -> np.ndarray | None:
        """Return sample weights of a split's training rows, or of all rows; None if all weigh 1."""
        row_numbers = None if split is None else self.row_numbers(split, "train")
        sample_weight = self.metadata(self.fit_params, row_numbers).get(WEIGHTS)
        return None if sample_weight is None else np.asarray(sample_weight, np.float64)

    def metadata(self, params: Mapping[str, Any] | None, row_numbers: Any) -> Mapping[str, Any]:
        """Return metadata such as sample weights of some rows."""
        if not params:
            return {}
        from pipelines.sklearn_private import check_method_params

        return check_method_params(self.data.X, params=params, indices=row_numbers)


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
    gives : methods whose answers there are then
    splits_together : bool
        Whether a task may hold all splits of a group.
    one_launch : bool
        Whether a task is one launch on a GPU, of which no part ends before the whole.
    scales : bool
        Whether its fits scale their rows themselves, by the scaling of the data.
    most_seconds : float, optional
        That a unit of cost takes at most on one core; None where nothing is known of it.
    linear_rows : int, optional
        Where its seconds go about as n (n + linear_rows), with n rows.
    unlike_few_rows : str
        Why its seconds on a few rows tell nothing of those on all; "" where they do.
    package : str
        What it imports before its first fit and takes long; "" where it takes none.
    """

    name: ClassVar[str]
    types: ClassVar[Collection[type]]
    shared: ClassVar[Collection[str]]
    by_chance: ClassVar[bool] = False
    takes_weights: bool = True
    predictions_only: ClassVar[bool] = False
    gives: ClassVar[Collection[str]] = ("predict", "decision_function")
    splits_together: bool = False
    one_launch: bool = False
    scales: ClassVar[bool] = False
    most_seconds: float | None = None
    linear_rows: int | None = None
    unlike_few_rows: str = ""
    package: ClassVar[str] = ""

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

    def fraction_of_steps(self, estimators: Sequence[Any], n_rows: int) -> float | None:
        """The share of the most steps after which training typically ends.

        None where fits are no training that tells how far it is, step by step.
        """
        return None

    def beyond_memory(self, estimator: Any, y: np.ndarray, n_threads: int) -> tuple[float, str]:
        """How many times slower than with few rows it is for want of memory, and a line on it."""
        return 1.0, ""

    def seconds_to_start(self) -> float:
        """CPU seconds that go by in this process before its first fit, as code is loaded for it."""
        return 0.0

    def seconds_saved(
        self, estimators: Sequence[Any], n_rows: int, n_features: int, n_splits: int
    ) -> float:
        """About how many CPU seconds shared work saves; infinite where it is known to pay.

        Parameters
        ----------
        estimators : of one group, unfitted
        n_rows : training rows of a split
        """
        return math.inf

    def make_ready(self) -> None:  # noqa: B027  most are
        """Begin what later searches need, where this one does without: it would be over sooner."""

    def brief(self, estimators: Sequence[Any]) -> SharedFit:
        """What fits estimators of one group where this would take longer to start."""
        return self

    def draw(self, estimator: Any) -> None:  # noqa: B027  most draw nothing
        """Draw from numpy's global generator what a separate fit would have drawn.

        Where nothing is shared fits draw from it, one after the other; after fits that shared
        work it is then in the same state.
        """

    @abstractmethod
    def fit_splits(
        self, rows: SplitRows, estimators: Sequence[Any], methods: Collection[str]
    ) -> Iterator[Fit | Progress]:
        """Fit estimators of one group on every split; yield each fit as soon as it is known.

        Parameters
        ----------
        estimators : unfitted; they may be used up
        methods : what scores need of them, such as ``predict``

        Yields
        ------
        A fit for each estimator and split, these by their places, and between them progress.
        """


class SharedEstimators(SharedFit):
    """Kinds that give a fitted estimator for each candidate, split by split, from one fit.

    Attributes
    ----------
    own : function of rows or targets that others share
        Returns them as the estimators are given them, who may write to them.
    fits_each : bool
        Whether every candidate is fitted, at most with parts of others.
    """

    protect = staticmethod(read_only)
    fits_each: ClassVar[bool] = False

    def shares_on(self, X: Any) -> bool:
        """Whether fits on these training rows share work; if not, each is a plain one."""
        return True

    @abstractmethod
    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """Fit all estimators, each as a separate fit would have left it.

        Parameters
        ----------
        estimators : unfitted; they may be used up
        X, y : training rows; arrays are read-only
        weights : ``sample_weight``, where there is one
        """

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Return each estimator's response; None where each is to be called by itself."""
        return None

    def fit_splits(
        self, rows: SplitRows, estimators: Sequence[Any], methods: Collection[str]
    ) -> Iterator[Fit | Progress]:
        for split in range(rows.n_splits):
            yield from self._fit_split(split, rows, estimators)
            yield Progress((split + 1) / rows.n_splits)

    def _fit_split(self, split: int, rows: SplitRows, estimators: Sequence[Any]) -> Iterator[Fit]:
        from sklearn.base import clone

        (X, y), weights, prediction_rows = (
            rows.train(split),
            rows.weights(split),
            rows.prediction_rows(split),
        )
        clones = [clone(candidate) for candidate in estimators] if rows.n_splits > 1 else estimators
        # Others are fitted on these rows, too; what fails on them is fitted by itself on a copy.
        shared_fit: SharedEstimators = self if self.shares_on(X) else PlainFits()
        X, y = shared_fit.protect(X), shared_fit.protect(y)
        start = time.perf_counter()
        with collect_convergence_warnings() as convergence_warnings:
            fitted = shared_fit.fit(clones, X, y, **({} if weights is None else {WEIGHTS: weights}))
        seconds = (time.perf_counter() - start) / len(fitted)

        shared_rows = cache(
            lambda part: shared_fit.protect(prediction_rows[part])
        )  # the same to all methods

        @cache
        def shared_responses(method: str, part: str) -> list[np.ndarray] | None:
            has_all = len(fitted) > 1 and all(hasattr(model, method) for model in fitted)
            return shared_fit.predict(fitted, method, shared_rows(part)) if has_all else None

        def predict(i: int, method: str, part: str) -> np.ndarray:
            responses = shared_responses(method, part)
            if responses is not None:
                return responses[i]
            response: np.ndarray = getattr(fitted[i], method)(
                shared_fit.protect(prediction_rows[part])
            )
            return response

        at_limit = _at_limit(fitted) if convergence_warnings else []
        for i, estimator in enumerate(fitted):
            fit = Fit(i, split, partial(predict, i), estimator, fit_seconds=seconds)
            fit.converged = not convergence_warnings or (any(at_limit) and not at_limit[i])
            fit.n_fits = int(i == 0 or shared_fit.fits_each)
            fit.apart = "" if shared_fit is self else "rows like these share nothing"
            yield fit


def _at_limit(fitted: Sequence[Any]) -> list[bool]:
    """Whether each estimator ended at its limit of iterations, as far as its attributes tell."""
    limits = (getattr(estimator, "max_iter", None) for estimator in fitted)
    steps = (getattr(estimator, "n_iter_", None) for estimator in fitted)
    return [
        limit is not None and n_steps is not None and bool(np.max(n_steps) >= limit)
        for limit, n_steps in zip(limits, steps, strict=True)
    ]


@contextmanager
def collect_convergence_warnings() -> Iterator[list[Any]]:
    """Yield a list; after the block it holds the warnings of fits that did not converge.

    All warnings are issued again after it.
    """
    from sklearn.exceptions import ConvergenceWarning

    convergence_warnings: list[Any] = []
    with warnings.catch_warnings(record=True) as all_warnings:
        warnings.simplefilter("always")
        yield convergence_warnings
    for warning in all_warnings:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    convergence_warnings += [
        warning for warning in all_warnings if issubclass(warning.category, ConvergenceWarning)
    ]


class PlainFits(SharedEstimators):
    """Fits that share nothing but the steps before them."""

    name = "plain"
    types = ()
    shared = ()
    protect = staticmethod(copy_of)
    fits_each = True

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        for estimator in estimators:  # a group has one; what its fit returns may be anything
            estimator.fit(X, y, **weights)
        return list(estimators)


def identity(estimator: Any, excluded: Collection[str] = ()) -> Hashable:
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
    return type(estimator), *(
        (name, value if type(value) in PLAIN_VALUES else _identity_of_value(value))
        for name, value in estimator_parameters(estimator).items()
        if name not in excluded
    )


def _identity_of_value(value: Any) -> Hashable:
    """What is equal for equal values of a parameter; an unfitted estimator is its parameters."""
    if isinstance(value, float | str):
        return value
    if type(value) in (bool, int):
        return type(value), value
    if type(value) in (list, tuple):
        return type(value), *map(_identity_of_value, value)
    is_estimator = hasattr(value, "get_params") and not isinstance(value, type)
    if (
        is_estimator and vars(value).keys() == estimator_parameters(value).keys()
    ):  # it is not fitted
        return identity(value)
    import joblib

    return joblib.hash(value)


def estimator_parameters(estimator: Any) -> Mapping[str, Any]:
    """The parameters of an estimator alone, by name, in the order of the names.

    Those of ``get_params(deep=False)``, which looks at the signature of the class each time, and
    is slow where a search has thousands of candidates.
    """
    estimator_class: Any = type(estimator)
    names = _parameter_names(estimator_class)
    if names is None:
        return dict(sorted(estimator.get_params(deep=False).items()))
    return {name: getattr(estimator, name) for name in names}


@cache
def _parameter_names(estimator_class: Any) -> list[str] | None:
    """The names of the parameters of a class; None where it has its own way of giving them."""
    if "sklearn.base" not in sys.modules:  # nor is it one of its classes
        return None
    from sklearn.base import BaseEstimator

    of_sklearn = issubclass(
        estimator_class, BaseEstimator
    ) and estimator_class.__module__.startswith("sklearn.")
    if of_sklearn or getattr(estimator_class, "get_params", None) is BaseEstimator.get_params:
        names: list[str] = estimator_class._get_param_names()
        return names
    return None


def values_inside(estimator: Any) -> Iterator[tuple[Any, str, Any]]:
    """All parameters, here and of the estimators inside: whose, their names and their values."""
    for name, value in estimator_parameters(estimator).items():
        yield estimator, name, value
        if type(value) not in PLAIN_VALUES:
            yield from _values_of_estimators(value)


def _values_of_estimators(value: Any) -> Iterator[tuple[Any, str, Any]]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _values_of_estimators(part)
    elif hasattr(value, "get_params") and not isinstance(value, type):
        yield from values_inside(value)


def writes_rows(estimator: Any) -> bool:
    """Whether a parameter, here or in an estimator inside, allows a fit to change its rows.

    Such are ``copy=False``, ``copy_X=False`` and ``inplace=True``. What scikit-learn makes of
    changed rows, the scores of training rows among it, a shared fit does not.
    """
    return any(
        bool(value) is WRITES[prefix.group()]
        for _, name, value in values_inside(estimator)
        if isinstance(value, bool | int | np.bool_) and (prefix := LEAVE_TO_WRITE.match(name))
    )


def is_repeatable(estimator: Any, deep: bool = True) -> bool:
    """Whether clones of an estimator are fitted alike: nothing in it draws a seed of its own.

    Every ``random_state`` inside is an integer, or, of scikit-learn's own classes, a generator:
    cloning copies it, so that each clone draws the same. Other classes may draw from it whenever
    they are called.

    Parameters
    ----------
    deep : whether the estimators within count, too
    """
    is_usual = type(estimator).__module__.startswith("sklearn.")
    return all(
        (isinstance(value, Integral) and not isinstance(value, bool))
        or (is_usual and type(value) is np.random.RandomState)
        for name, value in estimator.get_params(deep=deep).items()
        if name.rsplit("__", 1)[-1] == SEED
    )
