"""Partitions: their bounds, and their files."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.graph import partitions


def test_bounds_balance_edges_and_nodes():
    n_in = np.zeros(64, np.int64)
    n_in[0] = 64_000
    assert partitions.balanced_bounds(n_in, 6400, 2)[1] == 100
    bounds = partitions.balanced_bounds(np.full(64, 1000), 6400, 4)
    assert bounds == (0, 1600, 3200, 4800, 6400)
    assert partitions.balanced_bounds(np.array([5, 0, 0]), 3, 5)[-1] == 3


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    path = tmp_path / "values.npy"

    def fails():
        with partitions.atomic_write(path) as unfinished:
            unfinished.write_bytes(b"half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fails()
    assert not path.exists()
