"""Tasks of a search, and splits that are told before their task is done."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from traceback import extract_stack

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pipelines.data.fits import Progress
from pipelines.data.folds import make_folds
from pipelines.data.load import load_dataset
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.run.events import ProgressEvent
from pipelines.run.outcomes import Outcome, run_measured
from pipelines.run.runners import InProcess
from pipelines.search import tasks as search_tasks
from pipelines.search.candidates import Candidate, grid_candidates
from pipelines.search.command import run_tasks
from pipelines.search.scoring import CandidateScorer
from pipelines.search.tasks import (
    SEARCH,
    Task,
    cell_key_of,
    failed_rows,
    make_tasks,
    run_task,
    task_rows,
)
from pipelines.svm.backends.path import PathBackend
from pipelines.svm.settings import Settings
from pipelines.svm_search.problem import svm_problem

from .problems import problem_of

X, y = load_wine(return_X_y=True)
y = y.astype(np.int32)


def wine(
    Cs=(1.0,),
    gammas=(0.1,),
    solver="sklearn",
    scoring="accuracy",
):
    data = FoldedData(X[::2], y[::2], X[1::2], y[1::2], (), Scaling("standardise"))
    scorer = CandidateScorer((scoring,), labels=np.array(["a", "b", "c"]))
    splits = {(SEARCH, 1.0): make_folds(y[::2], 3, 0)}
    return svm_problem(
        data, splits, grid_candidates({"C": Cs, "gamma": gammas}), solver, Settings(), scorer
    )


@pytest.fixture(scope="module")
def digits():
    data = load_dataset("digits", limit=500)
    return FoldedData.of(data, make_folds(data.y_train, 3, 0))


def grid(digits, Cs, gammas, solver):
    splits = {(SEARCH, 1.0): digits.folds}
    scorer = CandidateScorer()
    return svm_problem(
        digits, splits, grid_candidates({"C": Cs, "gamma": gammas}), solver, Settings(), scorer
    )


# The path solver shares all C and, where the scaling is the same, all splits.
@pytest.mark.parametrize(("solver", "n_tasks"), [("sklearn", 18), ("path", 2)])
def test_tasks_cover_the_grid_once(digits, solver, n_tasks):
    problem = grid(digits, (0.1, 1.0, 10.0), (1e-3, 1e-2), solver)
    tasks = make_tasks(problem)
    assert len(tasks) == n_tasks
    assert len({task.name for task in tasks}) == n_tasks
    places = [key for task in tasks for key in task.cell_keys]
    assert sorted(places) == [(SEARCH, i, split, 1.0) for i in range(6) for split in range(3)]


def test_where_the_scaling_is_learned_splits_are_tasks_of_their_own():
    assert [task.splits for task in make_tasks(wine(solver="path"))] == [(0,), (1,), (2,)]


def test_tables_are_standardised_on_the_training_rows_of_each_split():
    problem = wine()
    for task in make_tasks(problem):
        (row,) = task_rows(problem, task)
        train, validation = problem.splits[SEARCH, 1.0][row["split"]]
        pipeline = make_pipeline(StandardScaler(), SVC(C=1.0, gamma=0.1))
        pipeline.fit(problem.data.X[train], problem.data.y[train])
        predicted = pipeline.predict(problem.data.X[validation])
        assert row["n_errors"] == int(np.sum(predicted != problem.data.y[validation]))
        assert row["n_support"] == len(pipeline[-1].support_)
        assert (row["n_train"], row["n_validation"]) == (len(train), len(validation))


def test_a_failed_task_has_a_row_for_each_cell(digits):
    problem = grid(digits, (1.0, 2.0), (0.1,), "path")
    (task,) = make_tasks(problem)
    rows = failed_rows(problem, replace(task, splits=(0, 1)), "out of memory")
    assert [(row["C"], row["split"]) for row in rows] == [(1.0, 0), (2.0, 0), (1.0, 1), (2.0, 1)]
    assert {row["status"] for row in rows} == {"failed: out of memory"}
    assert all(row["error"] is row["n_errors"] is row["score"] is None for row in rows)


def test_the_score_of_a_row_is_accuracy_unless_another_is_asked_for():
    (row, *_) = (row for task in make_tasks(wine()) for row in task_rows(wine(), task))
    assert row["score"] == pytest.approx(1 - row["error"])
    other = wine(scoring="matthews_corrcoef")
    (scored,) = task_rows(other, make_tasks(other)[0])
    assert scored["error"] == row["error"]
    assert scored["score"] < row["score"]


def test_a_split_that_cannot_be_scored_is_a_failed_cell():
    subset = np.flatnonzero(y < 2)
    ones = np.flatnonzero(y[subset] == 1)[:10]
    splits = [(np.arange(40, 100), ones), (np.arange(0, 110, 2), np.arange(1, 110, 2))]
    data = FoldedData(X[subset], y[subset], X[:0], y[:0], (), Scaling("standardise"))
    scorer = CandidateScorer(("roc_auc",), labels=np.array(["a", "b"]))
    problem = svm_problem(
        data, {(SEARCH, 1.0): splits}, [{"C": 1.0, "gamma": 0.1}], "path", Settings(), scorer
    )
    failed_row, other = (row for task in make_tasks(problem) for row in task_rows(problem, task))
    assert failed_row["status"].startswith("failed: scoring roc_auc: ")
    assert failed_row["n_errors"] is failed_row["score"] is None
    assert other["status"] == "ok"
    assert other["score"] > 0.9


def test_a_task_by_split_has_every_cell_once_and_does_some_of_it_again(digits):
    (whole,) = make_tasks(grid(digits, (0.1, 1.0), (0.1,), "path"))
    parts = whole.by_split
    assert sorted(key for part in parts for key in part.cell_keys) == sorted(whole.cell_keys)
    assert whole.cost < sum(part.cost for part in parts) < 1.5 * whole.cost
    assert parts[0].by_split == [parts[0]]


def test_rows_of_any_estimator_are_told_when_a_split_is_done():
    trees = [
        Candidate("tree", {"max_depth": depth}, DecisionTreeClassifier(max_depth=depth))
        for depth in (1, 3)
    ]
    neighbors = [
        Candidate("knn", {"n_neighbors": k}, KNeighborsClassifier(n_neighbors=k)) for k in (1, 5)
    ]
    problem = problem_of([*trees, *neighbors], X, y, make_folds(y, 3, 0))
    tasks = make_tasks(problem)
    assert sorted(len(task.members) for task in tasks) == [1] * 6 + [2] * 3
    together = replace(tasks[-1], splits=(0, 1, 2))
    items = list(run_task(problem, together))
    splits = [None if isinstance(item, Progress) else item["split"] for item in items]
    # Progress follows the rows of a split, which are then ready, but for those of the last.
    assert splits[-1] == 2
    assert [split for split in splits if split is not None] == [0, 0, 1, 1, 2, 2]
    assert splits[splits.index(1) - 1] is splits[splits.index(2) - 1] is None


def test_a_fit_that_shares_nothing_tells_how_many_splits_are_done():
    tree = Candidate("tree", {}, DecisionTreeClassifier(max_depth=1))
    problem = problem_of([tree], X, y, make_folds(y, 3, 0))
    alone = replace(make_tasks(problem)[0], splits=(0, 1, 2))
    items = run_task(problem, alone)
    fractions = dict.fromkeys(item.fraction for item in items if isinstance(item, Progress))
    assert list(fractions) == pytest.approx([0, 1 / 3, 2 / 3])


TASK = Task(SEARCH, 0, (0, 1), (0, 1, 2), 1.0, "svm", "gamma=0.1 2 C", True, cost=6.0)


def rows_on(*splits):
    return [
        {"stage": SEARCH, "candidate": i, "split": split, "share": 1.0}
        for split in splits
        for i in (0, 1)
    ]


class Runner:
    """Gives what it was told of one task."""

    def __init__(self, *events):
        self.events = events

    def outcomes_and_events(self, *arguments):
        return iter(self.events)


def outcomes_of(*events):
    """Events as ``run_tasks`` gives them on, with the splits of their rows."""
    runner = Runner(*events)
    outcomes = run_tasks(runner, wine(), [TASK])
    return [(event, sorted({row["split"] for row in rows})) for event, rows in outcomes]


def test_splits_that_are_told_are_a_task_of_their_own():
    event = ProgressEvent(TASK.name, 0.6, rows_on(1), "here", 100.0, 20.0)
    again = ProgressEvent(TASK.name, 0.3, rows_on(1), "here", 110.0, 10.0)  # by another worker
    done = Outcome(TASK, rows_on(0, 1, 2), None, "here", 90.0, 60.0, 5.0)
    (first, split), (second, none), (third, two) = outcomes_of(event, again, done)
    assert (split, none, two) == ([1], [], [0, 2])
    assert (first.part, first.cost) == ("svm-gamma=0.1 2 C fold=1", 2.0)
    assert second.part == ""
    assert (third.part, third.started, third.seconds, third.compile_seconds) == (
        "svm-gamma=0.1 2 C fold=0,2",
        120.0,
        30.0,
        0.0,
    )
    assert third.task == TASK


def test_a_task_that_told_all_has_no_part_left_and_one_that_told_nothing_stays():
    done = Outcome(TASK, rows_on(0, 1, 2), None, "here", 90.0, 60.0)
    _, (outcome, none) = outcomes_of(ProgressEvent(TASK.name, 0.9, rows_on(0, 1, 2)), done)
    assert (outcome.part, none) == ("", [])
    assert outcomes_of(done) == [(done, [0, 1, 2])]


def test_a_resumed_task_has_the_splits_that_are_left():
    done = {(SEARCH, i, split, 1.0) for i in (0, 1) for split in (0, 2)} | {(SEARCH, 0, 1, 1.0)}
    remaining = TASK.without(done)
    assert remaining is not None
    assert (remaining.splits, remaining.members) == ((1,), (1,))
    assert TASK.without(done | {(SEARCH, 1, 1, 1.0)}) is None


def less_times(rows):
    return [{key: row[key] for key in row if not key.endswith("_seconds")} for row in rows]


def test_all_splits_but_the_last_are_told_and_are_the_same_rows(digits):
    problem = grid(digits, (1.0, 100.0), (1e-2,), "path")
    (task,) = make_tasks(problem)
    whole = []
    rows_told = []
    for item in run_task(problem, task):
        if isinstance(item, Progress):
            rows_told = list(whole)
            assert item.fraction > 0
        else:
            whole.append(item)
    assert {row["fold"] for row in rows_told} < {0, 1, 2}
    assert len(rows_told) == 4
    by_place = {cell_key_of(row): row for row in whole}
    assert all(by_place[cell_key_of(row)] == row for row in rows_told)
    for split in range(3):
        alone = task_rows(problem, task.part([split]))
        assert less_times(alone) == less_times([row for row in whole if row["split"] == split])
    assert np.isfinite([row["fit_seconds"] for row in whole]).all()


def test_a_row_is_made_where_the_fit_arrives(digits, monkeypatch):
    """No callback carries it: few functions of ours are on the stack."""
    row_of, stacks = search_tasks.cell_row, []

    def noted(*arguments):
        frames = [frame for frame in extract_stack() if "/pipelines/" in frame.filename]
        stacks.append([(frame.filename, frame.name) for frame in frames])
        return row_of(*arguments)

    monkeypatch.setattr(search_tasks, "cell_row", noted)
    problem = grid(digits, (1.0, 100.0), (1e-2,), "path")
    outcomes = InProcess(1).outcomes_and_events(run_task, problem, make_tasks(problem))
    rows = [row for outcome in outcomes if isinstance(outcome, Outcome) for row in outcome.result]
    assert len(stacks) == len(rows) == 6
    for stack in stacks:
        assert len(stack) <= 5  # and row_of itself
        assert len({filename for filename, _ in stack}) <= 3


def test_rows_hold_plain_numbers_whatever_a_fit_counts_in(digits, monkeypatch):
    """Dask refuses an event with one of numpy's, and every fit of a GPU's launch was lost."""
    solve = PathBackend.solve

    def solve_in_numpy(self, work):
        for fit in solve(self, work):
            if not isinstance(fit, Progress):
                fit.score_seconds = np.float64(fit.score_seconds)
                fit.n_support, fit.n_iterations = np.int64(fit.n_support), np.int32(3)
            yield fit

    monkeypatch.setattr(PathBackend, "solve", solve_in_numpy)
    problem = grid(digits, (1.0, 100.0), (1e-2,), "path")
    (task,) = make_tasks(problem)
    rows = task_rows(problem, task)
    assert [row["n_iterations"] for row in rows] == [3] * 6
    for row in rows:
        assert {type(value) for value in row.values()} <= {str, int, float, type(None)}


def test_an_error_of_who_receives_rows_is_not_taken_for_one_of_the_fit(digits, monkeypatch):
    """Else every candidate would be fitted again, by itself."""
    problem = grid(digits, (1.0, 100.0), (1e-2,), "path")
    solve, calls = PathBackend.solve, []

    def counted(self, work):
        calls.append(work)
        return solve(self, work)

    monkeypatch.setattr(PathBackend, "solve", counted)
    (task,) = make_tasks(problem)

    def full(message):
        raise OSError("the disk is full")

    monkeypatch.setattr("pipelines.run.events.SECONDS_BETWEEN", 0.0)
    with pytest.raises(OSError, match="full"):
        run_measured(run_task, problem, task, lambda: full)
    assert len(calls) == 1
    # The solver is free for the next task.
    assert len(task_rows(problem, task)) == 6
    assert len(calls) == 2


def test_a_split_that_lacks_fits_is_an_error(digits, monkeypatch):
    problem = grid(digits, (1.0, 100.0), (1e-2,), "path")
    (task,) = make_tasks(problem)
    fit_task = search_tasks.fit_task
    monkeypatch.setattr(search_tasks, "fit_task", lambda *a: islice(fit_task(*a), 3))
    with pytest.raises(RuntimeError, match=r"of 3 splits of .* lack fits"):
        task_rows(problem, task)
