"""What every home of rows has in common: each row once, in an order that only the seed decides."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("torch", reason="batches are torch's tensors")

import torch

from pipelines.data.batches import Batches, DeviceRows, HostRows, ParquetRows, write_rows
from pipelines.errors import InputError

N = 103
X = np.random.default_rng(0).integers(0, 256, (N, 6), dtype=np.uint8)
Y = np.arange(N, dtype=np.int64)


@pytest.fixture(params=["host", "device", "parquet"])
def home(request, tmp_path):
    if request.param == "host":
        return HostRows({"X": X, "y": Y})
    if request.param == "device":
        return DeviceRows({"X": X, "y": Y})
    write_rows(tmp_path / "rows.parquet", {"X": X, "y": Y}, group=7)
    return ParquetRows(tmp_path / "rows.parquet", {"X": "X", "y": "y"}, n_together=3)


def joined(parts):
    return list(itertools.chain.from_iterable(parts))


def seen(batches):
    return [batch.columns["y"].tolist() for batch in batches]


def test_an_epoch_shows_each_row_once_with_what_belongs_to_it(home):
    batches = Batches(home, batch_size=10, seed=3)
    found = []
    for batch in batches:
        assert batch.columns["X"].dtype == torch.uint8
        assert (batch.columns["X"].numpy() == X[batch.rows.numpy()]).all()
        assert batch.columns["y"].tolist() == batch.rows.tolist()
        found += batch.rows.tolist()
    assert found != sorted(found)
    assert sorted(found) == list(range(N))
    assert batches.state_dict() == {"seed": 3, "epoch": 1, "position": 0}
    assert joined(seen(batches)) != found  # shuffled anew


@pytest.mark.parametrize("n_ranks", [2, 3])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_ranks_share_out_what_one_process_would_see(home, n_ranks, prefetch):
    alone = seen(Batches(home, batch_size=5 * n_ranks, seed=1))
    ranks = [
        seen(Batches(home, batch_size=5, seed=1, prefetch=prefetch, rank=r, n_ranks=n_ranks))
        for r in range(n_ranks)
    ]
    assert [joined(parts) for parts in zip(*ranks, strict=True)] == alone
    last = [len(rank[-1]) for rank in ranks]
    assert max(last) - min(last) <= 1


def test_after_a_kill_others_go_on_and_each_row_is_seen_once_in_the_epoch(home):
    def gang(n_ranks, state=None):
        ranks = [
            Batches(home, batch_size=4, seed=2, rank=r, n_ranks=n_ranks) for r in range(n_ranks)
        ]
        for one in ranks:
            if state is not None:
                one.load_state_dict(state)
        return ranks

    before = gang(3)
    rows, state = [], None
    for step, batches in enumerate(zip(*before, strict=True)):
        if step == 5:  # killed in this step: what it saw is not kept
            break
        rows += joined(batch.rows.tolist() for batch in batches)
        state = before[0].state_dict()
    for one in gang(2, state):
        rows += joined(batch.rows.tolist() for batch in one)
        assert one.state_dict() == {"seed": 2, "epoch": 1, "position": 0}
    assert sorted(rows) == list(range(N))


def test_a_map_is_applied_once_to_each_row_where_it_is_cached(home):
    calls = []

    def halve(columns):
        calls.append(len(columns["y"]))
        return {"X": columns["X"].float() / 2, "y": columns["y"]}

    plain = Batches(home, batch_size=10, seed=4, map=halve)
    first = [batch.columns["X"] for batch in plain]
    assert sum(calls) == N
    calls.clear()
    cached = Batches(home, batch_size=10, seed=4, map=halve, cache=True)
    assert all(map(torch.equal, first, (batch.columns["X"] for batch in cached)))
    list(cached)
    assert sum(calls) == N


def test_without_shuffling_rows_come_as_they_lie(home):
    batches = Batches(home, batch_size=50, shuffle=False)
    assert seen(batches) == [Y[:50].tolist(), Y[50:100].tolist(), Y[100:].tolist()]


def test_an_error_of_a_map_reaches_the_loop_through_prefetching(home):
    def fails(columns):
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError):
        list(Batches(home, map=fails, prefetch=2))


def test_a_loop_that_is_left_leaves_no_thread(home):
    import threading

    for _ in itertools.islice(Batches(home, batch_size=2, prefetch=2), 3):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_a_file_is_read_a_few_groups_at_a_time(tmp_path):
    write_rows(tmp_path / "rows.parquet", {"y": Y}, group=5)
    home = ParquetRows(tmp_path / "rows.parquet", {"y": "y"}, n_together=2)
    windows = [{row // 5 for row in rows} for rows in seen(Batches(home, batch_size=10))]
    assert all(len(groups) <= 4 for groups in windows)  # a batch lies across two buffers at most
    assert len(home._held) <= 4


def test_a_table_of_another_program_is_read_by_its_columns(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"a": Y * 0.5, "b": Y * 2.0, "label": Y})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=20)
    home = ParquetRows(tmp_path / "t.parquet", {"X": ["a", "b"], "y": "label"})
    batch = next(iter(Batches(home, batch_size=N, shuffle=False)))
    assert torch.equal(
        batch.columns["X"], torch.tensor(frame[["a", "b"]].to_numpy().tolist(), dtype=torch.float64)
    )


def test_bad_input_is_refused(tmp_path):
    home = HostRows({"y": Y})
    with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
        Batches(home, batch_size=0)
    with pytest.raises(InputError, match="rank must be from 0 to 1, got 2"):
        Batches(home, rank=2, n_ranks=2)
    with pytest.raises(InputError, match="seed must stay 5"):
        Batches(home).load_state_dict({"seed": 5, "epoch": 0, "position": 0})
    with pytest.raises(InputError, match="one length"):
        HostRows({"X": X, "y": Y[:5]})
    with pytest.raises(InputError, match="must be a Parquet file"):
        ParquetRows(tmp_path / "none.parquet", {"y": "y"})
    write_rows(tmp_path / "rows.parquet", {"y": Y})
    with pytest.raises(InputError, match="got z; it has y"):
        ParquetRows(tmp_path / "rows.parquet", {"y": "z"})
