"""The bound, the draws, and what schedules promise."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.replay import measured as measured_module
from benchmarks.replay.__main__ import COMMANDS, main
from benchmarks.replay.bound import lower_bound
from benchmarks.replay.measured import Drawn, Measured, take
from benchmarks.replay.schedules import SCHEDULES, Place
from pipelines.run.schedule import WorkerLifetimes

KEPT = Path(__file__).parents[1] / "run_folder/kept/svm_grid-finished"


def best_of_all(seconds, n_workers: int) -> float:
    """The shortest of every way to share the tasks."""
    ways = itertools.product(range(n_workers), repeat=len(seconds))
    return min(
        max(np.bincount(way, weights=seconds, minlength=n_workers)) for way in map(list, ways)
    )


def test_nothing_beats_the_bound_and_it_is_reached():
    generator = np.random.default_rng(1)
    reached = 0
    for _ in range(30):
        seconds = generator.integers(1, 9, 7).astype(float)
        bound, best = lower_bound(seconds, WorkerLifetimes.equal(3)), best_of_all(seconds, 3)
        assert bound <= best
        reached += bound == best
    assert reached >= 10
    # Four equal tasks on three workers: two on one of them, though total / W is 4 / 3.
    assert lower_bound(np.ones(4), WorkerLifetimes.equal(3)) == 2
    # Two fast and one slow card.
    assert lower_bound(np.ones(10), WorkerLifetimes(np.array([2, 2, 1.0]), *np.zeros((2, 3)))) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_schedules_on_measured_times(command):
    measured = Measured.load(command)
    drawn = measured.draw(20 * 12, np.random.default_rng(0), mean=50)
    assert drawn.seconds.mean() == pytest.approx(50)
    place = Place(WorkerLifetimes.equal(12))
    bound = lower_bound(drawn.seconds, place.lifetimes)
    over = {
        name: schedule(drawn, place, np.random.default_rng(0)) / bound
        for name, schedule in SCHEDULES.items()
    }
    assert min(over.values()) >= 1
    if (
        command == "svm_grid"
    ):  # an ensemble's refits wait for their candidates, as the bound does not
        assert over["ours"] <= 1.03
    assert over["ours"] <= 1.07
    assert over["contiguous static split"] > over["ours"]


def test_a_split_that_was_made_beforehand_by_hand():
    drawn = Drawn(np.array([1, 1, 4, 4.0]), np.ones(4), np.array([0, 1, 0, 1]))
    generator = np.random.default_rng(0)
    two = Place(WorkerLifetimes.equal(2))
    assert SCHEDULES["contiguous static split"](drawn, two, generator) == 8
    assert SCHEDULES["barrier after each fold"](drawn, two, generator) == 8
    assert SCHEDULES["queue, longest first"](drawn, two, generator) == 5
    dies = Place(WorkerLifetimes(np.ones(2), np.zeros(2), np.array([math.inf, 6])))
    assert SCHEDULES["contiguous static split"](drawn, dies, generator) == math.inf
    assert SCHEDULES["ours"](drawn, dies, generator) <= 10


def test_members_are_drawn_with_their_refits():
    names = ["nn-member=0 candidate=0", "nn-member=0 candidate=1", "refit-member=0"]
    tasks = [
        {"name": name, "cost": 1.0 + i, "seconds": 2.0 + i, "fold": 0}
        for i, name in enumerate(names)
    ]
    drawn = Measured("nn_bagging", tasks).draw(100, np.random.default_rng(3))
    assert len(drawn.needs) == 33
    for refit, candidates in drawn.needs.items():
        assert len({int(drawn.fold[i]) for i in (refit, *candidates)}) == 1
        assert drawn.seconds[refit] == drawn.costs[refit] * 4 / 3


def kept_run(folder, factors) -> list[dict]:
    """A run whose tasks took so many times as long; its journal's records."""
    shutil.copytree(KEPT, folder)
    journal = folder / "journal.jsonl"
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    for record, factor in zip(records, factors, strict=True):
        record["seconds"] *= factor
        record["cost"] = 6.0
    journal.write_text("".join(json.dumps(record) + "\n" for record in records))
    return records


def test_folds_of_a_gamma_share_its_time_in_the_quieter_run(tmp_path, monkeypatch):
    monkeypatch.setattr(measured_module, "FOLDER", tmp_path)
    one = kept_run(tmp_path / "one", (1, 3, 3))
    other = kept_run(tmp_path / "other", (3, 1, 1))
    tasks = json.loads(take([tmp_path / "one", tmp_path / "other"]).read_text())
    for first, second in zip(one, other, strict=True):
        gamma = first["rows"][0]["gamma"]
        folds = [unit for unit in tasks if unit["gamma"] == gamma]
        shortest = min(first["seconds"], second["seconds"])
        assert [unit["fold"] for unit in folds] == [0, 1, 2]
        assert [unit["seconds"] for unit in folds] == [pytest.approx(shortest / 3, abs=1e-4)] * 3
        assert sum(unit["cost"] for unit in folds) == 6


def test_the_command_keeps_a_page_and_a_figure(tmp_path):
    figure = tmp_path / "replay.png"
    more = ["--draws", "3", "--most", "10", "--results", str(tmp_path), "--figure", str(figure)]
    assert main(more) == 0
    assert figure.stat().st_size > 10_000
    (record,) = tmp_path.glob("*-replay.json")
    lines = json.loads(record.read_text())["lines"]
    alone = [one for one in lines if one["n_workers"] == 1 and "static" in one["schedule"]]
    assert all(one["median"] == pytest.approx(1, abs=0.05) for one in alone)
