"""A backend of joblib that carries out the fits of a scikit-learn search in groups.

joblib hands a backend call after call. This backend only collects them until the first result is
wanted; then all are there, and those that share work are made together: all of them, or those that
a strategy asks for.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np
from joblib import effective_n_jobs, parallel_config
from joblib.parallel import ParallelBackendBase
from sklearn.base import clone, is_classifier
from sklearn.utils.parallel import Parallel, delayed

from pipelines.data.dataset import CLASSIFICATION
from pipelines.data.fits import Fit, Progress
from pipelines.data.generators import generators_kept, state_of_generators
from pipelines.data.placement import FoldedData, to_device
from pipelines.data.scaling import Scaling
from pipelines.run.outcomes import Outcome, TaskEndedError, compilation_reported, measured
from pipelines.run.progress import show_progress
from pipelines.run.tasks import OnCluster, Runner
from pipelines.search.budget import SHORT, Budget
from pipelines.search.candidates import Candidate
from pipelines.search.feed import Feed, Search, scope_of
from pipelines.search.fitting import group_candidates
from pipelines.search.forecast import Pace
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import SharedFit
from pipelines.search.splits import SplitsOfStages
from pipelines.search.strategies.base import WHOLE, Scope, Strategy
from pipelines.search.strategies.grid import Grid
from pipelines.search.tasks import (
    SEARCH,
    Place,
    Problem,
    Row,
    Task,
    finite,
    fit_task,
    make_tasks,
)
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
    strategy : function of a ``Scope`` that gives what says which fits are made; None for all
    metric : the scorer by whose name it decides; by default the first
    seed : int
        Decides in which order it takes splits, and the rows of a share.
    time_budget : seconds from now on, by which all and the refit are to end

    Attributes
    ----------
    is_called : whether it was given the fits of a search
    fits : that were made, scored
    n_at_limit : fits that share work and ended at a limit of iterations, of which none has warned
    n_untried : fits that were wanted, and would not have ended in time
    share : of the rows that the results are of: below 1 where time ended before any fit on all
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
        strategy: Callable[[Scope], Strategy] | None = None,
        metric: str | None = None,
        seed: int = 0,
        time_budget: float | None = None,
    ) -> None:
        super().__init__(nesting_level=0)
        self.is_called = False
        self.fits: list[Fit] = []
        self.n_at_limit = self.n_untried = 0
        self.share = WHOLE
        self._time_budget, self._began = time_budget, time.monotonic()
        self._strategy, self._metric, self._seed = strategy, metric, seed
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
        if not self.is_called:
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
        problem, self.is_called = problem_of(named, self._kinds), True
        problem, feed = self._fed(problem)
        made = dict[Place, Fit]()
        with generators_kept():
            for outcome in self._run(problem, feed, options):
                task, fits = outcome.task, outcome.result
                shared = problem.groups[task.group].shared
                silent = shared is not None and shared.predictions_only
                # Fits of an estimator by itself have warned.
                self.n_at_limit += sum(silent and not (fit.apart or fit.converged) for fit in fits)
                self.fits += fits
                made |= {(SEARCH, fit.candidate, fit.split, task.share): fit for fit in fits}
                if feed:
                    feed.tell((row_of(problem, task, fit, self._metric) for fit in fits), outcome)
        np.random.random()  # noqa: NPY002 - the next search draws others
        if feed is not None:
            made = {place: made[place] for place in feed.rows}
            self.n_untried = feed.n_untried if feed.budget else 0
        if not made:
            raise ValueError(
                f"time_budget must leave time for a fit, got {self._time_budget}; raise it, or "
                f"take fewer rows"
            )
        self.share = max(share for _, _, _, share in made)
        return results_of(problem, made, self.share)

    def _fed(self, problem: Problem) -> tuple[Problem, Feed | None]:
        """The search, with the splits that its strategy may ask for, and what feeds its tasks."""
        if self._strategy is None and self._time_budget is None:
            return problem, None
        data, splits = problem.data, problem.splits[SEARCH, WHOLE]
        codes = np.zeros(n_rows_of(data.X), int)
        if is_classifier(problem.candidates[0].estimator) and np.ndim(data.y) == 1:
            codes = np.unique(np.asarray(data.y), return_inverse=True)[1]
        of_stages = SplitsOfStages(
            {(SEARCH, WHOLE): list(splits)}, codes, CLASSIFICATION, self._seed
        )
        problem = replace(problem, splits=of_stages)
        strategy = (self._strategy or Grid)(scope_of(problem, SEARCH, len(splits), self._seed))
        n_workers = self._n_jobs if self._runner is None else self._runner.n_workers
        budget = None
        if self._time_budget is not None:
            budget = Budget(self._time_budget, self._began, Pace(problem))
        return problem, Feed(problem, [Search(SEARCH, strategy)], n_workers, {}, budget)

    def _run(
        self, problem: Problem, feed: Feed | None, options: Mapping[str, Any]
    ) -> Iterator[Outcome[Task]]:
        """Yield outcomes of tasks; a feed is to be told each before it is asked for further tasks.

        Parameters
        ----------
        feed : of the tasks; None for all tasks of the search
        """
        runner = self._runner
        alone = isinstance(runner, OnCluster)
        work = partial(fits_of_task, n_threads=self._n_threads, alone=alone, options=options)
        if runner is None:
            tasks = make_tasks(problem) if feed is None else next_tasks(feed)
            while tasks:
                yield from self._run_by_joblib(work, problem, tasks, feed)
                tasks = [] if feed is None else next_tasks(feed)
            return
        tasks = make_tasks(problem) if feed is None else feed(0)
        cost = sum(task.cost for task in tasks)
        with show_progress(len(tasks), cost, not self._verbose, runner.presence) as progress:
            by_name = {task.name: task for task in tasks}

            def more(n_left: int) -> Sequence[Task]:
                new = [] if feed is None else feed(n_left)
                by_name.update((task.name, task) for task in new)
                if feed is not None and new:
                    expected = [*by_name.values(), *feed.waiting]
                    cost = sum(task.cost for task in expected)
                    progress.expect(len(expected), cost, feed.seconds_left, feed.is_open)
                return new

            events: Any = (
                runner.outcomes(work, problem, tasks)
                if feed is None
                else runner.outcomes_and_events(work, problem, tasks, more)
            )
            with closing(events):  # by the caller's thread, whatever ends it
                for event in events:
                    if not isinstance(event, Outcome):
                        progress.update(by_name[event.task], event.share, event.compiled)
                        continue
                    task: Task = event.task
                    progress.advance(task, event.error is not None)
                    if event.error is None:
                        yield event
                    elif event.exception is None or isinstance(event.exception, TaskEndedError):
                        error = f"a worker could not fit {task.name}: {event.error}"
                        if as_its_share(problem, task).scorer.error_score == "raise":
                            raise RuntimeError(error)
                        yield replace(event, result=failed_fits(problem, task, error))
                    else:  # what scikit-learn would not have caught either
                        raise event.exception

    def _run_by_joblib(
        self, work: Any, problem: Problem, tasks: Sequence[Task], feed: Feed | None
    ) -> Iterator[Outcome[Task]]:
        """Yield the outcomes of tasks, in their order; with a budget, with what they took."""
        is_measured = feed is not None and feed.budget is not None
        batches = in_batches(problem, tasks, self._n_jobs)
        by_batch = self._tasks_in_parallel(
            delayed(fits_of_tasks)(work, problem, [tasks[i] for i in batch], is_measured)
            for batch in batches
        )
        in_order = zip(chain(*batches), chain(*by_batch), strict=True)
        for i, outcome in sorted(in_order, key=lambda pair: pair[0]):
            yield Outcome(tasks[i], **outcome)


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


def n_rows_of(X: Any) -> int:
    """The number of rows of an array, a table or a list."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def as_its_share(problem: Problem, task: Task) -> Problem:
    """The search, whose fits on a share of the rows may fail: they need not do so on all."""
    if task.share == WHOLE or problem.scorer.error_score != "raise":
        return problem
    return replace(problem, scorer=replace(problem.scorer, error_score=np.nan))


def failed_fits(problem: Problem, task: Task, error: str) -> list[Fit]:
    """Return the fits of a task that gave none, with the numbers of candidates and splits."""
    fits, problem = [], as_its_share(problem, task)
    for stage, candidate, split, share in task.places:
        n_rows = len(problem.splits[stage, share][split][1])
        scores = problem.scorer.failed(error, n_rows)
        fits.append(Fit(candidate, split, scores=scores, n_fits=0))
    return fits


def row_of(problem: Problem, task: Task, fit: Fit, metric: str | None) -> Row:
    """The row of a fit as strategies are told it.

    Parameters
    ----------
    metric : name of a score, where there are several; by default the first
    """
    score = fit.scores["test_scores"]
    if isinstance(score, dict):
        score = score.get(next(iter(score)) if metric is None else metric)
    score = finite(score)
    n_rows = len(problem.splits[task.stage, task.share][fit.split][1])
    n_errors = fit.n_errors
    if n_errors is None and score is not None and problem.scorer.is_accuracy:
        right = score * n_rows
        # An estimator's own score is perhaps none of right rows.
        if 0 <= right <= n_rows and abs(right - round(right)) < 1e-6:
            n_errors = n_rows - round(right)
    return {
        "stage": task.stage,
        "candidate": fit.candidate,
        "split": fit.split,
        "share": task.share,
        "score": score,
        "n_errors": n_errors,
        "n_validation": n_rows,
        "error": None if n_errors is None or not n_rows else n_errors / n_rows,
    }


def results_of(
    problem: Problem, fits: Mapping[Place, Fit], share: float = WHOLE
) -> list[dict[str, Any]]:
    """The results of all fits of a search in scikit-learn's form, those of a candidate together.

    One that was not made has NaN for its scores and its times.

    Parameters
    ----------
    fits : by their places
    share : of the rows, by which fits are taken
    """
    results = list[dict[str, Any]]()
    scored = [fit.scores for fit in fits.values()]
    # Of scorers that are a function, only a fit that did not fail has the names.
    scored.sort(key=lambda scores: scores["fit_error"] is not None)
    for candidate in range(len(problem.candidates)):
        for split, (_, test) in enumerate(problem.splits[SEARCH, share]):
            fit = fits.get((SEARCH, candidate, split, share))
            results.append(not_made(scored[0], len(test)) if fit is None else fit.scores)
    return results


def not_made(like: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """The result of a fit that was not made, in the form of one that was.

    Where even that has failed, all did: then scikit-learn raises an error.
    """
    nan = float("nan")
    result = dict(like) | {"fit_time": nan, "score_time": nan}
    for name in ("test_scores", "train_scores"):
        if name in like:
            several = isinstance(like[name], dict)
            result[name] = dict.fromkeys(like[name], nan) if several else nan
    return result | {"n_test_samples": n_rows}


def next_tasks(feed: Feed) -> list[Task]:
    """The tasks that joblib is given together: a round, or what fits in the budget.

    Of short tasks so many that each worker has a second's work; joblib takes a while to begin.
    """
    tasks, new, seconds = list[Task](), feed(0), 0.0
    while new:
        tasks += new
        if feed.budget is None:
            break
        seconds += sum(map(feed.budget.pace.seconds, new))
        # Of the first of a kind that is not known, and what it takes may leave no time for more.
        new = feed(0) if seconds < SHORT * feed.n_workers else []
    return tasks


def fits_of_tasks(
    work: Callable[[Problem, Task], list[Fit]],
    problem: Problem,
    tasks: Sequence[Task],
    is_measured: bool = False,
) -> list[dict[str, Any]]:
    """The ``result`` of every task, its fits; what they share stays in this process.

    Parameters
    ----------
    is_measured : whether with what each took, see ``measured``
    """
    if is_measured:
        with compilation_reported(None):
            pass  # what that imports is no part of the first task
    return [
        measured(work, problem, task) if is_measured else {"result": work(problem, task)}
        for task in tasks
    ]


def fits_of_task(
    problem: Problem,
    task: Task,
    n_threads: int | None,
    alone: bool,
    options: Mapping[str, Any],
    report: Callable[[float], None] | None = None,
) -> list[Fit]:
    """Fit and score the candidates of a task; return the fits with the numbers of both.

    Where its time is over, those of the splits that are done.

    Parameters
    ----------
    options : further arguments of ``_fit_and_score`` for fits that share nothing
    report : is told which share of the task is done
    """
    n_splits, n_candidates = len(problem.splits[SEARCH, WHOLE]), len(problem.candidates)
    problem, fits, n_done = as_its_share(problem, task), list[Fit](), Counter[int]()

    def fit_options(split: int, candidate: int) -> dict[str, Any]:
        member, split = task.members[candidate], task.splits[split]
        return {
            **options,
            "parameters": problem.candidates[member].parameters,
            "split_progress": (split, n_splits),
            "candidate_progress": (member, n_candidates),
        }

    for item in fit_task(problem, task, n_threads, alone=alone, fit_options=fit_options):
        if isinstance(item, Progress):
            if report is not None:
                report(item.fraction)
            continue
        item.candidate, item.split = task.members[item.candidate], task.splits[item.split]
        fits.append(item)
        n_done[item.split] += 1
        if n_done[item.split] == len(task.members) and time.time() > task.until:
            break
    return [fit for fit in fits if n_done[fit.split] == len(task.members)]
