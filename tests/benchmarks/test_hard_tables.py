"""Hard tables: few cells of a small table; a cell that takes too long is ended and counted."""

from __future__ import annotations

import json

import numpy as np

from benchmarks.hard_tables import main, middles, peer_cell


def test_a_small_table_is_measured(tmp_path):
    small = ["--table", "banknote", "--rows", "150", "--gammas", "2", "--sample", "2"]
    assert main([*small, "--folds", "2", "--results", str(tmp_path)]) == 0
    (kept,) = tmp_path.glob("*.json")
    (line,) = json.loads(kept.read_text())["lines"]
    assert line["unconverged"] == 0
    assert line["furthest_rows"] <= 1
    assert line["ratio"] == line["peers"]["SVC"]["seconds"] / line["ours_seconds"]
    assert "banknote" in kept.with_suffix(".md").read_text()


def test_a_cell_that_takes_too_long_is_ended():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 2)), rng.integers(0, 2, 2000)
    fold = (np.arange(1900), np.arange(1900, 2000))
    assert peer_cell(X, y, fold, 1e9, 10.0, 1) == {"seconds": 1.0, "errors": None}


def test_the_sample_is_the_middles_of_equal_parts():
    assert middles(6).tolist() == [2, 6, 10, 14, 18, 22]
    assert middles(24).tolist() == list(range(24))
