"""Rows that fits share are the same, by content, after every kind of shared work."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import hash as content_of
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, make_classification
from sklearn.decomposition import PCA
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from pipelines import GridSearch
from pipelines.data.fits import Fit
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.search.fitting import group_candidates
from pipelines.search.scoring import METHODS, CandidateScorer
from pipelines.search.shared import FILES
from pipelines.search.shared.base import SplitRows, writes_rows

CLASSES = make_classification(90, 6, shift=3, random_state=0)
NUMBERS = tuple(part[:150] for part in load_diabetes(return_X_y=True, scaled=False))
SMALL = {"n_estimators": 3, "max_iter": 5, "max_epochs": 2, "random_state": 0}


# Classes that are not made without arguments.
PARTS = [("near", KNeighborsClassifier()), ("line", LogisticRegression())]
NUMBER_PARTS = [("near", KNeighborsRegressor()), ("line", Ridge())]
INSIDE: dict[str, dict[str, Any]] = {
    "VotingClassifier": {"estimators": PARTS},
    "VotingRegressor": {"estimators": NUMBER_PARTS},
    "StackingClassifier": {"estimators": PARTS},
    "StackingRegressor": {"estimators": NUMBER_PARTS, "final_estimator": Ridge()},
    "TransformedTargetRegressor": {"regressor": Ridge()},
}


def candidates_of(kind, estimator):
    """Candidates of one group: as small as can be, then each shared number twice as large."""
    params = estimator.get_params()
    first = clone(estimator).set_params(
        **{name: value for name, value in SMALL.items() if name in params}
    )
    candidates = [first, clone(first)]
    for name in params.keys() & set(kind.shared):
        value = getattr(first, name, None)
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in SMALL:
            candidates.append(clone(first).set_params(**{name: 2 * value}))
        elif name in ("n_estimators", "max_iter"):
            candidates.append(clone(first).set_params(**{name: 2 * SMALL[name]}))
    return candidates


KINDS = [
    kind
    for file in dict.fromkeys(" ".join(FILES.values()).split())
    for kind in import_module(f"pipelines.search.shared.{file}").SHARED_FITS
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("order", ["C", "F"])
def test_no_kind_of_sharing_writes_to_the_rows(kind, order):
    n_shared = 0
    for one_class in kind.types:
        candidates = candidates_of(kind, one_class(**INSIDE.get(one_class.__name__, {})))
        X, y = CLASSES if is_classifier(candidates[0]) else NUMBERS
        rows, targets = X.copy(order=order), y.copy()
        rows.flags.writeable = targets.flags.writeable = False
        nothing = None
        data = FoldedData(rows, targets, nothing, nothing, (), Scaling("none"))
        splits = list(KFold(2, shuffle=True, random_state=0).split(X))
        parts = ("test", "train")
        shared = SplitRows(data, splits, range(2), "here", 1, candidates[0], parts)
        if kind.group_key(candidates[0]) is None:
            continue
        n_shared += 1
        of_parts = [(split, name) for split in range(2) for name in parts]
        before = [content_of(shared.part_rows(*arguments)) for arguments in of_parts]
        methods = {name for name in METHODS if hasattr(candidates[0], name)}
        for fit in kind.fit_splits(shared, candidates, methods & set(kind.gives)):
            if isinstance(fit, Fit) and fit.predict is not None:
                for split_part in parts:
                    fit.predict("predict", split_part)
        assert [content_of(shared.part_rows(*arguments)) for arguments in of_parts] == before
        np.testing.assert_array_equal(rows, X)
        np.testing.assert_array_equal(targets, y)
    assert n_shared, f"no class of {kind.name} is shared as it is by default"


WRITING: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "last": (Ridge(copy_X=False), {"alpha": [0.1, 1.0, 10.0]}),
    "last, of a path": (Lasso(copy_X=False), {"alpha": [0.1, 1.0, 10.0]}),
    "value": (Ridge(), {"copy_X": [False, True], "alpha": [0.1, 1.0, 10.0]}),
    "first": (
        make_pipeline(StandardScaler(copy=False), KNeighborsRegressor()),
        {"kneighborsregressor__n_neighbors": [1, 5]},
    ),
    "behind rows as they are": (
        make_pipeline(FunctionTransformer(), Normalizer(copy=False), Ridge(copy_X=False)),
        {"ridge__alpha": [0.1, 1.0]},
    ),
    "analysis": (
        make_pipeline(PCA(copy=False), KNeighborsRegressor()),
        {"pca__n_components": [2, 3], "kneighborsregressor__n_neighbors": [1, 5]},
    ),
    "inside": (
        TransformedTargetRegressor(Ridge(copy_X=False)),
        {"regressor__alpha": [0.1, 1.0]},
    ),
    "a step's value": (
        make_pipeline(StandardScaler(), Ridge()),
        {
            "standardscaler": [StandardScaler(copy=False), StandardScaler(), "passthrough"],
            "ridge__alpha": [0.1, 1.0],
        },
    ),
}


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("form", [np.array, np.asfortranarray, pd.DataFrame])
def test_estimators_that_may_write_have_scikit_learns_results(name, form):
    estimator, grid = WRITING[name]
    how = {"cv": 3, "refit": False, "return_train_score": True}
    X, y = NUMBERS
    theirs = GridSearchCV(estimator, grid, **how).fit(form(X), y.copy())
    rows, targets = form(X), y.copy()
    ours = GridSearch(estimator, grid, **how).fit(rows, targets)
    for column in ("mean_test_score", "mean_train_score"):
        np.testing.assert_allclose(ours.cv_results_[column], theirs.cv_results_[column], rtol=1e-9)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(targets, y)


def test_they_share_nothing_wherever_the_parameter_is():
    scorer = CandidateScorer()
    for estimator in (
        Ridge(copy_X=False),
        make_pipeline(PCA(copy=False), Ridge()),
        make_pipeline(StandardScaler(), Ridge(copy_X=False)),
        OneVsRestClassifier(make_pipeline(StandardScaler(copy=False), LogisticRegression())),
    ):
        assert writes_rows(estimator)
        groups = group_candidates([clone(estimator), clone(estimator)], scorer)
        assert [group.shared for group in groups] == [None, None]
    assert not writes_rows(make_pipeline(StandardScaler(), PCA(), Ridge()))


def spoiling(truth, predicted):
    """The accuracy, whose arrays are of no use to anybody after it."""
    accuracy = float(np.mean(truth == predicted))
    truth[:] = 0
    predicted[:] = 1
    return accuracy


def test_a_metric_that_writes_spoils_no_other_candidates_score():
    X, y = CLASSES
    search = {
        "param_grid": {"n_neighbors": [3, 3, 5], "weights": ["uniform"]},
        "scoring": make_scorer(spoiling),
        "cv": 3,
        "return_train_score": True,
        "refit": False,
    }
    theirs = GridSearchCV(KNeighborsClassifier(), **search).fit(X, y)
    ours = GridSearch(KNeighborsClassifier(), **search).fit(X, y)
    assert ours.fits.n_made == 3
    for column in ("mean_test_score", "mean_train_score"):
        np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])
