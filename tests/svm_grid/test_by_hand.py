"""Values of C and gamma that are given by hand: the run, its page, and runs that go on from it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from pipelines import svm_grid
from pipelines.svm_grid import main
from tests.command_runs import cells, record, said_by
from tests.report.page_reader import Page

HERE = ["--dataset", "digits", "--limit", "150", "--folds", "3", "--cluster", "threads"]
HAND = ["--c", "10,0.1,1", "--gamma", "scale,0.001"]


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    folder = tmp_path_factory.mktemp("by_hand") / "run"
    return folder, said_by("svm_grid", *HERE, *HAND, "--results", str(folder))


def test_a_run_has_the_numbers_that_words_are(by_hand):
    folder, output = by_hand
    gammas = sorted(cells(folder)["gamma"].unique())
    assert "grid       3 C x 2 gamma x 3 folds = 18 fits" in output
    assert f"gamma      scale = {gammas[1]:.6g}, 1 / (features × variance of the train" in output
    assert gammas[0] == 0.001
    assert sorted(cells(folder)["C"].unique()) == [0.1, 1.0, 10.0]
    about = record(folder)["options"]
    assert (about["c"], about["gamma"]) == ([10.0, 0.1, 1.0], ["scale", 0.001])
    assert about["n_c"] is about["log_c"] is about["n_gamma"] is about["log_gamma"] is None


def test_its_page_knows_its_size(by_hand):
    folder, _ = by_hand
    assert "3 C × 2 gamma" in Page(folder / "report.html").text
    assert (folder / "heat_map.svg").stat().st_size > 1000


@pytest.mark.figures
def test_one_c_and_one_gamma_are_drawn(tmp_path):
    run = svm_grid.run(
        limit=100, folds=2, c=[3], gamma=np.array([0.01]), cluster="threads", results=tmp_path / "r"
    )
    assert run.best is not None
    assert (run.best["C"], run.best["gamma"]) == (3.0, 0.01)
    assert "<svg" in run.figures["heat_map"]._repr_svg_()


def test_a_stopped_run_goes_on(by_hand, tmp_path):
    whole, _ = by_hand
    folder = tmp_path / "stopped"
    folder.mkdir()
    about = record(whole)
    about |= {"status": "stopped", "files": {}}
    (folder / "run.json").write_text(json.dumps(about))
    lines = (whole / "journal.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) > 1
    (folder / "journal.jsonl").write_text(lines[0])
    assert "18 fits" in said_by("svm_grid", "--resume", str(folder), *HAND)
    pd.testing.assert_frame_equal(cells(folder), cells(whole))


def test_a_stopped_run_keeps_its_values(by_hand, capsys):
    folder, _ = by_hand
    assert main(["--resume", str(folder), "--c", "1,2"]) == 2
    assert "--c must stay 10.0,0.1,1.0 when resuming" in capsys.readouterr().err


def test_a_grid_is_extended_by_values_by_hand(by_hand, tmp_path):
    folder, _ = by_hand
    wider_grid = ["--c", "0.1,1,10,100", "--gamma", "scale", "--extend", str(folder)]
    output = said_by("svm_grid", *HERE, *wider_grid, "--results", str(tmp_path / "more"))
    assert f"extended   9 fits are those of {folder}" in output


def test_numbers_have_epsilon_by_hand(tmp_path):
    table = tmp_path / "t.csv"
    a = np.linspace(0, 5, 60)
    pd.DataFrame({"a": a, "y": np.sin(a)}).to_csv(table, index=False)
    words = ["--dataset", str(table), "--target", "y", "--c", "1", "--gamma", "scale,2"]
    words += ["--epsilon", "0,0.1", "--folds", "2", "--cluster", "threads"]
    output = said_by("svm_grid", *words, "--results", str(tmp_path / "run"))
    assert "1 C x 2 gamma x 2 epsilon x 2 folds = 8 fits" in output
    assert sorted(cells(tmp_path / "run")["epsilon"].unique()) == [0.0, 0.1]
