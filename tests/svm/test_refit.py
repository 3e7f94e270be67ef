from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pipelines.data.folds import make_folds
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.search.scoring import CandidateScorer
from pipelines.search.tasks import Refit
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.multiclass import margins
from pipelines.svm.path_svc import PathSVC
from pipelines.svm.settings import Settings
from pipelines.svm_search.problem import refit_and_test_svm, svm_problem

X, y = load_wine(return_X_y=True)
y = y.astype(np.int32)
CLASSES = np.array(["a", "b", "c"])


def data_of(n_classes):
    kept = y < n_classes
    train, test = np.flatnonzero(kept)[::2], np.flatnonzero(kept)[1::2]
    folds = make_folds(y[train], 3, 0)
    return FoldedData(X[train], y[train], X[test], y[test], folds, Scaling("standardise"))


DATA = data_of(3)


def refitted(data, solver, C, probability=False):
    labels = CLASSES[: len(np.unique(data.y))]
    problem = svm_problem(
        data,
        {("search", 1.0): list(data.folds)},
        [{"C": C, "gamma": 0.1}],
        solver,
        Settings(n_threads=2),
        CandidateScorer(labels=labels),
    )
    return refit_and_test_svm(problem, Refit(0), solver, probability)


def test_the_refit_standardises_on_all_training_rows():
    machine = refitted(DATA, "sklearn", 1.0)["machine"]
    pipeline = make_pipeline(StandardScaler(), SVC(C=1.0, gamma=0.1)).fit(DATA.X, DATA.y)
    codes = machine.predict_codes(DATA.X_test)
    np.testing.assert_array_equal(codes, pipeline.predict(DATA.X_test))
    assert machine.predict(DATA.X_test).tolist() == [CLASSES[code] for code in codes]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", ["path", "sklearn"])
def test_probabilities_are_those_of_calibrated_classifier_cv(solver, n_classes, tmp_path):
    """Scaling within each fold: the peer is a pipeline, so that nothing can leak."""
    data = data_of(n_classes)
    with pytest.raises(ValueError, match="search with probability=True"):
        refitted(data, solver, 2.0)["machine"].predict_proba(data.X_test)
    tested = refitted(data, solver, 2.0, probability=True)
    machine, probabilities = tested["machine"], tested["probabilities"]
    svc = {"path": PathSVC, "sklearn": SVC}[solver](C=2.0, gamma=0.1)
    peer = CalibratedClassifierCV(
        make_pipeline(StandardScaler(), svc), cv=list(data.folds), ensemble=False
    ).fit(data.X, data.y)
    np.testing.assert_allclose(probabilities, peer.predict_proba(data.X_test), atol=1e-5)
    machine.save(tmp_path / "model.safetensors")
    stored = KernelMachine.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(stored.predict_proba(data.X_test), probabilities)


def test_the_margin_of_a_prediction_is_that_to_the_class_that_comes_closest():
    duels = np.array([[1.5, 0.5, 2.0], [-0.5, 1.0, -3.0]])  # 0 or 1, 0 or 2, 1 or 2
    assert margins(duels, np.array([0, 2]), 3, "ovo").tolist() == [0.5, -1.0]
    values = np.array([[0.2, -1.0, 0.5]])
    assert margins(values, np.array([2]), 3, "ovr") == pytest.approx([0.3])
    assert margins(np.array([[-0.7]]), np.array([1]), 2, "ovo").tolist() == [0.7]
