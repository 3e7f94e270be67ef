"""Tasks of what strategies ask for: once each, without what is done, and in time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.tree import DecisionTreeClassifier

from pipelines.data.folds import make_folds
from pipelines.run.outcomes import Outcome
from pipelines.run.runners import InProcess
from pipelines.search import budget as budgets
from pipelines.search.budget import Budget
from pipelines.search.candidates import Candidate
from pipelines.search.command import run_tasks
from pipelines.search.fitting import CandidateGroup
from pipelines.search.forecast import Pace
from pipelines.search.splits import SplitsOfStages
from pipelines.search.strategies.base import Request, RoundStrategy
from pipelines.search.strategies.grid import Grid
from pipelines.search.strategies.race import Race
from pipelines.search.task_feed import StrategySearch, TaskFeed, scope_of
from pipelines.search.tasks import (
    INNER,
    SEARCH,
    Task,
    cell_key_of,
    make_tasks,
    rows_of_fraction,
    task_rows,
)

from .problems import problem_of

X, y = load_wine(return_X_y=True)
y = y.astype(np.int32)
TIMES = ("fit_seconds", "score_seconds", "worker")


def tree(depth):
    parameters = {"max_depth": depth}
    return Candidate("tree", parameters, DecisionTreeClassifier(**parameters, random_state=0))


def problem(n_candidates=6, n_splits=5):
    trees = [tree(depth + 1) for depth in range(n_candidates)]
    return problem_of(trees, X, y, make_folds(y, n_splits, 0))


def feed_of(
    problem,
    kind,
    n_workers=1,
    done=(),
    budget=None,
):
    n_splits = len(problem.splits[SEARCH, 1.0])
    search = StrategySearch(SEARCH, kind(scope_of(problem, SEARCH, n_splits, 0)))
    return TaskFeed(problem, [search], n_workers, {cell_key_of(row): row for row in done}, budget)


def run(feed, n_threads=1):
    """Run all that a feed gives; the tasks, in the order in which they ended."""
    ended, scattered = list[Task](), feed.problem
    for event, rows in run_tasks(InProcess(n_threads), scattered, [], further_tasks=feed):
        if rows:
            feed.tell(rows, event)
        if isinstance(event, Outcome):
            assert event.error is None
            ended.append(event.task)
    return ended


def without_times(feed):
    rows = feed.rows.items()
    return {key: {n: v for n, v in row.items() if n not in TIMES} for key, row in rows}


def test_each_cell_is_a_task_once():
    ended = run(feed := feed_of(problem(), Grid))
    assert len(ended) == len({task.name for task in ended}) == 30
    assert len(feed.rows) == 30


def test_what_is_done_is_no_task():
    whole = run(feed_of(problem(), Grid))
    done = [row for task in whole[:7] for row in task_rows(problem(), task)]
    feed = feed_of(problem(), Grid, done=done)
    assert len(run(feed)) == 23
    assert len(feed.rows) == 30


@pytest.mark.parametrize("n_threads", [2, 4])
def test_a_race_has_the_same_rows_on_any_number_of_workers(n_threads):
    run(alone := feed_of(problem(20, 10), Race))
    run(several := feed_of(problem(20, 10), Race, n_threads), n_threads)
    assert without_times(several) == without_times(alone)
    assert len(alone.rows) < 200


def test_a_feed_is_open_while_a_strategy_waits_for_rows():
    grid, race = feed_of(problem(), Grid), feed_of(problem(), Race)
    for feed in (grid, race):
        feed(0)
    assert (grid.is_open, race.is_open) == (False, True)
    run(whole := feed_of(problem(), Race))
    assert not whole.is_open


def test_a_race_that_is_resumed_has_the_same_rows():
    run(whole := feed_of(problem(20, 10), Race))
    done = list(whole.done.values())[::3]
    run(resumed := feed_of(problem(20, 10), Race, done=done))
    assert without_times(resumed) == without_times(whole)


class Drawing(RoundStrategy):
    """Draws a candidate after the first ones are there."""

    def rounds(self):
        yield [Request((0,), (0, 1, 2, 3, 4))]
        yield [Request((6,), (0, 1))]


def test_candidates_that_are_drawn_meanwhile_travel_with_their_task():
    feed = feed_of(problem(), Drawing)
    first = feed(0)
    feed.problem = feed.problem.with_drawn([tree(9)], [CandidateGroup((6,))])
    for task in first:
        feed.tell(task_rows(problem(), task))
    drawn = feed(0)
    assert [task.drawn[6].text for task in drawn] == ['{"max_depth": 9}'] * 2
    assert not any(task.drawn for task in first)
    rows = [
        row for task in drawn for row in task_rows(problem(), task)
    ]  # which lacks the candidate
    assert [row["params"] for row in rows] == ['{"max_depth": 9}'] * 2
    assert all(row["status"] == "ok" for row in rows)


def test_searches_within_outer_folds_have_splits_of_their_own():
    whole = problem(3, 4)
    inner = replace(whole, splits={(INNER, 1.0): whole.splits[SEARCH, 1.0]})
    scopes = [scope_of(inner, INNER, 2, 0) for _ in range(2)]
    feed = TaskFeed(
        inner, [StrategySearch(INNER, Grid(scope), 2 * i) for i, scope in enumerate(scopes)], 1, {}
    )
    run(feed)
    assert sorted(key[2] for key in feed.rows) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert {cell[1] for cell in feed.searches[1].strategy.rows} == {0, 1}


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_splits_of_a_share_are_those_of_all_rows_without_others(task):
    whole = make_folds(y, 5, 0)
    splits = SplitsOfStages({(SEARCH, 1.0): whole}, y, task, 0)
    half, tenth = splits[SEARCH, 0.5], splits[SEARCH, 0.1]
    for (train, test), (fewer, fewer_test), (least, _) in zip(whole, half, tenth, strict=True):
        assert set(fewer) < set(train)
        assert set(fewer_test) < set(test)
        assert set(least) < set(fewer)
        assert len(fewer) == pytest.approx(len(train) / 2, abs=8)
    assert (
        half[0][0].tolist()
        == SplitsOfStages({(SEARCH, 1.0): whole}, y, task, 0)[SEARCH, 0.5][0][0].tolist()
    )
    with pytest.raises(KeyError):
        splits["curve", 0.5]


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    time = monotonic


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(budgets, "time", clock)
    return clock


def work(feed, clock, seconds, n_workers=1):
    """Run a feed whose splits take so long, by the clock; the tasks, and when the last ended."""
    began, n = clock.now, 0
    while tasks := feed(0):
        n += len(tasks)
        assert len(tasks) <= 2 * n_workers
        for task in tasks:
            clock.now += seconds * len(task.splits) / n_workers
            event = Outcome(task, seconds=seconds * len(task.splits))
            feed.tell(task_rows(feed.problem, task), event)
    return n, clock.now - began


@pytest.mark.parametrize("seconds", [0.5, 3.0, 10.0])
def test_no_task_is_begun_that_would_not_end_in_time(clock, seconds):
    budget = Budget(60.0, clock.now, Pace(problem(20)))
    n, elapsed = work(feed := feed_of(problem(20), Grid, budget=budget), clock, seconds)
    assert elapsed <= 60 - budgets.REFIT * seconds
    assert n == min(100, math.floor((60 - budgets.REFIT * seconds) / seconds))
    assert feed.n_untried == 100 - n
    assert budget.held_back == (n < 100)


def test_a_task_that_probes_say_is_too_long_is_not_begun(clock):
    search = problem()
    tasks = make_tasks(search)
    kind = Pace(search).work_type(tasks[0])
    pace = Pace(search, {kind: {0: 100.0 / tasks[0].cost}})
    feed = feed_of(search, Grid, n_workers=2, budget=Budget(60.0, clock.now, pace))
    assert len(feed(0)) == 1  # for there is an answer then
    assert feed.budget.held_back


@pytest.mark.parametrize(("seconds", "n_begun"), [(8.0, 1), (45.0, 0)])
def test_only_a_short_task_may_have_been_warming_up(clock, seconds, n_begun):
    search = problem()
    feed = feed_of(search, Grid, budget=Budget(60.0, clock.now, Pace(search)))
    (task,) = feed(0)
    clock.now += 56
    event = Outcome(task, seconds=seconds)
    feed.tell(task_rows(search, task), event)
    assert len(feed(0)) == n_begun  # there are 4 s left


def test_time_that_suffices_leaves_nothing_out(clock):
    budget = Budget(1000.0, clock.now, Pace(problem()))
    assert work(feed := feed_of(problem(), Grid, budget=budget), clock, 5.0)[0] == 30
    assert not feed.n_untried
    assert not budget.held_back


def test_a_task_that_takes_longer_gives_up(clock):
    budget = Budget(60.0, clock.now, Pace(problem()))
    (task, *_) = feed_of(problem(), Grid, budget=budget)(0)
    assert task.until == clock.now + 60 + 10
    rows = task_rows(problem(), replace(task, until=0.0, splits=(0, 1)))
    assert [row["split"] for row in rows] == [0]


def test_a_share_of_the_rows_is_a_data_set_of_its_own():
    whole = problem()
    splits = SplitsOfStages(dict(whole.splits), y, "classification", 0)
    shared = replace(whole, splits=splits)
    (task, *_) = make_tasks(shared, requests=[Request((0,), (1,), 0.4)])
    data, own_splits = rows_of_fraction(shared, task)
    assert len(data.y) == len(np.unique(np.concatenate(splits[SEARCH, 0.4][1])))
    for rows, numbers in zip(splits[SEARCH, 0.4][1], own_splits[1], strict=True):
        assert np.array_equal(data.X[numbers], X[rows])
        assert np.array_equal(data.y[numbers], y[rows])
    (task, *_) = make_tasks(shared)
    assert rows_of_fraction(shared, task)[0] is shared.data
