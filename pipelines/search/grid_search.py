"""``GridSearch``: scikit-learn's ``GridSearchCV``, whose candidates share work."""

from __future__ import annotations

import types
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _fit_and_score
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from pipelines.data.placement import FoldedData, cached, to_device
from pipelines.data.scaling import Scaling
from pipelines.run.progress import show_progress
from pipelines.run.tasks import OnCluster, Runner
from pipelines.search.candidate_scorer import CandidateScorer
from pipelines.search.fitting import CellResult, Group, fit_group, group_candidates
from pipelines.search.shared import SharedFit
from pipelines.search.shared.base import Split
from pipelines.search.threads import limited, with_jobs

if TYPE_CHECKING:
    from distributed import Client

Call = Mapping[str, Any]  # the arguments of _fit_and_score
Result = tuple[int, int, CellResult]  # candidate, split


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

    Warns
    -----
    ConvergenceWarning
        Fits that share work ended at a limit of iterations; said once, with their number.

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
        """Return search, then fit the best candidate on all rows; see ``GridSearchCV.fit``."""
        runner = OnCluster(self.client) if self.client is not None else None
        return self._search(X, y, params, _Settings(runner, self.verbose))

    def _search(self, X: Any, y: Any, params: Mapping[str, Any], settings: _Settings) -> Self:
        made: list[SharedParallel] = []

        def parallel(**options: Any) -> SharedParallel:
            made.append(SharedParallel(settings, **options))
            return made[-1]

        try:
            return _with_globals(BaseSearchCV.fit, Parallel=parallel)(self, X, y, **params)
        finally:
            results = [result for one in made for _, _, result in one.results]
            self._fits = Fits(len(results), sum(result.n_fits for result in results))
            self._n_iterations = sum(result.n_iterations or 0 for result in results)
            self._warn_of_limits(sum(one.n_at_limit for one in made), len(results))

    def _warn_of_limits(self, n: int, n_results: int) -> None:
        if not n:
            return
        limit = getattr(self.estimator, "max_iter", None)
        warnings.warn(
            f"{n} of {n_results} fits did not converge within max_iter"
            f"{'' if limit is None else f'={limit}'}; raise it or tol, or scale the data",
            ConvergenceWarning,
            stacklevel=4,
        )

    @property
    def fits(self) -> Fits:
        """Fits of candidates that were asked for and made, once the search was fitted."""
        check_is_fitted(self, "_fits")
        return self._fits


def _with_globals(function: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """Return a function of scikit-learn's that finds something else under a global name.

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


@dataclass(frozen=True)
class _Settings:
    """Settings of the fits of a search: scorer, device, threads and error score.

    Attributes
    ----------
    runner : of tasks; None for joblib, as ``n_jobs`` says
    kinds : ways of sharing that go before the usual ones
    n_threads : int, for each task; by default those that BLAS uses, or the worker has
    """

    runner: Runner | None
    verbose: int = 0
    kinds: Sequence[SharedFit] = ()
    n_threads: int | None = None


@dataclass(frozen=True, eq=False)
class _SearchData(FoldedData):
    """Rows of any form that scikit-learn takes, as an array where a kind of sharing needs one."""

    def scaled(self, device: str, rows: np.ndarray | None = None) -> Any:
        """Return all rows as a float64 array on a device, made once."""
        return cached((self.token, device), lambda: to_device(_dense(self.X), device))


def _dense(X: Any) -> np.ndarray:
    found = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)
    if found.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {found.ndim}")
    return found


@dataclass(frozen=True, eq=False)
class _Search:
    """The data and settings that all tasks of a search share, scattered once.

    Attributes
    ----------
    estimators : for each candidate unfitted with its parameters; None where these do not fit
    parameters : for each candidate
    common : arguments of ``_fit_and_score`` that all fits have
    """

    data: FoldedData
    estimators: Sequence[Any]
    parameters: Sequence[Mapping[str, Any]]
    splits: Sequence[Split]
    scorer: CandidateScorer
    groups: Sequence[Group]
    common: Mapping[str, Any]
    n_threads: int | None


@dataclass(frozen=True)
class _Task:
    """A part of a group on some splits."""

    name: str
    group: int
    members: tuple[int, ...]
    splits: tuple[int, ...]
    cost: float


# What fits have of their own, and what stays with the process that has it: callbacks.
OWN = ("estimator", "parameters", "train", "test", "split_progress", "candidate_progress")
LEFT_BEHIND = ("caller", "callback_ctx")


class SharedParallel:
    """A substitute for ``joblib.Parallel`` that carries out a search's fits in groups.

    Attributes
    ----------
    results : candidate, split and result of every fit
    n_at_limit : fits that share work and ended at a limit of iterations, of which none has warned
    """

    def __init__(self, settings: _Settings, **options: Any) -> None:
        self._settings = settings
        self._parallel = Parallel(**options)
        self.results: list[Result] = []
        self.n_at_limit = 0

    def __enter__(self) -> Self:
        self._parallel.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._parallel.__exit__(*error)

    def __call__(self, delayed_calls: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the results of the fits, in their order."""
        calls = [_arguments(one) for one in delayed_calls]
        if not calls:
            return []
        search = self._search_of(calls)
        n_splits = len(search.splits)
        out: list[Any] = [None] * len(calls)
        for task, results in self._run(search, _tasks(search)):
            shared = search.groups[task.group].shared
            for candidate, split, result in results:
                out[candidate * n_splits + split] = result.scores
                unheard = shared is not None and shared.predictions_only and not result.apart
                self.n_at_limit += unheard and not result.converged
                if self._settings.verbose > 1 and shared is not None:
                    print(_line(search, candidate, split, result, self._settings.verbose))
            self.results += results
        return out

    def _search_of(self, calls: Sequence[Call]) -> _Search:
        first = calls[0]
        by_split = {call["split_progress"][0]: call for call in calls}
        some = [call for call in calls if call["split_progress"][0] == next(iter(by_split))]
        scorer = CandidateScorer(
            (), first["scorer"], None, first["error_score"], first["return_train_score"],
            first["fit_params"], first["score_params"],
        )  # fmt: skip
        shares = set(first["fit_params"] or {}) <= {"sample_weight"}
        estimators = [_unfitted(call) for call in some]
        nothing: Any = None  # a search tests no rows at its end
        data = _SearchData(first["X"], first["y"], nothing, nothing, (), Scaling("none"))
        groups = group_candidates(
            [one if shares else None for one in estimators], scorer, kinds=self._settings.kinds
        )
        common = {name: value for name, value in first.items() if name not in (*OWN, "X", "y")}
        n_threads = self._settings.n_threads
        if isinstance(self._settings.runner, OnCluster):
            from cluster_setup.workers import describe_workers, threads_per_task

            n_threads = threads_per_task(describe_workers(self._settings.runner.client))
            common = {name: value for name, value in common.items() if name not in LEFT_BEHIND}
        base = some[0]["estimator"]
        return _Search(
            data, [base if one is None else one for one in estimators],
            [call["parameters"] or {} for call in some],
            [(_numbers(call["train"]), _numbers(call["test"])) for call in by_split.values()],
            scorer, groups,
            {**common, "estimator": base, "n_splits": len(by_split)}, n_threads,
        )  # fmt: skip

    def _run(self, search: _Search, tasks: Sequence[_Task]) -> Iterator[tuple[_Task, list[Result]]]:
        runner = self._settings.runner
        if runner is None:
            found = self._parallel(delayed(_run_task)(search, task) for task in tasks)
            yield from zip(tasks, found, strict=True)
            return
        work = _run_on_worker if isinstance(runner, OnCluster) else _run_task
        cost, quiet = sum(task.cost for task in tasks), self._settings.verbose != 1
        with show_progress(len(tasks), cost, quiet, lambda: runner.n_workers) as shown:
            for outcome in runner.outcomes(work, search, tasks):
                shown.advance(outcome.task, outcome.error is not None)
                if outcome.error is not None:
                    if search.scorer.error_score == "raise":
                        raise ValueError(outcome.error)
                    what = f"a worker could not fit {outcome.task.name}"
                    raise RuntimeError(f"{what}: {outcome.error}")
                yield outcome.task, outcome.result


def _numbers(rows: Any) -> np.ndarray:
    """Return row numbers of a part of a split, which may be a mask."""
    part = np.asarray(rows)
    return np.flatnonzero(part) if part.dtype == np.bool_ else part


def _arguments(delayed_call: Any) -> dict[str, Any]:
    """Return the arguments with which scikit-learn would have called ``_fit_and_score``."""
    _, (estimator, X, y), named = delayed_call
    return {"estimator": estimator, "X": X, "y": y, **named}


def _unfitted(call: Call) -> Any:
    try:
        return clone(call["estimator"]).set_params(**clone(call["parameters"], safe=False))
    except Exception:  # said by its own fit
        return None


def _tasks(search: _Search) -> list[_Task]:
    """Return parts of groups: all splits at once where they share work, else split by split."""
    run, tasks = uuid.uuid4().hex[:12], []
    everything = tuple(range(len(search.splits)))
    for number, group in enumerate(search.groups):
        parts, together = [list(range(len(group.members)))], False
        if group.shared is not None:
            estimators = [search.estimators[i] for i in group.members]
            finals = [one.steps[-1][1] if group.most else one for one in estimators]
            parts = group.shared.partition(finals, 1)
            together = group.shared.splits_together and not group.most
        for part in parts:
            members = tuple(group.members[i] for i in part)
            for splits in [everything] if together else [(split,) for split in everything]:
                name = f"search-{run} split {splits[0]} candidate {members[0]}"
                cost = float(len(members) * len(splits))
                tasks.append(_Task(name, number, members, splits, cost))
    return tasks


def _run_task(search: _Search, task: _Task) -> list[Result]:
    """Fit and score the candidates of a task."""
    group = search.groups[task.group]
    some = Group(task.members, group.shared, group.most)

    def alone(split: int, i: int) -> dict[str, Any]:
        number, candidate = task.splits[split], task.members[i]
        common = dict(search.common)
        train, test = search.splits[number]
        n_splits = common.pop("n_splits")
        result: dict[str, Any] = _fit_and_score(
            clone(common.pop("estimator")), search.data.X, search.data.y, train=train, test=test,
            parameters=search.parameters[candidate], split_progress=(number, n_splits),
            candidate_progress=(candidate, len(search.parameters)), **common,
        )  # fmt: skip
        return result

    found = fit_group(
        some, [clone(search.estimators[i]) for i in task.members], search.data,
        search.splits, search.scorer, only=task.splits,
        n_threads=search.n_threads, fit_alone=alone,
    )  # fmt: skip
    return [
        (candidate, split, found[at][i])
        for at, split in enumerate(task.splits)
        for i, candidate in enumerate(task.members)
    ]


def _run_on_worker(search: _Search, task: _Task) -> list[Result]:
    assert search.n_threads is not None
    with limited(search.n_threads):
        for i in task.members:
            with_jobs(search.estimators[i], search.n_threads)
        return _run_task(search, task)


def _line(search: _Search, candidate: int, split: int, result: CellResult, verbose: int) -> str:
    """Return the line on a finished fit that ``GridSearchCV`` would print."""
    params, scores = search.parameters[candidate], result.scores["test_scores"]
    where = f" {split + 1}/{len(search.splits)}" if verbose > 2 else ""
    if verbose > 9:
        where += f"; {candidate + 1}/{len(search.parameters)}"
    text = ", ".join(f"{name}={params[name]}" for name in sorted(params)) + ";"
    if verbose > 2:
        trained = result.scores.get("train_scores")
        if isinstance(scores, dict):
            for name in sorted(scores):
                also = "" if trained is None else f"train={trained[name]:.3f}, "
                text += f" {name}: ({also}test={scores[name]:.3f})"
        elif trained is None:
            text += f", score={scores:.3f}"
        else:
            text += f", score=(train={trained:.3f}, test={scores:.3f})"
    text += f" total time={result.scores['fit_time'] + result.scores['score_time']:6.1f}s"
    begin = f"[CV{where}] END "
    return begin + "." * (80 - len(begin) - len(text)) + text
