"""Process groups after one another: when a training whose ranks are lost gives up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.parallel import elastic
from pipelines.parallel.options import TrainingOptions
from pipelines.parallel.process_group.worker_group import GroupEnd
from pipelines.parallel.rank import TrainingPlan
from pipelines.run.errors import RunStopped


def train_where_ranks_are_lost(at, monkeypatch):
    """Train with process groups that are lost with these steps kept, and one that ends.

    Returns the last step, and the checkpoints that the groups began with: their step's digits.
    """
    began = []

    def run_process_group(
        client,
        members,
        train,
        problem,
        order,
        *arguments,
        **named,
    ):
        began.append(order.start)
        if len(began) > len(at):
            return GroupEnd(b"100", None, ["worker"])
        return GroupEnd(None, "killed", ["worker"], kept=[b"%d" % at[len(began) - 1]])

    monkeypatch.setattr(elastic, "run_process_group", run_process_group)
    monkeypatch.setattr(elastic, "wait_for_members", lambda *arguments: ["worker"])
    monkeypatch.setattr(elastic, "progress_of", lambda kept: SimpleNamespace(step=int(kept)))
    monkeypatch.setattr(elastic, "read", lambda path: None)
    ended, _, _ = elastic.train_on(
        None,
        None,
        TrainingPlan(TrainingOptions(), 0, None, "none"),
        1,
        lambda message: None,
        device="cpu",
        threads=1,
        open_ranks=True,
    )
    return ended.step, began


def test_ranks_lost_ten_times_at_one_step_stop_the_training(
    monkeypatch,
):
    with pytest.raises(RunStopped, match="lost 10 times at one step: killed"):
        train_where_ranks_are_lost([3] * 11, monkeypatch)
    assert train_where_ranks_are_lost([3] * 10, monkeypatch)[0] == 100


def test_ranks_may_be_lost_often_where_steps_are_gained(monkeypatch):
    step, began = train_where_ranks_are_lost([1, 2, 2, 1, *range(3, 20)], monkeypatch)
    assert step == 100
    assert began == [None, b"1", b"2", b"2", b"2", *(b"%d" % number for number in range(3, 20))]
