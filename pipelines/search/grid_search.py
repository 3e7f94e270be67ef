"""``GridSearch``: scikit-learn's ``GridSearchCV``, whose candidates share work."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from pipelines.data.fits import Fit
from pipelines.data.placement import FoldedData, to_device
from pipelines.data.scaling import Scaling
from pipelines.run.progress import show_progress
from pipelines.run.tasks import OnCluster, Runner
from pipelines.search.candidates import Candidate
from pipelines.search.fitting import group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import SharedFit
from pipelines.search.tasks import SEARCH, Problem, Task, fit_task, make_tasks
from pipelines.sklearn_private import BaseSearchCV, fit_context

if TYPE_CHECKING:
    from distributed import Client

Result = tuple[int, int, Fit]  # candidate, split


class Fits(NamedTuple):
    """Fits that were asked for, and made."""

    asked: int
    made: int


class GridSearch(GridSearchCV):
    """Exhaustive search over values of parameters, in the place of ``GridSearchCV``.

    It is scikit-learn's own search, with its parameters and attributes, but for how candidates
    are fitted: those that share work do so, see ``pipelines.search.shared``, with the
    scores that plain fits have (by the path solver, within the estimator's tolerance). Where a
    fit has metadata other than ``sample_weight``, or scores are given by a function that looks
    at the estimator, less or nothing is shared.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Unfitted; it is cloned for each fit.
    param_grid : dict of parameter to values, or list of them
        Every combination is a candidate.
    scoring : str, callable, list, tuple or dict, optional
        How predictions are scored; by default by the estimator's own ``score``.
    n_jobs : int, optional
        Processes of joblib, where there is no ``client``: None means 1, -1 all cores.
    refit : bool, str or callable, default True
        Whether to fit the best candidate on all rows; of several scorers the name of the one
        that chooses, or a function of ``cv_results_`` that does.
    cv : int, splitter or iterable of splits, optional
        An int, at least 2, means folds, stratified for a classifier; by default 5.
    verbose : int, default 0
        Above 0 shows the progress: a bar on a terminal, a widget in a notebook.
    pre_dispatch : int or str, default "2*n_jobs"
        Tasks that joblib is given ahead.
    error_score : "raise" or number, default nan
        The score of a fit that fails; "raise" ends the search.
    return_train_score : bool, default False
        Whether to score the training rows, too.
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
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        error_score: Any = float("nan"),
        return_train_score: bool = False,
        client: Client | None = None,
    ) -> None:
        super().__init__(
            estimator,
            param_grid,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.client = client

    @fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Search, then fit the best candidate on all rows; see ``GridSearchCV.fit``."""
        if self.client is None:
            return self._search(X, y, params, None)
        from cluster_setup.workers import describe_workers, threads_per_task

        n_threads = threads_per_task(describe_workers(self.client))
        return self._search(X, y, params, OnCluster(self.client), n_threads=n_threads)

    def _search(
        self,
        X: Any,
        y: Any,
        params: Mapping[str, Any],
        runner: Runner | None,
        kinds: Sequence[SharedFit] = (),
        n_threads: int | None = None,
        cv: Any = None,
    ) -> Self:
        """Search as scikit-learn does.

        Parameters
        ----------
        runner : of tasks; None for joblib, as ``n_jobs`` says
        kinds : ways of sharing that go before the usual ones
        n_threads : for each task; by default those that BLAS uses, or the worker has
        cv : the splitter, where it is made already
        """
        made: list[SharedParallel] = []

        def parallel(**options: Any) -> SharedParallel:
            made.append(SharedParallel(runner, self.verbose, kinds, n_threads, **options))
            return made[-1]

        try:
            names: dict[str, Any] = {"Parallel": parallel}
            if cv is not None:
                names["check_cv"] = lambda *given, **options: cv
            return _with_globals(BaseSearchCV.fit, **names)(self, X, y, **params)
        finally:
            results = [result for one in made for _, _, result in one.results]
            self._fits = Fits(len(results), sum(result.n_fits for result in results))
            self._n_iterations = sum(result.n_iterations or 0 for result in results)
            if n_at_limit := sum(one.n_at_limit for one in made):
                limit = getattr(self.estimator, "max_iter", None)
                warnings.warn(
                    f"{n_at_limit} of {len(results)} fits did not converge within max_iter"
                    f"{'' if limit is None else f'={limit}'}; raise it or tol, or scale the data",
                    ConvergenceWarning,
                    stacklevel=3,
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
        inner.__code__,
        {**inner.__globals__, **names},
        inner.__name__,
        inner.__defaults__,
        inner.__closure__,
    )
    bound.__kwdefaults__ = inner.__kwdefaults__
    return bound


@dataclass(frozen=True, eq=False)
class _SearchData(FoldedData):
    """Rows of any form that scikit-learn takes, as an array where a kind of sharing needs one."""

    def scaled(self, device: str, rows: np.ndarray | None = None) -> Any:
        """Return all rows as a float64 array on a device, made once."""

        def dense() -> Any:
            X = np.asarray(self.X.toarray() if hasattr(self.X, "toarray") else self.X, np.float64)
            if X.ndim != 2:
                raise ValueError(f"X must have two dimensions, got {X.ndim}")
            return to_device(X, device)

        return self.placement.get((device, "dense"), dense)


class SharedParallel(Parallel):
    """``joblib.Parallel`` that carries out a search's fits in groups.

    Attributes
    ----------
    results : candidate, split and result of every fit
    n_at_limit : fits that share work and ended at a limit of iterations, of which none has warned
    """

    def __init__(
        self,
        runner: Runner | None,
        verbose: int,
        kinds: Sequence[SharedFit],
        n_threads: int | None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._runner, self._quiet, self._kinds = runner, not verbose, kinds
        self._n_threads, self._heard = n_threads, dict[str, Any]()
        self.results: list[Result] = []
        self.n_at_limit = 0

    def __call__(self, delayed_calls: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the results of the fits, in their order."""
        calls = [
            {"estimator": estimator, "X": X, "y": y, **named}
            for _, (estimator, X, y), named in delayed_calls
        ]
        if not calls:
            return []
        # Callbacks stay with the process that has them.
        heard = (
            ["verbose"]
            if isinstance(self._runner, OnCluster)
            else ["verbose", "caller", "callback_ctx"]
        )
        self._heard = {name: calls[0][name] for name in heard if name in calls[0]}
        problem = self._problem_of(calls)
        n_splits = len(problem.splits[SEARCH, 1.0])
        out: list[Any] = [None] * len(calls)
        tasks = make_tasks(problem)
        for task, results in zip(tasks, self._run(problem, tasks), strict=True):
            shared = problem.groups[task.group].shared
            for candidate, split, result in results:
                out[candidate * n_splits + split] = result.scores
                unheard = shared is not None and shared.predictions_only and not result.apart
                self.n_at_limit += unheard and not result.converged
            self.results += results
        return out

    def _problem_of(self, calls: Sequence[Mapping[str, Any]]) -> Problem:
        """Return the problem that calls of ``_fit_and_score`` make together."""
        first = calls[0]
        by_split = {call["split_progress"][0]: call for call in calls}
        scorer = CandidateScorer(
            (),
            first["scorer"],
            None,
            first["error_score"],
            first["return_train_score"],
            first["fit_params"],
            first["score_params"],
        )
        candidates = []
        for call in calls:
            if call["split_progress"] == first["split_progress"]:
                parameters = call["parameters"] or {}
                estimator = clone(call["estimator"]).set_params(**clone(parameters, safe=False))
                candidates.append(Candidate("search", parameters, estimator))
        nothing: Any = None  # a search tests no rows at its end
        # Perhaps masks.
        splits = [
            tuple(
                np.flatnonzero(rows) if np.asarray(rows).dtype == np.bool_ else np.asarray(rows)
                for rows in (call["train"], call["test"])
            )
            for call in by_split.values()
        ]
        devices = [kind.device for kind in self._kinds if hasattr(kind, "device")]
        place = partial(_SearchData.scaled, device=devices[0]) if devices else None
        groups = group_candidates([one.estimator for one in candidates], scorer, kinds=self._kinds)
        return Problem(
            _SearchData(first["X"], first["y"], nothing, nothing, (), Scaling("none"), place=place),
            tuple(candidates),
            {(SEARCH, 1.0): splits},  # type: ignore[dict-item]
            scorer,
            tuple(groups),
        )

    def _run(self, problem: Problem, tasks: Sequence[Task]) -> Iterable[list[Result]]:
        """Return the results of tasks, in their order."""
        runner = self._runner
        alone = isinstance(runner, OnCluster)
        work = partial(_results, n_threads=self._n_threads, alone=alone, heard=self._heard)
        found: dict[Task, list[Result]] = {}
        if runner is None:
            found_by_joblib: Iterable[list[Result]] = super().__call__(
                delayed(work)(problem, task) for task in tasks
            )
            return found_by_joblib
        cost = sum(task.cost for task in tasks)
        with show_progress(len(tasks), cost, self._quiet, lambda: runner.n_workers) as shown:
            for outcome in runner.outcomes(work, problem, tasks):
                shown.advance(outcome.task, outcome.error is not None)
                if outcome.error is not None:
                    if problem.scorer.error_score == "raise":
                        raise ValueError(outcome.error)
                    what = f"a worker could not fit {outcome.task.name}"
                    raise RuntimeError(f"{what}: {outcome.error}")
                found[outcome.task] = outcome.result
        return [found[task] for task in tasks]


def _results(
    problem: Problem, task: Task, n_threads: int | None, alone: bool, heard: Mapping[str, Any]
) -> list[Result]:
    """Fit and score the candidates of a task; ``heard`` says who hears of fits alone, and what."""
    n_splits, n_candidates = len(problem.splits[SEARCH, 1.0]), len(problem.candidates)

    def fit_options(split: int, candidate: int) -> dict[str, Any]:
        member, split = task.members[candidate], task.splits[split]
        return {
            **heard,
            "parameters": problem.candidates[member].parameters,
            "split_progress": (split, n_splits),
            "candidate_progress": (member, n_candidates),
        }

    items = fit_task(problem, task, n_threads, alone=alone, fit_options=fit_options)
    return [
        (task.members[fit.candidate], task.splits[fit.split], fit)
        for fit in items
        if isinstance(fit, Fit)
    ]
