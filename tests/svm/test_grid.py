from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from distributed import Client
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from pipelines.data import load_dataset, make_folds
from pipelines.data.placement import FoldedData
from pipelines.run.errors import RunStopped
from pipelines.run.tasks import InProcess, OnCluster, Runner
from pipelines.run_folder import columns
from pipelines.search.ranking import reduce_scores
from pipelines.svm.grid import Grid, default_bounds, refit, search, tabulate
from pipelines.svm.refit import Refit, refit_estimator
from pipelines.svm.backends import Settings
from pipelines.svm.units import Unit

DIGITS = load_dataset("digits", limit=500)
CS, GAMMAS = (0.1, 1.0, 100.0), (1e-4, 1e-2)


def folded() -> FoldedData:
    return FoldedData(
        DIGITS.X_train, DIGITS.y_train, DIGITS.X_test, DIGITS.y_test,
        make_folds(DIGITS.y_train, 3, 0), DIGITS.scaling,
    )  # fmt: skip


def results_of(runner: Runner, solver: str = "sklearn") -> pd.DataFrame:
    data, grid = folded(), Grid(CS, GAMMAS, solver, Settings())
    return tabulate(
        [row for _, rows in search(runner, data, grid, grid.units(data)) for row in rows]
    )


def what_counts(results: pd.DataFrame) -> pd.DataFrame:
    """Less the columns that say where and how fast."""
    return results.drop(columns=["fit_seconds", "score_seconds", "worker"])


def test_every_cell_agrees_with_grid_search_cv() -> None:
    data = folded()
    X = data.scaled("cpu")
    peer = GridSearchCV(SVC(), {"C": CS, "gamma": GAMMAS}, cv=data.folds, refit=False)
    peer.fit(X, data.y)
    results = results_of(InProcess(2))
    assert list(results.columns) == list(columns.OF_SVM)
    for row in results.itertuples():
        candidate = peer.cv_results_["params"].index({"C": row.C, "gamma": row.gamma})
        score = peer.cv_results_[f"split{row.fold}_test_score"][candidate]
        assert row.error == pytest.approx(1 - score, abs=1e-12)
        assert row.n_errors == round((1 - score) * row.n_validation)


def test_one_worker_four_workers_and_threads_give_identical_rows(
    one_worker: Client, four_workers: Client
) -> None:
    here = what_counts(results_of(InProcess(2)))
    one = what_counts(results_of(OnCluster(one_worker)))
    four = results_of(OnCluster(four_workers))
    pd.testing.assert_frame_equal(here, one)
    pd.testing.assert_frame_equal(one, what_counts(four))
    assert four.worker.nunique() > 1  # on a busy machine one may come late


def test_a_unit_that_fails_is_rows_that_say_why() -> None:
    data, grid = folded(), Grid(CS, GAMMAS, "sklearn", Settings())
    units = [Unit((0.01,), (1.0,), (0,)), Unit((0.01,), (-1.0,), (0,))]  # no such C
    rows = [row for _, found in search(InProcess(1), data, grid, units) for row in found]
    results = tabulate(rows)
    assert results.status[0].startswith("failed: InvalidParameterError: The 'C' parameter")
    assert results.status[1] == "ok"
    assert np.isnan(results.error[0])
    assert results.n_errors.isna().tolist() == [True, False]
    assert reduce_scores(results, columns.SVM_CANDIDATE, 1).C.tolist() == [1.0, -1.0]


def test_a_refit_that_fails_stops_the_run() -> None:
    data, grid = folded(), Grid(CS, GAMMAS, "sklearn", Settings())
    with pytest.raises(RunStopped, match=r"the refit of C=-1 gamma=0\.1 failed"):
        refit(InProcess(1), data, grid, Refit(-1.0, 0.1, DIGITS.classes), refit_estimator)


def test_a_table_s_default_gammas_lie_around_scikit_learns_scale() -> None:
    X = np.random.default_rng(0).normal(size=(50_000, 20))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    scale = np.log10(SVC(gamma="scale").fit(X[:99], X[:99, 0] > 0)._gamma)
    log_c, (low, high) = default_bounds(20, images=False)
    assert (low, high) == pytest.approx((scale - 2, scale + 1), abs=0.05)
    assert log_c == (-2, 4)
    assert default_bounds(784, images=True) == ((-3, 6), (-6, -2))
