"""What a raced run leaves of what it gave up: in its folder, and wherever that is read."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from pipelines.run.result import Run
from pipelines.search.strategies import race as racing
from pipelines.svm_grid import main
from tests.command_runs import record, said_by

# Of the digits the two largest of these gamma are hopeless.
GRID = ["--n-c", "3", "--n-gamma", "4", "--log-gamma", "-4", "0.5", "--log-c", "0", "3"]
HERE = ["--limit", "300", "--folds", "4", "--cluster", "threads"]
RACE = ["--strategy", "race"]


@pytest.fixture(scope="module")
def race(tmp_path_factory):
    """A raced run, and what it said."""
    folder = tmp_path_factory.mktemp("race") / "race"
    return folder, said_by("svm_grid", *HERE, *GRID, *RACE, "--results", str(folder))


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """The same candidates, each on every fold."""
    folder = tmp_path_factory.mktemp("grid") / "grid"
    said_by("svm_grid", *HERE, *GRID, "--results", str(folder))
    return folder


def candidates(folder):
    return pd.read_parquet(folder / "candidates.parquet")


def test_what_was_given_up_stays_in_the_table(race, grid):
    folder, output = race
    table, whole = candidates(folder), candidates(grid)
    assert len(table) == len(whole) == 12
    lost = table[table["stopped"] != ""]
    assert 3 <= len(lost) < 12
    assert (
        lost["stopped"].str.fullmatch(r"stopped after \d of 4 folds, \d+\.\d points behind").all()
    )
    assert lost["score_mean"].isna().all()
    assert lost["n_ok"].between(2, 3).all()
    assert (lost["behind"] > 0).all()
    assert table["rank"].tolist() == list(range(1, 13))
    # What has all folds is as in the whole grid, and so is the best.
    kept = table[table["stopped"] == ""].drop(columns=["score_part", "behind", "stopped", "rank"])
    same = kept[["C", "gamma"]].merge(whole.drop(columns="rank"), on=["C", "gamma"])
    pd.testing.assert_frame_equal(kept, same)
    assert record(folder)["best"] == record(grid)["best"]
    assert list(whole) == [*kept, "rank"], "a plain grid has no further columns"
    assert "strategy" not in record(grid)
    spent = record(folder)["strategy"]
    cells = pd.read_parquet(folder / "cv_results.parquet")
    assert (spent["fits"], spent["grid_fits"], spent["share_fits"]) == (len(cells), 48, 0)
    assert spent["n_stopped"] == len(lost)
    assert (
        f"race       {len(cells)} of 48 fits: {len(lost)} of 12 candidates stopped early" in output
    )
    assert spent["parts"][0]["seconds"] > 0


def test_a_raced_run_is_read_from_python(race):
    run = Run(race[0])
    assert run.best is not None
    assert run.best["gamma"] == candidates(race[0])["gamma"][0]
    assert len(run.cv_results) == run.record["strategy"]["fits"]
    assert "of 48" in run._repr_html_()
    assert "stopped after" in run.page.read_text()


def test_a_grid_takes_the_fits_of_a_race(race, grid, tmp_path, capsys):
    wider = tmp_path / "wider"
    assert main([*HERE, *GRID, "--extend", str(race[0]), "--results", str(wider)]) == 0
    n_fits = record(race[0])["strategy"]["fits"]
    assert f"extended   {n_fits} fits are those of {race[0]}" in capsys.readouterr().out
    pd.testing.assert_frame_equal(candidates(wider), candidates(grid))
    assert "strategy" not in record(wider)


def test_a_race_takes_the_fits_of_a_grid(race, grid, tmp_path):
    again = tmp_path / "again"
    assert main([*HERE, *GRID, *RACE, "--extend", str(grid), "--results", str(again)]) == 0
    pd.testing.assert_frame_equal(candidates(again), candidates(race[0]))
    (only,) = (again / "journal.jsonl").read_text().splitlines()
    assert len(json.loads(only)["rows"]) == 48, "nothing is computed"


def test_a_dry_run_says_that_fewer_fits_may_be_left(race, tmp_path, capsys):
    folder = tmp_path / "left off"
    folder.mkdir()
    shutil.copy(race[0] / "run.json", folder)
    first, *_ = (race[0] / "journal.jsonl").read_text().splitlines(keepends=True)
    (folder / "journal.jsonl").write_text(first)
    about = record(folder) | {"status": "stopped", "files": {}, "wall_seconds": 90.0}
    (folder / "run.json").write_text(json.dumps(about))
    assert main(["--resume", str(folder), "--dry-run"]) == 0
    n = len(json.loads(first)["rows"])
    remaining = f"{n} fits done in 1:30 min, at most {48 - n} left"
    assert f"resume     {folder}: {remaining}\n" in capsys.readouterr().out


def test_fits_on_a_share_of_the_rows_are_told_apart(tmp_path, monkeypatch, capsys):
    """Groups are screened on a third of the rows, which are no cells, and of no use to a grid."""
    monkeypatch.setattr(racing, "LEAST_ROWS", 50)
    screened, whole = tmp_path / "screened", tmp_path / "whole"
    assert main([*HERE, *GRID, *RACE, "--results", str(screened)]) == 0
    cells, spent = pd.read_parquet(screened / "cv_results.parquet"), record(screened)["strategy"]
    on_a_share = cells[cells["share"] < 1]
    assert (on_a_share["fold"] == -1).all()
    assert len(on_a_share) == spent["share_fits"] == 36
    assert [part["fits"] for part in spent["parts"]] == [36, spent["fits"]]
    assert f"{spent['fits']} of 48 fits, and 36 on 1/3 of the rows" in capsys.readouterr().out
    lost = candidates(screened).query("stopped != ''")
    assert len(lost) >= 3
    assert lost["stopped"].str.startswith("stopped on 1/3 of the rows, ").all()
    assert (lost["n_ok"] == 0).all()
    assert lost["score_part"].notna().all()
    assert Run(screened).record["n_cells"] == spent["fits"]
    assert main([*HERE, *GRID, "--extend", str(screened), "--results", str(whole)]) == 0
    assert f"extended   {spent['fits']} fits are those of" in capsys.readouterr().out
    assert (pd.read_parquet(whole / "cv_results.parquet")["share"] == 1).all()
