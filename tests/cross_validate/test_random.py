"""``--strategy random`` of any estimators: distributions and branches, drawn before any fit."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from tests.command_runs import said_by

HERE = ["--dataset", "digits", "--limit", "120", "--folds", "2", "--cluster", "threads"]
SPACE = """
svm:
  - {kernel: rbf, C: {log: [1e-2, 1e4]}, gamma: {log: [1e-4, 1]}}
  - {kernel: linear, C: {log: [1e-3, 10]}}
knn: {n_neighbors: {int: [1, 5]}}
"""


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    path = tmp_path_factory.mktemp("space") / "space.yaml"
    path.write_text(SPACE)
    return path


def params(folder, algorithm):
    table = pd.read_parquet(folder / "candidates.parquet").sort_values("candidate")
    return [json.loads(text) for text in table[table["algorithm"] == algorithm]["params"]]


def test_each_estimator_has_its_draws(space, tmp_path):
    words = [*HERE, "--grid", str(space), "--strategy", "random", "--n-iter", "8"]
    output = said_by("cross_validate", *words, "--results", str(tmp_path / "both"))
    assert "candidates 13 of svm, knn x 2 folds = 26 fits" in output
    assert "drawn      8 of each estimator, from seed 0; knn has only 5 that differ" in output
    assert "in its list" not in output, "draws have no list whose end is to be moved"
    svm = params(tmp_path / "both", "svm")
    assert {candidate_params["kernel"] for candidate_params in svm} == {"rbf", "linear"}
    assert {tuple(candidate_params) for candidate_params in svm} == {
        ("kernel", "C", "gamma"),
        ("kernel", "C"),
    }
    assert sorted(
        candidate_params["n_neighbors"] for candidate_params in params(tmp_path / "both", "knn")
    ) == [1, 2, 3, 4, 5]

    typed = ["--estimator", "svm", "--param", "C={log: [1e-2, 1e4]}", "--n-iter", "3"]
    alone = [*HERE, "--strategy", "random", *typed]
    said_by("cross_validate", *alone, "--results", str(tmp_path / "alone"))
    beside = [*alone, "--estimator", "tree", "--results", str(tmp_path / "beside")]
    said_by("cross_validate", *beside)
    assert params(tmp_path / "alone", "svm") == params(tmp_path / "beside", "svm")


def test_branches_of_lists_are_a_grid_of_each(tmp_path):
    (tmp_path / "g.yaml").write_text(
        "svm:\n  - {kernel: [rbf], C: [1, 10], gamma: [0.01, 0.1]}\n  - {kernel: [linear]}\n"
    )
    words = [*HERE, "--grid", str(tmp_path / "g.yaml"), "--results", str(tmp_path / "run")]
    assert "candidates 5 of svm" in said_by("cross_validate", *words)
    assert params(tmp_path / "run", "svm")[-1] == {"kernel": "linear"}


def test_a_distribution_needs_draws(space, capsys):
    from pipelines.cross_validate import main

    assert main([*HERE, "--grid", str(space)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--strategy must draw candidates" in line
    assert "as C of svm has, {log: [0.01, 10000]}, got grid; use --strategy random" in line


@pytest.mark.figures
def test_draws_are_dots_against_each_of_their_parameters(tmp_path):
    from pipelines.report.page import read_run

    words = ["--estimator", "tree", "--param", "max_depth={int: [1, 9]}", "criterion=gini,entropy"]
    drawn = [*HERE, *words, "--strategy", "random", "--n-iter", "12"]
    said_by("cross_validate", *drawn, "--results", str(tmp_path / "run"))
    report = read_run(tmp_path / "run")
    (best,) = report.best_of.values()
    curves = report.curves_of("tree", best)
    assert {name: len(table) for name, table in curves.items()} == {
        "max_depth": 12,
        "criterion": 12,
    }
    panel = report._curve("tree", "criterion", curves["criterion"])
    assert panel.ticks is not None
    assert sorted(panel.ticks[1]) == ["entropy", "gini"]
    assert panel.series[0].band is None
    assert panel.series[0].look["linestyle"] == "none", "draws have no order"
