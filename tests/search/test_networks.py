"""Networks beside other estimators: those of all folds trained as one, as each by itself."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipelines import cross_validate
from pipelines.data.fits import Fit
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.errors import InputError
from pipelines.nn.estimator import NetworkClassifier, NetworkEstimator, NetworkRegressor
from pipelines.search.grid_search import GridSearch
from pipelines.search.model import FittedEstimator, dump_model, load_estimator
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import shared_fit_of
from pipelines.search.shared.base import SplitRows
from tests.command_runs import ON_THREADS, cells, record, said_by

torch = pytest.importorskip("torch", reason="networks need torch, which comes with the extra nn")


@pytest.mark.slow
@parametrize_with_checks(
    [
        NetworkClassifier(),
        NetworkClassifier(network="mlp", max_epochs=30),
        NetworkRegressor(),
        NetworkRegressor(network="mlp", max_epochs=30),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


CASES = {
    "table": ("wine", {}),
    "conv": ("digits", {"network": "conv", "max_epochs": 3, "image_shape": (8, 8)}),
    "cnn": ("digits", {"network": "cnn", "batch_size": 32, "max_epochs": 2, "image_shape": (8, 8)}),
    "adamw": ("wine", {"network": "mlp", "optimizer": "adamw", "batch_size": 16, "patience": 3}),
}


def rows_of(name):
    X, y = (load_wine if name == "wine" else load_digits)(return_X_y=True)
    X, y = (X[:177], y[:177]) if name == "wine" else (X[:300] / 16, y[:300])
    return X, y.astype(np.int32)


@pytest.mark.parametrize("case", CASES)
def test_folds_together_are_those_fitted_apart(case):
    name, parameters = CASES[case]
    X, y = rows_of(name)
    estimators = [
        NetworkClassifier(**parameters, learning_rate=rate, random_state=seed)
        for rate, seed in ((0.02, 1), (0.01, 2))
    ]
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    data = FoldedData(X, y, X[:0], y[:0], (), Scaling("none"))
    rows = SplitRows(data, splits, [0, 1, 2], "all", 1, estimators[0])
    kind = shared_fit_of(estimators[0])
    assert kind is not None
    assert kind.group_key(estimators[0]) == kind.group_key(estimators[1])
    # Together those of modules, as on a GPU.
    groups = [[0, 1]] if case in ("cnn", "adamw") else kind.partition(estimators, 2)
    assert [i for group in groups for i in group] == [0, 1]
    fits = [
        (estimators[group[item.candidate]], item)
        for group in groups
        for item in kind.fit_splits(rows, [clone(estimators[i]) for i in group], {"predict"})
        if isinstance(item, Fit)
    ]
    assert len(fits) == 6
    for estimator, fit in fits:
        train, test = splits[fit.split]
        alone = clone(estimator).fit(X[train], y[train])
        assert fit.predict is not None
        predicted = fit.predict("predict_proba", "test")
        assert predicted.shape == (len(test), len(np.unique(y)))
        np.testing.assert_allclose(predicted, alone.predict_proba(X[test]), atol=0.02)
        np.testing.assert_array_equal(predicted.argmax(axis=1), fit.predict("predict", "test"))
        truth = predicted[np.arange(len(test)), y[test]]
        assert fit.loss == pytest.approx(-np.log(truth).mean(), rel=1e-4)


NUMBERS = {
    "table": ({}, 0.02),
    "mlp": ({"network": "mlp", "max_epochs": 20}, 0.02),
    "adamw": ({"network": "mlp", "optimizer": "adamw", "batch_size": 16, "patience": 3}, 0.2),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_folds_of_numbers_together_are_those_fitted_apart(case):
    """Within a part of a standard deviation, in units far from 0; the loss is in deviations."""
    parameters, within = NUMBERS[case]
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:300], y[:300] * 1e4 + 1e8
    splits = list(KFold(3).split(X))
    network = NetworkRegressor(**parameters, random_state=3)
    rows = SplitRows(
        FoldedData(X, y, X[:0], y[:0], (), Scaling("none")), splits, [0, 1, 2], "all", 1, network
    )
    kind = shared_fit_of(network)
    assert kind is not None
    fits = [fit for fit in kind.fit_splits(rows, [network], {"predict"}) if isinstance(fit, Fit)]
    assert [fit.split for fit in fits] == [0, 1, 2]
    for fit in fits:
        train, test = splits[fit.split]
        alone = clone(network).fit(X[train], y[train])
        assert fit.predict is not None
        assert fit.classes is None
        predicted = fit.predict("predict", "test")
        assert (predicted.dtype, predicted.shape) == (np.float64, y[test].shape)
        np.testing.assert_allclose(predicted, alone.predict(X[test]), rtol=0, atol=within * y.std())
        assert alone.target_ is not None
        loss = mean_squared_error(y[test], predicted) / 2 / alone.target_.scale**2
        assert fit.loss == pytest.approx(loss, rel=1e-3)


def test_a_network_of_numbers_is_as_good_as_ridge():
    X, y = load_diabetes(return_X_y=True)
    train, test = np.arange(330), np.arange(330, len(y))
    scores = [
        model.fit(X[train], y[train]).score(X[test], y[test])
        for model in (NetworkRegressor(), Ridge(alpha=0.01))
    ]
    assert scores[0] > scores[1] - 0.05


def test_what_is_for_classes_is_refused_of_numbers():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(InputError, match="label_smoothing is for classes"):
        NetworkRegressor(label_smoothing=0.1).fit(X, y)
    with pytest.raises(ValueError, match="standard deviation that is a number"):
        NetworkRegressor().fit(X, y * 1e305)
    with pytest.raises(ValueError, match="one number for each row"):
        NetworkRegressor().learn_targets(np.ones((3, 2)))


@pytest.mark.parametrize("kind", [NetworkClassifier, NetworkRegressor])
def test_a_fold_alone_is_as_it_was_among_the_others(kind):
    """As where a run is resumed; the folds are such that the last alone would make more steps."""
    X, y = rows_of("wine")
    network = kind(network="mlp", optimizer="adamw", batch_size=16, max_epochs=3)
    folds = np.split(np.arange(len(y)), [90])
    splits = [(folds[0], folds[1]), (folds[1], folds[0]), (folds[0][:40], folds[1])]
    targets = y if kind is NetworkClassifier else y.astype(np.float64)
    data = FoldedData(X, targets, X[:0], targets[:0], (), Scaling("none"))
    shared = shared_fit_of(network)
    assert shared is not None
    predictions = []
    for numbers in ([0, 1, 2], [0]):
        rows = SplitRows(data, splits, numbers, "all", 1, network)
        fits = shared.fit_splits(rows, [clone(network)], {"predict"})
        fit = next(item for item in fits if isinstance(item, Fit))
        assert fit.predict is not None
        method = "predict_proba" if kind is NetworkClassifier else "predict"
        predictions.append(fit.predict(method, "test"))
    np.testing.assert_allclose(*predictions, rtol=1e-4)


def test_a_grid_search_has_labels_and_scores_of_training_rows():
    X, y = load_wine(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    grid = {"learning_rate": [0.01, 0.03]}
    search = GridSearch(NetworkClassifier(), grid, cv=3, return_train_score=True).fit(X, labels)
    assert search.best_score_ > 0.9
    assert search.cv_results_["mean_train_score"].min() > 0.95
    assert set(search.predict(X)) == {"a", "b", "c"}
    assert search.best_estimator_.score(X, labels) > 0.95


def test_a_network_is_compared_with_others(tmp_path):
    options = ["--limit", "200", "--folds", "2", *ON_THREADS, "--results", str(tmp_path / "run")]
    network = ["--estimator", "network", "--param", "network=conv", "max_epochs=3"]
    output = said_by("cross_validate", *network, "--estimator", "knn", *options)
    assert "global generator" not in output
    table = cells(tmp_path / "run")
    assert set(table[table["algorithm"] == "network"]["family"]) == {"stacked networks"}
    assert (table["status"] == "ok").all()
    assert table[table["algorithm"] == "network"]["error"].mean() < 0.3
    tasks = pd.read_json(tmp_path / "run" / "journal.jsonl", lines=True)["task"].dropna()
    assert tasks.str.startswith("network-").sum() == 1
    assert record(tmp_path / "run")["status"] == "finished"


@pytest.mark.parametrize("network", ["mlp", "table"])
def test_a_loss_that_is_no_number_is_told(network, monkeypatch):
    """Weights of the second are numbers still, and so large that what they answer is none."""
    monkeypatch.setattr(NetworkEstimator, "_parameter_constraints", {})
    X, y = rows_of("wine")
    wild = NetworkClassifier(network=network, learning_rate=1e30)
    with pytest.raises(ValueError, match="diverged; use a smaller learning_rate"):
        wild.fit(X, y)
    splits = list(KFold(2).split(X))
    data = FoldedData(X, y, X[:0], y[:0], (), Scaling("none"))
    rows, scorer = SplitRows(data, splits, [0, 1], "all", 1, wild), CandidateScorer()
    kind = shared_fit_of(wild)
    assert kind is not None
    fits = [first for first in kind.fit_splits(rows, [wild], {"predict"}) if isinstance(first, Fit)]
    assert [fit.error for fit in fits] == ["diverged"] * 2
    scorer.score_fit(fits[0], wild, rows)
    assert fits[0].scores["fit_error"] == "diverged"


class Mine(torch.nn.Linear):
    def __init__(self, n_features, n_classes):
        super().__init__(n_features, n_classes)


def test_a_network_of_ones_own_is_not_imported_by_who_reads_it(tmp_path):
    """Nor where the file says that it was fitted there."""
    X, y = rows_of("wine")
    nets = NetworkClassifier(network=f"{__name__}:Mine", optimizer="adamw", max_epochs=30)
    nets.set_params(batch_size=16)
    assert nets.fit(X, y).score(X, y) > 0.9
    read = pickle.loads(pickle.dumps(nets))
    with pytest.raises(InputError, match="network"):
        read.predict(X)
    content, why = dump_model(FittedEstimator(nets, np.array(["a", "b", "c"]), 13))
    assert why == ""
    assert content is not None
    (tmp_path / "model.skops").write_bytes(content)
    (tmp_path / "run.json").write_text('{"command": "cross_validate"}')
    with pytest.raises(InputError, match="network"):
        load_estimator(tmp_path).predict(X)
    forged = NetworkClassifier()
    forged.__setstate__(nets.__dict__ | {"_is_fitted_here": True})
    with pytest.raises(InputError, match="network"):
        forged.predict(X)


@pytest.mark.parametrize(
    ("name", "value"),
    [("learning_rate", 0.0), ("learning_rate", -1.0), ("max_epochs", 0), ("n_hidden_layer", 0)],
)
def test_a_parameter_out_of_its_range_is_refused(name, value, tmp_path):
    X, y = rows_of("wine")
    with pytest.raises(ValueError, match=f"The '{name}' parameter of NetworkClassifier must be"):
        NetworkClassifier().set_params(**{name: value}).fit(X, y)
    grid = tmp_path / "grid.yaml"
    grid.write_text(f"network: {{{name}: [{value}, 1]}}")
    with pytest.raises(InputError, match=f"^param: The '{name}' parameter of NetworkClassifier"):
        cross_validate.run(grid=str(grid), results=str(tmp_path / "run"))
