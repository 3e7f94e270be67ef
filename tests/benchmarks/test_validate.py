"""The replay held against the clock, in short; and workers that share cores, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import places
from benchmarks.replay import validate, work
from benchmarks.replay.shared import makespan_on_cores, speeds
from pipelines.run.schedule import Lives, Queue, makespan


def queue(*seconds: float) -> Queue:
    return Queue(np.array(seconds, float))


@pytest.mark.parametrize(
    ("units", "speed", "end"),
    [
        (queue(1, 1), speeds(2, 2, 1.0), 1),
        (queue(1, 1), speeds(2, 2, 0.5), 2),  # two that are one core
        (queue(1, 1, 1), speeds(3, 2, 1.0), 1.5),
        # Two at half speed until 2, when the first is done; then the second alone for another 1.
        (queue(1, 2), speeds(2, 1, 1.0), 3),
        (queue(3, 1, 1, 1), speeds(2, 2, 0.75), 4),
    ],
)
def test_workers_that_share_cores(units, speed, end):
    assert makespan_on_cores(units, speed) == pytest.approx(end)


def test_cores_enough_are_the_replay_as_it_is():
    units = queue(*np.random.default_rng(0).exponential(1, 50))
    alone = makespan_on_cores(units, speeds(4, 4, 1.0))
    assert alone == pytest.approx(makespan(units, Lives.equal(4)))


@pytest.mark.parametrize("place", [places.LOCAL, places.SLURM])
def test_a_short_one_keeps_a_page(place, tmp_path, monkeypatch):
    if why := places.missing(place):
        pytest.skip(f"no workers there: {why}")
    monkeypatch.setattr(work, "NAP", 0.02)  # of calibrations, 30 units of each
    more = ["--workers", "2", "--seconds", "1", "--only", place, "--results", str(tmp_path)]
    assert validate.main(more) == 0
    (kept,) = tmp_path.glob("*.json")
    lines = json.loads(kept.read_text())["lines"]
    assert {(one["n_workers"], one["kind"]) for one in lines} == {
        (n, kind) for n in (1, 2) for kind in ("sleep", "compute")
    }
    # Whatever else the machine does, nobody sleeps for less than was asked.
    asleep = [one for one in lines if one["kind"] == "sleep"]
    assert all(one["measured"] >= 1 / one["n_workers"] for one in asleep)
    assert all(one["predicted"] >= 0.99 / one["n_workers"] for one in asleep)
    assert all(one["predicted"] > 0 for one in lines)  # computing takes what the machine gives
    assert "runs are predicted within 5%" in kept.with_suffix(".md").read_text()
