"""The interface of shared fits, in which candidates share work.

A shared fit is a class in a file beside this one, which ``FILES`` lists. It fits the candidates of
a group on the splits of a task and yields each fit as soon as it is done; the engine scores,
journals and shows it.
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
# Parameters by the beginning of their names, and the value that lets a fit write to its rows.
WRITES = {"copy": False, "inplace": True, "in_place": True, "overwrite": True}
LEAVE_TO_WRITE = re.compile("|".join(WRITES))
# Types whose equal values are always equal parameters; not bool and int, since ``True == 1``.
PLAIN_VALUES = {float, str, type(None)}
Split = tuple[np.ndarray, np.ndarray]  # row numbers: training, validation


def renumbered(splits: Sequence[Split], rows: np.ndarray, n_rows: int) -> list[Split]:
    """Splits of a subset of the rows, as positions in that subset.

    Rows of a split that are not in the subset are left out.

    Parameters
    ----------
    splits : sequence of (training, validation), int arrays of row numbers
    rows : int array, ascending
        Row numbers of the subset.
    n_rows : int
        Number of all rows, from which the subset was taken.

    Examples
    --------
    >>> [(train, test)] = renumbered([(np.array([0, 1, 4]), np.array([2]))], np.array([1, 2, 4]), 5)
    >>> train.tolist(), test.tolist()
    ([0, 2], [1])
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

    Attributes
    ----------
    fit : array, matrix or table
        Training rows, as the next step is fitted on them.
    prediction_rows : dict of str to array, matrix or table
        Rows that the fitted pipeline will predict, by part: ``"test"`` and perhaps ``"train"``.
    key : hashable
        Distinguishes these rows from all others that come from the same data set.
    placement : Placement
        Holds anything derived from these rows, such as a copy on a GPU.
    """

    fit: Any
    prediction_rows: Mapping[str, Any]
    key: Hashable = None
    placement: Placement = field(default_factory=Placement, repr=False)

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes; of a sparse matrix only the values count."""
        parts = (self.fit, *self.prediction_rows.values())
        arrays = (part.data if hasattr(part, "tocsr") else part for part in parts)
        return sum(getattr(array, "nbytes", 0) or sys.getsizeof(array) for array in arrays)

    def matrix(self, device: str, y_train: Any, y_test: Any) -> tuple[Any, np.ndarray, list[Split]]:
        """All rows as one array on a device; see ``SplitRows.matrix``.

        It is made once: candidates of several tasks may use it, and what is computed from it.
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

    Methods take a split by its position in the task, from 0 to ``n_splits`` - 1.

    Attributes
    ----------
    data : FoldedData
        The data set of the search. Where its scaling is learned from training rows, ``matrix``
        serves a single split only.
    splits : sequence of (training, validation), int arrays of row numbers
        All splits of the search, so that what they share does not depend on how they are dealt to
        tasks.
    numbers : sequence of int
        Which of ``splits`` the task has.
    name : hashable
        Distinguishes these splits from others of the same data.
    n_threads : int or None
        Threads that a fit may use; None for as many as BLAS uses.
    estimator : estimator or candidate
        One of the candidates: scikit-learn reads from its tags whether the rows are a kernel.
    parts : sequence of str, default ("test",)
        The parts that are predicted.
    fit_params : dict, optional
        Metadata of all rows, such as ``sample_weight``.
    prepared : PipelineRows, optional
        The rows of the only split, after the first steps of the pipelines.
    seed : int, str or None, default 0
        Seed for what fits draw from the global generators; None leaves the generators alone.
    fraction : float, default 1.0
        The fraction of the search's training rows that is used.
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
        """Key for anything derived from all splits and parts of these rows, as prepared."""
        return self.name, tuple(self.parts), self.prepared and self.prepared.key

    def alone(self, split: int) -> SplitRows:
        """The rows of one split, as those of a task that has no other split."""
        number = self.numbers[split]
        return replace(self, splits=[self.splits[number]], numbers=[0], name=(self.name, number))

    def row_numbers(self, split: int, name: str) -> np.ndarray:
        """The row numbers of a part of a split."""
        return self.splits[self.numbers[split]][name == "test"]

    def part_rows(self, split: int, name: str) -> tuple[Any, Any]:
        """Rows and targets of a part as they are in the data set, before any pipeline step."""
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
                    # What ``safe_split`` returns for plain arrays, without its slow checks.
                    self._part_cache[key] = X[row_numbers], y[row_numbers]
                else:
                    train = () if name == "train" else (self.row_numbers(split, "train"),)
                    self._part_cache[key] = safe_split(self.estimator, X, y, row_numbers, *train)
        return self._part_cache[key]

    def targets(self, split: int, name: str) -> Any:
        """The targets of a part; see ``part_rows``."""
        y = self.data.y
        return (
            y[self.row_numbers(split, name)]
            if isinstance(y, np.ndarray)
            else (self.part_rows(split, name)[1])
        )

    def train(self, split: int) -> tuple[Any, Any]:
        """The training rows of a split, after the first pipeline steps, and their targets."""
        X, y = self.part_rows(split, "train")
        return (X if self.prepared is None else self.prepared.fit), y

    def prediction_rows(self, split: int) -> Mapping[str, Any]:
        """The rows to predict by part: ``test``, and ``train`` where training scores are wanted."""
        if self.prepared is not None:
            return self.prepared.prediction_rows
        return {name: self.part_rows(split, name)[0] for name in self.parts}

    def matrix(self, device: str) -> tuple[Any, np.ndarray, list[Split]]:
        """All rows as one array on a device, their targets, and the splits as numbers of its rows.

        Parameters
        ----------
        device : {"cpu", "gpu"}

        Returns
        -------
        X : array of shape (n_samples, n_features), on the device
        y : array of shape (n_samples,), on the host
        splits : list of (training rows, rows to predict), int arrays
            One for each of ``splits``, not only those of the task. The rows to predict are the
            test rows, then the training rows where these are predicted as well.
        """
        if self.prepared is not None:
            targets = (self.part_rows(0, name)[1] for name in ("train", "test"))
            return self.prepared.matrix(device, *targets)
        splits = list(self.splits)
        if "train" in self.parts:
            splits = [(train, np.concatenate([test, train])) for train, test in self.splits]
        learned_on = self.splits[0][0] if self.data.scaling.learns else None
        return self.data.scaled(device, rows=learned_on), np.asarray(self.data.y), splits

    def part_slices(self, split: int) -> dict[str, slice]:
        """The slice of each part of a split among the rows to predict that ``matrix`` returns."""
        n_test = len(self.row_numbers(split, "test"))
        return {"test": slice(0, n_test), "train": slice(n_test, None)}

    def weights(self, split: int | None) -> np.ndarray | None:
        """Sample weights of a split's training rows, or of all rows for None; None if all are 1."""
        row_numbers = None if split is None else self.row_numbers(split, "train")
        sample_weight = self.metadata(self.fit_params, row_numbers).get(WEIGHTS)
        return None if sample_weight is None else np.asarray(sample_weight, np.float64)

    def metadata(self, params: Mapping[str, Any] | None, row_numbers: Any) -> Mapping[str, Any]:
        """Metadata, such as sample weights, restricted to some rows."""
        if not params:
            return {}
        from pipelines.sklearn_private import check_method_params

        return check_method_params(self.data.X, params=params, indices=row_numbers)


class SharedFit(ABC):
    """A way to fit estimators of some classes so that candidates, or splits, share work.

    Candidates with equal ``group_key`` form a group. Their scores are those of separate fits,
    within the tolerance of the solver.

    Attributes
    ----------
    name : str
        The name that rows and pages show.
    types : collection of type
        The classes that it knows, without their subclasses, which may behave in other ways.
    shared : collection of str
        Names of the parameters in which the members of a group may differ.
    by_chance : bool
        Whether a fit depends on its seed; then members of a group need equal seeds.
    takes_weights : bool
        Whether it takes ``sample_weight``; else fits with weights are plain ones.
    predictions_only : bool
        Whether it yields predictions without a fitted model; then it serves only where scores
        need nothing else.
    gives : collection of str
        The methods whose predictions it yields in that case.
    splits_together : bool
        Whether splits share work, so that a task may hold all splits of a group.
    one_launch : bool
        Whether a task is one launch on a GPU, none of whose fits is done before all are.
    scales : bool
        Whether it scales rows itself, by the scaling of the data set.
    most_seconds : float, optional
        Upper bound for the seconds that a unit of ``cost`` takes on one core; None if unknown.
    linear_rows : int, optional
        With it, seconds grow with the number n of rows about as n (n + ``linear_rows``).
    unlike_few_rows : str
        Why seconds on few rows do not predict those on all rows; "" where they do.
    package : str
        A package whose import before the first fit takes long; "" if there is none.
    """

    name: ClassVar[str]
    types: ClassVar[Collection[type]]
    shared: ClassVar[Collection[str]]
    by_chance: ClassVar[bool] = False
    takes_weights: bool = False
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
        """Whether the estimator is of a class that shares this work."""
        return type(estimator) in self.types

    def group_key(self, estimator: Any) -> Hashable | None:
        """A key that is equal for estimators that share work; None for one that cannot."""
        if not self.accepts(estimator) or (self.by_chance and not is_repeatable(estimator)):
            return None
        return identity(estimator, {*self.shared, *(() if self.by_chance else (SEED,))})

    def accepts(self, estimator: Any) -> bool:
        """Whether, with these parameters, a shared fit gives the result of a separate fit."""
        return True

    def partition(self, estimators: Sequence[Any], n_workers: int) -> list[list[int]]:
        """Divide a group into tasks where that loses no shared work.

        Parameters
        ----------
        estimators : sequence of estimators
            The members of the group, unfitted.
        n_workers : int
            Number of workers for which tasks are wanted.

        Returns
        -------
        list of list of int
            Positions in ``estimators``, a list for each task.
        """
        return [list(range(len(estimators)))]

    def describe(self, estimators: Sequence[Any]) -> str:
        """Words that distinguish these estimators within their group; "" if there are none."""
        return ""

    def cost(self, estimators: Sequence[Any], n_rows: int, n_features: int) -> float:
        """Predicted time on one split, in a unit that is the same for all tasks of a run."""
        return float(len(estimators))

    def fraction_of_steps(self, estimators: Sequence[Any], n_rows: int) -> float | None:
        """The fraction of the allowed steps after which training typically ends.

        None where a fit is not a training that reports its progress step by step.
        """
        return None

    def beyond_memory(self, estimator: Any, y: np.ndarray, n_threads: int) -> tuple[float, str]:
        """How much slower a fit is because its memory is short, and a line that says so.

        Parameters
        ----------
        estimator : estimator or candidate
        y : array of shape (n_samples,)
            Targets of the training rows.
        n_threads : int
            Threads that a fit may use.

        Returns
        -------
        factor : float
            1.0 where memory suffices.
        line : str
            For the user; "" where memory suffices.
        """
        return 1.0, ""

    def seconds_to_start(self) -> float:
        """CPU seconds that this process spends on loading code before its first fit."""
        return 0.0

    def seconds_saved(
        self, estimators: Sequence[Any], n_rows: int, n_features: int, n_splits: int
    ) -> float:
        """Roughly how many CPU seconds sharing saves; infinite where it always pays.

        Parameters
        ----------
        estimators : sequence of estimators
            Members of one group, unfitted.
        n_rows, n_features, n_splits : int
            Training rows of a split, their features, and the number of splits.
        """
        return math.inf

    def make_ready(self) -> None:  # noqa: B027  most are
        """Start to prepare for later searches, such as to compile, where this one will not wait."""

    def brief(self, estimators: Sequence[Any]) -> SharedFit:
        """The shared fit to use for a group that would be done before this one has started."""
        return self

    def draw(self, estimator: Any) -> None:  # noqa: B027  most draw nothing
        """Draw from numpy's global generator what a separate fit would have drawn.

        Separate fits draw from it one after the other. So the generator ends in the same state
        after a shared fit as after separate ones.
        """

    @abstractmethod
    def fit_splits(
        self, rows: SplitRows, estimators: Sequence[Any], methods: Collection[str]
    ) -> Iterator[Fit | Progress]:
        """Fit the estimators of a group on every split, and yield each fit as soon as it is done.

        Parameters
        ----------
        rows : SplitRows
        estimators : sequence of estimators
            Unfitted; the fit may use them up.
        methods : collection of str
            Methods that scores need, such as ``predict``.

        Yields
        ------
        Fit or Progress
            A ``Fit`` for each estimator and split, which it names by their positions in
            ``estimators`` and in the task; between them, the progress of the work.
        """


class SharedEstimators(SharedFit):
    """Shared fits that yield a fitted estimator for each candidate, split by split.

    Attributes
    ----------
    protect : function of an array
        Returns rows or targets, which others use as well, in the form in which estimators get
        them: a read-only view, or a copy.
    fits_each : bool
        Whether each candidate counts as a fit of its own, though it may reuse parts of others.
    """

    protect = staticmethod(read_only)
    fits_each: ClassVar[bool] = False

    def shares_on(self, X: Any) -> bool:
        """Whether fits on these training rows share work; if not, each is a plain fit."""
        return True

    @abstractmethod
    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """Fit all estimators, so that each ends as a separate fit would have left it.

        Parameters
        ----------
        estimators : sequence of estimators
            Unfitted; the fit may use them up.
        X, y : training rows and targets
            Arrays among them are read-only.
        **weights
            ``sample_weight``, where there is one.

        Returns
        -------
        list of fitted estimators
            In the order of ``estimators``.
        """

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Predict with all estimators at once; None where each should predict by itself.

        Parameters
        ----------
        fitted : sequence of estimators
            What ``fit`` returned.
        method : str
            A method that all of them have, such as ``"predict_proba"``.
        X : rows to predict
            The same object for all methods that are called on a part.
        """
        return None

    def fit_splits(
        self, rows: SplitRows, estimators: Sequence[Any], methods: Collection[str]
    ) -> Iterator[Fit | Progress]:
        for split in range(rows.n_splits):
            yield from self._fit_split(split, rows, estimators)
            yield Progress((split + 1) / rows.n_splits)

    def _fit_split(self, split: int, rows: SplitRows, estimators: Sequence[Any]) -> Iterator[Fit]:
        """Fit all estimators on a split; they predict, together where they can, when asked to."""
        from sklearn.base import clone

        (X, y), weights, prediction_rows = (
            rows.train(split),
            rows.weights(split),
            rows.prediction_rows(split),
        )
        # A fit uses its estimators up, so only a single split does without clones.
        clones = [clone(candidate) for candidate in estimators] if rows.n_splits > 1 else estimators
        # Other tasks use these rows, too. What fails on a read-only view is fitted by itself, on a
        # copy.
        shared_fit: SharedEstimators = self if self.shares_on(X) else PlainFits()
        X, y = shared_fit.protect(X), shared_fit.protect(y)
        start = time.perf_counter()
        with collect_convergence_warnings() as convergence_warnings:
            fitted = shared_fit.fit(clones, X, y, **({} if weights is None else {WEIGHTS: weights}))
        seconds = (time.perf_counter() - start) / len(fitted)

        # The same object for all methods, so that a fit can recognise rows that it has seen.
        shared_rows = cache(lambda part: shared_fit.protect(prediction_rows[part]))

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

        # A warning may stand for any of the estimators. Those at their limit of iterations count as
        # the ones that did not converge; if none is at it, all count.
        at_limit = _at_limit(fitted) if convergence_warnings else []
        for i, estimator in enumerate(fitted):
            fit = Fit(i, split, partial(predict, i), estimator, fit_seconds=seconds)
            fit.converged = not convergence_warnings or (any(at_limit) and not at_limit[i])
            fit.n_fits = int(i == 0 or shared_fit.fits_each)
            fit.apart = "" if shared_fit is self else "rows like these share nothing"
            yield fit


def _at_limit(fitted: Sequence[Any]) -> list[bool]:
    """Whether each estimator stopped at ``max_iter``, as far as its attributes tell."""
    limits = (getattr(estimator, "max_iter", None) for estimator in fitted)
    steps = (getattr(estimator, "n_iter_", None) for estimator in fitted)
    return [
        limit is not None and n_steps is not None and bool(np.max(n_steps) >= limit)
        for limit, n_steps in zip(limits, steps, strict=True)
    ]


@contextmanager
def collect_convergence_warnings() -> Iterator[list[Any]]:
    """Collect the warnings of fits that do not converge.

    All warnings are issued again after the block.

    Yields
    ------
    list
        Empty within the block; after it, the ``ConvergenceWarning``s that the block raised.
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
    """Fits that share nothing but the pipeline steps before them."""

    name = "plain"
    types = ()
    shared = ()
    protect = staticmethod(copy_of)
    fits_each = True
    takes_weights = True

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        for estimator in estimators:  # what ``fit`` returns is ignored: it need not be ``self``
            estimator.fit(X, y, **weights)
        return list(estimators)


def identity(estimator: Any, excluded: Collection[str] = ()) -> Hashable:
    """A key that is equal for estimators of one class with equal parameters.

    Parameters
    ----------
    estimator : object with ``get_params``
        Unfitted.
    excluded : collection of str, optional
        Names of parameters that do not count.

    Returns
    -------
    hashable

    Raises
    ------
    Exception
        A parameter cannot be pickled.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> identity(Ridge(alpha=1.0)) == identity(Ridge(alpha=2.0))
    False
    >>> identity(Ridge(alpha=1.0), ["alpha"]) == identity(Ridge(alpha=2.0), ["alpha"])
    True
    """
    return type(estimator), *(
        (name, value if type(value) in PLAIN_VALUES else _identity_of_value(value))
        for name, value in estimator_parameters(estimator).items()
        if name not in excluded
    )


def _identity_of_value(value: Any) -> Hashable:
    """A key that is equal for equal values; an unfitted estimator counts as its parameters."""
    if isinstance(value, float | str):
        return value
    if type(value) in (bool, int):
        return type(value), value
    if type(value) in (list, tuple):
        return type(value), *map(_identity_of_value, value)
    is_estimator = hasattr(value, "get_params") and not isinstance(value, type)
    # An unfitted estimator has no attributes but its parameters.
    if is_estimator and vars(value).keys() == estimator_parameters(value).keys():
        return identity(value)
    import joblib

    return joblib.hash(value)


def estimator_parameters(estimator: Any) -> Mapping[str, Any]:
    """The parameters of an estimator, sorted by name, without those of estimators inside.

    They are those of ``get_params(deep=False)``, which inspects the signature of the class at each
    call. That is slow for thousands of candidates, so the names are kept for each class.
    """
    estimator_class: Any = type(estimator)
    names = _parameter_names(estimator_class)
    if names is None:
        return dict(sorted(estimator.get_params(deep=False).items()))
    return {name: getattr(estimator, name) for name in names}


@cache
def _parameter_names(estimator_class: Any) -> list[str] | None:
    """The names of a class's parameters; None for a class with a ``get_params`` of its own."""
    if "sklearn.base" not in sys.modules:  # then the class cannot be one of scikit-learn's
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
    """All parameters of an estimator and of those inside it, as (owner, name, value)."""
    for name, value in estimator_parameters(estimator).items():
        yield estimator, name, value
        if type(value) not in PLAIN_VALUES:
            yield from _values_of_estimators(value)


def _values_of_estimators(value: Any) -> Iterator[tuple[Any, str, Any]]:
    """See ``values_inside``; for a value that may be an estimator, or a list of named ones."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _values_of_estimators(part)
    elif hasattr(value, "get_params") and not isinstance(value, type):
        yield from values_inside(value)


def writes_rows(estimator: Any) -> bool:
    """Whether a parameter, of the estimator or of one inside it, lets a fit change its rows.

    Such are ``copy=False``, ``copy_X=False`` and ``inplace=True``. What scikit-learn then computes
    from the changed rows, such as training scores, a shared fit could not reproduce.
    """
    return any(
        bool(value) is WRITES[prefix.group()]
        for _, name, value in values_inside(estimator)
        if isinstance(value, bool | int | np.bool_) and (prefix := LEAVE_TO_WRITE.match(name))
    )


def is_repeatable(estimator: Any, deep: bool = True) -> bool:
    """Whether clones of an estimator are fitted alike, as nothing in it draws an unknown seed.

    Each ``random_state`` has to be an integer. In scikit-learn's own classes it may be a generator
    as well: cloning copies it, so that each clone draws the same numbers. Other classes may draw
    from a generator whenever they are called.

    Parameters
    ----------
    estimator : object with ``get_params``
    deep : bool, default True
        Whether the estimators inside count as well.
    """
    is_usual = type(estimator).__module__.startswith("sklearn.")
    return all(
        (isinstance(value, Integral) and not isinstance(value, bool))
        or (is_usual and type(value) is np.random.RandomState)
        for name, value in estimator.get_params(deep=deep).items()
        if name.rsplit("__", 1)[-1] == SEED
    )
