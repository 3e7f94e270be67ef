"""A run that goes on from another's candidates ends as one from scratch."""

from __future__ import annotations

import importlib
import json

import pandas as pd
import pytest

from tests.command_runs import record

# Options of the first run, and of one whose candidates hold three, or two, of its five.
CASES = {
    "svm_grid": (
        ["--n-c", "3", "--n-gamma", "2", "--log-c", "-1", "1", "--log-gamma", "-2", "-1"],
        ["--n-c", "5", "--n-gamma", "2", "--log-c", "-1", "3", "--log-gamma", "-2", "-1"],
        6,
        10,
    ),
    "cross_validate": (
        ["--estimator", "knn", "--param", "n_neighbors=1,3", "--estimator", "bayes"],
        ["--estimator", "knn", "--param", "n_neighbors=3,5,9", "--estimator", "bayes"],
        2,
        4,
    ),
}
HERE = ["--dataset", "digits", "--limit", "150", "--folds", "3", "--cluster", "threads"]
TIMES = ["fit_seconds", "score_seconds", "worker", "n_fits", "n_iterations"]


@pytest.mark.parametrize("command", CASES)
def test_the_fits_of_both_are_not_made_again(command, tmp_path, capsys):
    main = importlib.import_module(f"pipelines.{command}").main
    first, wider, n_shared, n_candidates = CASES[command]
    folders = {name: tmp_path / name for name in ("first", "wider", "scratch")}
    assert main([*HERE, *first, "--results", str(folders["first"])]) == 0
    assert main([*HERE, *wider, "--results", str(folders["scratch"])]) == 0
    capsys.readouterr()
    extend = ["--extend", str(folders["first"])]
    assert main([*HERE, *wider, *extend, "--results", str(folders["wider"])]) == 0
    assert f"extended   {3 * n_shared} fits are those of {folders['first']}" in (
        capsys.readouterr().out
    )
    tables = [
        pd.read_parquet(folders[name] / "cv_results.parquet").drop(columns=TIMES, errors="ignore")
        for name in ("wider", "scratch")
    ]
    pd.testing.assert_frame_equal(*tables)
    assert record(folders["wider"])["best"] == record(folders["scratch"])["best"]
    assert record(folders["wider"])["test_error"] == record(folders["scratch"])["test_error"]
    lines = (folders["wider"] / "journal.jsonl").read_text().splitlines()
    taken, *computed = [len(json.loads(line)["rows"]) for line in lines]
    assert (taken, sum(computed)) == (3 * n_shared, 3 * (n_candidates - n_shared))


def test_a_run_of_other_rows_or_settings_is_refused(tmp_path, capsys):
    from pipelines.svm_grid import main

    grid = ["--n-c", "1", "--n-gamma", "1"]
    assert main([*HERE, *grid, "--results", str(tmp_path / "first")]) == 0
    capsys.readouterr()
    extend = ["--extend", str(tmp_path / "first"), "--results", str(tmp_path / "next")]
    assert main([*HERE, *grid, "--seed", "1", *extend]) == 2
    assert "--extend must be a run with the same --seed" in capsys.readouterr().err
    assert main([*HERE, *grid, "--extend", str(tmp_path)]) == 2
    assert "--extend must be the folder of a run" in capsys.readouterr().err
    assert not (tmp_path / "next").exists()
