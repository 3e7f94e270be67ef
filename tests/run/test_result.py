"""``Run``: a run's answer, its tables, and its model's predictions of new rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines import InputError, Run, cross_validate, svm_grid
from pipelines.__main__ import main

KEPT = Path(__file__).parents[1] / "run_folder" / "kept"
QUICK = {"folds": 2, "cluster": "threads", "workers": 1, "quiet": True}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three species by numbers and text, with missing cells; a file of its own."""
    random = np.random.default_rng(0)
    kinds = random.integers(3, size=150)
    frame = pd.DataFrame(
        random.normal(size=(150, 2)) + 3 * kinds[:, None], columns=["long", "wide"]
    )
    frame["town"] = random.choice(["Ulm", "Bern", "Graz"], 150)
    frame["species"] = np.array(["ash", "elm", "oak"])[kinds]
    frame.loc[3, "long"], frame.loc[8, "town"] = np.nan, None
    path = tmp_path_factory.mktemp("table") / "trees.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def compared(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared") / "run"
    options = {"dataset": table, "estimator": ["knn", "ridge"], "scoring": ["f1_macro", "accuracy"]}
    run = cross_validate.run(**options, **QUICK, results=folder)
    return run


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid") / "run"
    run = svm_grid.run(limit=150, n_c=2, n_gamma=2, **QUICK, results=folder)
    return run


def test_candidates_come_best_first(compared, grid):
    for run in (compared, grid):
        scores = run.candidates["score_mean"].tolist()
        assert scores == sorted(scores, reverse=True)
        assert run.best is not None
        assert scores[0] == run.best["score_mean"]
    assert {"C", "gamma"} <= {*grid.candidates}


def test_metrics_are_flat_and_named_by_what_they_measure(compared, grid):
    for run in (compared, grid):
        assert all(type(value) in (int, float) for value in run.metrics.values())
        assert run.metrics["test_error"] == run.test_error
        assert run.metrics["baseline_test_error"] == run.record["baseline"]["test_error"]
    assert grid.best is not None
    assert grid.metrics["cv_error"] == pytest.approx(1 - grid.best["score_mean"])
    assert compared.best is not None
    assert compared.metrics["cv_f1_macro"] == compared.best["score_mean"]
    assert compared.metrics["test_f1_macro"] == compared.record["test_scores"]["f1_macro"]
    assert "baseline_cv_f1_macro" in compared.metrics


def test_what_scikit_learn_negates_is_a_loss(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=X @ [1.0, 2.0])
    frame.to_csv(tmp_path / "numbers.csv", index=False)
    options = {"dataset": tmp_path / "numbers.csv", "target": "y", "estimator": "ridge"}
    scoring = "neg_mean_absolute_error"
    run = cross_validate.run(**options, scoring=scoring, **QUICK, results=tmp_path / "run")
    assert run.metrics["cv_mean_absolute_error"] == -run.best["score_mean"] > 0
    assert run.metrics["test_mean_absolute_error"] == -run.record["test_scores"][scoring]
    predicted = run.predictions
    assert {"true", "predicted"} <= {*predicted}


def test_options_start_the_same_run_again(grid, tmp_path):
    assert {"results", "cluster", "quiet", "resume", "dry_run"}.isdisjoint(grid.options)
    again = svm_grid.run(**grid.options, cluster="threads", quiet=True, results=tmp_path / "again")
    assert again.best == grid.best
    assert again.options == grid.options


def test_predictions_are_those_of_the_test_rows(compared):
    table = compared.predictions
    wrong = (table["true"] != table["predicted"]).mean()
    assert len(table) == compared.record["dataset"]["n_test"]
    assert wrong == compared.test_error


@pytest.mark.filterwarnings("ignore:column '(long|town)' has no value:UserWarning")
def test_predict_answers_as_the_command(compared, table, tmp_path):
    output = tmp_path / "answers.parquet"
    words = ["predict", str(compared.path), str(table), "--output", str(output)]
    assert main(["cross-validate", *words]) == 0
    expected, frame = pd.read_parquet(output), pd.read_csv(table)
    features = frame.drop(columns="species")
    for rows in (table, str(table), frame, features[["town", "wide", "long"]], features.to_numpy()):
        pd.testing.assert_frame_equal(compared.predict(rows), expected)
    assert (expected["predicted"] == frame["species"]).mean() > 0.8


@pytest.mark.filterwarnings("ignore:column 'long' has no value:UserWarning")
def test_what_is_noticed_in_the_rows_is_a_warning(compared, table):
    with pytest.warns(UserWarning, match="'town' has 1 level that the run did not learn: 'Rome'"):
        compared.predict(pd.read_csv(table).assign(town="Rome"))


def test_pixels_are_predicted(grid):
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    answers = grid.predict(X[:100])
    assert (answers["predicted"].astype(int) == y[:100]).mean() > 0.8
    images = grid.predict(X[:100].reshape(100, 8, 8))
    pd.testing.assert_frame_equal(images, answers)
    with pytest.raises(
        InputError, match=r"^rows must be numbers of shape \(n_rows, 64\), .* reshape"
    ):
        grid.predict(X[:, :10])
    with pytest.raises(InputError, match=r"^the run must be a run on a table"):
        grid.predict(pd.DataFrame(X))


def test_rows_that_the_model_cannot_take_are_named(compared, table):
    frame = pd.read_csv(table)
    with pytest.raises(InputError, match=r"^rows must have the columns 'wide', the DataFrame has"):
        compared.predict(frame.drop(columns="wide"))
    with pytest.raises(InputError, match=r"column 'wide', the DataFrame has 'broad'"):
        compared.predict(frame.assign(wide="broad"))
    with pytest.raises(InputError, match=r"3 columns long, wide, town, got an array of shape"):
        compared.predict(frame[["long"]].to_numpy())
    with pytest.raises(InputError, match=r"got an empty DataFrame"):
        compared.predict(frame[:0])
    with pytest.raises(InputError, match=r"'no\.csv' does not exist"):
        compared.predict("no.csv")
    with pytest.raises(InputError, match=r"^netwrk is not a parameter .* did you mean network\?"):
        compared.predict(frame, netwrk="mine.py:Net")


def test_a_figure_is_named_with_the_nearest(grid):
    with pytest.raises(InputError, match=r"^figures has no 'heatmap'; did you mean heat_map\?$"):
        _ = grid.figures["heatmap"]
    with pytest.raises(KeyError):
        _ = grid.figures["xyzzy"]


def test_it_shows_the_answer(compared, grid):
    lines = repr(grid).splitlines()
    assert lines[0] == f"Run({str(grid.path)!r})"
    assert lines[1].startswith("  command    svm-grid, finished in ")
    assert "digits, 150 training rows" in lines[2]
    labels = [line.split("  ")[1] for line in lines[1:]]
    assert labels[:3] == ["command", "data", "best"]
    assert f"test error {100 * (grid.test_error or 0):.2f} %" in repr(grid)
    assert "cv f1_macro" in repr(compared)
    assert all(len(line) < 120 for line in lines)


@pytest.mark.parametrize("folder", sorted(KEPT.iterdir()), ids=lambda path: path.name)
def test_folders_of_earlier_versions_open(folder):
    run = Run(folder)
    assert repr(run).startswith(f"Run({str(folder)!r})\n  command ")
    finished = run.record["status"] == "finished"
    assert ("test_error" in run.metrics) == finished
    if finished:
        assert len(run.predictions)
        assert len(run.candidates)


def test_a_folder_without_a_run_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match=r"^path must be a run folder (with|that)"):
            Run(path)


def test_a_damaged_folder_has_a_repr(grid, tmp_path):
    shutil.copytree(grid.path, tmp_path / "run")
    run = Run(tmp_path / "run")
    for content in ("{", "[]", json.dumps({"command": "svm_grid", "best": 3})):
        (run.path / "run.json").write_text(content)
        assert ": damaged (" in repr(run)
        assert len(repr(run).splitlines()) == 1
        assert "damaged" in run._repr_html_()
        with pytest.raises(InputError, match="damaged"):
            Run(run.path)


def test_a_dry_run_has_no_answer(tmp_path):
    run = svm_grid.run(results=tmp_path / "none", dry_run=True, quiet=True)
    assert repr(run).endswith("no run is there, as after a dry run")
    with pytest.raises(InputError):
        _ = run.metrics
