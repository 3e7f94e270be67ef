"""Batches and tasks a second: both ways are counted on few."""

from __future__ import annotations

import json

import pytest

from benchmarks import batches, dask_limits


def test_batches_are_counted(tmp_path):
    pytest.importorskip("torch", reason="the peer is torch's DataLoader")
    assert batches.main(["--rows", "2000", "--repeat", "1", "--results", str(tmp_path)]) == 0
    (kept,) = tmp_path.glob("*.json")
    record = json.loads(kept.read_text())
    ours, theirs = (line["rows_a_second"] for line in record["lines"])
    assert record["ratio"] == pytest.approx(ours[0] / theirs[0])


def test_tasks_are_counted(tmp_path):
    words = ["--tasks", "50", "--mapped", "20", "--workers", "1", "--results", str(tmp_path)]
    assert dask_limits.main(words) == 0
    (kept,) = tmp_path.glob("*.json")
    ways = {line["way"]: line["n_tasks"] for line in json.loads(kept.read_text())["lines"]}
    assert ways == {"ours": 50, "client.map": 20}
