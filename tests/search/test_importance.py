"""Importances of columns and hyper-parameters: what decides comes first, what is noise does not."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from pipelines import cross_validate, svm_grid
from pipelines.data.tables.kinds import Kinds
from pipelines.data.tables.preprocess import TablePreprocessor
from pipelines.run_folder import names
from pipelines.search.importance import (
    AT_MOST,
    LIBSVM,
    OF_BUDGET,
    PER_SECOND,
    PLANS,
    WORK,
    AskedModel,
    ColumnImportances,
    parameter_importances,
    work_of,
)
from pipelines.search.scoring import CandidateScorer
from tests.command_runs import ON_THREADS

N = 400


def measured(model, X, y, columns, scoring="accuracy"):
    table, remark = ColumnImportances(tuple(columns), 0).measure(
        model, X, y, CandidateScorer((scoring,))
    )
    assert table is not None, remark
    return table.set_index("column")


@pytest.fixture(scope="module")
def rows():
    """Three columns: the sign of the second is the class, the others are noise."""
    X = np.random.default_rng(0).normal(size=(2 * N, 3))
    return X, (X[:, 1] > 0).astype(np.int32)


def test_a_column_that_decides_comes_first_and_noise_reaches_zero(
    rows,
):
    X, y = rows
    model = RandomForestClassifier(20, random_state=0).fit(X[:N], y[:N])
    table = measured(model, X[N:], y[N:], ["a", "decides", "b"])
    assert table.index[0] == "decides"
    assert table["low"]["decides"] > 0.3  # shuffled, a sign is right half of the time
    assert (table["low"][["a", "b"]] <= 0).all()
    assert (table["high"][["a", "b"]] >= 0).all()
    assert (table["n_rows"] == N).all()


def test_means_agree_with_scikit_learns(rows):
    X, y = rows
    model = RandomForestClassifier(20, random_state=0).fit(X[:N], y[:N])
    table = measured(model, X[N:], y[N:], ["a", "decides", "b"])
    theirs = permutation_importance(model, X[N:], y[N:], n_repeats=20, random_state=0)
    ours = table.loc[["a", "decides", "b"]]
    # Draws of rows differ by their standard error, which the interval is 2.1 times.
    assert (
        np.abs(theirs.importances_mean - ours["importance"])
        < (ours["high"] - ours["low"]) / 2 + 0.01
    ).all()


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error"])
def test_numbers_are_measured_by_their_scoring(scoring):
    X = np.random.default_rng(1).normal(size=(N, 2))
    y = 3 * X[:, 0] + 0.1 * X[:, 1]
    table = measured(LinearRegression().fit(X, y), X, y, ["large", "small"], scoring)
    assert list(table.index) == ["large", "small"]
    assert set(table["scoring"]) == {scoring}
    # Shuffled, a column of variance v adds twice its part of v to the squared error.
    if scoring == "r2":
        assert table["importance"]["large"] == pytest.approx(2 * 9 / 9.01, abs=0.2)


def test_a_category_is_shuffled_as_a_whole_before_it_is_one_hot():
    rng = np.random.default_rng(2)
    colour = rng.choice(["red", "green", "blue", "grey"], N)
    frame = pd.DataFrame({"size": rng.normal(size=N), "colour": colour.astype(object)})
    y = np.isin(colour, ["red", "blue"]).astype(np.int32)
    seen = []
    steps = TablePreprocessor(Kinds(("size",), ("colour",)))
    model = make_pipeline(steps, KNeighborsClassifier(5)).fit(frame, y)

    def predict(X):
        seen.append(X)
        return np.asarray(model.predict(X))

    table = measured(AskedModel(predict, 2), frame, y, list(frame))
    assert list(table.index) == ["colour", "size"]
    assert table["low"]["colour"] > 0.3
    assert all(set(X["colour"]) <= set(colour) for X in seen)  # levels, and whole ones


def test_a_model_is_asked_about_all_columns_at_once(rows):
    X, y = rows
    calls = []

    def predict(X):
        calls.append(len(X))
        return (X[:, 1] > 0).astype(np.int32)

    table = measured(AskedModel(predict, 2), X, y, ["a", "decides", "b"])
    assert calls == [4 * len(X)] * table["n_repeats"].iloc[0]


def test_what_a_model_costs_bounds_rows_then_repeats():
    wanted = ColumnImportances(tuple("abcdefghij"), 0)
    assert wanted.plan(300, 0) == (300, PLANS[0][0])
    costs = (5e4, 1e5, 1e6, 1e7)
    plans = [wanted.plan(10_000, cost) for cost in costs]
    sizes = [rows * repeats for rows, repeats in plans[:3] if rows]
    assert sizes == sorted(sizes, reverse=True)
    for plan, cost in zip(plans, costs, strict=True):
        if plan is not None:
            assert 11 * math.prod(plan) * cost <= AT_MOST * WORK
    assert plans[3] is None
    table, remark = wanted.measure(
        None, np.zeros((10_000, 10)), np.zeros(10_000), CandidateScorer(("r2",)), 1e9
    )
    assert table is None
    assert "too many predictions" in remark


def test_models_that_keep_rows_cost_by_them(rows):
    X, y = rows
    machine = SVC().fit(X, y)
    assert work_of(machine) == LIBSVM * machine.support_vectors_.size
    assert work_of(KNeighborsClassifier().fit(X, y)) == X.size
    assert work_of(RandomForestClassifier(2).fit(X, y)) == 0


class _OfTable:
    image_shape = pictures = None
    feature_names = ("a", "b")
    X_test = np.zeros((3, 2))
    y_test = np.zeros(3)


def test_a_time_budget_lowers_the_work():
    whole = ColumnImportances.of(_OfTable(), 0, None)
    short = ColumnImportances.of(_OfTable(), 0, 10.0)
    assert whole is not None
    assert short is not None
    assert (whole.work, short.work) == (WORK, 10 * OF_BUDGET * PER_SECOND)


def test_a_score_that_fails_is_said(rows):
    X, y = rows
    model = AskedModel(lambda X: np.zeros(len(X), np.int32), 2)
    wanted = ColumnImportances(("a", "b", "c"), 0)
    table, remark = wanted.measure(model, X, y, CandidateScorer(("roc_auc",)))
    assert table is None
    assert remark.startswith("importances of columns are left out: ")


def grid(n=8):
    """Scores that C alone decides."""
    values = np.linspace(0, 1, n)
    return [
        ("svm", {"C": C, "gamma": gamma, "kernel": "rbf"}, -((C - 0.4) ** 2))
        for C in values
        for gamma in values
    ]


def test_the_hyper_parameter_that_matters_comes_first():
    table = parameter_importances(grid(), seed=0)
    assert list(table["parameter"]) == ["C", "gamma"]  # the kernel does not vary
    assert table["importance"].iloc[0] > 0.95
    assert table["explained"].iloc[0] > 0.9
    assert (table["n_candidates"] == 64).all()
    assert table["importance"].sum() == pytest.approx(1)


def test_texts_and_none_are_values_too():
    points = [
        ("forest", {"max_depth": depth, "rule": rule}, float(depth is None) + 0.001 * number)
        for number, (depth, rule) in enumerate(
            (depth, rule)
            for depth in (None, 1, 2, 3)
            for rule in ("gini", "entropy", "log_loss", "x", "y")
        )
    ]
    assert parameter_importances(points, 0)["parameter"].iloc[0] == "max_depth"


def test_few_candidates_and_chance_say_nothing():
    assert parameter_importances(grid(4), 0).empty  # 16 candidates
    candidates = [("svm", {"C": float(C)}, float(C)) for C in range(40)]
    assert parameter_importances(candidates, 0).empty
    failed = [(name, point, math.nan) for name, point, _ in grid()]
    assert parameter_importances(failed, 0).empty
    rng = np.random.default_rng(3)
    chance = [("svm", dict(zip("ab", rng.random(2), strict=True)), rng.random()) for _ in range(64)]
    assert parameter_importances(chance, 0).empty


@pytest.fixture(scope="module")
def table_file(tmp_path_factory):
    """A column of text decides the class."""
    rng = np.random.default_rng(5)
    island = rng.choice(["north", "south", "east"], 160)
    frame = pd.DataFrame({"weight": rng.normal(size=160), "island": island})
    frame["species"] = np.where(island == "north", "gull", "tern")
    path = tmp_path_factory.mktemp("table") / "birds.csv"
    frame.to_csv(path, index=False)
    return path


def importances(run):
    return pd.read_parquet(run / names.IMPORTANCES)


def test_a_search_writes_both_tables_whatever_the_workers(table_file, tmp_path):
    common = ["--dataset", str(table_file), "--target", "species", "--n-c", "5", "--n-gamma", "5"]
    for index, how in enumerate((ON_THREADS, ("--cluster", "local", "--workers", "2"))):
        assert svm_grid.main([*common, *how, "--results", str(tmp_path / str(index))]) == 0
    on_threads, other = importances(tmp_path / "0"), importances(tmp_path / "1")
    assert list(on_threads["column"]) == ["island", "weight"]
    assert on_threads["low"].iloc[0] > 0
    pd.testing.assert_frame_equal(on_threads, other)
    files = [tmp_path / index / names.PARAMETER_IMPORTANCES for index in "01"]
    assert files[0].is_file() == files[1].is_file()
    values = pd.read_parquet(tmp_path / "0" / names.DECISION_VALUES)
    assert list(values) == ["row", "true", "decision_gull", "decision_tern"]


def test_cross_validate_measures_the_best_pipeline(table_file, tmp_path):
    arguments = ["--dataset", str(table_file), "--target", "species", "--estimator", "tree"]
    assert cross_validate.main([*arguments, *ON_THREADS, "--results", str(tmp_path / "run")]) == 0
    table = importances(tmp_path / "run")
    assert list(table["column"]) == ["island", "weight"]
    probabilities = pd.read_parquet(tmp_path / "run" / names.PROBABILITIES)
    assert list(probabilities) == ["row", "true", "probability_gull", "probability_tern"]
    assert not (tmp_path / "run" / names.PARAMETER_IMPORTANCES).exists()
