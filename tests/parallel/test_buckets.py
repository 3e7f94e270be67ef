"""A gradient that is added up while the backward pass computes the rest of it."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("torch", reason="networks are torch's")

import torch
from torch import nn

from pipelines.parallel import buckets, flat
from pipelines.parallel.buckets import EACH, FIRST, Buckets, cuts
from pipelines.parallel.checkpoint import from_bytes
from pipelines.parallel.elastic import train_rank
from pipelines.parallel.flat import FlatModel
from pipelines.parallel.options import TrainingOptions
from pipelines.parallel.process_group.group import ProcessGroup, ProcessGroupError
from pipelines.parallel.rank import TrainingPlan
from pipelines.parallel.training_problem import approximator
from tests.parallel.process_group.ranks import on_ranks

WIDTH, LAYERS = 64, 6
NETWORKS = """
from torch import nn
import torch
from tests.parallel.test_buckets import Anew

class Own(nn.Module):
    "A layer of each kind whose gradient comes early, late, twice, never, or on some ranks alone."

    def __init__(self):
        super().__init__()
        self.unused, self.frozen = nn.Linear(64, 64), nn.Linear(64, 64).requires_grad_(False)
        self.first, self.norm = nn.Linear(1, 64), nn.BatchNorm1d(64)
        self.sometimes = nn.Linear(64, 64)
        self.shared, self.last = nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        x = self.frozen(self.shared(self.shared(x).relu()).relu())
        if x.sum() > 0:
            x = x + self.sometimes(x)
        return self.last(x)

class Again(Own):
    "The shared layer's gradient comes twice, from parts that are computed anew."

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        for _ in range(2):
            x = Anew.apply(x, self.shared).relu()
        return self.last(x)
"""
SETTINGS = TrainingOptions(epochs=3, batch_size=16, learning_rate=0.01, optimizer="sgd")
STRATEGIES = ["every-step", "every-k=2", "average=2", "never"]


class Anew(torch.autograd.Function):
    """A layer that is computed anew in the backward pass, as by ``torch.utils.checkpoint``.

    (Its import takes a quarter of a minute.)
    """

    @staticmethod
    def forward(ctx, rows, layer):
        ctx.layer = layer
        ctx.save_for_backward(rows)
        return layer(rows)

    @staticmethod
    def backward(ctx, gradient):
        rows = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            ctx.layer(rows).backward(gradient)
        return rows.grad, None


@pytest.fixture(params=["Own", "Again"])
def problem(request, tmp_path):
    """33 rows: of the last union batch one rank has none."""
    (tmp_path / "networks.py").write_text(NETWORKS)
    smooth = approximator(37, 0.1, 0)
    name = f"{tmp_path}/networks.py:{request.param}"
    return dataclasses.replace(smooth, network=dataclasses.replace(smooth.network, name=name))


def ends_of(problem, sync, tmp_path, start=None, change=lambda group: None):
    """The last checkpoint of each of two ranks, or what it raised."""
    options = dataclasses.replace(SETTINGS, sync=sync)
    order = TrainingPlan(options, 1, start, str(tmp_path / "checkpoint"))

    def work(group):
        change(group)
        return train_rank(problem, order, group, lambda event: None)

    return on_ranks(2, work)


def trained(*how):
    results = ends_of(*how)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return [from_bytes(result) for result in results]


@pytest.mark.parametrize("sync", STRATEGIES)
def test_a_gradient_in_buckets_is_to_the_bit_the_whole_one(sync, problem, tmp_path, monkeypatch):
    (whole, progress), _ = trained(problem, sync, tmp_path)
    monkeypatch.setattr(buckets, "FIRST", 4)
    monkeypatch.setattr(buckets, "EACH", 64)
    (state, also), (other, _) = trained(problem, sync, tmp_path)
    for name, value in whole.items():
        assert torch.equal(state[name], value), name
    assert torch.equal(state["weights"], other["weights"])
    assert [row["loss"] for row in also.epochs] == [row["loss"] for row in progress.epochs]


@pytest.mark.parametrize("problem", ["Own"], indirect=True)
def test_a_rank_that_is_lost_in_a_pass_costs_that_step_alone(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(buckets, "FIRST", 4)
    monkeypatch.setattr(buckets, "EACH", 64)
    whole, _ = trained(problem, "every-step", tmp_path)
    n_begun = [0, 0]

    def lose(group):
        begin = group.begin_sum

        def begin_sum(tensor):
            n_begun[group.rank] += 1
            if n_begun[group.rank] == 15 and group.rank == 1:
                group.abort()
            begin(tensor)

        group.begin_sum = begin_sum

    lost = ends_of(problem, "every-step", tmp_path, None, lose)
    assert [type(error) for error in lost] == [ProcessGroupError] * 2
    for error in lost:
        assert from_bytes(error.kept)[1].step > 0
        again, _ = trained(problem, "every-step", tmp_path, error.kept)
        for name, value in whole[0].items():
            if value.is_floating_point():  # counts are those of each rank
                assert torch.equal(again[0][name], value), name


def deep():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))


class Told(torch.autograd.Function):
    """As it is, and in the backward pass a word on it."""

    @staticmethod
    def forward(ctx, rows, tell):
        ctx.tell = tell
        return rows.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.tell()
        return gradient, None


def cut_small(monkeypatch):
    for name in ("FIRST", "EACH"):
        monkeypatch.setattr(buckets, name, 4 * WIDTH * WIDTH)


def passes(group, network, n, report=lambda: None, enters=lambda rows: rows):
    """Make steps of a sum of the outputs; give the gradient of the last."""
    model = FlatModel(network, "sgd", 0.0, "cpu")
    added = Buckets(model, group)
    for _ in range(n):
        model.shared.zero_()
        added.begin()
        rows = enters(torch.full((2, WIDTH), group.rank + 1.0)).requires_grad_()
        network(Told.apply(rows, report)).sum().backward()
        report()
        added.end()
    return model.gradient.clone()


def test_sums_begin_before_the_backward_pass_has_ended(monkeypatch):
    cut_small(monkeypatch)

    def work(group):
        n_begun = list[int]()
        passes(group, deep(), 2, lambda: n_begun.append(len(group._begun)))
        return n_begun

    # Of the first step none; then all but the first layer's, at the end of the pass.
    assert on_ranks(2, work) == [[0, 0, LAYERS - 1, LAYERS - 1]] * 2


def test_the_sum_of_the_last_layer_ends_while_the_pass_goes_on(monkeypatch):
    """Where another rank has begun it, too: nothing waits for the end of the pass."""
    cut_small(monkeypatch)

    def work(group):
        ended = list[bool]()

        def wait():
            for _, sum_begun in group._begun[:1]:
                sum_begun.wait()
                ended.append(sum_begun.is_completed())

        passes(group, deep(), 2, wait)
        return ended

    assert on_ranks(2, work) == [[True, True]] * 2


class Keeps(ProcessGroup):
    """A group that notes its sums, and adds up nothing."""

    def __init__(self):
        super().__init__(0, 2, "cpu", object())
        self.sums = list[tuple[int, int]]()

    def begin_sum(self, tensor):
        self.sums.append((tensor.storage_offset(), tensor.numel()))

    sum = begin_sum


def test_all_ranks_begin_the_same_sums_whatever_comes_first(monkeypatch):
    cut_small(monkeypatch)
    sums = []
    for first in (0, LAYERS - 1):
        model = FlatModel(deep(), "sgd", 0.0, "cpu")
        group = Keeps()
        added = Buckets(model, group)
        for outputs in (range(LAYERS), [first, *{*range(LAYERS)} - {first}], []):
            added.begin()
            for i in outputs:  # each layer's gradient by itself
                parameters = [*model.network[i].parameters()]
                sum(parameter.sum() for parameter in parameters).backward()
            added.end()
        sums.append(group.sums)
    assert sums[0] == sums[1]
    assert len(set(sums[0])) == LAYERS + 1, "each slice, and what is agreed on after the first step"
    assert sum(n for _, n in set(sums[0])) == len(model.shared) + 1


def test_a_gradient_that_comes_again_to_a_sum_that_has_begun_is_no_step(monkeypatch):
    cut_small(monkeypatch)

    class Varying(nn.Module):
        n_calls = 0

        def __init__(self):
            super().__init__()
            self.layers = deep()

        def forward(self, rows):
            *first_layers, last = self.layers
            self.n_calls += 1
            for layer in first_layers:
                rows = layer(rows)
            if self.n_calls > 2:
                rows = Anew.apply(rows, last)
            return Anew.apply(rows, last)

    def work(group):
        try:
            passes(group, network := Varying(), 4)
        except ProcessGroupError:
            return network.n_calls

    assert on_ranks(2, work) == [3, 3]


def test_a_rank_that_is_lost_in_the_pass_ends_it_for_the_others(monkeypatch):
    cut_small(monkeypatch)
    steps = dict.fromkeys(range(3), 0)

    def work(group):
        def count_step():
            steps[group.rank] += 1
            if group.rank == 1 and steps[1] == 3:  # in the second pass, with sums begun
                assert group._begun
                group.abort()

        try:
            passes(group, deep(), 3, count_step)
        finally:
            assert not group._begun, "nothing keeps the sockets open"

    lost = on_ranks(3, work, seconds=600)  # not by running out of time
    assert [type(error) for error in lost] == [ProcessGroupError] * 3


def test_small_networks_stay_whole_and_others_are_cut_as_torch_cuts_them():
    def sizes(*n_weights):
        places = [0]
        for n in n_weights:
            places.append(places[-1] + n)
        ends = [places[-1], *cuts(places)]
        return [end - start for end, start in zip(ends, [*ends[1:], 0], strict=True)]

    small, large = FIRST // 4, EACH // 4
    assert sizes(small // 2, small // 4, small // 8) == [small * 7 // 8]
    assert sizes(5, small) == [small, 5]
    assert sizes(7, large, large // 2, large // 2, small // 2, small // 2) == [
        small,
        large,
        large,
        7,
    ]
    assert cuts([0, 10 * large]) == []


def test_the_gradient_begins_at_a_cache_line():
    model = FlatModel(nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)), "sgd", 0.0, "cpu")
    assert model.gradient.storage_offset() % flat.ALIGNED == 0
    assert len(model.shared) == model.n_statistics + 1 + model.n_weights
