"""What every storage of rows has in common: each row once, in an order of the seed alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("torch", reason="batches are torch's tensors")

import torch

from pipelines.data.batches import Batches, DeviceRows, HostRows, ParquetRows, write_rows
from pipelines.data.batches.parquet import buffer_size, buffered_shuffle
from pipelines.errors import InputError

N = 103
X = np.random.default_rng(0).integers(0, 256, (N, 6), dtype=np.uint8)
Y = np.arange(N, dtype=np.int64)


@pytest.fixture(params=["host", "device", "parquet"])
def stored(request, tmp_path):
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


def test_an_epoch_shows_each_row_once_with_what_belongs_to_it(stored):
    batches = Batches(stored, batch_size=10, seed=3)
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
def test_ranks_share_out_what_one_process_would_see(stored, n_ranks, prefetch):
    alone = seen(Batches(stored, batch_size=5 * n_ranks, seed=1))
    ranks = [
        seen(Batches(stored, batch_size=5, seed=1, prefetch=prefetch, rank=r, n_ranks=n_ranks))
        for r in range(n_ranks)
    ]
    assert [joined(parts) for parts in zip(*ranks, strict=True)] == alone
    last = [len(rank[-1]) for rank in ranks]
    assert max(last) - min(last) <= 1


def test_after_a_kill_others_go_on_and_each_row_is_seen_once_in_the_epoch(stored):
    def ranks(n_ranks, state=None):
        ranks = [
            Batches(stored, batch_size=4, seed=2, rank=r, n_ranks=n_ranks) for r in range(n_ranks)
        ]
        for one in ranks:
            if state is not None:
                one.load_state_dict(state)
        return ranks

    before = ranks(3)
    rows, state = [], None
    for step, batches in enumerate(zip(*before, strict=True)):
        if step == 5:  # killed in this step: what it saw is not kept
            break
        rows += joined(batch.rows.tolist() for batch in batches)
        state = before[0].state_dict()
    for one in ranks(2, state):
        rows += joined(batch.rows.tolist() for batch in one)
        assert one.state_dict() == {"seed": 2, "epoch": 1, "position": 0}
    assert sorted(rows) == list(range(N))


def test_a_map_is_applied_once_to_each_row(stored):
    calls = []

    def halve(columns):
        calls.append(len(columns["y"]))
        return {"X": columns["X"].float() / 2, "y": columns["y"]}

    for batch in Batches(stored, batch_size=10, seed=4, map=halve):
        assert (batch.columns["X"].numpy() == X[batch.rows.numpy()] / 2).all()
    assert sum(calls) == N


def test_without_shuffling_rows_come_as_they_lie(stored):
    batches = Batches(stored, batch_size=50, shuffle=False)
    assert seen(batches) == [Y[:50].tolist(), Y[50:100].tolist(), Y[100:].tolist()]


def test_an_error_of_a_map_reaches_the_loop_through_prefetching(stored):
    def fails(columns):
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError):
        list(Batches(stored, map=fails, prefetch=2))


def test_a_loop_that_is_left_leaves_no_thread(stored):
    import threading

    for _ in itertools.islice(Batches(stored, batch_size=2, prefetch=2), 3):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def test_a_file_is_read_a_few_groups_at_a_time(tmp_path, monkeypatch):
    write_rows(tmp_path / "rows.parquet", {"y": Y}, group=5)
    stored = ParquetRows(tmp_path / "rows.parquet", {"y": "y"}, n_together=2)
    read = []
    decoded = ParquetRows._decoded

    def noting(self, groups):
        for rows in decoded(self, groups):
            read.extend(rows["y"].tolist())
            yield rows

    monkeypatch.setattr(ParquetRows, "_decoded", noting)
    for number, batch in enumerate(Batches(stored, batch_size=5)):
        # A buffer of two groups, the group whose rows take the places of these, one made ahead,
        # and rows of a batch that is not yet whole.
        assert len(read) <= min(N, 5 * (2 + number + 3))
        assert set(batch.rows.tolist()) <= set(read)
    assert sorted(read) == list(range(N))


@pytest.mark.parametrize("sizes", [[5, 5, 5], [1, 9, 2, 40, 3], [7], [3, 50]])
@pytest.mark.parametrize("n_together", [1, 2, 10])
def test_rounds_hold_what_fits_and_show_each_row_once(sizes, n_together):
    held, shown = [], []
    starts = np.cumsum([0, *sizes])
    for i, places in enumerate(buffered_shuffle(sizes, n_together, np.random.default_rng(0))):
        shown += [held[place] for place in places]
        rows = list(range(starts[i], starts[i + 1])) if i < len(sizes) else []
        for place, row in zip(places, rows, strict=False):
            held[place] = row
        held += rows[len(places) :]
        assert len(held) <= buffer_size(sizes, n_together) <= n_together * max(sizes)
    assert sorted(shown) == list(range(sum(sizes)))


def test_a_group_may_be_larger_than_the_buffer(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("y", pa.int64())])
    with pq.ParquetWriter(tmp_path / "t.parquet", schema) as writer:
        for a, b in itertools.pairwise([0, 2, 60, 61, 90, N]):
            writer.write_table(pa.table({"y": Y[a:b]}), row_group_size=100)
    stored = ParquetRows(tmp_path / "t.parquet", {"y": "y"}, n_together=2)
    for shuffle in (True, False):
        found = joined(seen(Batches(stored, batch_size=8, shuffle=shuffle)))
        assert sorted(found) == list(range(N))
        assert (found == list(range(N))) != shuffle


def test_the_buffer_mixes_rows_of_distant_groups(tmp_path):
    rows = np.arange(4000)
    write_rows(tmp_path / "rows.parquet", {"y": rows}, group=100)  # 40 groups
    stored = ParquetRows(tmp_path / "rows.parquet", {"y": "y"}, n_together=8)
    groups = [len({row // 100 for row in batch}) for batch in seen(Batches(stored, batch_size=50))]
    # Of 50 rows of a full shuffle 28.7 groups are expected; of a buffer emptied before it is
    # filled anew at most 8 to 16.
    assert np.mean(groups) > 16


def test_a_table_of_another_program_is_read_by_its_columns(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"a": Y * 0.5, "b": Y * 2.0, "label": Y})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=20)
    stored = ParquetRows(tmp_path / "t.parquet", {"X": ["a", "b"], "y": "label"})
    batch = next(iter(Batches(stored, batch_size=N, shuffle=False)))
    assert torch.equal(
        batch.columns["X"], torch.tensor(frame[["a", "b"]].to_numpy().tolist(), dtype=torch.float64)
    )


def test_bad_input_is_refused(tmp_path):
    stored = HostRows({"y": Y})
    with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
        Batches(stored, batch_size=0)
    with pytest.raises(InputError, match="rank must be from 0 to 1, got 2"):
        Batches(stored, rank=2, n_ranks=2)
    with pytest.raises(InputError, match="seed must stay 5"):
        Batches(stored).load_state_dict({"seed": 5, "epoch": 0, "position": 0})
    with pytest.raises(InputError, match="one length"):
        HostRows({"X": X, "y": Y[:5]})
    with pytest.raises(InputError, match="must be a Parquet file"):
        ParquetRows(tmp_path / "none.parquet", {"y": "y"})
    write_rows(tmp_path / "rows.parquet", {"y": Y})
    with pytest.raises(InputError, match="got z; it has y"):
        ParquetRows(tmp_path / "rows.parquet", {"y": "z"})
