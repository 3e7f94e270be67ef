"""What tells estimators that share work from others: their class and their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectFromModel, SelectKBest, chi2, f_classif
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pipelines import GridSearch
from pipelines.search.shared.base import estimator_parameters, identity, writes_rows
from tests.search.awkward import Nearest

X, y = make_classification(60, 4, random_state=0)
TABLE = ColumnTransformer([("numbers", StandardScaler(), [0]), ("words", OneHotEncoder(), [1])])


@pytest.mark.parametrize(
    "estimator",
    [SVC(C=2.0), Nearest(3), make_pipeline(StandardScaler(), PCA(3)), TABLE, SelectKBest(chi2)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_parameters_are_those_of_get_params(estimator):
    assert estimator_parameters(estimator) == estimator.get_params(deep=False)
    assert list(estimator_parameters(estimator)) == sorted(estimator.get_params(deep=False))
    assert identity(estimator) == identity(clone(estimator))


DIFFERENT: list[tuple[Any, Any]] = [
    (Ridge(alpha=1.0), Ridge(alpha=2.0)),
    (Ridge(max_iter=1), Ridge(max_iter=True)),
    (SelectKBest(chi2), SelectKBest(f_classif)),
    (LogisticRegression(class_weight={0: 1}), LogisticRegression(class_weight={0: 2})),
    (OneHotEncoder(categories=[[1, 2]]), OneHotEncoder(categories=[(1, 2)])),
    (GaussianNB(priors=[0.5, 0.5]), GaussianNB(priors=np.array([0.5, 0.5]))),
    (TABLE, clone(TABLE).set_params(numbers__with_mean=False)),
    (SelectFromModel(Ridge()), SelectFromModel(Ridge(alpha=3))),
    (FrozenEstimator(GaussianNB().fit(X, y)), FrozenEstimator(GaussianNB().fit(X + y[:, None], y))),
]


@pytest.mark.parametrize("number", range(len(DIFFERENT)))
def test_estimators_that_differ_have_other_identities(number):
    first, second = DIFFERENT[number]
    assert identity(first) != identity(second)
    assert identity(first) == identity(clone(first))


def test_a_parameter_that_allows_to_write_is_found_at_any_depth():
    deep = ColumnTransformer([("a", make_pipeline(StandardScaler(copy=False), PCA()), [0, 1])])
    assert writes_rows(make_pipeline(deep, SVC()))
    assert not writes_rows(make_pipeline(TABLE, SVC()))


def test_an_analysis_that_would_draw_is_not_shared():
    rng = np.random.default_rng(0)
    wide, classes = rng.normal(size=(90, 520)), rng.integers(0, 2, 90)  # "auto" is randomised
    grid = {"kneighborsclassifier__n_neighbors": [1, 2, 3]}
    for seed, is_shared in ((None, False), (0, True)):
        for solver in ("auto", "randomized"):
            analysis = PCA(5, svd_solver=solver, random_state=seed)
            pipeline = make_pipeline(analysis, KNeighborsClassifier())
            search = GridSearch(pipeline, grid, cv=2).fit(wide, classes)
            assert search.fits.n_made == (2 if is_shared else 6)
    analysis = PCA(5)  # of few features, exact whatever its seed
    search = GridSearch(make_pipeline(analysis, KNeighborsClassifier()), grid, cv=2)
    assert search.fit(wide[:, :6], classes).fits.n_made == 2


def test_a_class_without_get_params_of_its_own_is_asked_once(monkeypatch):
    assert identity(DecisionTreeClassifier()) == identity(DecisionTreeClassifier())

    def refuse(*arguments, **named):
        raise AssertionError("asked again")

    monkeypatch.setattr("inspect.signature", refuse)
    assert identity(DecisionTreeClassifier()) == identity(DecisionTreeClassifier())
