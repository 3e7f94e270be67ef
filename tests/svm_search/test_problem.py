from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from pipelines.data.folds import make_folds
from pipelines.data.load import load_dataset
from pipelines.data.placement import FoldedData
from pipelines.run.runners import InProcess, OnCluster
from pipelines.search.candidates import grid_candidates
from pipelines.search.command import run_tasks
from pipelines.search.ranking import reduce_scores, tabulate
from pipelines.search.scoring import CandidateScorer
from pipelines.search.task_feed import cut_for_workers
from pipelines.search.tasks import SEARCH, make_tasks, run_task
from pipelines.svm.settings import Settings
from pipelines.svm_search.axes import default_bounds
from pipelines.svm_search.problem import svm_problem
from pipelines.svm_search.record import CANDIDATE, SvmRow

DIGITS = load_dataset("digits", limit=500)
CS, GAMMAS = (0.1, 1.0, 100.0), (1e-4, 1e-2)


DATA = FoldedData(DIGITS.X_train, DIGITS.y_train, DIGITS.X_test, DIGITS.y_test, (), DIGITS.scaling)
FOLDS = make_folds(DIGITS.y_train, 3, 0)


def problem_of(Cs=CS, gammas=GAMMAS):
    scorer = CandidateScorer(labels=DIGITS.classes)
    splits, axes = {(SEARCH, 1.0): FOLDS}, {"C": Cs, "gamma": gammas}
    return svm_problem(DATA, splits, grid_candidates(axes), "sklearn", Settings(), scorer)


def results_of(runner, problem=None):
    problem = problem or problem_of()
    tasks = cut_for_workers(problem, make_tasks(problem), runner.n_workers)
    rows = [row for _, found_rows in run_tasks(runner, problem, tasks) for row in found_rows]
    return tabulate(rows, problem.columns)


def what_counts(results):
    """Less the columns that say where and how fast."""
    return results.drop(columns=["fit_seconds", "score_seconds", "worker"])


def test_every_cell_agrees_with_grid_search_cv():
    peer = GridSearchCV(SVC(), {"C": CS, "gamma": GAMMAS}, cv=FOLDS, refit=False)
    peer.fit(DATA.scaled("cpu"), DATA.y)
    results = results_of(InProcess(2))
    assert set(results.columns) == {*SvmRow.model_fields} - {"epsilon"}
    for row in results.itertuples():
        candidate = peer.cv_results_["params"].index({"C": row.C, "gamma": row.gamma})
        score = peer.cv_results_[f"split{row.fold}_test_score"][candidate]
        assert row.error == pytest.approx(1 - score, abs=1e-12)
        assert row.n_errors == round((1 - score) * row.n_validation)


def test_a_column_of_svm_grid_alone_may_be_text():
    class Noted(SvmRow):
        note: str

    problem = problem_of((1.0,), (1e-2,))
    rows = InProcess(1).outcomes(run_task, problem, make_tasks(problem))
    noted = [row | {"note": "seen"} for outcome in rows for row in outcome.result]
    assert tabulate(noted, problem.columns, schema=Noted)["note"].tolist() == ["seen"] * 3


def test_one_worker_four_workers_and_threads_give_identical_rows(one_worker, four_workers):
    here = what_counts(results_of(InProcess(2)))
    from_one = what_counts(results_of(OnCluster(one_worker)))
    four = results_of(OnCluster(four_workers))
    pd.testing.assert_frame_equal(here, from_one)
    pd.testing.assert_frame_equal(from_one, what_counts(four))
    assert four.worker.nunique() > 1  # on a busy machine one may come late


def test_a_fit_that_fails_is_a_row_that_says_why():
    problem = problem_of((1.0, -1.0), (0.01,))  # no such C
    results = results_of(InProcess(1), problem)
    bad, good = results[results.C == -1.0], results[results.C == 1.0]
    assert bad.status.str.startswith("failed: The 'C' parameter").all()
    assert (good.status == "ok").all()
    assert bad.error.isna().all()
    assert bad.n_errors.isna().all()
    assert reduce_scores(results, CANDIDATE, 3).C.tolist() == [1.0, -1.0]


def test_a_table_s_default_gammas_lie_around_scikit_learns_scale():
    X = np.random.default_rng(0).normal(size=(50_000, 20))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    scale = np.log10(SVC(gamma="scale").fit(X[:99], X[:99, 0] > 0)._gamma)
    log_c, (low, high) = default_bounds(20, images=False)
    assert (low, high) == pytest.approx((scale - 2, scale + 1), abs=0.05)
    assert log_c == (-2, 4)
    assert default_bounds(784, images=True) == ((-3, 6), (-6, -2))
