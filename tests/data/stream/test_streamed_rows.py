"""Rows on disk: the order of an epoch, which the seed and the epoch decide alone."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.data.stream.streamed_rows import windowed

SHARDS = np.split(np.arange(1000), range(50, 1000, 50))


def test_an_epoch_has_each_row_once_and_another_order_than_the_next():
    first, second = (windowed(SHARDS, 200, 3, epoch) for epoch in (0, 1))
    assert sorted(first) == list(range(1000))
    assert (first != second).any()
    assert (first == windowed(SHARDS, 200, 3, 0)).all()
    assert (first != windowed(SHARDS, 200, 4, 0)).any()


def test_rows_are_mixed_within_a_window_and_only_there():
    order = windowed(SHARDS, 200, 0, 0)
    for window in order.reshape(5, 200):
        shards = np.unique(window // 50)
        assert len(shards) == 4
        assert len(np.unique(window[:50] // 50)) > 1


@pytest.mark.parametrize("rows_of_window", [1, 10_000])
def test_a_window_has_four_shards_at_least_and_may_have_all(rows_of_window):
    order = windowed(SHARDS, rows_of_window, 0, 0)
    n_first = len(np.unique(order[:200] // 50))
    assert n_first == 4 if rows_of_window == 1 else n_first > 4
