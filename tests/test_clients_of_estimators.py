"""Estimators with a ``client``, used as any other of scikit-learn's."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipelines import BaggedNets, BaggedNetsRegressor, GridSearch, RaceSearch, SVMGridSearch
from pipelines.svm.backend_svc import BackendSVC

X, y = load_iris(return_X_y=True)
NEIGHBOURS = KNeighborsClassifier(), {"n_neighbors": [1, 5]}
NETS: dict[str, Any] = {"n_estimators": 2, "n_iter": 1, "cv": 2, "max_epochs": 2, "random_state": 0}
ESTIMATORS: dict[str, Callable[..., Any]] = {
    "GridSearch": lambda **client: GridSearch(*NEIGHBOURS, cv=3, **client),
    "RaceSearch": lambda **client: RaceSearch(*NEIGHBOURS, cv=3, **client),
    "SVMGridSearch": lambda **client: SVMGridSearch(C=[1, 10], gamma=[0.1], cv=3, **client),
    "BaggedNets": lambda **client: BaggedNets(**NETS, **client),
    "BaggedNetsRegressor": lambda **client: BaggedNetsRegressor(**NETS, **client),
}
WARNING = "had a client when it was pickled"


@pytest.fixture(scope="module", params=["processes", "threads"])
def client(request):
    if request.param == "processes":
        yield request.getfixturevalue("one_worker")
        return
    with (
        LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(params=ESTIMATORS)
def make(request):
    return ESTIMATORS[request.param]


def test_clones_and_copies_share_the_client(make, client):
    estimator = make(client=client)
    assert estimator.get_params()["client"] is client
    assert vars(estimator).keys() == estimator.get_params(deep=False).keys()
    nested = GridSearchCV(make_pipeline(StandardScaler(), estimator), {})
    for duplicate in (clone, copy.copy, copy.deepcopy):
        assert duplicate(estimator).client is client
        assert duplicate(nested).estimator[-1].client is client
    assert clone(estimator.set_params(client=None)).client is None


def test_a_pickle_leaves_the_client_behind(make, client, tmp_path):
    estimator = make(client=client)
    joblib.dump(estimator, tmp_path / "estimator")
    pickled = pickle.loads(pickle.dumps(make_pipeline(StandardScaler(), estimator)))[-1]
    for unpickled in (pickled, joblib.load(tmp_path / "estimator")):
        assert unpickled.client is None
        assert repr(unpickled) == repr(make())
    assert estimator.client is client


def test_an_unpickled_one_predicts_and_is_fitted_with_a_warning(make, client):
    fitted = make(client=client).fit(X, y)
    unpickled = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(unpickled.predict(X), fitted.predict(X))
    for travelled in (unpickled, clone(unpickled), pickle.loads(pickle.dumps(unpickled))):
        with pytest.warns(UserWarning, match=WARNING) as caught:
            travelled.fit(X, y)
        assert [warning.filename for warning in caught] == [__file__]
        np.testing.assert_allclose(travelled.predict(X), fitted.predict(X), atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unpickled.set_params(client=client).fit(X, y)
        unpickled.set_params(client=None).fit(X, y)


def test_it_is_cross_validated_in_a_pipeline(make, client):
    scores = [
        cross_val_score(make_pipeline(StandardScaler(), make(**where)), X, y, cv=2)
        for where in ({}, {"client": client})
    ]
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-6)


@pytest.mark.filterwarnings(f"ignore:.*{WARNING}")
@pytest.mark.parametrize(
    ("search", "where"),
    [
        (GridSearchCV, {}),
        (GridSearchCV, {"n_jobs": 2}),
        (GridSearch, {}),
        (GridSearch, {"n_jobs": 2}),
        (GridSearch, {"client": "the same"}),
    ],
)
def test_searches_are_nested(client, search, where):
    inner = GridSearch(*NEIGHBOURS, cv=3)
    grid, name = {"estimator__weights": ["uniform", "distance"]}, "split1_test_score"
    here = search(clone(inner), grid, cv=2).fit(X, y)
    where = {"client": client} if "client" in where else where
    client_search = search(inner.set_params(client=client), grid, cv=2, **where).fit(X, y)
    assert client_search.cv_results_[name].tolist() == here.cv_results_[name].tolist()
    assert client_search.best_estimator_.client is client


def test_the_estimator_of_a_backend_keeps_it_as_long_as_it_stays(one_worker):
    estimator = BackendSVC()
    estimator.client = one_worker
    assert clone(estimator).client is copy.deepcopy(estimator).client is one_worker
    assert pickle.loads(pickle.dumps(estimator)).client is None
