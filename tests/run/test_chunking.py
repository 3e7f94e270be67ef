"""Long tasks are cut where that ends a run earlier, and only there."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pipelines.run.chunking import makespan, split_for_workers


@dataclass(frozen=True)
class Piece:
    name: str
    cost: float


def in_five(task):
    """Each part does a fifth, and a twentieth of the whole once more."""
    return [Piece(f"{task.name}.{part}", task.cost * (0.95 / 5 + 0.05)) for part in range(5)]


def named(cut):
    return sorted(task.name for task in cut)


@pytest.mark.parametrize(
    ("costs", "n_workers", "n_tasks"),
    [
        ([1, 1, 1, 1], 1, 4),  # nobody waits
        ([1, 1, 1, 1], 4, 4),
        ([1, 1, 1, 1], 2, 4),
        ([10, 1, 1, 1], 2, 8),  # the long one alone
        ([4, 4, 4], 2, 7),  # one of three on two workers
        ([1, 1], 10, 10),
        ([1.0] * 40, 2, 40),
    ],
)
def test_as_many_are_cut_as_make_the_end_earlier(costs, n_workers, n_tasks):
    tasks = [Piece(f"task-{i}", cost) for i, cost in enumerate(costs)]
    cut = split_for_workers(tasks, n_workers, in_five)
    assert len(cut) == n_tasks
    whole = {task.name for task in tasks}
    assert {name.split(".")[0] for name in named(cut)} == whole


def test_what_cannot_be_cut_stays_whole():
    tasks = [Piece("a", 9.0), Piece("b", 1.0)]
    assert named(split_for_workers(tasks, 5, lambda task: [task])) == ["a", "b"]


def test_makespans_by_hand():
    # Graham's example: 3 workers, longest first; 5 + 3 + 3, one more than 9, the best.
    assert makespan([3, 5, 4, 3, 5, 4, 3], 3) == 11
    assert makespan([1, 1, 1, 1], 9) == 1
