"""The lines of the grid search benchmark on a problem small enough to do by hand."""

import json

import pytest
from sklearn.svm import SVC

from benchmarks import svm_grid
from benchmarks.grid_search import lines
from benchmarks.grid_search.lines import compare, make_problem
from benchmarks.grid_search.measure import measure
from benchmarks.grid_search.page import describe, page

CS, GAMMAS = (1.0, 100.0), (1e-3, 1e-2)


@pytest.fixture(scope="module")
def problem():
    return make_problem("digits", Cs=CS, gammas=GAMMAS, n_folds=2, limit=200)


@pytest.fixture(scope="module")
def by_hand(problem):
    X, y = problem.data().scaled("cpu"), problem.dataset.y_train
    return {
        (C, gamma, fold): int((SVC(C=C, gamma=gamma).fit(X[a], y[a]).predict(X[b]) != y[b]).sum())
        for C in CS
        for gamma in GAMMAS
        for fold, (a, b) in enumerate(problem.folds)
    }


def test_our_line_gives_the_errors_of_every_cell(problem, by_hand):
    assert lines.search_with_us(problem, "sklearn", 2) == by_hand


def test_a_peer_gives_the_errors_of_every_cell(problem, by_hand):
    X = problem.data().scaled("cpu")
    assert lines.search_with_peer(problem, X, SVC, n_jobs=1) == by_hand


def test_lines_are_compared_cell_by_cell():
    ours = {"a": 3, "b": 5, "c": None, "d": 1}
    other = {"a": 3, "b": 3, "c": 2, "d": 2}
    assert compare(ours, other) == {
        "n_cells": 4,
        "n_cells_failed": 1,
        "n_cells_that_differ": 2,
        "largest_difference_rows": 2,
    }
    with pytest.raises(ValueError, match="same cells"):
        compare(ours, {"a": 3})


def test_a_peer_that_is_missing_is_named(problem, monkeypatch):
    monkeypatch.setattr(lines, "PEERS", {"GridSearchCV(fast)": ("no_such_package.svm", "intel")})
    echoed_lines = []
    measured = measure(problem, problem, ["sklearn"], "threads", 1, echoed_lines.append)
    reason = "no_such_package is not installed here; the extra 'intel' brings it"
    assert measured.missing == {"GridSearchCV(fast)": reason}
    assert any(reason in line for line in echoed_lines)
    assert reason in page(describe(problem, measured, "2026-01-02"))


def test_the_command_keeps_a_dated_result(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lines, "PEERS", {"GridSearchCV(sklearn)": ("sklearn.svm", None)})
    size = "--limit 200 --n-c 2 --n-gamma 2 --log-c 0 2 --log-gamma -3 -2 --folds 2"
    how = "--repeat 2 --solver sklearn --runner threads"
    status = svm_grid.main([*size.split(), *how.split(), "--results", str(tmp_path)])
    assert status == 0
    (path,) = tmp_path.glob("????-??-??-svm_grid-digits-200.json")
    record = json.loads(path.read_text())
    assert record["problem"]["fits"] == 8
    assert record["problem"]["n_train"] == 200
    ours, peer = record["lines"]
    assert (ours["name"], peer["name"]) == ("pleasingly (sklearn)", "GridSearchCV(sklearn)")
    for line in record["lines"]:
        assert len(line["seconds"]) == 2
        assert 0 < line["min"] <= line["median"] <= line["max"]
    (comparison,) = record["comparisons"]
    assert comparison["ratio"] == pytest.approx(peer["median"] / ours["median"])
    assert comparison["largest_difference_rows"] == 0
    text = path.with_suffix(".md").read_text()
    assert f"{ours['median']:.2f}" in text
    assert "0 of 8" in text
    assert text in capsys.readouterr().out


def test_bad_input_is_one_line(capsys, tmp_path):
    assert svm_grid.main(["--limit", "5", "--results", str(tmp_path)]) == 2
    assert svm_grid.main(["--solver", "cumml", "--results", str(tmp_path)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "--limit must be at least 10" in first
    assert "--solver must be" in second
    assert not list(tmp_path.iterdir())
