"""A plan from a real small run, by both commands that say it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import plan
from pipelines import svm_grid

SMALL = ["--n-c", "4", "--n-gamma", "3", "--folds", "3", "--limit", "300"]


@pytest.fixture(scope="module")
def pilot(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("pilot") / "run"
    assert svm_grid.main([*SMALL, "--workers", "1", "--quiet", "--results", str(folder)]) == 0
    return str(folder)


@pytest.mark.slow
def test_the_journal_tells_what_was_predicted(pilot):
    lines = map(json.loads, (Path(pilot) / "journal.jsonl").read_text().splitlines())
    assert all(line["cost"] > 0 for line in lines)


def test_both_commands_say_the_same(pilot, capsys):
    capsys.readouterr()
    more = ["--n-gamma", "30", "--workers", "40"]
    assert plan.main(["--run", pilot, "--", *more]) == 0
    said = capsys.readouterr().out.splitlines()
    assert svm_grid.main([*SMALL, *more, "--dry-run", "--pilot", pilot]) == 0
    dry = capsys.readouterr().out.splitlines()
    planned = [line for line in dry if line in said and line.startswith(("plan ", "     "))]
    assert len(planned) == 2
    n_tasks = int(planned[0].split()[1])
    assert 30 <= n_tasks <= 90  # each gamma whole, or its three folds, where workers would idle
    assert "walltime to ask for 0:" in planned[1]


def test_more_rows_take_longer(pilot, capsys):
    plan.main(["--run", pilot, "--workers", "1"])
    few = capsys.readouterr().out
    plan.main(["--run", pilot, "--workers", "1", "--", "--limit", "1200"])
    many = capsys.readouterr().out
    assert few.splitlines()[-2] != many.splitlines()[-2]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--run", "nowhere"], "--run must be the folder of a run that began, got nowhere"),
        (["--run", "nowhere", "--efficiency", "2"], "must be above 0 and at most 1, got 2"),
    ],
)
def test_bad_input_is_one_line(argv, said, capsys):
    assert plan.main(argv) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_a_pilot_goes_with_a_dry_run(pilot, capsys):
    assert svm_grid.main([*SMALL, "--pilot", pilot]) == 2
    assert "--pilot must go with --dry-run" in capsys.readouterr().err
