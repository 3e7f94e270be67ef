"""``GridSearch``: scikit-learn's ``GridSearchCV``, whose candidates share work."""

from __future__ import annotations

import types
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from numpy.typing import ArrayLike
from sklearn.base import _fit_context, clone
from sklearn.model_selection import GridSearchCV
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from pipelines.run.tasks import OnCluster
from pipelines.search.fitting import Done, Group, carry_out, group
from pipelines.search.threads import at_most, with_jobs

if TYPE_CHECKING:
    from distributed import Client

Call = Mapping[str, Any]  # the arguments of _fit_and_score


class Fits(NamedTuple):
    """Fits that were asked for, and made."""

    asked: int
    made: int


class GridSearch(GridSearchCV):
    """Exhaustive search over values of parameters, in the place of ``GridSearchCV``.

    It is scikit-learn's own search, with its parameters and attributes, but for how candidates
    are fitted: those that share work do so, see ``pipelines.search.shared``, with the
    scores that plain fits have (by a warm-started path or the path solver, within the
    estimator's tolerance). Where a fit has metadata other than ``sample_weight``, or scores
    are given by a function that looks at the estimator, less or nothing is shared.

    Parameters
    ----------
    estimator, param_grid, scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score,
    return_train_score : those of ``GridSearchCV``
    client : distributed.Client, optional
        Where to fit; by default as ``n_jobs`` says, in this process or in others.

    Attributes
    ----------
    fits : Fits
        How many fits of candidates were asked for, and made; the refit is none of them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GridSearch(KNeighborsClassifier(), {"n_neighbors": range(1, 30)}).fit(X, y)
    >>> search.fits
    Fits(asked=145, made=5)
    """

    def __init__(
        self, estimator: Any, param_grid: Any, *, scoring: Any = None, n_jobs: int | None = None,
        refit: Any = True, cv: Any = None, verbose: int = 0, pre_dispatch: Any = "2*n_jobs",
        error_score: Any = float("nan"), return_train_score: bool = False,
        client: Client | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            estimator, param_grid, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv,
            verbose=verbose, pre_dispatch=pre_dispatch, error_score=error_score,
            return_train_score=return_train_score,
        )  # fmt: skip
        self.client = client

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Search, then fit the best candidate on all rows; see ``GridSearchCV.fit``."""
        together = partial(Together, client=self.client)
        found: list[Together] = []

        def parallel(*arguments: Any, **options: Any) -> Together:
            found.append(together(*arguments, **options))
            return found[-1]

        try:
            return _with(BaseSearchCV.fit, Parallel=parallel)(self, X, y, **params)
        finally:
            self._fits = Fits(sum(one.n_asked for one in found), sum(one.n_made for one in found))

    @property
    def fits(self) -> Fits:
        """Fits of candidates that were asked for and made, once the search was fitted."""
        check_is_fitted(self, "_fits")
        return self._fits


def _with(function: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """A function of scikit-learn's that finds something else under a global name.

    Its search has no place to say how the list of its fits is carried out but the name
    ``Parallel``; all else, from checks to callbacks and ``cv_results_``, stays its own.
    """
    inner = function.__wrapped__  # type: ignore[attr-defined]
    bound = types.FunctionType(
        inner.__code__, {**inner.__globals__, **names}, inner.__name__, inner.__defaults__,
        inner.__closure__,
    )  # fmt: skip
    bound.__kwdefaults__ = inner.__kwdefaults__
    return _fit_context(prefer_skip_nested_validation=False)(bound)


@dataclass(frozen=True, eq=False)
class SearchUnit:
    """A group of candidates on a split, of a search from Python.

    ``own`` is what its calls have of their own, where it is sent to a worker.
    """

    name: str
    calls: tuple[int, ...]
    group: Group
    place: tuple[str, int]
    own: tuple[Call, ...] = ()

    @property
    def cost(self) -> float:
        """One for each candidate."""
        return float(len(self.calls))


class Together:
    """In the place of ``Parallel``: takes the fits of a search, and carries them out in groups."""

    def __init__(self, *, client: Client | None = None, **options: Any) -> None:
        self._client, self._options = client, options
        self._parallel = Parallel(**options)
        self.n_asked = self.n_made = 0

    def __enter__(self) -> Self:
        self._parallel.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._parallel.__exit__(*error)

    def __call__(self, delayed_calls: Iterable[Any]) -> list[dict[str, Any]]:
        calls = [_arguments(one) for one in delayed_calls]
        if not calls:
            return []
        units = _units(calls)
        results: list[Any] = [None] * len(calls)
        for unit, done in zip(units, self._carried_out(units, calls), strict=True):
            self.n_made += sum(done.n_fits)
            for i, result in zip(unit.calls, done.results, strict=True):
                results[i] = result
        self.n_asked += len(calls)
        return results

    def _carried_out(self, units: Sequence[SearchUnit], calls: Sequence[Call]) -> list[Done]:
        if self._client is not None:
            return _on_cluster(self._client, units, calls)
        done: list[Done] = self._parallel(
            delayed(carry_out)(unit.group, [calls[i] for i in unit.calls], unit.place)
            for unit in units
        )
        return done


def _arguments(delayed_call: Any) -> dict[str, Any]:
    """What scikit-learn would have called ``_fit_and_score`` with."""
    _, (estimator, X, y), named = delayed_call
    return {"estimator": estimator, "X": X, "y": y, **named}


def _units(calls: Sequence[Call]) -> list[SearchUnit]:
    """Groups of candidates, split by split."""
    run = uuid.uuid4().hex[:12]
    first = calls[0]
    by_split = defaultdict(list)
    for i, call in enumerate(calls):
        by_split[call["split_progress"][0]].append(i)
    some = next(iter(by_split.values()))
    shares = set(first["fit_params"] or {}) <= {"sample_weight"} and first["verbose"] <= 1
    groups = group(
        [_unfitted(calls[i]) if shares else None for i in some], first["scorer"],
        weights=bool(first["fit_params"]), train_scores=first["return_train_score"],
    )  # fmt: skip
    return [
        SearchUnit(
            f"search-{run} split {split} candidate {one.members[0]}",
            tuple(of_split[m] for m in one.members), one, (run, split),
        )
        for split, of_split in by_split.items()
        for one in groups
    ]  # fmt: skip


def _unfitted(call: Call) -> Any:
    try:
        return clone(call["estimator"]).set_params(**clone(call["parameters"], safe=False))
    except Exception:  # said by its own fit
        return None


@dataclass(frozen=True, eq=False)
class Shared:
    """What all fits of a search have in common, scattered once."""

    common: Mapping[str, Any]
    n_threads: int


OWN = ("estimator", "parameters", "train", "test", "split_progress", "candidate_progress")
# Callbacks stay with the process that has them; a unit of one with callbacks is plain.
LEFT_BEHIND = ("caller", "callback_ctx")


def _on_cluster(client: Client, units: Sequence[SearchUnit], calls: Sequence[Call]) -> list[Done]:
    from cluster_setup.workers import describe_workers, threads_per_task

    common = {name: value for name, value in calls[0].items() if name not in (*OWN, *LEFT_BEHIND)}
    shared = Shared(common, threads_per_task(describe_workers(client)))
    sent = [
        replace(unit, own=tuple({name: calls[i][name] for name in OWN} for i in unit.calls))
        for unit in units
    ]
    done = {}
    for outcome in OnCluster(client).outcomes(_carry_out_sent, shared, sent):
        if outcome.error is not None:
            if common["error_score"] == "raise":
                raise ValueError(outcome.error)
            raise RuntimeError(f"a worker could not fit {outcome.unit.name}: {outcome.error}")
        done[outcome.unit.name] = outcome.result
    return [done[unit.name] for unit in units]


def _carry_out_sent(shared: Shared, unit: SearchUnit) -> Done:
    with at_most(shared.n_threads):
        calls = [{**shared.common, **own} for own in unit.own]
        for call in calls:
            call["estimator"] = with_jobs(call["estimator"], shared.n_threads)
        return carry_out(unit.group, calls, unit.place)
