"""Formations: which they are, and a small one behind a real Slurm."""

from __future__ import annotations

import json

import pytest

from benchmarks import formation, places
from benchmarks.replay import work


@pytest.mark.parametrize("text", ["2", "0x1", "5x1", "2x9", "x", "2 x 3"])
def test_a_formation_that_cannot_be_is_one_line(text, capsys):
    assert formation.main(["--formation", text]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"1x1 to 4x4, got {text!r}" in line


@pytest.mark.parametrize("place", [places.LOCAL, places.SLURM])
def test_a_formation_is_opened_measured_and_drawn(place, tmp_path, monkeypatch):
    if why := places.missing(place):
        pytest.skip(f"no workers there: {why}")
    monkeypatch.setattr(work, "NAP", 0.02)  # of a calibration, 30 units
    figure = tmp_path / "formation.png"
    asked = ["--formation", "1x2", "--formation", "2x1", "--only", place, "--seconds", "1"]
    assert formation.main([*asked, "--results", str(tmp_path), "--figure", str(figure)]) == 0
    (kept,) = tmp_path.glob("*.json")
    record = json.loads(kept.read_text())
    seen = {(one["formation"], one["n_nodes_seen"]) for one in record["lines"]}
    assert seen == ({("1x2", 1)} if place == places.LOCAL else {("1x2", 1), ("2x1", 2)})
    assert all(0 < one["efficiency"] <= 1 for one in record["lines"])
    assert figure.stat().st_size > 10_000
    assert "replayed, seconds" in kept.with_suffix(".md").read_text()
