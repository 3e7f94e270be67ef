"""What grows is named, what is flat is let be; and a short run of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import soak
from benchmarks.soaked.trend import trend
from benchmarks.soaked.watch import Watched

UNITS = list(range(0, 4000, 20))


def looks(slope: float, noise: float, level: float = 1e8) -> list[float]:
    generator = np.random.default_rng(0)
    return [
        level + slope * n + noise * one
        for n, one in zip(UNITS, generator.normal(size=200), strict=True)
    ]


@pytest.mark.parametrize(("slope", "flat"), [(0, True), (-5000, True), (900, True), (1100, False)])
def test_a_slope_is_found_under_noise(slope, flat):
    found = trend(UNITS, looks(slope, 1e5))
    assert found.low < slope < found.high
    assert found.is_flat(1024) is flat


def test_a_slope_that_is_not_sure_is_not_flat():
    found = trend(UNITS, looks(0, 1e8))
    assert not found.is_flat(1024)


def test_a_process_that_came_late_is_judged_by_what_was_seen_of_it():
    values = [None] * 50 + looks(500, 1e4)[50:]
    assert trend(UNITS, values).slope == pytest.approx(500, rel=0.1)


def test_too_few_looks_are_an_error():
    with pytest.raises(ValueError, match="at least 8 looks"):
        trend(UNITS[:3], looks(0, 0)[:3])


def test_each_process_and_the_journal_are_judged():
    seen = Watched(
        units=UNITS, seconds=[n / 100 for n in UNITS], journal_bytes=[1000 * n for n in UNITS],
        memory={"launcher": looks(2000, 1e4), "worker 1": looks(2000, 1e4)},
        files={"launcher": [40] * 200, "worker 1": [20 + n // 100 for n in UNITS]},
    )  # fmt: skip
    found = soak.judged(seen)
    flat = {(one["what"], one["process"]): one["flat"] for one in found["lines"]}
    assert flat == {
        ("memory", "launcher"): True, ("memory", "worker 1"): False,
        ("open files", "launcher"): True, ("open files", "worker 1"): False,
    }  # fmt: skip
    assert found["journal"] == {"first_half": 1000, "second_half": 1000, "flat": True}


def test_a_short_run_is_watched_to_its_end(tmp_path):
    figure = tmp_path / "soak.png"
    more = ["--limit", "100", "--results", str(tmp_path), "--figure", str(figure)]
    assert soak.main(["--units", "400", "--workers", "1", *more]) == 0
    (kept,) = tmp_path.glob("*.json")
    record = json.loads(kept.read_text())
    assert record["n_units"] >= 400  # one that takes a second leaves its folds, too
    assert {one["process"] for one in record["lines"]} == {"launcher", "worker 1"}
    assert record["journal"]["flat"]
    assert figure.stat().st_size > 5000
    assert "slope a unit" in kept.with_suffix(".md").read_text()
