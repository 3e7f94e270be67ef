"""Carries out the fits of one ``GridSearch``: those of a group of candidates together.

Fits run on joblib or on a Dask cluster. A strategy or a time budget may leave some of them out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.utils.parallel import Parallel, delayed

from pipelines.data.dataset import CLASSIFICATION
from pipelines.data.fits import Fit, Progress
from pipelines.data.generators import generators_kept
from pipelines.run.outcomes import Outcome, TaskEndedError, report_compilation, run_measured
from pipelines.run.progress import show_progress
from pipelines.run.runners import OnCluster, Runner
from pipelines.search.calls import Call, FitCalls
from pipelines.search.from_calls import n_rows_of, problem_of, results_of, work_to_load_later
from pipelines.search.joblib_backend import UsualWay
from pipelines.search.shared import SharedFit
from pipelines.search.strategies.base import WHOLE
from pipelines.search.tasks import (
    SEARCH,
    CellKey,
    Problem,
    Row,
    Task,
    finite,
    fit_task,
    make_tasks,
)
from pipelines.svm.cpu.first_use import may_wait

if TYPE_CHECKING:
    from pipelines.search.strategies.base import Scope, Strategy
    from pipelines.search.task_feed import TaskFeed

# Seconds that earlier searches of this process could have saved; see ``sharing_groups``.
_seconds_missed = dict[str, float]()


class SearchExecutor:
    """Carries out the fits of one search; fits that share work are made together.

    Parameters
    ----------
    runner : Runner or None
        Runs the tasks on a cluster; None for joblib, with ``n_jobs`` and ``pre_dispatch``.
    verbose : int, default 0
        Above 0 shows the progress of a runner.
    shared_fits : sequence of SharedFit
        Ways of sharing that are tried before the usual ones.
    n_threads : int, optional
        Threads of a task; by default those that BLAS uses, or that the worker has.
    n_jobs : int, optional
        As in joblib.
    pre_dispatch : int or str, default "2*n_jobs"
        As in joblib.
    strategy : callable, optional
        Function of a ``Scope`` that returns the strategy; by default all fits are made.
    metric : str, optional
        Name of the scorer by which the strategy decides; by default the first.
    seed : int, default 0
        Decides the order in which the strategy takes splits, and the rows of a fraction.
    time_budget : float, optional
        Seconds from now, by which the search and the refit should end.

    Attributes
    ----------
    is_called : bool
        Whether joblib handed over the fits of a search.
    leave : callable
        Called before the first fit.
    fits : list of Fit
        All scored fits.
    n_at_limit : int
        Shared fits that ended at their limit of iterations, without a warning yet.
    n_untried : int
        Fits that were left out because they would not have ended in time.
    fraction : float
        Fraction of the rows that the results are from: below 1 if time ended before any fit on
        all rows.
    """

    def __init__(
        self,
        runner: Runner | None,
        verbose: int = 0,
        shared_fits: Sequence[SharedFit] = (),
        n_threads: int | None = None,
        n_jobs: int | None = None,
        pre_dispatch: Any = "2*n_jobs",
        strategy: Callable[[Scope], Strategy] | None = None,
        metric: str | None = None,
        seed: int = 0,
        time_budget: float | None = None,
    ) -> None:
        self.is_called = False
        self.leave: Callable[[], object] = int
        self.fits: list[Fit] = []
        self.n_at_limit = self.n_untried = 0
        self.fraction = WHOLE
        self._time_budget, self._began = time_budget, time.monotonic()
        self._strategy, self._metric, self._seed = strategy, metric, seed
        self._runner, self._verbose = runner, verbose
        self._shared_fits, self._n_threads = shared_fits, n_threads
        n_jobs = n_jobs if runner is None else 1
        # Created before ``SearchBackend`` is active, so that they use the user's own backend.
        self._n_jobs = effective_n_jobs(n_jobs)
        self._tasks_in_parallel = Parallel(n_jobs=n_jobs, pre_dispatch=pre_dispatch)

    def results(
        self, first_call: Call, other_calls: Iterator[Call], usual_way: UsualWay
    ) -> Sequence[dict[str, Any]] | None:
        """The results of the fits of the first search that joblib meets; see ``Searches``."""
        first = FitCalls([first_call]).first
        if self.is_called or first.get("candidate_progress") is None:
            return None
        calls = FitCalls([first_call, *other_calls])
        self.is_called = True
        self.leave()  # later calls of joblib within the search are not meant for this executor
        # Callbacks cannot travel to the workers of a cluster.
        local_options = () if isinstance(self._runner, OnCluster) else ("caller", "callback_ctx")
        options = {name: first[name] for name in ("verbose", *local_options) if name in first}
        problem, feed = self._fed(self._brief(problem_of(calls, self._shared_fits)))
        fits_by_key = dict[CellKey, Fit]()
        with generators_kept():
            for outcome in self.outcomes(problem, feed, options):
                task, fits = outcome.task, outcome.result
                shared = problem.groups[task.group].shared
                is_silent = shared is not None and shared.predictions_only
                # Plain fits have issued their own warnings of convergence.
                self.n_at_limit += sum(
                    is_silent and not (fit.apart or fit.converged) for fit in fits
                )
                self.fits += fits
                fits_by_key |= {
                    (SEARCH, fit.candidate, fit.split, task.fraction): fit for fit in fits
                }
                if feed:
                    feed.tell(
                        (strategy_row(problem, task, fit, self._metric) for fit in fits), outcome
                    )
        # The seed of a search is the generators' state: without this, a second search of the
        # script would draw the same numbers.
        np.random.random()  # noqa: NPY002
        if feed is not None:
            fits_by_key = {key: fits_by_key[key] for key in feed.rows}
            self.n_untried = feed.n_untried if feed.budget else 0
        if not fits_by_key:
            raise ValueError(
                f"time_budget must leave time for a fit, got {self._time_budget}; raise it, or "
                f"take fewer rows"
            )
        self.fraction = max(fraction for _, _, _, fraction in fits_by_key)
        return results_of(problem, fits_by_key, self.fraction)

    def _brief(self, problem: Problem) -> Problem:
        """The search with solvers that start at once, if loading the usual ones would not pay."""
        if isinstance(self._runner, OnCluster) or problem.scorer.fit_params or not may_wait():
            return problem
        groups = list(problem.groups)
        sharing_groups = [group for group in groups if group.shared is not None]
        later_names = work_to_load_later(problem, sharing_groups, _seconds_missed)
        for number, group in enumerate(groups):
            if group.shared is None or group.name not in later_names:
                continue
            finals = [problem.candidates[member].final for member in group.members]
            if (brief_fit := group.shared.brief(finals)) is not group.shared:
                group.shared.make_ready()
                groups[number] = replace(group, shared=brief_fit)
                if not self._verbose:  # a runner imports numba, to measure what is compiled
                    self._runner = None
        return replace(problem, groups=tuple(groups))

    def _fed(self, problem: Problem) -> tuple[Problem, TaskFeed | None]:
        """The search with splits of any fraction of the rows, and the feed of its tasks.

        The feed is None if all fits are to be made.
        """
        if self._strategy is None and self._time_budget is None:
            return problem, None
        from pipelines.search.budget import Budget
        from pipelines.search.forecast import Pace
        from pipelines.search.splits import SplitsOfStages
        from pipelines.search.strategies.grid import Grid
        from pipelines.search.task_feed import StrategySearch, TaskFeed, scope_of

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
        return problem, TaskFeed(problem, [StrategySearch(SEARCH, strategy)], n_workers, {}, budget)

    def outcomes(
        self,
        problem: Problem,
        feed: TaskFeed | None,
        options: Mapping[str, Any],
        tasks: Sequence[Task] = (),
    ) -> Generator[Outcome[Task]]:
        """Run tasks and yield their outcomes; the caller tells the feed each one.

        Parameters
        ----------
        problem : Problem
        feed : TaskFeed or None
            Source of the tasks; None for ``tasks``, or all tasks of the search.
        options : dict
            Further arguments of ``_fit_and_score`` for fits that share nothing.
        tasks : sequence of Task, optional
            Used if there is no feed.

        Yields
        ------
        Outcome
            Its result is the list of fits of a task.

        Raises
        ------
        RuntimeError
            A task could not be run and ``error_score`` is "raise".
        """
        runner = self._runner
        alone = isinstance(runner, OnCluster)
        work = partial(fits_of_task, n_threads=self._n_threads, alone=alone, options=options)
        if feed is None:
            tasks = tasks or make_tasks(problem)
        if runner is None:
            tasks = tasks if feed is None else next_tasks(feed)
            while tasks:
                yield from self._run_by_joblib(work, problem, tasks, feed)
                tasks = [] if feed is None else next_tasks(feed)
            return
        tasks = tasks if feed is None else feed(0)
        cost = sum(task.cost for task in tasks)
        with show_progress(len(tasks), cost, not self._verbose, runner.presence) as progress:
            by_name = {task.name: task for task in tasks}

            def further_tasks(n_left: int) -> Sequence[Task]:
                new_tasks = [] if feed is None else feed(n_left)
                by_name.update((task.name, task) for task in new_tasks)
                if feed is not None and new_tasks:
                    expected = [*by_name.values(), *feed.waiting]
                    cost = sum(task.cost for task in expected)
                    progress.expect(len(expected), cost, feed.seconds_left, feed.is_open)
                return new_tasks

            events: Any = (
                runner.outcomes(work, problem, tasks)
                if feed is None
                else runner.outcomes_and_events(work, problem, tasks, further_tasks)
            )
            with closing(events):  # at once, however the caller's loop ends
                for event in events:
                    if not isinstance(event, Outcome):
                        news = event.share, event.compiled, event.note
                        progress.update(by_name[event.task], *news)
                        continue
                    task: Task = event.task
                    progress.advance(task, event.error is not None)
                    if event.error is None:
                        yield event
                    elif event.exception is None or isinstance(event.exception, TaskEndedError):
                        error = f"a worker could not fit {task.name}: {event.error}"
                        if allowing_failures(problem, task).scorer.error_score == "raise":
                            raise RuntimeError(error)
                        yield replace(event, result=failed_fits(problem, task, error))
                    else:  # an exception that scikit-learn's own search would have raised, too
                        raise event.exception

    def _run_by_joblib(
        self, work: Any, problem: Problem, tasks: Sequence[Task], feed: TaskFeed | None
    ) -> Iterator[Outcome[Task]]:
        """Run tasks with joblib and yield their outcomes, in order; timed if there is a budget."""
        is_measured = feed is not None and feed.budget is not None
        batches = batch_numbers(problem, tasks, self._n_jobs)
        by_batch = self._tasks_in_parallel(
            delayed(fits_of_tasks)(work, problem, [tasks[i] for i in batch], is_measured)
            for batch in batches
        )
        in_order = zip(chain(*batches), chain(*by_batch), strict=True)
        for i, outcome in sorted(in_order, key=lambda pair: pair[0]):
            yield Outcome(tasks[i], **outcome)


def batch_numbers(problem: Problem, tasks: Sequence[Task], n_jobs: int) -> list[list[int]]:
    """Group the numbers of tasks into batches, each for one process.

    Pipelines share their first steps within a process, so their tasks on a split are divided into
    as many batches as there are jobs. Any other task is a batch of its own.
    """
    batches, with_steps = list[list[int]](), dict[Sequence[int], list[int]]()
    for number, task in enumerate(tasks):
        if problem.groups[task.group].step_widths:
            with_steps.setdefault(task.splits, []).append(number)
        else:
            batches.append([number])
    for numbers in with_steps.values():
        size = -(-len(numbers) // n_jobs)
        batches += [numbers[start : start + size] for start in range(0, len(numbers), size)]
    return batches


def allowing_failures(problem: Problem, task: Task) -> Problem:
    """The search in the form that tasks take: fits on a fraction of the rows may fail.

    A candidate that fails on few rows may succeed on all, so ``error_score="raise"`` becomes NaN.
    """
    if task.fraction == WHOLE or problem.scorer.error_score != "raise":
        return problem
    return replace(problem, scorer=replace(problem.scorer, error_score=np.nan))


def failed_fits(problem: Problem, task: Task, error: str) -> list[Fit]:
    """Failed fits for all cells of a task that gave no result."""
    fits, problem = [], allowing_failures(problem, task)
    for stage, candidate, split, fraction in task.cell_keys:
        n_rows = len(problem.splits[stage, fraction][split][1])
        scores = problem.scorer.failed(error, n_rows)
        fits.append(Fit(candidate, split, scores=scores, n_fits=0))
    return fits


def strategy_row(problem: Problem, task: Task, fit: Fit, metric: str | None) -> Row:
    """The row of a fit, in the form in which strategies are told about it.

    Parameters
    ----------
    problem : Problem
    task : Task
    fit : Fit
        Scored.
    metric : str or None
        Name of the score that counts if there are several; None for the first.
    """
    score = fit.scores["test_scores"]
    if isinstance(score, dict):
        score = score.get(next(iter(score)) if metric is None else metric)
    score = finite(score)
    n_rows = len(problem.splits[task.stage, task.fraction][fit.split][1])
    n_errors = fit.n_errors
    if n_errors is None and score is not None and problem.scorer.is_accuracy:
        n_right = score * n_rows
        # An estimator's own ``score`` need not be a fraction of correct predictions.
        if 0 <= n_right <= n_rows and abs(n_right - round(n_right)) < 1e-6:
            n_errors = n_rows - round(n_right)
    return {
        "stage": task.stage,
        "candidate": fit.candidate,
        "split": fit.split,
        "share": task.fraction,
        "score": score,
        "n_errors": n_errors,
        "n_validation": n_rows,
        "error": None if n_errors is None or not n_rows else n_errors / n_rows,
    }


def next_tasks(feed: TaskFeed) -> list[Task]:
    """The tasks that joblib is given together: a round, or those that fit in the budget.

    Enough short tasks are taken to give each worker a second of work, as joblib takes a while
    to start.
    """
    from pipelines.search.budget import SHORT

    tasks, new_tasks, seconds = list[Task](), feed(0), 0.0
    while new_tasks:
        tasks += new_tasks
        if feed.budget is None:
            break
        seconds += sum(map(feed.budget.pace.seconds, new_tasks))
        # NaN for a type of work whose time is unknown: then no further task is taken, as the first
        # may leave no time for others.
        new_tasks = feed(0) if seconds < SHORT * feed.n_workers else []
    return tasks


def fits_of_tasks(
    work: Callable[[Problem, Task], list[Fit]],
    problem: Problem,
    tasks: Sequence[Task],
    is_measured: bool,
) -> list[dict[str, Any]]:
    """Run the tasks of a batch in one process, where pipelines share their first steps.

    Parameters
    ----------
    work : callable
        Function of problem and task that returns its fits.
    problem : Problem
    tasks : sequence of Task
    is_measured : bool
        Whether to measure each task, see ``run_measured``.

    Returns
    -------
    list of dict
        ``result`` of each task, its fits, and what was measured.
    """
    if is_measured:
        with report_compilation(None):
            pass  # imports what measures compilation, so that the first task does not pay for it
    return [
        run_measured(work, problem, task) if is_measured else {"result": work(problem, task)}
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
    """Fit and score the candidates of a task.

    Parameters
    ----------
    problem : Problem
    task : Task
    n_threads : int or None
        Threads of a fit; None for as many as its estimator and BLAS use.
    alone : bool
        Whether no other task runs in this process.
    options : dict
        Further arguments of ``_fit_and_score`` for fits that share nothing.
    report : callable, optional
        Told the fraction of the task that is done.

    Returns
    -------
    list of Fit
        With the numbers of their candidates and splits. If the time of the task is over, only the
        fits of complete splits.
    """
    n_splits, n_candidates = len(problem.splits[SEARCH, WHOLE]), len(problem.candidates)
    problem, fits, n_done = allowing_failures(problem, task), list[Fit](), Counter[int]()

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
