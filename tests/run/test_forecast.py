"""What a smaller run says of a larger one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from pipelines.run import forecast
from pipelines.run.chunking import CostModel, task_queue
from pipelines.run.schedule import makespan
from pipelines.run_folder.reading import FinishedTask as Done


@dataclass(frozen=True)
class Task:
    name: str
    cost: float
    needs: tuple[str, ...] = ()


def done(*pairs: tuple[float, float]) -> list[Done]:
    return [Done(str(i), "", 0.0, seconds, cost=cost) for i, (cost, seconds) in enumerate(pairs)]


def test_the_pace_is_that_of_the_tasks_done():
    tasks = [*done((1, 2.0), (3, 6.0)), Done("compiles", "", 0, 9.0, compile_seconds=1, cost=4.0)]
    cost_model = CostModel.of([*tasks, Done("of an older run", "", 0, 5.0)])
    assert cost_model is not None
    assert cost_model.rate == 2
    drawn = cost_model.draw(np.array([10.0, 20.0]), np.random.default_rng(0))
    assert drawn.tolist() == [20, 40]
    assert CostModel.of([Done("of an older run", "", 0, 5.0)]) is None


def test_a_draw_is_off_as_tasks_of_that_cost_were():
    cheap, dear = [(1, 0.5)] * 30, [(100, 200)] * 30
    cost_model = CostModel.of(done(*cheap, *dear))
    assert cost_model is not None
    drawn = cost_model.draw(np.repeat([1.0, 100.0], 500), np.random.default_rng(0))
    assert drawn[:500].mean() == pytest.approx(0.5)
    assert drawn[500:].mean() == pytest.approx(200, rel=0.2)


def test_tasks_are_handed_out_by_cost_and_refits_before_what_waits():
    tasks = [Task("a", 1), Task("b", 4), Task("refit", 2, ("b",)), Task("c", 3), Task("d", 2)]
    queue = task_queue(tasks, np.array([1, 4, 2, 3, 2.0]))
    assert queue.seconds.tolist() == [4, 3, 2, 2, 1]
    assert makespan(queue, 1) == 12
    assert makespan(queue, 2) == 6


def test_as_many_workers_as_stay_at_work():
    cost_model = CostModel.of(done(*[(1, 60.0)] * 5))
    assert cost_model is not None
    pilot = forecast.PilotRun(cost_model, 30.0)
    tasks = [Task(str(i), 1.0) for i in range(100)]
    best = forecast.most_workers(pilot, lambda n: tasks, 0.9)
    # 100 tasks on 50 are two rounds, on 51 to 99 too; on 100 one.
    assert (best.n_workers, best.seconds, best.efficiency) == (100, 60, 1)
    assert forecast.most_workers(pilot, lambda n: tasks, 0.9, most=99).n_workers == 55
    few = forecast.estimate_run(pilot, lambda n: tasks, 10)
    assert (few.seconds, few.work_seconds, few.walltime) == (600, 6000, "0:20:00")
    said = "\n".join(forecast.lines(few, 0.9))
    assert "10 workers would be busy 100% of the time (target 90%)" in said
    assert "10:30 min in total, at worst" in said
