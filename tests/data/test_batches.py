"""Batches of rows: each row once, in an order of the seed alone."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch", reason="batches are torch's tensors")

import torch

from pipelines.data.batches import Batches
from pipelines.errors import InputError

N = 103
X = np.random.default_rng(0).integers(0, 256, (N, 6), dtype=np.uint8)
Y = np.arange(N, dtype=np.int64)
ROWS = {"X": X, "y": Y}


def joined(parts):
    return list(itertools.chain.from_iterable(parts))


def seen(batches):
    return [batch.columns["y"].tolist() for batch in batches]


def test_an_epoch_shows_each_row_once_with_what_belongs_to_it():
    batches = Batches(ROWS, batch_size=10, seed=3)
    row_numbers = []
    for batch in batches:
        assert batch.columns["X"].dtype == torch.uint8
        assert (batch.columns["X"].numpy() == X[batch.rows.numpy()]).all()
        assert batch.columns["y"].tolist() == batch.rows.tolist()
        row_numbers += batch.rows.tolist()
    assert row_numbers != sorted(row_numbers)
    assert sorted(row_numbers) == list(range(N))
    assert (batches.epoch, batches.position) == (1, 0)
    assert joined(seen(batches)) != row_numbers  # shuffled anew


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_share_out_what_one_process_would_see(n_ranks):
    alone = seen(Batches(ROWS, batch_size=6 * n_ranks, seed=1))
    ranks = [
        seen(Batches(ROWS, batch_size=6, seed=1, rank=r, n_ranks=n_ranks)) for r in range(n_ranks)
    ]
    assert [joined(parts) for parts in zip(*ranks, strict=True)] == alone
    last = [len(rank[-1]) for rank in ranks]
    assert max(last) - min(last) <= 1


@pytest.mark.parametrize("n_rows", range(4, 30))
@pytest.mark.parametrize(("n_ranks", "batch_size"), [(1, 4), (2, 3), (3, 2), (2, 1)])
def test_a_last_batch_that_leaves_a_rank_fewer_than_two_rows_joins_the_one_before(
    n_rows, n_ranks, batch_size
):
    rows = {"y": Y[:n_rows]}
    ranks = [
        seen(Batches(rows, batch_size=batch_size, seed=1, rank=r, n_ranks=n_ranks))
        for r in range(n_ranks)
    ]
    assert sorted(joined(joined(ranks))) == list(range(n_rows))
    least = min(2, batch_size)
    if n_rows >= least * n_ranks:
        assert min(len(batch) for rank in ranks for batch in rank) >= least
    else:  # rather none than one
        assert 1 not in [len(batch) for rank in ranks for batch in rank]
    n_batches = max(1, (n_rows - least * n_ranks) // (batch_size * n_ranks) + 1)
    assert {len(rank) for rank in ranks} == {n_batches}


def test_more_ranks_take_over_what_fewer_left_of_an_epoch():
    options = {"batch_size": 8, "n_ranks": 4, "position": N - 3}
    rows_by_rank = [
        [batch.rows.tolist() for batch in Batches(ROWS, rank=rank, **options)] for rank in range(4)
    ]
    assert [[len(batch) for batch in rank] for rank in rows_by_rank] == [[3], [0], [0], [0]]


def test_after_a_kill_others_go_on_and_each_row_is_seen_once_in_the_epoch():
    def ranks(n_ranks, **where):
        return [
            Batches(ROWS, batch_size=4, seed=2, rank=r, n_ranks=n_ranks, **where)
            for r in range(n_ranks)
        ]

    before = ranks(3)
    rows, position = [], 0
    for step, batches in enumerate(zip(*before, strict=True)):
        if step == 5:  # killed in this step: what it saw is not kept
            break
        rows += joined(batch.rows.tolist() for batch in batches)
        position = before[0].position
    for rank_batches in ranks(2, position=position):
        rows += joined(batch.rows.tolist() for batch in rank_batches)
        assert (rank_batches.epoch, rank_batches.position) == (1, 0)
    assert sorted(rows) == list(range(N))


def test_a_map_is_applied_once_to_each_row():
    calls = []

    def halve(columns):
        calls.append(len(columns["y"]))
        return {"X": columns["X"].float() / 2, "y": columns["y"]}

    for batch in Batches(ROWS, batch_size=10, seed=4, map=halve):
        assert (batch.columns["X"].numpy() == X[batch.rows.numpy()] / 2).all()
    assert sum(calls) == N


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="one length"):
        Batches({"X": X, "y": Y[:5]})


def test_rows_on_the_host_are_copied_from_pinned_memory_while_the_device_works(monkeypatch):
    expected = seen(Batches(ROWS, batch_size=60, seed=3))
    calls, stream, pinned, empty = [], ["current"], [], torch.empty

    @contextmanager
    def on(cuda_stream):
        stream.append(cuda_stream)
        yield
        stream.pop()

    def pinned_memory(*shape, pin_memory, **options):
        pinned.append(empty(*shape, **options))
        return pinned[-1]

    def copy(tensor, device, non_blocking=False):
        if non_blocking:
            assert any(tensor is buffer for buffer in pinned)
            calls.append((stream[-1], "copies"))
        return tensor.clone()

    current = SimpleNamespace(
        wait_stream=lambda other_stream: calls.append(("current", "waits for", other_stream))
    )
    side_stream = SimpleNamespace(
        wait_stream=lambda other_stream: calls.append(("own", "waits for", other_stream))
    )
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: side_stream)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)
    monkeypatch.setattr(torch, "empty", pinned_memory)
    monkeypatch.setattr(torch.Tensor, "to", copy)
    batches = Batches(ROWS, batch_size=60, seed=3, device="cuda", on_host=True)
    epoch = iter(batches)
    # After the work on earlier batches, whose memory it may be.
    copies = [("own", "waits for", current), (side_stream, "copies")] * 2
    takes = [("current", "waits for", side_stream)]
    batches_seen = [next(epoch)]
    assert calls == [*copies, *takes, *copies]  # those of the second go on meanwhile
    assert batches.position == 60
    batches_seen.append(next(epoch))
    assert calls == [*copies, *takes, *copies, *takes]
    assert seen(batches_seen) == expected
    assert next(epoch, None) is None
