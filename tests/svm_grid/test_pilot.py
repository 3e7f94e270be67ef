"""A dry run that forecasts from a real small run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipelines import svm_grid

SMALL = ["--n-c", "4", "--n-gamma", "3", "--folds", "3", "--limit", "300"]


@pytest.fixture(scope="module")
def pilot(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pilot") / "run"
    where = ["--cluster", "threads", "--workers", "1", "--results", str(folder)]
    assert svm_grid.main([*SMALL, *where, "--quiet"]) == 0
    return str(folder)


@pytest.mark.slow
def test_the_journal_tells_what_was_predicted(pilot):
    lines = map(json.loads, (Path(pilot) / "journal.jsonl").read_text().splitlines())
    assert all(line["cost"] > 0 for line in lines)


def forecast(pilot, capsys, *options):
    """Return the lines about tasks and walltime."""
    capsys.readouterr()
    assert svm_grid.main([*SMALL, *options, "--dry-run", "--pilot", pilot]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("plan ") and "tasks" in line)
    return lines[first : first + 2]


def test_a_larger_run_is_forecast(pilot, capsys):
    planned = forecast(pilot, capsys, "--n-gamma", "30", "--workers", "40")
    n_tasks = int(planned[0].split()[1])
    assert 30 <= n_tasks <= 90  # each gamma whole, or its three folds, where workers would idle
    n_workers, busy = map(int, re.findall(r"(\d+) workers? would be busy (\d+)%", planned[0])[0])
    assert busy >= 90
    assert 3 < n_workers <= 40
    assert "request a walltime of 0:" in planned[1]


def test_more_rows_take_longer(pilot, capsys):
    few, many_rows = (
        forecast(pilot, capsys, "--workers", "1", "--limit", limit) for limit in ("300", "1200")
    )
    assert few != many_rows
