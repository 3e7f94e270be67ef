"""``--approximate``: a run on landmarks, and where they are taken."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, make_friedman1

from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm_grid import main
from tests.command_runs import record, said_by

HERE = ["--limit", "400", "--folds", "3", "--cluster", "threads"]
GRID = ["--n-c", "2", "--log-c", "0", "1", "--n-gamma", "2", "--log-gamma", "-3", "-2"]
ON_LANDMARKS = ["--approximate", "nystroem", "--landmarks", "90"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landmarks") / "run"
    return folder, said_by("svm_grid", *HERE, *GRID, *ON_LANDMARKS, "--results", str(folder))


def cells(folder):
    return pd.read_parquet(folder / "cv_results.parquet")


def test_a_run_says_its_landmarks_and_how_far_from_exact_it_is(finished):
    folder, output = finished
    assert "approximate 90 landmarks of each split stand for its rows" in output
    exactness = record(folder)["exactness"]
    assert exactness["n_rows"] + exactness["n_tested"] == 400
    assert exactness["low"] <= exactness["difference"] <= exactness["high"]
    difference = exactness["approximate"] - exactness["exact"]
    assert exactness["difference"] == pytest.approx(difference)
    assert "of exact fits:" in output
    assert "of more rows it can be more" in output
    page = (folder / "report.html").read_text()
    assert "2 C × 2 gamma on 90 landmarks" in page
    assert "90 landmarks, chosen from the training rows of each split" in page
    assert "of exact fits:" in page


def test_its_cells_and_its_machine_are_of_landmarks(finished):
    folder, _ = finished
    table = cells(folder)
    assert len(table) == 12
    assert (table["n_support"] == 90).all()
    assert (table["status"] == "ok").all()
    machine = KernelMachine.load(folder / "model.safetensors")
    assert len(machine.support_vectors) == 90
    X, y = load_digits(return_X_y=True)
    assert np.mean(machine.predict(X) == y) > 0.9


def test_a_resumed_run_has_the_same_rows(finished, tmp_path):
    folder, _ = finished
    again = tmp_path / "run"
    stopped = [*HERE, *GRID, *ON_LANDMARKS, "--results", str(again)]
    said_by("svm_grid", *stopped)
    journal = next(again.glob("journal*"))
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[: len(lines) // 2]))
    said_by("svm_grid", "--resume", str(again))
    by = ["C", "gamma", "fold"]
    first, second = (
        cells(run_folder).sort_values(by)["score"].to_numpy() for run_folder in (folder, again)
    )
    np.testing.assert_array_equal(first, second)


def test_auto_takes_landmarks_where_the_kernel_is_beyond_memory(tmp_path):
    auto = ["--approximate", "auto", "--landmarks", "60"]
    small = said_by(
        "svm_grid", *HERE, *GRID, *auto, "--memory", "1e-5", "--results", str(tmp_path / "small")
    )
    assert "60 landmarks of each split stand for its rows: the kernel of 400 rows" in small
    assert record(tmp_path / "small")["options"]["approximate"] == "nystroem"
    large = said_by("svm_grid", *HERE, *GRID, *auto, "--results", str(tmp_path / "large"))
    assert "approximate no: the exact kernel is within memory and time" in large
    assert record(tmp_path / "large")["options"]["approximate"] == "none"
    assert "exactness" not in record(tmp_path / "large")
    for name in ("small", "large"):
        assert "report" in said_by("svm_grid", "--resume", str(tmp_path / name))


def test_halving_begins_with_few_landmarks(tmp_path):
    grid = ["--n-c", "3", "--log-c", "0", "2", "--n-gamma", "3", "--log-gamma", "-3", "-1"]
    said_by(
        "svm_grid",
        *HERE,
        *grid,
        *ON_LANDMARKS,
        "--landmarks",
        "180",
        "--strategy",
        "halving",
        "--results",
        str(tmp_path / "run"),
    )
    journal = next((tmp_path / "run").glob("journal*")).read_text().splitlines()
    rows = [row for line in journal for row in json.loads(line).get("rows", ())]
    shares = {round(row["share"], 3): row["n_support"] for row in rows}
    assert shares[1.0] == 180
    assert shares[0.333] == 60


def test_numbers_are_fitted_on_landmarks(tmp_path):
    X, y = make_friedman1(300, noise=1.0, random_state=0)
    pd.DataFrame(X).assign(y=y).to_csv(tmp_path / "table.csv", index=False)
    table = ["--dataset", str(tmp_path / "table.csv"), "--target", "y", "--folds", "3"]
    output = said_by(
        "svm_grid",
        *table,
        *GRID,
        "--n-epsilon",
        "1",
        *ON_LANDMARKS,
        "--results",
        str(tmp_path / "run"),
    )
    assert "squared errors, of the targets' variance for" in output
    assert record(tmp_path / "run")["n_support"] == 90
    assert record(tmp_path / "run")["test_scores"]["r2"] > 0.4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kernel", "sigmoid"], "--kernel must be one of rbf, linear, poly with --approximate"),
        (["--solver", "sklearn"], "--solver must be one of auto, path with --approximate"),
        (["--approximate", "none"], "--landmarks is for --approximate nystroem or auto, got 90"),
        (["--landmarks", "0"], "--landmarks must be at least 1"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message, capsys):
    assert main([*HERE, *ON_LANDMARKS, *options]) == 2
    assert message in capsys.readouterr().err
