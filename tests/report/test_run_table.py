"""The runs in a folder: found, read, filtered and sorted."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from pipelines import list_runs
from pipelines.errors import InputError
from pipelines.report.run_table import COLUMNS, Condition, read_rows, score_columns
from tests.report.conftest import KEPT

REGRESSION = {
    "command": "svm_grid",
    "status": "finished",
    "started": "2026-11-29T09:00:41+00:00",
    "wall_seconds": 34.1,
    "n_cells": 90,
    "dataset": {"name": "diabetes.csv", "task": "regression", "n_train": 354, "n_test": 88},
    "best": {"score_mean": 0.461, "score_std": 0.08, "C": 10.0, "gamma": 0.001, "epsilon": 0.01},
    "test_scores": {"r2": 0.52, "neg_mean_absolute_error": -44.4},
    "baseline": {"words": "always answering the mean", "scoring": "r2", "score_mean": -0.01},
}
LOSS = {
    "command": "cross_validate",
    "status": "finished",
    "started": "2026-11-29T10:00:00+00:00",
    "options": {"scoring": ["neg_log_loss", "accuracy"]},
    "scoring": ["neg_log_loss", "accuracy"],
    "best": {
        "score_mean": -0.25,
        "score_std": 0.01,
        "algorithm": "sklearn.linear_model.LogisticRegression",
        "candidate": 3,
        "parameters": {"C": 0.1},
    },
    "test_error": 0.04,
    "test_scores": {"neg_log_loss": -0.3, "accuracy": 0.96},
}
RANKS = {
    "command": "pagerank",
    "status": "finished",
    "started": "2026-11-29T08:00:00+00:00",
    "dataset": {"name": "links.csv"},
    "top": [{"node": "home", "rank": 0.1}],
}


@pytest.fixture
def folder(tmp_path):
    """Six runs, two of them kept from an older version."""
    results = tmp_path / "results"
    for name in ("svm_grid-finished", "nn_bagging-finished"):
        shutil.copytree(KEPT / name, results / "old" / name)
    for name, record in {"regression": REGRESSION, "loss": LOSS, "ranks": RANKS}.items():
        (results / name).mkdir()
        (results / name / "run.json").write_text(json.dumps(record))
    (results / "begun").mkdir()
    begun = {"command": "svm_grid", "status": "running", "started": "2026-11-30T01:00:00+00:00"}
    (results / "begun" / "run.json").write_text(json.dumps(begun))
    return results


def names(table):
    return table["name"].tolist()


def test_each_run_has_a_row_the_newest_first(folder):
    table = list_runs(folder).set_index("name")
    assert list(table.index) == [
        "begun",
        "loss",
        "regression",
        "ranks",
        "old/nn_bagging-finished",
        "old/svm_grid-finished",
    ]
    assert list(table.reset_index().columns) == list(COLUMNS)
    svm = table.loc["old/svm_grid-finished"]
    assert svm["command"] == "svm-grid"
    assert svm["best"] == "C 31.6, gamma 0.01"
    assert svm["cv_error"] == 0.13012477718360071
    assert svm["test_error"] == 15 / 180
    assert svm["seconds"] == pytest.approx(14.19, abs=0.01)
    assert table.loc["old/nn_bagging-finished", "best"] == "2 members"
    assert table.loc["old/nn_bagging-finished", "test_error"] == 16 / 180
    assert table.loc["ranks", "best"] == "node home"
    assert table.loc["begun", ["best", "measure"]].tolist() == ["", ""]
    assert table.loc["begun", "status"] == "running"


def test_a_score_that_is_no_error_is_none(folder):
    table = list_runs(folder).set_index("name")
    regression, loss = table.loc["regression"], table.loc["loss"]
    assert (regression["measure"], regression["cv_score"], regression["test_score"]) == (
        "r2",
        0.461,
        0.52,
    )
    assert pd.isna(regression["cv_error"])
    assert pd.isna(regression["test_error"])
    assert regression["best"] == "C 10, gamma 0.001, epsilon 0.01"
    assert (loss["measure"], loss["cv_score"], loss["test_score"]) == ("log loss", 0.25, 0.3)
    assert loss["test_error"] == 0.04, "of the classes it predicts"
    assert pd.isna(loss["cv_error"])
    assert loss["best"] == "LogisticRegression, C 0.1"


def test_each_measure_has_columns_of_its_own(folder):
    rows, _ = read_rows(folder)
    columns, formats = score_columns(rows)
    heads = ["cv error", "test error", "cv log loss", "test log loss", "cv r2", "test r2"]
    assert list(columns) == heads
    shown = {head: formats[head](columns[head][1]) for head in ("test error", "cv log loss")}
    assert shown == {"test error": "4.00 %", "cv log loss": "0.2500"}


def test_a_run_is_found_where_it_is_and_nothing_within_it(folder):
    inner = folder / "loss" / "nested"
    shutil.copytree(folder / "ranks", inner)
    assert "loss/nested" not in names(list_runs(folder))
    assert names(list_runs(folder / "ranks")) == ["ranks"]
    shutil.copytree(folder / "ranks", folder / ".hidden")
    (folder / "again").symlink_to(folder)  # a circle
    elsewhere = folder.parent / "elsewhere"
    shutil.move(folder / "ranks", elsewhere)
    (folder / "ranks").symlink_to(elsewhere)
    assert sorted(names(list_runs(folder))) == [
        "begun",
        "loss",
        "old/nn_bagging-finished",
        "old/svm_grid-finished",
        "ranks",
        "regression",
    ]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"command": 3}', '{"command": "pagerank", "top": 3}', "\udcff", "{}"],
)
def test_a_damaged_run_is_named_and_left_out(folder, content):
    path = folder / "loss" / "run.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    rows, unreadable = read_rows(folder)
    assert len(rows) == 5
    (line,) = unreadable
    assert line.startswith(f"'{path}', which is damaged (")
    with pytest.warns(UserWarning, match="left out: .*loss"):
        assert "loss" not in names(list_runs(folder))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("test_error < 0.085", ["old/svm_grid-finished", "loss"]),
        ("test_error<8.5%", ["old/svm_grid-finished", "loss"]),
        ("test error <= 8.5 %", ["old/svm_grid-finished", "loss"]),
        ("test-error > .085", ["old/nn_bagging-finished"]),
        ("cv_score >= 0.461", ["regression"]),
        ("measure == r2", ["regression"]),
        ("command == svm_grid", ["begun", "regression", "old/svm_grid-finished"]),
        ("command = 'svm-grid'", ["begun", "regression", "old/svm_grid-finished"]),
        ("Command != SVM-grid", ["loss", "ranks", "old/nn_bagging-finished"]),
        ("name == old/*", ["old/nn_bagging-finished", "old/svm_grid-finished"]),
        ("status != finished", ["begun"]),
        ("seconds > 0.5 min", ["regression"]),
        ("time > 30", ["regression"]),
        ("n_train == 354", ["regression"]),
        ("started >= 2026-11-29", ["begun", "loss", "regression", "ranks"]),
        ('started == "2026-11-29 09:00"', ["regression"]),
        ("started < 2026-11-29T08:00", ["old/nn_bagging-finished", "old/svm_grid-finished"]),
        (["command == svm-grid", "cv_error < 20 %"], ["old/svm_grid-finished"]),
    ],
)
def test_conditions_hold_as_they_are_read(folder, where, expected):
    assert sorted(names(list_runs(folder, where=where))) == sorted(expected)


@pytest.mark.parametrize(
    ("where", "phrase"),
    [
        ("test_eror < 1", "got 'test_eror'; did you mean test_error?"),
        ("test < 1", "got 'test'; did you mean test_error or test_score?"),
        ("what == 1", "got 'what'; choose one of name, started, command"),
        ("finished", "must be a column, a comparison (< <= > >= == !=) and a value"),
        ("test_error <", "such as \"test_error < 0.02\", got 'test_error <'; mind the quotes"),
        (".", "got '.'; put DIR first"),
        ("0.1 > test_error", "must be a column, a comparison"),
        ("test_error < few", "test_error with a number, perhaps in %, got 'few'"),
        ("test_error < nan", "got 'nan'"),
        ("test_error < 5 min", "got '5 min'"),
        ("seconds < 10 %", "perhaps in min, h or d, got '10 %'"),
        ("name < a", "must compare name, which is text, by == or !=, got 'name < a'"),
        ("started > yesterday", "a time in UTC such as 2026-11-20"),
        ("test_error < 1 and cv_error < 1", "for another add another where"),
        ("data == digits & n_train > 3", "for another add another where"),
        ("__import__('os').system('id') == 1", "must be a column, a comparison"),
        ("@x == 1", "must be a column, a comparison"),
    ],
)
def test_a_condition_that_is_none_is_refused(where, phrase):
    with pytest.raises(InputError) as refused:
        Condition.parse(where)
    assert str(refused.value).startswith("where must ")
    assert phrase in str(refused.value)


def test_what_has_no_value_comes_last_either_way(folder):
    order = ["loss", "old/svm_grid-finished", "old/nn_bagging-finished"]
    without = ["begun", "regression", "ranks"]
    assert names(list_runs(folder, sort="test_error")) == [*order, *without]
    assert names(list_runs(folder, sort="test_error", reverse=True)) == [*order[::-1], *without]
    assert names(list_runs(folder, reverse=True))[0] == "old/svm_grid-finished"
    with pytest.raises(InputError, match="sort must name a column of runs, got 'tim'"):
        list_runs(folder, sort="tim")


def test_no_folder_is_refused_and_no_run_is_an_empty_table(tmp_path):
    with pytest.raises(InputError, match="DIR must be a folder that exists, got"):
        list_runs(tmp_path / "absent")
    table = list_runs(tmp_path)
    assert (len(table), list(table)) == (0, list(COLUMNS))


def test_long_words_on_the_best_are_cut_and_partial_ones_are_said(folder):
    best = LOSS["best"] | {"parameters": {"hidden_layer_sizes": list(range(40))}}
    (folder / "loss" / "run.json").write_text(json.dumps(LOSS | {"best": best}))
    part = REGRESSION["best"] | {"n_splits": 2}
    options = {"folds": 5}
    record = REGRESSION | {"status": "stopped", "best": part, "options": options}
    (folder / "regression" / "run.json").write_text(json.dumps(record))
    table = list_runs(folder).set_index("name")
    words = table.loc["loss", "best"]
    assert words.startswith("LogisticRegression, hidden_layer_sizes [0, 1, ")
    assert (len(words), words[-1]) == (60, "…")
    assert table.loc["regression", "best"].endswith("epsilon 0.01, of 2 of 5 folds")
