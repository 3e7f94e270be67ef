"""What a search will take, before its first task."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pipelines import nn_bagging, svm_grid
from pipelines.data.fits import Progress
from pipelines.data.folds import make_folds
from pipelines.run.cluster import Workers
from pipelines.search import forecast as of_forecast
from pipelines.search import probes
from pipelines.search.candidates import Candidate
from pipelines.search.forecast import Pace, forecast, seconds_with_range
from pipelines.search.probes import Measurement, measure, measure_steps, with_rows
from pipelines.search.shared.svm import SVCs, SVMParameters, SVRs
from pipelines.search.tasks import SEARCH, make_tasks
from pipelines.svm.settings import Settings

from .problems import problem_of

X, y = load_wine(return_X_y=True)
y = y.astype(np.int32)
HERE = Workers("local", 1, 1, "cpu")


def wine():
    estimators = {"knn": KNeighborsClassifier(), "tree": DecisionTreeClassifier(random_state=0)}
    candidates = [Candidate(name, {}, estimator) for name, estimator in estimators.items()]
    return problem_of(candidates, X, y, make_folds(y, 3, 0))


def tasks_of(problem):
    """The first tasks of both algorithms."""
    tasks = make_tasks(problem)
    return tasks[0], next(task for task in tasks if task.label == "tree")


def test_nothing_is_predicted_of_a_kind_of_which_nothing_is_known():
    problem = wine()
    knn, tree = tasks_of(problem)
    pace = Pace(problem)
    pace.tell(knn, 3.0)
    assert pace.seconds(knn) == pytest.approx(3.0)
    assert math.isnan(pace.seconds(tree))


def test_one_odd_task_changes_nothing():
    problem = wine()
    knn, _ = tasks_of(problem)
    pace = Pace(problem)
    for seconds in (2.0, 2.0, 500.0, 2.0, 0.0):
        pace.tell(knn, seconds)
    assert pace.seconds(knn) == pytest.approx(2.0)


def test_probes_are_interpolated_and_corrected_by_what_tasks_took():
    problem = wine()
    knn, tree = tasks_of(problem)
    kinds = {name: Pace(problem).work_type(task) for name, task in (("knn", knn), ("tree", tree))}
    pace = Pace(problem, {kinds["knn"]: {0: 4.0, 2: 1.0}, kinds["tree"]: {0: 10.0}})
    assert pace.seconds(knn) == pytest.approx(4.0 * knn.cost)
    between = SimpleNamespace(**vars(knn) | {"members": (1,)})
    assert pace._uncorrected(kinds["knn"], between) == pytest.approx(2.0 * knn.cost)
    pace.tell(knn, 8.0 * knn.cost)  # the machine is half as fast as the probes found it
    assert pace.seconds(knn) == pytest.approx(8.0 * knn.cost)
    assert pace.seconds(tree) == pytest.approx(20.0 * tree.cost)


@pytest.mark.parametrize(
    ("seconds", "within"),
    [
        (lambda n: 3e-8 * n**2, 1.001),
        (lambda n: 1e-4 * n, 1.001),
        (lambda n: 0.5 + 1e-4 * n, 1.6),
        (lambda n: 1e-4 * n + 3e-8 * n**2, 1.6),
        (lambda n: 1e-5 * n * math.log(n), 1.5),
        (lambda n: 1e-7 * n**1.7, 1.3),
    ],
)
def test_usual_growth_is_extrapolated_tenfold(seconds, within):
    sizes = (1_000, 2_000)
    measured = Measurement(sizes, tuple(map(seconds, sizes)), seconds(2_000))
    factor = measured.on(20_000) / seconds(20_000)
    assert 1 / within < factor < within


def test_seconds_of_the_clock_are_those_of_the_processor_stretched():
    assert Measurement((10, 20), (1.0, 4.0), wall=8.0).on(40) == pytest.approx(2 * 16.0)
    # All rows were measured: nothing is extrapolated.
    assert Measurement((10, 20), (1.0, 3.0), wall=3.0).on(20) == pytest.approx(3.0)


def test_a_growth_that_is_known_counts_more_than_what_few_rows_show():
    def grid(n):
        return 3.3e-8 * n * (n + 1800)

    measured = Measurement((1_000, 2_000), (grid(1_000), grid(2_000)), grid(2_000))
    assert measured.on(60_000, linear_rows=1800) == pytest.approx(grid(60_000))
    flat = Measurement((1_000, 2_000), (0.1, 0.12), 0.12)
    assert flat.on(60_000, linear_rows=1800) > 5 * flat.on(60_000)


def test_probes_grow_as_long_as_the_patience_lasts(monkeypatch):
    problem, ran = wine(), list[int]()
    task = make_tasks(problem)[0]

    def run_on(problem, task, n_rows, n_threads):
        ran.append(n_rows)
        return 1e-4 * n_rows**2, 2e-4 * n_rows**2

    monkeypatch.setattr(probes, "run_on", run_on)
    monkeypatch.setattr(probes, "FEWEST_ROWS", 10)
    monkeypatch.setattr(probes, "ROWS_OF_A_CLASS", 4)
    measured = measure(problem, task, n_threads=1, patience=1.0)
    assert ran[:2] == [12, 12]  # once to compile
    assert measured.rows == tuple(ran[1:])
    assert len(measured.rows) >= 2
    assert 2e-4 * sum(n**2 for n in measured.rows) <= 1.1
    assert measured.stretch == pytest.approx(2.0)
    assert measure(problem, task, n_threads=1, patience=1e6).rows[-1] == len(y)
    assert measure(problem, task, n_threads=1, patience=0.0).rows == (12, 36)
    ran.clear()
    monkeypatch.setattr(probes, "FEWEST_ROWS", 150)
    # Of 4.5 s on the clock.
    assert measure(problem, task, n_threads=1, patience=1.0, slow=2.0).rows == (150,)
    assert ran == [150]


def test_first_steps_tell_the_time_of_all():
    now = [0.0]

    def items(seconds):
        now[0] += 3.0  # what comes before the steps
        for step in range(100):
            yield Progress(step / 100)
            now[0] += seconds

    def clock():
        return now[0]

    assert measure_steps(items(2.0), 5.0, 1.0, clock) == pytest.approx(203.0)
    assert now[0] < 20.0  # the rest was left
    now[0] = 0.0
    assert measure_steps(items(2.0), 5.0, 0.3, clock) == pytest.approx(63.0)
    now[0] = 0.0
    assert measure_steps(items(0.01), 5.0, 0.3, clock) == pytest.approx(4.0)  # it ended before


def test_few_rows_keep_classes_and_splits():
    problem = wine()
    few = with_rows(problem, SEARCH, 1.0, 60)
    assert len(few.data.X) == 60
    assert np.abs(np.bincount(few.data.y) - np.bincount(y) * 60 / len(y)).max() <= 1
    rows = np.concatenate([test for _, test in few.splits[SEARCH, 1.0]])
    assert sorted(rows) == list(range(60))
    for train, test in few.splits[SEARCH, 1.0]:
        assert not set(train) & set(test)
    assert with_rows(problem, SEARCH, 1.0, 1000) is problem


def test_a_long_run_is_forecast_and_a_short_one_not(monkeypatch):
    problem = wine()
    tasks = make_tasks(problem)
    assert not forecast(problem, tasks, HERE).lines
    monkeypatch.setattr(of_forecast, "SHORT", 0.0)
    kinds = {Pace(problem).work_type(task): {0: 600.0 / task.cost} for task in tasks}
    monkeypatch.setattr(of_forecast, "probe", lambda *_: kinds)
    assert forecast(problem, tasks, HERE).lines == [
        "forecast   6 fits, about 60 min (40 to 90 min) on 1 thread"
    ]
    two = Workers("local", 2, 1, "cpu")
    assert forecast(problem, tasks, two, at_most=True).lines == [
        "forecast   at most 6 fits, about 30 min (20 to 45 min) on 2 workers"
    ]
    (line,), rates = forecast(problem, tasks, HERE, budget=600.0)
    assert rates is kinds
    assert line.endswith(" on 1 thread; --time-budget ends them after 10:00 min")
    kinds.update({kind: {0: 1.0} for kind in kinds})
    assert not forecast(problem, tasks, HERE).lines


@pytest.mark.parametrize(
    ("workers", "why"),
    [
        (Workers("slurm", 4, 1, "cpu"), "the workers of slurm are other machines"),
        (Workers("cuda", 1, 1, "gpu"), "they run on a GPU"),
    ],
)
def test_what_cannot_be_known_is_said(workers, why, monkeypatch):
    monkeypatch.setattr(of_forecast, "SHORT", 0.0)
    problem = wine()
    (line,), rates = forecast(problem, make_tasks(problem), workers)
    assert line.startswith("forecast   6 fits; how long they take cannot be told before: ")
    assert why in line
    assert not rates


def test_a_probe_that_fails_stops_no_run(monkeypatch):
    monkeypatch.setattr(of_forecast, "SHORT", 0.0)
    problem = wine()

    def fail(*_):
        raise ValueError("no such neighbour")

    monkeypatch.setattr(of_forecast, "probe", fail)
    (line,), _ = forecast(problem, make_tasks(problem), HERE)
    assert line.endswith("a probe failed: ValueError: no such neighbour")


def test_real_probes_give_a_forecast(monkeypatch):
    for name in ("SHORT", "WORTH_A_FORECAST", "PATIENCE", "LEAST_PATIENCE"):
        monkeypatch.setattr(of_forecast, name, 0.0)
    problem = wine()
    (line,), _ = forecast(problem, make_tasks(problem), HERE)
    assert line.startswith("forecast   6 fits, about ")
    assert line.endswith(" s) on 1 thread")
    assert len(problem.data.placement) == 0  # nothing of the probes is left


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (70.0, "70 s (47 to 105 s)"),
        (31 * 60.0, "31 min (21 to 46 min)"),
        (9 * 3600.0, "9.0 h (6.0 to 14 h)"),
        (30 * 86400.0, "30 d (20 to 45 d)"),
    ],
)
def test_times_are_as_rough_as_they_are_known(seconds, words):
    assert seconds_with_range(seconds) == words


def test_a_kernel_beyond_the_memory_is_said():
    def candidate(decision="ovo", gib=4):
        return SVMParameters(1.0, 0.1, Settings(decision=decision, memory_bytes=int(gib * 2**30)))

    def of(n_rows):
        return np.arange(n_rows) % 10

    assert SVCs().beyond_memory(candidate(), of(10_000), 2) == (1.0, "")
    slower, words = SVCs().beyond_memory(candidate(), of(48_000), 2)
    assert slower == 1.0
    assert words.startswith("the kernel of 48,000 rows is 9 GB, --memory is 4 GiB")
    assert words.endswith(
        "pair; with --memory 7, where there is as much, the half that pairs need is kept"
    )
    assert SVCs().beyond_memory(candidate(gib=7), of(48_000), 2) == (1.0, "")
    assert SVCs().beyond_memory(candidate("ovr", 7), of(48_000), 2)[0] == 7.0
    _, words = SVCs().beyond_memory(SVC(), of(48_000), 2)
    assert "the solver holds at most 4 GiB" in words
    assert "--memory" not in words
    slower, words = SVCs().beyond_memory(candidate("ovr"), of(240_000), 2)
    assert slower == 7.0
    assert words.startswith("the kernel of 240,000 rows is 230 GB, --memory is 4 GiB")
    assert "--limit, --strategy race and --time-budget" in words
    assert SVRs().beyond_memory(candidate(), of(48_000), 2)[0] == 7.0
    assert SVCs("cuml", "gpu").beyond_memory(candidate(), of(240_000), 2) == (1.0, "")


def test_rows_beyond_the_memory_of_all_workers_are_said(monkeypatch):
    monkeypatch.setattr(Workers, "memory", 40_000)
    problem = wine()
    assert (
        of_forecast.memory_lines(problem, [], Workers("local", 4, 1, "cpu"))
        .__next__()
        .endswith("fewer --workers or a --limit need less")
    )
    assert list(of_forecast.memory_lines(problem, [], HERE)) == []


@pytest.mark.parametrize("command", [svm_grid, nn_bagging])
def test_small_dry_runs_are_not_probed(command, monkeypatch, capsys):
    def fail(*_):
        raise AssertionError("a small run was probed")

    monkeypatch.setattr(of_forecast, "probe", fail)
    options = ["--n-bootstrap", "1", "--n-tuning", "1"] if command is nn_bagging else []
    assert command.main([*options, "--dry-run"]) == 0
    assert "forecast" not in capsys.readouterr().out
