"""Ideal bubbles against schedules carried out on paper, and the parts of a measured one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pipelines.errors import InputError
from pipelines.parallel.stages.bubble import (
    BACKWARD,
    BY_INPUTS,
    BY_WEIGHTS,
    FORWARD,
    most_kept,
    span,
    split,
)
from pipelines.parallel.stages.cuts import balanced, blocks_of
from pipelines.parallel.stages.schedules import SCHEDULES, Plan

COST = {FORWARD: 1.0, BACKWARD: 2.0, BY_INPUTS: 1.0, BY_WEIGHTS: 1.0}


def one_forward_one_backward(rank: int, plan: Plan):
    ahead = min(plan.n_micro, plan.n_ranks - 1 - rank)
    found = [(FORWARD, rank, micro) for micro in range(ahead)]
    for micro in range(plan.n_micro):
        if micro + ahead < plan.n_micro:
            found.append((FORWARD, rank, micro + ahead))
        found.append((BACKWARD, rank, micro))
    return found


def order_of(plan: Plan):
    """torch's own order of actions for a plan, of every rank, without None and messages.

    But of 1F1B: what torch says of its last rank there is not what that does.
    """
    if plan.schedule == "1f1b":
        return [one_forward_one_backward(rank, plan) for rank in range(plan.n_ranks)]
    torch = pytest.importorskip("torch", reason="schedules are torch's")
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=plan.n_ranks)
    try:
        stages = [
            PipelineStage(torch.nn.Linear(2, 2), s, plan.n_stages, torch.device("cpu"))
            for s in plan.stages_of(0)
        ]
        schedule = plan.make(stages, lambda outputs, y: outputs.sum())
        letters = {"F": FORWARD, "B": BACKWARD, "I": BY_INPUTS, "W": BY_WEIGHTS}
        words = [  # such as 0F3: stage, action, micro-batch
            [re.fullmatch(r"(\d+)([FBIW])(\d+)", str(one)) for one in schedule.pipeline_order[rank]]
            for rank in range(plan.n_ranks)
        ]
        return [
            [(letters[one[2]], int(one[1]), int(one[3])) for one in rank if one] for rank in words
        ]
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("n_micro", [8, 12])
@pytest.mark.parametrize("n_ranks", [2, 4])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_ideal_bubble_is_that_of_torchs_order_with_equal_costs(schedule, n_ranks, n_micro):
    plan = Plan(schedule, n_ranks, n_micro)
    ranks = [[(action, COST[action[0]]) for action in rank] for rank in order_of(plan)]
    busy = sum(cost for _, cost in ranks[0])
    assert 1 - busy / span(ranks) == pytest.approx(plan.ideal_bubble)


def test_a_slower_stage_is_imbalance_and_a_late_message_communication():
    # One micro-batch, two ranks: forward 1, 3, backward 3, 1; the message back is 2 late.
    first = np.array([[FORWARD, 0, 0, 0.0, 1.0], [BACKWARD, 0, 0, 9.0, 10.0]])
    second = np.array([[FORWARD, 1, 0, 1.0, 4.0], [BACKWARD, 1, 0, 4.0, 7.0]])
    found = split([[first, second]], ideal=0.5)
    assert found.seconds == 10
    assert found.compute == 4
    assert found.measured == pytest.approx(0.6)
    assert found.imbalance == pytest.approx(0.0)
    assert found.communication == pytest.approx(0.1)


def test_what_waits_for_itself_is_refused():
    with pytest.raises(ValueError, match="circle"):
        span([[((BACKWARD, 0, 0), 1.0), ((FORWARD, 0, 0), 1.0)]])


def test_activations_are_kept_until_nothing_needs_them():
    rows = [(FORWARD, 0), (FORWARD, 2), (BY_INPUTS, 2), (FORWARD, 0), (BY_WEIGHTS, 2),
            (BACKWARD, 0)]  # fmt: skip
    actions = np.array([[kind, stage, 0, 0, 1] for kind, stage in rows], float)
    assert most_kept(actions, {0: 10.0, 2: 1.0}) == (3, 21.0)


@pytest.mark.parametrize(
    ("costs", "n_stages", "expected"),
    [
        ([1, 1, 1, 1], 2, [2, 2]),
        ([5, 1, 1, 1, 1, 1], 2, [1, 5]),
        ([1, 1, 1, 9, 1, 1], 3, [3, 1, 2]),
        ([3, 3, 3], 3, [1, 1, 1]),
        ([1, 2, 3, 4, 5, 6], 3, [3, 2, 1]),
    ],
)
def test_the_costliest_stage_is_as_cheap_as_it_can_be(costs, n_stages, expected):
    assert [len(one) for one in balanced(costs, n_stages)] == expected


def test_layers_without_weights_go_with_the_one_before():
    nn = pytest.importorskip("torch", reason="networks are torch's").nn
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)
    )
    assert blocks_of(network, "mlp", 3) == [range(0, 3), range(3, 5), range(5, 6)]
    with pytest.raises(InputError, match="4 stages of mlp, which has 3 such layers"):
        blocks_of(network, "mlp", 4)
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Sequential"):
        blocks_of(nn.Linear(2, 2), "mine.py:make", 2)
    layer = nn.Linear(4, 4)
    with pytest.raises(InputError, match="must not share weights"):
        blocks_of(nn.Sequential(layer, nn.ReLU(), layer), "mine.py:make", 2)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan("1f1b", 4, 3), "must be at least 4"),
        (Plan("zero-bubble", 2, 2), "must be at least 3"),
        (Plan("interleaved", 2, 7), "must be a multiple of 3"),
    ],
)
def test_what_torch_cannot_do_is_refused(plan, message):
    with pytest.raises(InputError, match=message):
        plan.refuse_impossible()
    assert plan.among(plan.n_ranks).schedule == "gpipe"
