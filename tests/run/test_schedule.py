"""Makespans against those computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.run.schedule import Queue, makespan


def queue(*seconds: float, needs=None, per_task: float = 0.0) -> Queue:
    return Queue(np.array(seconds, float), needs or {}, per_task)


@pytest.mark.parametrize(
    ("tasks", "n_workers", "end"),
    [
        # Graham's example: 3 workers, longest first; 5 + 3 + 3, one more than 9, the best.
        (queue(5, 5, 4, 4, 3, 3, 3), 3, 11),
        (queue(1, 1, 1, 1), 9, 1),
        # A refit goes before what waits, as soon as its two are done.
        (queue(1, 2, 3, 3, 1, needs={4: (0, 1)}), 2, 6),
        # One hand gives out a task in 1 second: three workers, begun at 1, 2, 3, then at 4 and 5.
        (queue(2, 2, 2, 2, 2, per_task=1), 3, 7),
    ],
)
def test_makespans_by_hand(tasks, n_workers, end):
    assert makespan(tasks, n_workers) == end
