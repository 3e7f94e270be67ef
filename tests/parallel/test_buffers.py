"""Networks that draw numbers or keep statistics of their rows: ranks agree, and so do runs."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("torch", reason="networks are torch's")

import torch

from pipelines.parallel.checkpoint import from_bytes, to_bytes
from pipelines.parallel.elastic import train_rank
from pipelines.parallel.flat import best_network
from pipelines.parallel.options import TrainingOptions
from pipelines.parallel.process_group.group import ProcessGroup, ProcessGroupError
from pipelines.parallel.rank import TrainingPlan
from pipelines.parallel.training_problem import NUMBERS, approximator
from tests.parallel.process_group.ranks import on_ranks

NETWORKS = """
import torch
from torch import nn

class Mean(nn.Module):
    "Subtracts a mean that it assigns anew at each step, as moving averages are often written."

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("used", torch.zeros((), dtype=torch.bool))

    def forward(self, x):
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * x.detach().mean(0)
            self.used = torch.ones((), dtype=torch.bool)
        return x - self.mean

def norms(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 16), nn.BatchNorm1d(16, momentum=None), nn.ReLU(),
                         Mean(), nn.Linear(16, n_classes))

def drops(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Dropout(0.5),
                         nn.Linear(16, n_classes))
"""
SETTINGS = TrainingOptions(epochs=3, batch_size=24, learning_rate=0.01, optimizer="sgd")
STRATEGIES = ["every-step", "every-k=2", "average=2", "never"]


@pytest.fixture(params=["norms", "drops"])
def problem(request, tmp_path):
    """291 rows to train on: three of the last batch of 24 on each of two ranks are left."""
    (tmp_path / "networks.py").write_text(NETWORKS)
    base_problem = approximator(323, 0.1, 0)
    name = f"{tmp_path}/networks.py:{request.param}"
    return dataclasses.replace(
        base_problem, network=dataclasses.replace(base_problem.network, name=name)
    )


def trained(problem, sync, tmp_path, n_ranks=2, start=None, settings=SETTINGS):
    options = dataclasses.replace(settings, sync=sync)
    order = TrainingPlan(options, 1, start, str(tmp_path / "checkpoint"))
    results = on_ranks(n_ranks, lambda group: train_rank(problem, order, group, lambda event: None))
    for result in results:
        if isinstance(result, Exception):
            raise result
    return [from_bytes(result) for result in results]


def without_times(epochs):
    return [{name: value for name, value in row.items() if "seconds" not in name} for row in epochs]


@pytest.mark.parametrize("sync", STRATEGIES)
def test_the_same_training_twice_gives_the_same_figures_and_one_model(sync, problem, tmp_path):
    (state, progress), (other, _) = trained(problem, sync, tmp_path)
    assert state.keys() == other.keys()
    for name, value in state.items():
        if value.is_floating_point() or "used" in name:  # counts are those of each rank
            assert torch.equal(value, other[name]), name
    torch.manual_seed(5)
    (again, repeated), _ = trained(problem, sync, tmp_path)
    assert all(torch.equal(value, again[name]) for name, value in state.items())
    assert without_times(progress.epochs) == without_times(repeated.epochs)


@pytest.mark.parametrize("sync", STRATEGIES)
def test_the_model_that_is_kept_is_the_one_that_was_measured(sync, problem, tmp_path):
    assert problem.task == NUMBERS
    (state, progress), _ = trained(problem, sync, tmp_path)
    network = best_network(problem.network.make(1), state)
    for rows, name in ((problem.test, "test_loss"), (problem.validation, "validation_loss")):
        columns = {column: torch.tensor(values) for column, values in rows.items()}
        loss, _ = problem.measure(network, columns, ProcessGroup(0, 1, "cpu"))
        measured = [row[name] for row in progress.epochs if name in row]
        assert loss == pytest.approx(min(measured), rel=1e-5)


def test_statistics_of_every_step_are_the_means_of_what_ranks_would_keep(tmp_path):
    (tmp_path / "networks.py").write_text(NETWORKS)
    base_problem = approximator(80, 0.1, 0)
    network = dataclasses.replace(base_problem.network, name=f"{tmp_path}/networks.py:norms")
    problem = dataclasses.replace(base_problem, network=network)
    one_step = dataclasses.replace(SETTINGS, batch_size=36, epochs=1)
    (state, _), _ = trained(problem, "every-step", tmp_path, settings=one_step)
    (half, _), _ = trained(problem, "never", tmp_path, settings=one_step)
    for name in ("1.running_mean", "1.running_var", "3.mean"):
        assert torch.allclose(state[f"buffer {name}"], half[f"buffer {name}"], rtol=1e-5), name
        assert state[f"buffer {name}"].abs().max() > 0
    assert state["buffer 1.num_batches_tracked"] == 1
    assert state["buffer 3.used"]


def test_a_training_goes_on_with_statistics_and_counts_as_they_were(problem, tmp_path):
    whole = trained(problem, "every-step", tmp_path)
    two = dataclasses.replace(SETTINGS, epochs=2)
    (state, progress), _ = trained(problem, "every-step", tmp_path, settings=two)
    progress.done = False
    rest = trained(problem, "every-step", tmp_path, start=to_bytes(state, progress))
    for name, value in whole[0][0].items():
        assert torch.equal(value, rest[0][0][name]), name
    # As checkpoints were before they had counts.
    earlier = {name: value for name, value in state.items() if value.is_floating_point()}
    trained(problem, "every-step", tmp_path, start=to_bytes(earlier, progress))


class Breaks(ProcessGroup):
    """A process group of one rank that is lost in a step."""

    n_sums = 0

    def sum(self, tensor):
        self.n_sums += 1
        if self.n_sums == 3:
            raise ProcessGroupError("killed")


def test_a_step_that_was_not_done_leaves_no_trace_in_what_is_kept(problem, tmp_path):
    order = TrainingPlan(SETTINGS, 1, None, str(tmp_path / "checkpoint"))
    with pytest.raises(ProcessGroupError) as lost:
        train_rank(problem, order, Breaks(0, 1, "cpu"), lambda event: None)
    (whole, _), *_ = trained(problem, "every-step", tmp_path, n_ranks=1)
    rest = trained(problem, "every-step", tmp_path, n_ranks=1, start=lost.value.kept)
    assert from_bytes(lost.value.kept)[1].step == 2
    for name, value in whole.items():
        assert torch.equal(value, rest[0][0][name]), name
