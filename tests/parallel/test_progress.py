"""Where a training stands: kept, written, gone on from, by other numbers of ranks."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("torch", reason="networks are torch's")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pipelines.parallel.checkpoint import (
    TrainingProgress,
    from_bytes,
    progress_of,
    read,
    to_bytes,
    write_checkpoint,
)
from pipelines.parallel.elastic import train_rank
from pipelines.parallel.flat import best_network
from pipelines.parallel.options import TrainingOptions
from pipelines.parallel.process_group.group import ProcessGroup, ProcessGroupError
from pipelines.parallel.rank import TrainingPlan
from pipelines.parallel.training_problem import approximator
from tests.parallel.process_group.ranks import on_ranks

PROBLEM = approximator(300, 0.1, 0)
SETTINGS = TrainingOptions(epochs=4, batch_size=12, learning_rate=0.01, optimizer="sgd")


class BreaksAt:
    """A group that breaks at one of its collectives, as when another rank dies."""

    def __init__(self, group, collective):
        self._group, self._n_left = group, collective

    def __getattr__(self, name):
        if name in ("sum", "mean", "broadcast"):
            self._n_left -= 1
            if self._n_left < 0:
                self._group.abort()
                raise ProcessGroupError("killed")
        return getattr(self._group, name)


class AbortedAt(ProcessGroup):
    """A group one of whose collectives is aborted when the backend says that it has ended."""

    def __init__(self, collective):
        super().__init__(0, 2, "cpu", self)
        self._n_left = collective

    def allreduce(self, tensors, options=None):
        self._n_left -= 1
        if not self._n_left:
            tensors[0][:2] = 1e6  # a part of the sum
            self._broken.set()
        return self

    broadcast = allreduce

    def wait(self):
        """At once, and without an error, as NCCL's."""


def run(tmp_path, n_ranks=2, sync="every-step", start=None, breaks_at=None, settings=SETTINGS):
    order = TrainingPlan(
        dataclasses.replace(settings, sync=sync), 1, start, str(tmp_path / "checkpoint.safetensors")
    )

    def work(group):
        if breaks_at is not None and group.rank == 1:
            group = BreaksAt(group, breaks_at)
        return train_rank(PROBLEM, order, group, lambda event: None)

    return on_ranks(n_ranks, work)


# 270 rows in union batches of 24: 12 steps in an epoch.
@pytest.mark.slow
@pytest.mark.parametrize("breaks_at", [9, 14, 20])
@pytest.mark.parametrize("sync", ["every-step", "average", "every-k=5"])
def test_a_broken_group_goes_on_from_what_a_rank_remembers_to_the_same_model(
    sync, breaks_at, tmp_path
):
    expected = from_bytes(run(tmp_path, sync=sync)[0])[0]["weights"]
    broken = run(tmp_path, sync=sync, breaks_at=breaks_at)
    assert [type(error) for error in broken] == [ProcessGroupError, ProcessGroupError]
    for error in broken:
        again = run(tmp_path, sync=sync, start=error.kept)
        assert torch.equal(from_bytes(again[0])[0]["weights"], expected)


def test_no_step_is_taken_on_a_sum_that_was_aborted(tmp_path):
    order = TrainingPlan(SETTINGS, 1, None, str(tmp_path / "c"))
    steps = []
    for collective in (20, 21):
        with pytest.raises(ProcessGroupError) as error:
            train_rank(PROBLEM, order, AbortedAt(collective), lambda event: None)
        tensors, progress = from_bytes(error.value.kept)
        assert tensors["weights"].abs().max() < 10
        steps.append(progress.step)
    assert steps[1] == steps[0] + 1


@pytest.mark.parametrize("sync", ["never", "average=2"])
def test_what_is_each_ranks_own_is_given_up_but_training_ends(sync, tmp_path):
    broken = run(tmp_path, sync=sync, breaks_at=14)
    again = run(tmp_path, sync=sync, start=broken[0].kept)
    progress = progress_of(again[0])
    assert progress.done
    assert [row["epoch"] for row in progress.epochs] == [1, 2, 3, 4]


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_another_number_of_ranks_goes_on_in_the_same_epoch(n_ranks, tmp_path):
    kept = run(tmp_path, breaks_at=20)[0].kept
    before = progress_of(kept)
    assert 0 < before.position < 270
    ended = progress_of(run(tmp_path, n_ranks=n_ranks, start=kept)[0])
    rows = 270 - before.position
    rest = -(-rows // (12 * n_ranks))
    whole = -(-270 // (12 * n_ranks))
    assert ended.step == before.step + rest + whole * (4 - before.epoch - 1)
    assert [row["epoch"] for row in ended.epochs] == [1, 2, 3, 4]


def test_the_loss_of_an_epoch_counts_each_row_once_across_a_death(tmp_path):
    expected = progress_of(run(tmp_path)[0]).epochs
    kept = run(tmp_path, breaks_at=20)[0].kept
    rows = progress_of(run(tmp_path, start=kept)[0]).epochs
    assert [row["loss"] for row in rows] == pytest.approx([row["loss"] for row in expected])


def test_training_ends_early_where_it_is_told_to(tmp_path):
    patient = dataclasses.replace(SETTINGS, epochs=30, learning_rate=1e-9, patience=2)
    epochs = progress_of(run(tmp_path, settings=patient)[0]).epochs
    assert len(epochs) < 30
    content = dataclasses.replace(SETTINGS, epochs=30, until_loss=1e3)
    assert len(progress_of(run(tmp_path, settings=content)[0]).epochs) == 1


def test_a_training_that_diverges_ends_and_says_so(tmp_path):
    wild = dataclasses.replace(SETTINGS, learning_rate=1e6)
    epochs = progress_of(run(tmp_path, settings=wild)[0]).epochs
    assert len(epochs) < 4
    assert epochs[-1]["validation_loss"] is None


def test_the_learning_rate_is_scaled_and_warmed_up():
    settings = TrainingOptions(learning_rate=0.1, scale_lr="linear", warm_up=4, optimizer="sgd")
    assert settings.rate(1, 8) == pytest.approx(0.2)
    assert settings.rate(4, 8) == settings.rate(100, 8) == pytest.approx(0.8)
    assert dataclasses.replace(settings, scale_lr="sqrt").rate(9, 4) == pytest.approx(0.2)
    assert dataclasses.replace(settings, scale_lr="none").rate(9, 4) == pytest.approx(0.1)


def test_a_checkpoint_is_replaced_whole_and_a_damaged_one_is_none(tmp_path):
    path = tmp_path / "c.safetensors"
    assert read(path) is None
    write_checkpoint(
        path, {"weights": torch.arange(4.0)}, TrainingProgress(step=3, epochs=[{"epoch": 1}])
    )
    tensors, progress = from_bytes(read(path))
    assert tensors["weights"].tolist() == [0, 1, 2, 3]
    assert progress == TrainingProgress(step=3, epochs=[{"epoch": 1}])
    content = path.read_bytes()
    for damaged in (content[:20], content[:-1], content[:-1] + b"x", b"\xff" * 9, b""):
        path.write_bytes(damaged)
        assert read(path) is None
    unsigned = to_bytes({"weights": torch.arange(4.0)}, TrainingProgress(step=3))
    path.write_bytes(unsigned.replace(b'"crc32"', b'"other"'))  # as older programs left it
    assert read(path) is not None
    assert [file.name for file in tmp_path.iterdir()] == ["c.safetensors"]


@pytest.mark.parametrize("sync", ["every-step", "average", "never"])
def test_the_network_of_the_best_epoch_is_kept(sync, tmp_path):
    wild = dataclasses.replace(SETTINGS, epochs=8, learning_rate=0.08, momentum=0.0)
    state, progress = from_bytes(run(tmp_path, sync=sync, settings=wild)[0])
    losses = [row["validation_loss"] for row in progress.epochs]
    network = best_network(PROBLEM.network.make(1), state)
    held = {name: torch.from_numpy(array) for name, array in PROBLEM.validation.items()}
    loss, _ = PROBLEM.measure(network, held, ProcessGroup(0, 1, "cpu"))
    assert loss == pytest.approx(min(losses), rel=1e-5) == progress.best


class Reads(TorchDispatchMode):
    """Counts numbers that the host takes out of tensors, for which a GPU must end its work."""

    n = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.n += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("sync", ["every-step", "never"])
def test_no_step_reads_a_number_from_the_device(sync, tmp_path):
    reads = []
    for batch_size in (12, 90):
        settings = dataclasses.replace(
            SETTINGS, sync=sync, batch_size=batch_size, checkpoint_seconds=1e9
        )
        order = TrainingPlan(settings, 1, None, str(tmp_path / "checkpoint.safetensors"))
        with Reads() as counted:
            train_rank(PROBLEM, order, ProcessGroup(0, 1, "cpu"), lambda event: None)
        reads.append(counted.n)
    assert reads[0] == reads[1] > 0


def test_a_network_that_writes_to_its_rows_is_measured_on_the_same_ones_again():
    class Centres(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, X):
            return self.layer(X.sub_(1.0))

    network, group = Centres(), ProcessGroup(0, 1, "cpu")
    held = {name: torch.from_numpy(array) for name, array in PROBLEM.validation.items()}
    first = PROBLEM.measure(network, held, group)
    assert PROBLEM.measure(network, held, group) == first
