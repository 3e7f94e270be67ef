"""A network in stages is the network: its first weights, its losses, its checkpoints."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

pytest.importorskip("torch", reason="networks are torch's")

import torch
from torch import nn

from pipelines.errors import InputError
from pipelines.parallel.checkpoint import (
    StoredStages,
    from_bytes,
    progress_of,
    read,
)
from pipelines.parallel.deferred import DeferredNetwork
from pipelines.parallel.elastic import train_rank
from pipelines.parallel.options import Formation, TrainingOptions
from pipelines.parallel.rank import TrainingPlan
from pipelines.parallel.stages import (
    StagedNetwork,
    balanced,
    chain_of,
    network_from,
    staged,
    stages_that_fit,
)
from pipelines.parallel.training_problem import (
    CLASSES,
    NUMBERS,
    NetworkDescription,
    TrainingProblem,
)
from tests.parallel.processes import on_processes

IMAGES = (3, 64, 64)
NETWORKS = [
    NetworkDescription("mlp", 20, 3, None, (16, 32, 8)),
    NetworkDescription("cnn", 784, 10, (28, 28)),
    NetworkDescription("bagging", 784, 10, (28, 28)),
    NetworkDescription("squeezenet1_0", 3 * 64 * 64, 10, IMAGES),
    NetworkDescription("resnet18", 3 * 64 * 64, 10, IMAGES),
]
by_name = pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)


def orthogonal():
    torch.manual_seed(0)
    layers = nn.Linear(4, 4), nn.Linear(4, 4)
    for layer in layers:
        nn.init.orthogonal_(layer.weight)
    return nn.Sequential(*layers)


def of_views():
    torch.manual_seed(0)
    layer = nn.Linear(5, 5)
    with torch.no_grad():
        layer.weight[1:3].normal_().mul_(2)
    return nn.Sequential(layer, nn.Embedding(5, 3, padding_idx=0), nn.BatchNorm1d(3))


def same_weights(network, other):
    expected = other.state_dict()
    assert list(network.state_dict()) == list(expected)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


@by_name
def test_weights_made_later_are_those_that_are_made_at_once(network):
    before = torch.get_rng_state()
    deferred = DeferredNetwork(lambda: network.make(5))
    assert not deferred.is_whole
    deferred.make(deferred.network)
    assert torch.equal(torch.get_rng_state(), before)
    same_weights(deferred.network, network.make(5))


@pytest.mark.parametrize(("make", "is_whole"), [(orthogonal, True), (of_views, False)])
def test_weights_that_are_made_of_others_are_made_at_once(make, is_whole):
    deferred = DeferredNetwork(make)
    assert deferred.is_whole == is_whole
    deferred.make(deferred.network)
    same_weights(deferred.network, make())


@by_name
def test_stages_one_after_the_other_are_the_network(network):
    rows = torch.rand(3, network.n_inputs)
    whole = network.make(5).eval()
    staged = StagedNetwork(lambda: network.make(5), network.name, 3, rows[:1], n_held=(3.0, 10.0))
    stages = [staged.stage(number) for number in range(3)]
    outputs, weights = rows, dict[str, torch.Tensor]()
    for stage in stages:
        assert list(stage.parameters())
        outputs = stage.eval()(outputs)
        tensors = dict(stage.named_parameters()) | dict(stage.named_buffers())
        weights |= {name: tensors[local] for local, name in staged.names_of(stage)}
    assert torch.equal(outputs, whole(rows))
    same_weights(network_from(weights, lambda: network.make(6)), whole)


def test_what_is_done_only_in_training_is_no_chain():
    class Dropping(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, X):
            return self.second(nn.functional.dropout(self.first(X), 0.5, self.training))

    class Chained(Dropping):
        def forward(self, X):
            return self.second(self.first(X).relu().flatten(1))

    assert len(chain_of(Dropping())) == 1
    assert len(chain_of(Chained())) == 4


class Skipping(nn.Sequential):
    def forward(self, X):
        first, second, last = self
        hidden = first(X)
        return last(hidden + second(hidden))


class Scaled(nn.Sequential):
    def forward(self, X):
        return super().forward(X) * 3 + 1


def of_three(kind=nn.Sequential):
    torch.manual_seed(0)
    return kind(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3))


def hooked():
    network = of_three()
    network[1].register_forward_hook(lambda layer, rows, outputs: 2 * outputs)
    return network


@pytest.mark.parametrize("make", [lambda: of_three(Scaled), hooked])
def test_what_a_network_does_beside_its_layers_is_done_in_stages(
    make,
):
    rows = torch.rand(5, 4)
    staged = StagedNetwork(make, "own", 2, rows[:1], n_held=(3.0, 1.0))
    outputs = staged.stage(1)(staged.stage(0)(rows))
    assert torch.allclose(outputs, make()(rows))


def skipping():
    return of_three(Skipping)


def hooked_whole():
    network = of_three()
    network.register_forward_hook(lambda layer, rows, outputs: 2 * outputs)
    return network


@pytest.mark.parametrize("make", [skipping, hooked_whole])
def test_what_is_done_around_layers_keeps_them_together(make):
    with pytest.raises(InputError, match="a chain of 1 such layers or blocks; take fewer, or a"):
        StagedNetwork(make, "own", 2, torch.zeros(1, 4), n_held=(3.0, 1.0))


class Twice(nn.Module):
    def forward(self, X):
        return X, 2 * X


def test_a_layer_that_gives_several_tensors_is_refused():
    def make():
        return nn.Sequential(nn.Linear(4, 4), Twice(), nn.Linear(4, 3))

    with pytest.raises(InputError, match="own does not after 1; leave stages out"):
        StagedNetwork(make, "own", 2, torch.zeros(1, 4), n_held=(3.0, 1.0))


class Summed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.relu(torch.cumsum(self.first(x), 0)))


def test_a_function_in_which_rows_meet_is_said_whatever_functions_follow():
    formation = Formation.of(TrainingOptions(stages=2, batch_size=16), 2)
    lines = StagedNetwork(Summed, "own", 2, torch.zeros(1, 4), n_held=(3.0, 1.0)).lines(formation)
    assert any("what a function gives for a row depends on the others" in line for line in lines)


def test_networks_that_are_no_chains_are_refused():
    row = torch.zeros(1, 4)
    with pytest.raises(InputError, match=r"stages must leave each stage a layer .* got 3 of two"):
        StagedNetwork(orthogonal, "two", 3, row, n_held=(3.0, 1.0))

    with pytest.raises(InputError, match=r"network must take rows of shape \(4,\), got RuntimeErr"):
        StagedNetwork(of_views, "views", 2, row, n_held=(3.0, 1.0))

    def shared():
        first, second = nn.Linear(4, 4), nn.Linear(4, 4)
        second.weight = first.weight
        return nn.Sequential(first, second)

    with pytest.raises(InputError, match="network must not share weights between layers"):
        StagedNetwork(shared, "shared", 2, row, n_held=(3.0, 1.0))


def test_cuts_make_the_costliest_stage_as_cheap_as_possible():
    assert balanced([1, 1, 1, 1], 2) == [0, 2, 4]
    assert balanced([5, 1, 1, 1], 2) == [0, 1, 4]
    assert balanced([1, 2, 3, 4, 5], 3) == [0, 3, 4, 5]
    rng = np.random.default_rng(0)
    for _ in range(20):
        costs = rng.random(7).tolist()
        cuts = balanced(costs, 3)
        parts = [
            max(sum(costs[:a]), sum(costs[a:b]), sum(costs[b:]))
            for a in range(1, 6)
            for b in range(a + 1, 7)
        ]
        ours = [sum(costs[a:b]) for a, b in itertools.pairwise(cuts)]
        assert max(ours) == pytest.approx(min(parts))


def test_stages_are_as_few_as_fit():
    network = NetworkDescription("mlp", 64, 10, None, (256, 256, 256, 256))
    options = TrainingOptions(network="mlp", batch_size=64, stages="auto")
    alone = Formation(1, 1, 1, 1, 64)
    whole = max(staged(network, options, alone, 0).n_bytes)
    n_weights = sum(weights.numel() for weights in network.make(0).parameters())
    # Weights, gradients, the best ones and two moments; of each row what every layer leaves.
    assert whole == 4 * (5 * n_weights + 64 * (8 * 256 + 10))
    needs = [whole / 0.8, 0.6 * whole / 0.8]
    assert [stages_that_fit(network, options, n_bytes, 4) for n_bytes in needs] == [1, 2]
    with pytest.raises(InputError, match=r"stages=.auto. must leave .* on 2 workers; take more"):
        stages_that_fit(network, options, whole / 4, 2)


def test_formations_and_their_bubbles():
    options = TrainingOptions(stages=2, batch_size=32, microbatches=8, stages_of_a_rank=2)
    formation = Formation.of(options, 5)
    assert (formation.n_pipelines, formation.n_ranks, formation.n_stages) == (2, 4, 4)
    assert [formation.stages_of(rank) for rank in range(2)] == [[0, 2], [1, 3]]
    assert formation.bubble == pytest.approx(1 / 17)
    assert Formation.of(options, 1).n_stages == 2  # where one rank is left


SETTINGS = TrainingOptions(
    epochs=3, batch_size=24, learning_rate=0.01, optimizer="adamw", network="mlp"
)


def a_problem(task, n_rows=250):
    rng = np.random.default_rng(0)
    parts = []
    for n in (n_rows, 30, 40):
        X = rng.random((n, 12), np.float32)
        y = (X[:, :3].argmax(1) if task == CLASSES else X[:, 0] * X[:, 1]).astype(
            np.int64 if task == CLASSES else np.float32
        )
        parts.append({"X": X, "y": y})
    network = NetworkDescription("mlp", 12, 3 if task == CLASSES else 1, None, (16, 24, 16))
    return TrainingProblem("rows", task, network, *parts)


def trained(group, problem, plan):
    return train_rank(problem, plan, group, lambda event: None)


def training_of(n_ranks, problem, path, start=None, **settings):
    """Train with so many ranks; return the progress, after all ranks had the same."""
    options = dataclasses.replace(SETTINGS, **settings)
    plan = TrainingPlan(options, 1, start, str(path))
    results = on_processes(n_ranks, trained, problem, plan)
    for result in results:
        if isinstance(result, Exception):
            raise result
    every = [progress_of(result) for result in results]
    losses = [[row["validation_loss"] for row in progress.epochs] for progress in every]
    assert all(loss == losses[0] for loss in losses)
    return every[0]


@pytest.mark.parametrize(
    ("task", "n_ranks", "settings"),
    [
        (CLASSES, 2, {"stages": 2, "microbatches": 4}),
        (NUMBERS, 2, {"stages": 2, "microbatches": 8}),
        (CLASSES, 4, {"stages": 2, "microbatches": 4, "batch_size": 12}),
        (CLASSES, 2, {"stages": 2, "microbatches": 4, "stages_of_a_rank": 2}),
        (NUMBERS, 3, {"stages": 3, "microbatches": 3, "optimizer": "sgd"}),
        (CLASSES, 1, {"stages": 2, "microbatches": 4}),
    ],
)
def test_stages_learn_what_one_process_learns(task, n_ranks, settings, tmp_path):
    problem = a_problem(task)
    optimizer = settings.get("optimizer", "adamw")
    alone = training_of(1, problem, tmp_path / "alone.safetensors", optimizer=optimizer)
    staged = training_of(n_ranks, problem, tmp_path / "staged.safetensors", **settings)
    assert staged.step == alone.step
    for row, other in zip(staged.epochs, alone.epochs, strict=True):
        for name in ("loss", "validation_loss", "validation_metric"):
            assert row[name] == pytest.approx(other[name], rel=1e-5), name
    assert staged.epochs[-1]["test_loss"] == pytest.approx(alone.epochs[-1]["test_loss"], rel=1e-5)
    content = read(tmp_path / "alone.safetensors")
    assert content is not None
    weights = from_bytes(content)[0]["weights"]
    stored = StoredStages(tmp_path / "staged.safetensors")
    by_name = [f"weights {name}" for name, _ in problem.network.make(1).named_parameters()]
    together = torch.cat([stored[name].flatten() for name in by_name])
    # AdamW makes steps of one size from gradients that are nearly nothing.
    assert torch.allclose(together, weights, rtol=0, atol=1e-6 if optimizer == "sgd" else 1e-3)


def test_a_training_goes_on_from_the_files_of_its_stages_also_in_other_stages(
    tmp_path,
):
    problem, two = a_problem(CLASSES), {"stages": 2, "microbatches": 4}
    whole = training_of(2, problem, tmp_path / "whole.safetensors", **two)
    for n_ranks in (2, 1):
        path = tmp_path / f"{n_ranks}.safetensors"
        training_of(2, problem, path, epochs=2, **two)
        begun = read(path)
        assert begun is not None
        begun = _not_done(begun)
        gone_on = training_of(n_ranks, problem, path, start=begun, **two)
        assert gone_on.epochs[-1]["validation_loss"] == pytest.approx(
            whole.epochs[-1]["validation_loss"], rel=1e-5
        )
        stored = StoredStages(path)
        assert stored.progress.step == whole.step


def _not_done(content):
    """The checkpoint of a training that has not come to its end, though it was given no more."""
    from pipelines.parallel.checkpoint import to_bytes

    return to_bytes({}, dataclasses.replace(progress_of(content), done=False))


def test_a_file_that_is_damaged_or_missing_is_no_checkpoint(tmp_path):
    problem, path = a_problem(CLASSES), tmp_path / "two.safetensors"
    progress = training_of(2, problem, path, stages=2, microbatches=4, epochs=1)
    assert read(path) is not None
    (file, _) = sorted(tmp_path.glob(f"two.step-{progress.step}.*"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert read(path) is None
