"""A target of numbers: C, gamma and epsilon of a regression; and estimates around a search."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from pipelines.data.load import load_dataset
from pipelines.svm.kernel_machine import KernelRegressor
from pipelines.svm_grid import main
from tests.command_runs import record

GRID = [
    "--n-c",
    "3",
    "--n-gamma",
    "2",
    "--n-epsilon",
    "2",
    "--log-c",
    "-1",
    "1",
    "--log-gamma",
    "-2",
    "0",
    "--log-epsilon",
    "-2",
    "-1",
    "--folds",
    "3",
]


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    """A table of four numbers and a price that depends on two of them."""
    rng, n = np.random.default_rng(0), 150
    X = rng.normal(size=(n, 4))
    price = 1000 + 300 * np.sin(2 * X[:, 0]) + 200 * X[:, 1] + rng.normal(scale=20, size=n)
    path = tmp_path_factory.mktemp("prices") / "prices.csv"
    pd.DataFrame({**dict(zip("abcd", X.T, strict=True)), "price": price}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def finished(prices, tmp_path_factory):
    folder = tmp_path_factory.mktemp("regression") / "run"
    data = ["--dataset", str(prices), "--target", "price", "--tol", "1e-6"]
    assert main([*data, *GRID, "--nested", "2", "--results", str(folder)]) == 0
    return folder


def test_scores_are_those_of_grid_search_cv(prices, finished):
    data = load_dataset(str(prices), target="price", task=None)
    svr = make_pipeline(StandardScaler(), SVR(tol=1e-6))
    peer = GridSearchCV(
        TransformedTargetRegressor(svr, transformer=StandardScaler()),
        {
            "regressor__svr__C": [0.1, 1.0, 10.0],
            "regressor__svr__gamma": [0.01, 1.0],
            "regressor__svr__epsilon": [0.01, 0.1],
        },
        cv=KFold(3, shuffle=True, random_state=0),
    ).fit(data.X_train, data.y_train)
    candidates = pd.read_parquet(finished / "candidates.parquet").round(6)
    score_means = candidates.set_index(["C", "gamma", "epsilon"])["score_mean"]
    names = [f"regressor__svr__{name}" for name in score_means.index.names]
    for params, mean in zip(
        peer.cv_results_["params"], peer.cv_results_["mean_test_score"], strict=True
    ):
        assert score_means[tuple(params[name] for name in names)] == pytest.approx(mean, abs=1e-4)
    best = record(finished)["best"]
    assert best["C"] == pytest.approx(peer.best_params_["regressor__svr__C"])
    expected = r2_score(data.y_test, peer.predict(data.X_test))
    assert record(finished)["test_scores"]["r2"] == pytest.approx(expected, abs=1e-4)


def test_the_stored_model_predicts_in_units_of_the_target(prices, finished):
    data = load_dataset(str(prices), target="price", task=None)
    predicted = KernelRegressor.load(finished / "model.safetensors").predict(data.X_test)
    stored = pd.read_parquet(finished / "test_residuals.parquet")
    np.testing.assert_allclose(stored["predicted"], predicted)
    np.testing.assert_array_equal(stored["true"], data.y_test)
    assert main(["predict", str(finished), str(prices), "--output", str(finished / "out.csv")]) == 0
    answers = pd.read_csv(finished / "out.csv")
    assert len(answers) == 150
    assert abs(answers["predicted"].mean() - 1000) < 100


def test_nothing_is_computed_again_when_it_is_resumed(finished):
    before = (finished / "journal.jsonl").read_text()
    assert main(["--resume", str(finished), "--quiet"]) == 0
    assert (finished / "journal.jsonl").read_text() == before


def test_outer_folds_give_an_estimate(finished):
    nested = record(finished)["nested"]
    assert nested["n_outer"] == 2
    assert 0 < nested["score_mean"] < 1
    assert len(pd.read_parquet(finished / "nested.parquet")) == 2


def test_the_page_has_scores_and_residuals(finished):
    page = (finished / "report.html").read_text()
    for words in (", epsilon = ", "nested r2", "test mean absolute error", "cv r2"):
        assert words in page
    for name in ("heat_map", "fold_errors_best", "residuals", "timeline"):
        assert (finished / f"{name}.svg").stat().st_size > 1000
    assert "Failures" not in page
