"""A backend of joblib that carries out the fits of a scikit-learn search in groups.

joblib hands a backend call after call. This backend only collects them until the first result is
wanted; then all are there, and those that share work are made together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np
from joblib import effective_n_jobs, parallel_config
from joblib.parallel import ParallelBackendBase
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from pipelines.data.fits import Fit
from pipelines.data.generators import generators_kept, state_of_generators
from pipelines.data.placement import FoldedData, to_device
from pipelines.data.scaling import Scaling
from pipelines.run.outcomes import TaskEndedError
from pipelines.run.progress import show_progress
from pipelines.run.tasks import OnCluster, Runner
from pipelines.search.candidates import Candidate
from pipelines.search.fitting import group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import SharedFit
from pipelines.search.tasks import SEARCH, Problem, Task, fit_task, make_tasks
from pipelines.sklearn_private import fit_and_score

CALLS_AT_ONCE = 200_000  # so many that joblib hands over all in two or three batches
Call = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]


class Batch:
    """Calls that joblib submitted together.

    Attributes
    ----------
    results : of each of them; None until they were carried out
    on_completed : function to call then
    """

    def __init__(self, calls: Sequence[Call], on_completed: Callable[[Any], Any]) -> None:
        self.calls, self.on_completed = calls, on_completed
        self.results: list[Any] | None = None


class SearchBackend(ParallelBackendBase):
    """Carries out the fits of one search, those that share work together.

    Used as a context, it serves the first search within; what this calls itself, and what comes
    after it, such as the refit, is served as if it were not there.

    Parameters
    ----------
    runner : of tasks; None for joblib as ``n_jobs`` and ``pre_dispatch`` say
    verbose : above 0 shows the progress of a runner
    kinds : ways of sharing that go before the usual ones
    n_threads : for each task; by default those that BLAS uses, or the worker has

    Attributes
    ----------
    fits : of all candidates on all splits, scored
    n_at_limit : fits that share work and ended at a limit of iterations, of which none has warned
    """

    supports_retrieve_callback = False
    supports_sharedmem = True  # calls are made in this process, or as the runner makes them

    def __init__(
        self,
        runner: Runner | None,
        verbose: int = 0,
        kinds: Sequence[SharedFit] = (),
        n_threads: int | None = None,
        n_jobs: int | None = None,
        pre_dispatch: Any = "2*n_jobs",
    ) -> None:
        super().__init__(nesting_level=0)
        self.fits: list[Fit] = []
        self.n_at_limit = 0
        self._runner, self._verbose = runner, verbose
        self._kinds, self._n_threads = kinds, n_threads
        self._waiting: list[Batch] = []
        self._context: parallel_config | None = None
        if runner is None:  # made here, these take the backend that is in force outside
            self._n_jobs = effective_n_jobs(n_jobs)
            self._tasks_in_parallel = Parallel(n_jobs=n_jobs, pre_dispatch=pre_dispatch)

    def __enter__(self) -> SearchBackend:
        self._context = parallel_config(backend=self)
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._context is not None:
            self._context.unregister()
            self._context = None

    def effective_n_jobs(self, n_jobs: int) -> int:
        """Return more than one, for which joblib would ask no backend."""
        return 2

    def compute_batch_size(self) -> int:
        """Return how many calls joblib submits together."""
        return CALLS_AT_ONCE

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        """Have joblib submit all calls before it asks for a result."""
        self._leave()  # nothing that the search calls is for this backend
        self.parallel = parallel
        # Neither says anything: what is run in parallel are the tasks.
        parallel.pre_dispatch, parallel.verbose = "all", 0
        return self.effective_n_jobs(n_jobs)

    def terminate(self) -> None:
        """Wait for the search, if something else was served before it."""
        if not self.fits:
            self.__enter__()

    def submit(self, func: Any, callback: Callable[[Any], Any]) -> Batch:
        """Collect a batch of calls."""
        batch = Batch(func.items, callback)
        self._waiting.append(batch)
        return batch

    def retrieve_result(self, out: Batch, timeout: float | None = None) -> list[Any]:
        """Return the results of a batch; at the first, carry out all."""
        if out.results is None:
            batches, self._waiting = self._waiting, []
            results = iter(self._carry_out([call for batch in batches for call in batch.calls]))
            for batch in batches:
                batch.results = [next(results) for _ in batch.calls]
        out.on_completed(out)
        return cast("list[Any]", out.results)

    def _carry_out(self, calls: Sequence[Call]) -> list[Any]:
        """Return the results of calls, in their order."""
        functions = {getattr(function, "function", function) for function, _, _ in calls}
        if functions != {fit_and_score} or "split_progress" not in calls[0][2]:
            return [function(*arguments, **named) for function, arguments, named in calls]
        named = [
            {"estimator": estimator, "X": X, "y": y, **options}
            for _, (estimator, X, y), options in calls
        ]
        # Callbacks stay with the process that has them.
        local = () if isinstance(self._runner, OnCluster) else ("caller", "callback_ctx")
        first = named[0]
        options = {name: first[name] for name in ("verbose", *local) if name in first}
        problem = problem_of(named, self._kinds)
        n_splits, results = len(problem.splits[SEARCH, 1.0]), list[Any]([None] * len(calls))
        tasks = make_tasks(problem)
        with generators_kept():
            by_task = self._run(problem, tasks, options)
        np.random.random()  # noqa: NPY002 - the next search draws others
        for task, fits in zip(tasks, by_task, strict=True):
            shared = problem.groups[task.group].shared
            for fit in fits:
                results[fit.candidate * n_splits + fit.split] = fit.scores
                # Fits of an estimator by itself have warned.
                silent = shared is not None and shared.predictions_only and not fit.apart
                self.n_at_limit += silent and not fit.converged
            self.fits += fits
        return results

    def _run(
        self, problem: Problem, tasks: Sequence[Task], options: Mapping[str, Any]
    ) -> Iterable[list[Fit]]:
        """Return the fits of tasks, in their order."""
        runner = self._runner
        alone = isinstance(runner, OnCluster)
        work = partial(fits_of_task, n_threads=self._n_threads, alone=alone, options=options)
        if runner is None:
            batches = in_batches(problem, tasks, self._n_jobs)
            by_batch = self._tasks_in_parallel(
                delayed(fits_of_tasks)(work, problem, [tasks[i] for i in batch])
                for batch in batches
            )
            in_order = zip(chain(*batches), chain(*by_batch), strict=True)
            return [fits for _, fits in sorted(in_order, key=lambda pair: pair[0])]
        fits: dict[Task, list[Fit]] = {}
        cost = sum(task.cost for task in tasks)
        quiet = not self._verbose
        with show_progress(len(tasks), cost, quiet, runner.presence) as progress:
            for outcome in runner.outcomes(work, problem, tasks):
                progress.advance(outcome.task, outcome.error is not None)
                if outcome.error is None:
                    fits[outcome.task] = outcome.result
                elif outcome.exception is None or isinstance(outcome.exception, TaskEndedError):
                    error = f"a worker could not fit {outcome.task.name}: {outcome.error}"
                    if problem.scorer.error_score == "raise":
                        raise RuntimeError(error)
                    fits[outcome.task] = failed_fits(problem, outcome.task, error)
                else:  # what scikit-learn would not have caught either
                    raise outcome.exception
        return [fits[task] for task in tasks]


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


def problem_of(calls: Sequence[Mapping[str, Any]], kinds: Sequence[SharedFit] = ()) -> Problem:
    """Return the search that calls of ``_fit_and_score`` make together.

    Parameters
    ----------
    calls : arguments by name, candidate by candidate and split by split within each
    kinds : ways of sharing that go before the usual ones
    """
    first = calls[0]
    by_split = {call["split_progress"][0]: call for call in calls}
    scorer = CandidateScorer(
        (),
        first["scorer"],
        error_score=first["error_score"],
        train_scores=first["return_train_score"],
        fit_params=first["fit_params"],
        score_params=first["score_params"],
    )
    candidates = []
    for call in calls:
        if call["split_progress"] == first["split_progress"]:
            parameters = call["parameters"] or {}
            estimator = clone(call["estimator"]).set_params(**clone(parameters, safe=False))
            candidates.append(Candidate("search", parameters, estimator))
    splits = [(_numbers(call["train"]), _numbers(call["test"])) for call in by_split.values()]
    devices = [kind.device for kind in kinds if hasattr(kind, "device")]
    place = partial(_SearchData.scaled, device=devices[0]) if devices else None
    nothing: Any = None  # a search tests no rows at its end
    data = _SearchData(first["X"], first["y"], nothing, nothing, (), Scaling("none"), place=place)
    estimators = [candidate.estimator for candidate in candidates]
    groups = group_candidates(estimators, scorer, kinds=kinds)
    # As their draws would have done, those of this search depend on the state that it meets.
    seed = state_of_generators()
    splits_of = {(SEARCH, 1.0): splits}
    return Problem(data, tuple(candidates), splits_of, scorer, tuple(groups), seed=seed)


def _numbers(rows: Any) -> np.ndarray:
    """Return the numbers of rows, which may be a mask."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows


def in_batches(problem: Problem, tasks: Sequence[Task], n_jobs: int) -> list[list[int]]:
    """Return numbers of tasks, those of a batch to be carried out by one process.

    Pipelines share their first steps within a process: of these, the tasks on a split are as many
    batches as there are jobs. Any other task is a batch by itself.
    """
    batches, with_steps = list[list[int]](), dict[Sequence[int], list[int]]()
    for number, task in enumerate(tasks):
        if problem.groups[task.group].most:
            with_steps.setdefault(task.splits, []).append(number)
        else:
            batches.append([number])
    for numbers in with_steps.values():
        size = -(-len(numbers) // n_jobs)
        batches += [numbers[start : start + size] for start in range(0, len(numbers), size)]
    return batches


def failed_fits(problem: Problem, task: Task, error: str) -> list[Fit]:
    """Return the fits of a task that gave none, with the numbers of candidates and splits."""
    fits = []
    for _, candidate, split, _ in task.places:
        n_rows = len(problem.splits[SEARCH, 1.0][split][1])
        scores = problem.scorer.failed(error, n_rows)
        fits.append(Fit(candidate, split, scores=scores, n_fits=0))
    return fits


def fits_of_tasks(
    work: Callable[[Problem, Task], list[Fit]], problem: Problem, tasks: Sequence[Task]
) -> list[list[Fit]]:
    """Return the fits of every task; what they share stays in this process."""
    return [work(problem, task) for task in tasks]


def fits_of_task(
    problem: Problem, task: Task, n_threads: int | None, alone: bool, options: Mapping[str, Any]
) -> list[Fit]:
    """Fit and score the candidates of a task; return the fits with the numbers of both.

    Parameters
    ----------
    options : further arguments of ``_fit_and_score`` for fits that share nothing
    """
    n_splits, n_candidates = len(problem.splits[SEARCH, 1.0]), len(problem.candidates)

    def fit_options(split: int, candidate: int) -> dict[str, Any]:
        member, split = task.members[candidate], task.splits[split]
        return {
            **options,
            "parameters": problem.candidates[member].parameters,
            "split_progress": (split, n_splits),
            "candidate_progress": (member, n_candidates),
        }

    fits = [
        item
        for item in fit_task(problem, task, n_threads, alone=alone, fit_options=fit_options)
        if isinstance(item, Fit)
    ]
    for fit in fits:
        fit.candidate, fit.split = task.members[fit.candidate], task.splits[fit.split]
    return fits
