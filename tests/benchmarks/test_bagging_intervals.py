"""The benchmark of intervals, on one table of its own making."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

from benchmarks import bagging_intervals
from benchmarks.bagging_intervals import Answer, main, of_networks, quality
from benchmarks.tables.regression import N_FRESH, N_TRAIN, REGRESSION_TABLES


def true_answer(split, seed):
    """What friedman 1 is without its noise, give or take a standard deviation of that."""
    X = split.X_fresh
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    y += 10 * X[:, 3] + 5 * X[:, 4]
    return Answer(y, y - 1, y + 1)


def test_a_table_is_measured_and_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bagging_intervals, "PACKAGES", {})
    methods = {
        "networks": of_networks,
        "by spread": true_answer,
        "MAPIE": true_answer,
        "forest": true_answer,
    }
    monkeypatch.setattr(bagging_intervals, "METHODS", methods)
    argv = ["--table", "friedman 1", "--splits", "1", "--results", str(tmp_path)]
    assert main(argv) == 0
    (kept,) = tmp_path.glob("*.json")
    (line,) = json.loads(kept.read_text())["lines"]
    assert 0.88 <= line["networks"]["coverage"] <= 0.95
    assert line["MAPIE"]["coverage"] == pytest.approx(0.683, abs=0.03)  # within one deviation
    assert line["networks"]["r2"] > 0.85
    page = capsys.readouterr().out
    assert "Coverage between 88 and 95 %, MAPIE: 0 of 1 tables; outside: friedman 1" in page
    assert "behind forest's on friedman 1." in page


def test_what_width_says_of_errors():
    truth, point = np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.0, 1.0, 3.0, 8.0])
    width = np.array([0.5, 0.5, 1.0, 4.0])
    measured = quality(Answer(point, point - width, point + width), truth)
    assert measured["coverage"] == 1
    assert measured["width"] == 3
    assert measured["narrow_error"] == 0
    assert measured["r2"] == pytest.approx(1 - 10 / 14)


@pytest.mark.parametrize(
    "name", [name for name, table in REGRESSION_TABLES.items() if table.make is not None]
)
def test_made_tables_are_drawn_by_their_seed(name):
    first, again, other = (REGRESSION_TABLES[name].split(seed) for seed in (0, 0, 1))
    assert len(first.y) == N_TRAIN
    assert len(first.y_fresh) == N_FRESH
    for part, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(part, same)
    assert not np.array_equal(first.y, other.y)


def test_a_missing_package_is_named(capsys, monkeypatch):
    monkeypatch.setattr(bagging_intervals, "PACKAGES", {"no_such_module": "no-such-package"})
    assert importlib.util.find_spec("no_such_module") is None
    assert main([]) == 2
    assert "needs no-such-package, not installed" in capsys.readouterr().err
