"""The replay beside a simulator that knows nothing of it."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from benchmarks.replay import second_opinion
from benchmarks.replay.second_opinion import DEBIANS, has_simgrid, in_simgrid, main
from pipelines.run.schedule import Lives, Queue


@pytest.fixture
def simgrid():
    if not has_simgrid(DEBIANS):
        pytest.skip("no SimGrid: Debian's python3-simgrid is not installed")
    return DEBIANS


def test_both_say_the_same_and_it_is_kept(simgrid, tmp_path):
    assert main(["--results", str(tmp_path)]) == 0
    (kept,) = tmp_path.glob("*.json")
    lines = json.loads(kept.read_text())["lines"]
    assert len(lines) == 3
    for one in lines:
        assert one["largest_difference_seconds"] < 1e-6 < one["ours_seconds"]
        assert one["case"] in kept.with_suffix(".md").read_text()


def test_what_simgrid_is_told_is_what_it_simulates(simgrid):
    # The third unit needs the first, and goes before the fourth.
    queue = Queue(np.array([3.0, 5, 1, 1]), {2: [0]}, per_task=0.5)
    lives = Lives(np.array([1.0, 0.5]), np.array([0, 0.25]), np.full(2, np.inf))
    assert in_simgrid(simgrid, queue, lives).tolist() == [3.5, 11, 5, 6.5]


def test_a_python_without_it_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(second_opinion, "has_simgrid", lambda python: False)
    assert main(["--python", sys.executable, "--results", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "--python must be a Python that can import simgrid" in err
    assert not list(tmp_path.iterdir())


def test_a_python_that_is_not_there_has_none(tmp_path):
    assert not has_simgrid(str(tmp_path / "python"))
