"""Feeds a runner the tasks of searches as their strategies ask for them.

A ``TaskFeed`` stands between strategies, which know candidates by number, and the runner, which
knows tasks: it turns requests into tasks, leaves out what is done, and tells strategies the rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from pipelines.run.chunking import split_for_workers
from pipelines.run.events import ProgressEvent
from pipelines.run.outcomes import Outcome
from pipelines.search.budget import Budget
from pipelines.search.candidates import Candidate
from pipelines.search.fitting import CandidateGroup, learns_apart
from pipelines.search.shared.base import PlainFits
from pipelines.search.strategies.base import Cell, Request, Scope, Stop, Strategy
from pipelines.search.tasks import CellKey, Problem, Row, Task, cell_key_of, make_tasks


@dataclass(eq=False)
class StrategySearch:
    """A search with the strategy that decides what is tried.

    Attributes
    ----------
    stage : str
        Name of the stage, such as "search".
    strategy : Strategy
    first_split : int, default 0
        Number of its first split among the splits of the stage.
    """

    stage: str
    strategy: Strategy
    first_split: int = 0

    def request(self, request: Request) -> Request:
        """A request of the strategy, with the split numbers of the stage."""
        splits = tuple(self.first_split + split for split in request.splits)
        return replace(request, splits=splits)

    def cell_key(self, cell: Cell) -> CellKey:
        """The key that identifies one of the strategy's cells among all rows of the run."""
        candidate, split, fraction = cell
        return self.stage, candidate, self.first_split + split, fraction

    @property
    def is_unfinished(self) -> bool:
        """Whether a cell that the strategy asked for has no row yet."""
        return bool(self.strategy.requested_cells.keys() - self.strategy.rows.keys())

    def tell(self, rows: Iterable[Row]) -> None:
        """Tell the strategy the rows that belong to its search."""
        first, n = self.first_split, self.strategy.scope.n_splits
        self.strategy.tell(
            row | {"split": row["split"] - first}
            for row in rows
            if row["stage"] == self.stage and first <= row["split"] < first + n
        )


@dataclass(eq=False)
class TaskFeed:
    """Hands out the tasks of several searches; a runner asks it for more while it runs.

    Attributes
    ----------
    problem : Problem
        Includes the candidates that were drawn after it was scattered to the workers.
    searches : sequence of StrategySearch
    n_workers : int
    done : dict of CellKey to row
        Rows that have arrived.
    budget : Budget, optional
        Time budget of the run; None for no limit.
    """

    problem: Problem
    searches: Sequence[StrategySearch]
    n_workers: int
    done: dict[CellKey, Row]
    budget: Budget | None = None
    _handed_keys: set[CellKey] = field(default_factory=set, init=False)
    _queue: list[Task] = field(default_factory=list, init=False)
    _begun_tasks: dict[str, Task] = field(default_factory=dict, init=False)
    _open_searches: set[int] = field(default_factory=set, init=False)  # searches that wait for rows

    def __post_init__(self) -> None:
        self._scattered_problem = self.problem
        self._tell_strategies(self.done.values())

    def __call__(self, n_left: int) -> list[Task]:
        """The next tasks to run, while ``n_left`` earlier ones are unfinished."""
        numbers = range(len(self.searches))
        requested_tasks = list(
            alternating([list(self._requested_tasks(number)) for number in numbers])
        )
        if self.budget is not None:  # tasks are begun in the order of the requests
            by_algorithm: dict[str, list[Task]] = {}
            for task in requested_tasks:
                by_algorithm.setdefault(task.label, []).append(task)
            self._queue += alternating(list(by_algorithm.values()))
            tasks = list(self.budget.chosen(self._queue, n_left, self.n_workers))
        else:
            tasks = cut_for_workers(self.problem, requested_tasks, self.n_workers)
            tasks.sort(key=lambda task: -task.cost)
            for search in self.searches:
                if (idle := self.n_workers - n_left - len(tasks)) > 0:
                    tasks += self._hand_out(search, search.strategy.ahead(), idle)
        self._begun_tasks.update((task.name, task) for task in tasks)
        return tasks

    def add(self, stage: str, candidate: Candidate, group: CandidateGroup) -> int:
        """Add a candidate that was drawn during the search; returns its number."""
        part = self.problem.of(stage)
        index = len(part.candidates)
        new_problem = part.with_drawn([candidate], [replace(group, members=(index,))])
        if stage in self.problem.parts:
            new_problem = replace(self.problem, parts={**self.problem.parts, stage: new_problem})
        self.problem = new_problem
        # On resume a fit that failed before may succeed, and then other candidates are drawn: rows
        # that an earlier session left under this number belong to another candidate.
        for key, row in list(self.done.items()):
            if key[:2] == (stage, index) and row["params"] != candidate.text:
                del self.done[key]
                for search in self.searches:
                    if search.stage == stage:
                        search.strategy.rows.pop(key[1:], None)
        return index

    def tell(self, rows: Iterable[Row], event: Outcome[Any] | ProgressEvent | None = None) -> None:
        """Record new rows, and tell the budget and the strategies.

        Parameters
        ----------
        rows : iterable of row
        event : Outcome or ProgressEvent, optional
            The event that brought the rows, with the time that they took.
        """
        rows = list(rows)
        if event is not None:
            name = event.task if isinstance(event, ProgressEvent) else event.task.name
            task = self._begun_tasks.get(name)
            if self.budget is not None and task is not None:
                self.budget.tell(task, event.seconds - event.compile_seconds, rows)
            if isinstance(event, Outcome):
                self._begun_tasks.pop(name, None)
        self.done.update((cell_key_of(row), row) for row in rows)
        self._tell_strategies(rows)

    @property
    def rows(self) -> dict[CellKey, Row]:
        """The rows so far of all cells that the strategies asked for."""
        keys = (
            search.cell_key(cell)
            for search in self.searches
            for cell in search.strategy.requested_cells
        )
        return {key: self.done[key] for key in keys if key in self.done}

    @property
    def waiting(self) -> Sequence[Task]:
        """Tasks that were asked for and not begun yet."""
        return self._queue

    @property
    def is_open(self) -> bool:
        """Whether a strategy may ask for more once further rows arrive."""
        return bool(self._open_searches)

    @property
    def seconds_left(self) -> float:
        """Seconds until the last task has to end; infinite without a budget."""
        return math.inf if self.budget is None else self.budget.seconds_left

    @property
    def n_untried(self) -> int:
        """Number of cells that strategies asked for and that have no row."""
        return sum(
            search.cell_key(cell) not in self.done
            for search in self.searches
            for cell in search.strategy.requested_cells
        )

    def stopped(self, stage: str) -> dict[int, Stop]:
        """When candidates of a stage were given up, by candidate number."""
        strategies = (search.strategy for search in self.searches if search.stage == stage)
        return {
            candidate: stop
            for strategy in strategies
            for candidate, stop in strategy.stopped.items()
        }

    def _tell_strategies(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        for search in self.searches:
            search.tell(rows)

    def _requested_tasks(self, number: int) -> Iterator[Task]:
        """Yield the tasks that a search's strategy asks for, until it has to wait for rows."""
        search = self.searches[number]
        while requests := search.strategy.ask():
            yield from self._hand_out(search, requests)
        self._open_searches.discard(number)
        if search.strategy.decides and requests is not None:
            self._open_searches.add(number)

    def _hand_out(
        self, search: StrategySearch, requests: Sequence[Request], max_tasks: int | None = None
    ) -> list[Task]:
        """The tasks of requests, at most ``max_tasks``, without cells done or handed out before."""
        stage_requests = [search.request(request) for request in requests]
        tasks = make_tasks(
            self.problem,
            search.stage,
            stage_requests,
            n_workers=self.n_workers,
            n_scattered=len(self._scattered_problem.of(search.stage).candidates),
        )
        known_keys = self.done.keys() | self._handed_keys
        tasks = [
            remaining for task in tasks if (remaining := task.without(known_keys)) is not None
        ][:max_tasks]
        self._handed_keys.update(key for task in tasks for key in task.cell_keys)
        return tasks


def alternating(lists: Sequence[Sequence[Task]]) -> Iterator[Task]:
    """Take tasks from several lists in turn: the first of each, then the second, and so on."""
    for tasks in zip_longest(*lists):
        yield from (task for task in tasks if task is not None)


def cut_for_workers(problem: Problem, tasks: Sequence[Task], n_workers: int) -> list[Task]:
    """Cut the longest tasks into single splits where workers would otherwise idle at the end."""
    groups = (task.drawn_group or problem.of(task.stage).groups[task.group] for task in tasks)
    if any(group.shared and group.shared.one_launch for group in groups):
        return list(tasks)  # what one launch on a GPU saves over several is unknown
    return split_for_workers(tasks, n_workers, lambda task: task.by_split)


def scope_of(
    problem: Problem,
    stage: str,
    n_splits: int,
    seed: int,
    candidates: Collection[int] | None = None,
) -> Scope:
    """The ``Scope`` of a search, which is all that a strategy knows about it.

    Parameters
    ----------
    problem : Problem
    stage : str
    n_splits : int
        Splits of the search, perhaps some of those of the stage.
    seed : int
        Seed of the run.
    candidates : collection of int, optional
        Numbers of the candidates to search; by default all.

    Returns
    -------
    Scope
    """
    problem = problem.of(stage)
    candidate_set = range(len(problem.candidates)) if candidates is None else set(candidates)
    X, candidate_groups, groups = problem.data.X, list[list[int]](), dict[int, int]()
    shape = X.shape if hasattr(X, "shape") else (len(X), 1)
    for number, group in enumerate(problem.groups):
        shared_fit, members = (
            group.shared or PlainFits(),
            [i for i in group.members if i in candidate_set],
        )
        if not members:
            continue
        finals = [problem.candidates[i].final for i in members]
        # For as many workers as candidates: the smallest tasks that repeat no shared work.
        parts = shared_fit.partition(finals, len(finals))
        candidate_groups += [[members[i] for i in part] for part in parts]
        groups.update(dict.fromkeys(members, number))

    def cost(members: Sequence[int], n: int, fraction: float) -> float:
        shared_fit = problem.groups[groups[members[0]]].shared or PlainFits()
        finals = [problem.candidates[i].final for i in members]
        return n * shared_fit.cost(finals, round(fraction * shape[0]), shape[-1])

    return Scope(
        groups=candidate_groups,
        n_splits=n_splits,
        n_rows=shape[0],
        seed=seed,
        parameters=[candidate.parameters for candidate in problem.candidates],
        cost=cost,
        splits_share=any(
            group.shared is not None
            and group.shared.splits_together
            and not learns_apart(group, problem.data)
            for group in (problem.groups[number] for number in set(groups.values()))
        ),
    )
