"""Stages of a network do what one process does, by every schedule."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

pytest.importorskip("torch", reason="networks are torch's")

import torch

from pipelines.parallel.checkpoint import from_bytes
from pipelines.parallel.elastic import train
from pipelines.parallel.networks import Network
from pipelines.parallel.options import TrainingOptions
from pipelines.parallel.problem import CLASSES, Problem, approximator
from pipelines.parallel.rank import TrainingPlan
from pipelines.parallel.stages.bubble import BACKWARD, BY_INPUTS, BY_WEIGHTS, FORWARD, span
from pipelines.parallel.stages.schedules import SCHEDULES
from pipelines.process_group.group import Group
from tests.process_group.processes import on_processes

# Float32 sums in another order: eight micro-batches, each rounded, in place of one batch.
TOLERANCE = {"rtol": 1e-4, "atol": 2e-6}
COST = {FORWARD: 1.0, BACKWARD: 2.0, BY_INPUTS: 1.0, BY_WEIGHTS: 1.0}
MINE = """
from torch import nn
def make(network):
    return nn.Sequential(nn.Linear(network.n_inputs, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(),
                         nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, network.n_outputs))
"""


def classes() -> Problem:
    rng = np.random.default_rng(0)

    def rows(n: int) -> dict[str, np.ndarray]:
        return {"X": rng.integers(0, 256, (n, 20)).astype(np.uint8), "y": rng.integers(0, 3, n)}

    network = Network("mine.py:make", 20, 3, source=MINE)
    return Problem("bytes", CLASSES, network, rows(100), rows(20), rows(20), 127.5, 73.6)


PROBLEMS = {"numbers": approximator(111, 0.1, 0), "classes": classes()}  # 100 rows to train on
# The last batch of 100 rows has 4 of 32; a step of plain SGD at rate 1 gives the gradient.
ONE_STEP = TrainingOptions(
    epochs=1, batch_size=100, optimizer="sgd", learning_rate=1.0, momentum=0.0
)
SETTINGS = {
    "gradient": ONE_STEP,
    "sgd": TrainingOptions(epochs=2, batch_size=32, learning_rate=0.01, optimizer="sgd"),
    "adamw": TrainingOptions(epochs=2, batch_size=32, learning_rate=0.003, optimizer="adamw"),
}
CASES = [(problem, settings) for problem in PROBLEMS for settings in SETTINGS]


def train_each(group: Group, folder: str) -> dict:
    """Every case by every schedule: the last checkpoint, and what was told of the stages."""
    found = {}
    for schedule in SCHEDULES:
        for problem, settings in CASES:
            staged = dataclasses.replace(
                SETTINGS[settings],
                schedule=schedule,
                pipeline_stages=group.n_ranks,
                micro_batches=8,
            )
            heard: list = []
            order = TrainingPlan(staged, "every-step", 1, None, f"{folder}/checkpoint")
            content = train(PROBLEMS[problem], order, group, heard.append)
            on_message = [one for one in heard if one["kind"] == "stages"]
            found[schedule, problem, settings] = content, on_message
    return found


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    return on_processes(2, train_each, str(tmp_path_factory.mktemp("checkpoints")))


@functools.cache
def alone(problem: str, settings: str):
    order = TrainingPlan(SETTINGS[settings], "every-step", 1, None, "/dev/null")
    rank = train_without_file(PROBLEMS[problem], order)
    return from_bytes(rank)


def train_without_file(problem: Problem, order: TrainingPlan) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        named = dataclasses.replace(order, checkpoint=f"{folder}/checkpoint")
        return train(problem, named, Group(0, 1, "cpu"), lambda event: None)


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_gradient_is_that_of_one_process(schedule, problem, staged):
    first = torch.cat([one.reshape(-1) for one in PROBLEMS[problem].network.make(1).parameters()])
    expected = first - alone(problem, "gradient")[0]["weights"]
    found = first - from_bytes(staged[0][schedule, problem, "gradient"][0])[0]["weights"]
    assert expected.abs().max() > 1e-3
    assert torch.allclose(found, expected, **TOLERANCE)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("settings", ["sgd", "adamw"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_training_is_that_of_one_process_the_uneven_last_batch_included(
    schedule, settings, problem, staged
):
    expected, alone_progress = alone(problem, settings)
    states = [from_bytes(rank[schedule, problem, settings][0]) for rank in staged]
    for state, progress in states:
        assert state.keys() == expected.keys()
        for name, value in expected.items():
            assert torch.allclose(state[name], value, **TOLERANCE), name
        assert progress.step == alone_progress.step == 8
        for row, other in zip(progress.epochs, alone_progress.epochs, strict=True):
            for name in ("loss", "validation_loss", "validation_metric"):
                assert row[name] == pytest.approx(other[name], rel=1e-4)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_bubble_is_the_sum_of_its_parts_and_activations_are_those_of_the_schedule(
    schedule, staged
):
    on_message = staged[0][schedule, "classes", "sgd"][1]
    assert len(on_message) == 2  # one for each epoch
    for one in on_message:
        parts = one["ideal"] + one["imbalance"] + one["communication"]
        assert one["measured"] == pytest.approx(parts)
        assert 0 < one["measured"] < 1
        assert one["communication"] > 0
        assert [stage["rank"] for stage in one["stages"]] == {
            "interleaved": [0, 1, 0, 1], "zero-bubble": [0, 1, 1, 0],
        }.get(schedule, [0, 1])  # fmt: skip
        ranks = [
            [
                ((int(kind), int(stage), int(micro)), COST[int(kind)])
                for kind, stage, micro, *_ in rank
            ]
            for rank in one["usual_step"]
        ]
        busy = sum(cost for _, cost in ranks[0])
        assert 1 - busy / span(ranks) == pytest.approx(one["ideal"])  # what it did, on paper
        kept = [rank["micro_batches"] for rank in one["kept"]]
        # GPipe keeps all, 1F1B as many as there are ranks from here to the end.
        assert kept == {"gpipe": [8, 8], "1f1b": [2, 1], "interleaved": [5, 3]}.get(schedule, kept)
        if schedule == "zero-bubble":
            assert max(kept) <= 4  # never more than 1F1B's, of halves of a rank's layers
