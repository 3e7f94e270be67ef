"""Forecasts the time and memory of a search before its first task, by a few probes."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipelines.data.generators import generators_kept
from pipelines.errors import error_line
from pipelines.run.chunking import makespan
from pipelines.run.progress import time_text
from pipelines.search.probes import LEAST_SLOW, SLOW, first_step, measure, measure_steps
from pipelines.search.shared.base import PlainFits, SharedFit
from pipelines.search.tasks import Problem, Task, run_task

if TYPE_CHECKING:
    from pipelines.run.cluster import Workers

N_RATIOS = 15  # latest measured tasks of a type of work that correct its predictions
# The largest factor by which measured tasks of other types correct a prediction: the time of short
# tasks is mostly start-up, which says little about other work.
MOST_OF_OTHERS = 2.0
WORTH_A_FORECAST = 60.0  # seconds of a run
SHORT = 30.0  # seconds; a run that takes less, by the upper bounds of its costs, is not probed
# Seconds that a fit takes for one value of its rows: an upper bound for all but unusually slow
# estimators.
SECONDS_OF_A_VALUE = 4e-6
PATIENCE, LEAST_PATIENCE = 4.0, 0.2  # seconds of all probes together, and at least of each
SHARE_OF_BUDGET = 0.05  # fraction of a time budget for all probes; a slow one may take more
LARGE_NETWORKS = 60.0  # predicted seconds of a task; from here on one network is timed, not all
PROBES = 3  # tasks of one type of work that are probed; fewer per type if there are several types
FORECAST_FACTOR = 1.5  # a run usually takes between 1/1.5 and 1.5 times its forecast

WorkType = tuple[str, str]  # the shared work, the algorithm
Rates = Mapping[int, float]  # seconds per unit of cost, by the number of a task's first candidate


class Pace:
    """Predicts the seconds of tasks from their costs, corrected by the times of finished tasks.

    Costs are comparable within a type of work: tasks with the same shared work and algorithm.
    Probes measure the seconds per unit of cost; between probed candidates it is interpolated. The
    times of finished tasks correct the prediction by the median of their last ratios, so that one
    odd task changes nothing.

    Parameters
    ----------
    problem : Problem
    rates : mapping of WorkType to Rates, optional
        Measured rates of the types of work that were probed.
    """

    def __init__(self, problem: Problem, rates: Mapping[WorkType, Rates] | None = None) -> None:
        self._problem, self._rates = problem, dict(rates or {})
        self._ratios: dict[WorkType, deque[float]] = defaultdict(lambda: deque(maxlen=N_RATIOS))

    def work_type(self, task: Any) -> WorkType:
        """The type of work of a task; that of a refit has no algorithm."""
        return _work_type(self._problem, task)

    def seconds(self, task: Any) -> float:
        """Predict the seconds of a task on one worker; NaN if its type of work is unknown."""
        work_type = self.work_type(task)
        ratios = self._ratios.get(work_type)
        if (
            not ratios and work_type in self._rates
        ):  # corrected by the other types of work on this machine
            other_ratios = [
                ratio_of_other
                for other in self._rates
                for ratio_of_other in self._ratios.get(other, ())
            ]
            ratio = min(MOST_OF_OTHERS, max(1 / MOST_OF_OTHERS, median(other_ratios or [1.0])))
            return self._uncorrected(work_type, task) * ratio
        return self._uncorrected(work_type, task) * median(ratios) if ratios else math.nan

    def tell(self, task: Any, seconds: float) -> None:
        """Correct later predictions by the seconds of a finished task, without compilation."""
        work_type = self.work_type(task)
        predicted = self._uncorrected(work_type, task)
        if predicted > 0 and seconds > 0:
            self._ratios[work_type].append(seconds / predicted)

    def _uncorrected(self, work_type: WorkType, task: Any) -> float:
        rates = self._rates.get(work_type)
        if not rates:
            return float(task.cost)
        indices = sorted(rates)
        logs = [math.log(rates[index]) for index in indices]
        members = getattr(task, "members", (0,))
        return float(task.cost) * math.exp(np.interp(members[0], indices, logs))


def _work_type(problem: Problem, task: Any) -> WorkType:
    if not isinstance(task, Task):
        return type(task).__name__, ""
    return problem.of(task.stage).shared_by(task).name, task.label


class Forecast(NamedTuple):
    """The facts known about a run before its first task.

    Attributes
    ----------
    lines : sequence of str
        Lines of output on its time and memory; empty if it takes less than a minute.
    rates : mapping of WorkType to Rates
        For ``Pace``; empty if nothing was probed.
    """

    lines: Sequence[str] = ()
    rates: Mapping[WorkType, Rates] = MappingProxyType({})


def forecast(
    problem: Problem,
    tasks: Sequence[Any],
    workers: Workers,
    *,
    run: Callable[..., Iterable[Any]] = run_task,
    at_most: bool = False,
    budget: float | None = None,
) -> Forecast:
    """Forecast the time and memory of a run.

    Time is measured by a few probes in this process, if it is like the workers.

    Parameters
    ----------
    problem : Problem
    tasks : sequence
        All tasks of the run.
    workers : Workers
    run : callable, default ``run_task``
        Function of problem, task and ``n_threads`` that carries out a task.
    at_most : bool, default False
        Whether a strategy may leave some of the tasks out.
    budget : float, optional
        Time budget in seconds, after which the run ends.

    Returns
    -------
    Forecast
    """
    if not tasks or most_seconds(problem, tasks) < SHORT * workers.n * workers.threads:
        return Forecast()
    lines, rates = list[str](), dict[WorkType, Rates]()
    fit_count = f"{sum(len(getattr(task, 'cell_keys', (task,))) for task in tasks):,} fits"
    fit_count = f"at most {fit_count}" if at_most else fit_count
    shared_fits = {_shared(problem, task) for task in tasks if isinstance(task, Task)}
    reasons = (shared_fit.unlike_few_rows for shared_fit in shared_fits)
    if reason := workers.unlike_this_process or next(filter(None, reasons), ""):
        lines.append(f"forecast   {fit_count}; how long they take cannot be told before: {reason}")
    else:
        try:
            with generators_kept():
                rates = probe(problem, tasks, workers.threads, run, budget or math.inf)
        except Exception as error:  # the run goes on: the rows of its fits will show the error
            lines.append(
                f"forecast   {fit_count}; how long they take cannot be told, a probe failed: "
                f"{error_line(error)}"
            )
        else:
            pace = Pace(problem, rates)
            seconds = makespan([pace.seconds(task) for task in tasks], workers.n)
            if not seconds >= WORTH_A_FORECAST:
                return Forecast(rates=rates)
            ending = ""
            if budget is not None and seconds > budget:
                ending = f"; --time-budget ends them after {time_text(budget)}"
            lines.append(
                f"forecast   {fit_count}, about {seconds_with_range(seconds)} on {workers}{ending}"
            )
    return Forecast([*lines, *memory_lines(problem, tasks, workers)], rates)


def most_seconds(problem: Problem, tasks: Sequence[Any]) -> float:
    """An upper bound for the seconds that the tasks take on one core, from their costs."""
    X = problem.data.X
    n_values = math.prod(X.shape) if hasattr(X, "shape") else len(X)
    total = 0.0
    for task in tasks:
        unit = None
        if isinstance(task, Task):
            unit = _shared(problem, task).most_seconds
        elif len(problem.parts):
            unit = 4.0
        of_values = SECONDS_OF_A_VALUE * n_values * len(getattr(task, "cell_keys", (task,)))
        total += of_values if unit is None else unit * task.cost
    return total


def _shared(problem: Problem, task: Task) -> SharedFit:
    return problem.of(task.stage).shared_by(task).shared or PlainFits()


def probe(
    problem: Problem,
    tasks: Sequence[Any],
    n_threads: int,
    run: Callable[..., Iterable[Any]],
    budget: float = math.inf,
) -> dict[WorkType, Rates]:
    """Measure a few tasks of every type of work.

    Tasks are picked evenly: along the grid for SVM paths and for tasks of equal cost, else from
    the cheapest to the most expensive.

    Parameters
    ----------
    problem : Problem
    tasks : sequence
    n_threads : int
        Threads of a task.
    run : callable
        Function of problem, task and ``n_threads`` that carries out a task.
    budget : float, default inf
        Seconds of the run; with a small budget, probes take less time.

    Returns
    -------
    dict of WorkType to Rates
    """
    tasks_by_type: dict[WorkType, list[Any]] = defaultdict(list)
    for task in tasks:
        tasks_by_type[_work_type(problem, task)].append(task)
    # A refit fits the best candidate, which is unknown before the search.
    probed_types = [
        work_type
        for work_type, tasks_of_type in tasks_by_type.items()
        if isinstance(tasks_of_type[0], Task)
    ] or list(tasks_by_type)
    n = max(1, PROBES // len(probed_types))
    patience = min(PATIENCE, SHARE_OF_BUDGET * budget)
    patience = max(LEAST_PATIENCE, patience / (n * len(probed_types)))
    slow = min(SLOW, max(LEAST_SLOW, SHARE_OF_BUDGET * budget))
    problem = replace(
        problem, data=replace(problem.data)
    )  # a copy: arrays that probes cache are freed with it
    rates: dict[WorkType, Rates] = {}
    for work_type in probed_types:
        rates[work_type] = dict(
            _rates(problem, tasks_by_type[work_type], n, n_threads, patience, slow, run)
        )
    network_rates = [rate for work_rates in rates.values() for rate in work_rates.values()]
    for work_type in (
        tasks_by_type.keys() - rates.keys()
    ):  # refits, whose costs have the unit of their searches
        rates[work_type] = {0: median(network_rates)}
    return rates


def _rates(
    problem: Problem,
    tasks: Sequence[Any],
    n: int,
    n_threads: int,
    patience: float,
    slow: float,
    run: Callable[..., Iterable[Any]],
) -> Iterator[tuple[int, float]]:
    """Probe ``n`` of the tasks; yield the first candidate of each and its seconds per cost."""
    first_task, n_rows = tasks[0], len(problem.data.y)
    shared = _shared(problem, first_task) if isinstance(first_task, Task) else None
    costs = {task.cost for task in tasks} if shared is None or not shared.linear_rows else ()
    # One task per group of candidates: its other splits take as long.
    distinct_tasks = {getattr(task, "members", task.name): task for task in reversed(tasks)}
    ordered = sorted(
        distinct_tasks.values(),
        key=lambda task: task.cost if len(costs) > 1 else getattr(task, "members", (0,))[0],
    )
    positions = {int((i + 0.5) * len(ordered) / n): None for i in range(n)}
    fraction = None
    if shared is not None:
        finals = [
            problem.of(first_task.stage).candidate(first_task, i).final for i in first_task.members
        ]
        fraction = shared.fraction_of_steps(finals, n_rows)
    steps = list[tuple[float, float]]()
    for task in (ordered[i] for i in positions):
        if shared is None or fraction is not None:
            if task.cost > LARGE_NETWORKS:  # a few steps of all networks would take too long
                if steps:
                    break
                task = task.part(task.splits[:1]) if isinstance(task, Task) else task
            if not steps:  # warm up: import modules and place the rows on the device
                first_step(run(problem, task, n_threads=n_threads))
            items = run(problem, task, n_threads=n_threads)
            steps.append((measure_steps(items, patience, fraction or 1.0), task.cost))
            continue
        final = problem.of(task.stage).candidate(task, task.members[0]).final
        slower, _ = shared.beyond_memory(final, np.asarray(problem.data.y), n_threads)
        measured = measure(problem, task, n_threads, patience, slow)
        yield task.members[0], slower * measured.on(n_rows, shared.linear_rows) / task.cost
    if steps:  # costs of networks have one unit, so that one rate holds for all
        yield 0, sum(seconds for seconds, _ in steps) / sum(cost for _, cost in steps)


def seconds_with_range(seconds: float) -> str:
    """A rough duration with its range: ``31 min (21 to 47 min)``."""
    unit, name = next(
        (unit, name)
        for unit, name, most in ((1, "s", 100), (60, "min", 100), (3600, "h", 72), (86400, "d", 0))
        if seconds < most * unit or not most
    )

    def rounded(seconds: float) -> str:
        number = seconds / unit
        return f"{number:.0f}" if number >= 9.5 else f"{number:.1f}"

    low, high = rounded(seconds / FORECAST_FACTOR), rounded(seconds * FORECAST_FACTOR)
    return f"{rounded(seconds)} {name} ({low} to {high} {name})"


def memory_lines(problem: Problem, tasks: Sequence[Any], workers: Workers) -> Iterator[str]:
    """Yield a line for whatever exceeds the memory of the machine; nothing if all fits."""
    y, notes = np.asarray(problem.data.y), dict[str, None]()
    for task in tasks:
        if isinstance(task, Task) and not task.drawn:
            final = problem.of(task.stage).candidates[task.members[0]].final
            notes[_shared(problem, task).beyond_memory(final, y, workers.threads)[1]] = None
    for line in filter(None, notes):
        yield f"memory     {line}"
    if workers.memory is None:
        return
    # Each process holds the rows and a scaled copy in double precision.
    size = getattr(problem.data.X, "size", 0)
    needed = (workers.n if workers.kind == "local" else 1) * (problem.data.nbytes + 8 * size)
    if needed > workers.memory:
        yield (
            f"memory     the rows of {workers.n:,} workers are {needed / 1e9:,.0f} GB, and "
            f"{workers.memory / 1e9:,.0f} GB are free here: fewer --workers or a --limit need less"
        )
