"""Replays against makespans computed by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pipelines.run.schedule import Queue, WorkerLifetimes, course, makespan


def lifetimes(speed, begins=None, lasts=None, away=math.inf) -> WorkerLifetimes:
    n = len(speed)
    return WorkerLifetimes(
        np.array(speed, float), np.array(begins or [0.0] * n, float),
        np.array(lasts or [math.inf] * n, float), away,
    )  # fmt: skip


def queue(*seconds: float, needs=None, per_task: float = 0.0) -> Queue:
    return Queue(np.array(seconds, float), needs or {}, per_task)


@pytest.mark.parametrize(
    ("tasks", "workers", "end"),
    [
        # Graham's example: 3 workers, longest first; 5 + 3 + 3, one more than 9, the best.
        (queue(5, 5, 4, 4, 3, 3, 3), WorkerLifetimes.equal(3), 11),
        (queue(1, 1, 1, 1), WorkerLifetimes.equal(9), 1),
        # 0 to 4 on the fast one, which then does the third task; the slow one needs 8 for its own.
        (queue(8, 4, 4), lifetimes([2, 0.5]), 8),
        # The second comes at 3, when the first is at its second task.
        (queue(2, 2, 2), lifetimes([1, 1], begins=[0, 3]), 5),
        # The first dies at 3 with the third task, which the second does again from 4 to 6.
        (queue(2, 4, 2), lifetimes([1, 1], lasts=[3, math.inf]), 6),
        # A walltime of 3 is lost with the second task at 3; the next worker comes at 4.
        (queue(2, 2), lifetimes([1], lasts=[3], away=1), 6),
        (queue(2, 4), lifetimes([1], lasts=[3], away=1), math.inf),
        (queue(1, 1), lifetimes([1], lasts=[1.5]), math.inf),
        # A refit goes before what waits, as soon as its two are done.
        (queue(1, 2, 3, 3, 1, needs={4: (0, 1)}), WorkerLifetimes.equal(2), 6),
        # One hand gives out a task in 1 second: three workers, begun at 1, 2, 3, then at 4 and 5.
        (queue(2, 2, 2, 2, 2, per_task=1), WorkerLifetimes.equal(3), 7),
        (queue(2, 2, 2, 2, 2, per_task=1), lifetimes([1, 1, 1], lasts=[99] * 3), 7),
    ],
)  # fmt: skip
def test_makespans_by_hand(tasks, workers, end):
    assert makespan(tasks, workers) == end


def test_the_short_way_is_the_long_one():
    seconds = np.random.default_rng(0).exponential(1, 200)
    for n, per_task in itertools.product((1, 3, 50, 300), (0.0, 0.01)):
        long = WorkerLifetimes(np.ones(n), np.zeros(n), np.full(n, 1e9))
        tasks = Queue(seconds, {}, per_task)
        assert makespan(tasks, WorkerLifetimes.equal(n)) == pytest.approx(makespan(tasks, long))


def test_when_each_task_begins_and_ends():
    begins, ends = course(queue(2, 4, 2), lifetimes([1, 1], lasts=[3, math.inf]))
    assert begins.tolist() == [0, 0, 4]  # lost with the first worker at 3
    assert ends.tolist() == [2, 4, 6]
    begins, ends = course(queue(1, 9), lifetimes([1], lasts=[3]))
    assert ends.tolist() == [1, math.inf]
