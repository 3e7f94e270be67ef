"""Parts of voting and stacking that are equal in several candidates are fitted once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_classification
from sklearn.ensemble import (
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from pipelines import GridSearch
from pipelines.search.fitting import group_candidates
from pipelines.search.scoring import CandidateScorer
from tests.search.awkward import Nearest

X, y = make_classification(120, 6, n_informative=4, n_classes=3, random_state=0)
LABELS = np.array(["a", "b", "c"])[y]
DIABETES = tuple(part[:120] for part in load_diabetes(return_X_y=True))
PARTS = [
    ("line", make_pipeline(StandardScaler(), LogisticRegression())),
    ("near", KNeighborsClassifier()),
    ("wood", RandomForestClassifier(3, random_state=0)),
]
NUMBER_PARTS = [
    ("line", Ridge()),
    ("near", KNeighborsRegressor()),
    ("tree", DecisionTreeRegressor(max_depth=3, random_state=0)),
]
LINE = "line__logisticregression__C"

Case = tuple[Any, dict[str, list[Any]], Any, int]  # with how many fits of neighbours for a split
CASES: dict[str, Case] = {
    "voting": (VotingClassifier(PARTS), {LINE: [0.1, 1.0], "wood__max_depth": [1, 2]}, None, 1),
    "how it votes": (
        VotingClassifier(PARTS),
        {"voting": ["soft", "hard"], "weights": [None, [1, 2, 3]], "near__n_neighbors": [1, 4]},
        ["accuracy"],
        2,
    ),
    "a part left out": (
        VotingClassifier(PARTS, voting="soft"),
        {"wood": ["drop", RandomForestClassifier(2, random_state=1)], LINE: [0.1, 1.0]},
        ["accuracy", "neg_log_loss"],
        1,
    ),
    "voting on numbers": (
        VotingRegressor(NUMBER_PARTS, n_jobs=2),
        {"line__alpha": [0.1, 1.0], "weights": [None, [1, 1, 4]]},
        ["r2", "neg_mean_absolute_error"],
        1,
    ),
    "stacking": (
        StackingClassifier(PARTS, LogisticRegression(), cv=3),
        {"final_estimator__C": [0.1, 1.0], LINE: [0.1, 1.0], "passthrough": [False, True]},
        ["accuracy", "neg_log_loss"],
        4,  # and one for each split within
    ),
    "stacking on numbers": (
        StackingRegressor(NUMBER_PARTS, Ridge(), cv=KFold(2, shuffle=True, random_state=0)),
        {"near__n_neighbors": [2, 5], "line__alpha": [0.1, 1.0]},
        None,
        6,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", [np.array, pd.DataFrame])
def test_their_scores_are_those_of_separate_fits(name, form, monkeypatch):
    estimator, grid, scoring, n_fits = CASES[name]
    rows, targets = DIABETES if "numbers" in name else (X, LABELS)
    rows = form(rows) if form is np.array else form(rows).add_prefix("column")
    how = {"cv": 2, "scoring": scoring, "refit": False, "error_score": "raise"}
    how |= {"return_train_score": True}
    theirs = GridSearchCV(estimator, grid, **how).fit(rows, targets)
    calls = list[Any]()
    for neighbors in (KNeighborsClassifier, KNeighborsRegressor):

        def counted(part, *arguments, fit=neighbors.fit):
            calls.append(part)
            return fit(part, *arguments)

        monkeypatch.setattr(neighbors, "fit", counted)
    ours = GridSearch(estimator, grid, **how).fit(rows, targets)
    assert len(calls) == 2 * n_fits
    for column in theirs.cv_results_:
        if "_test_" in column or "_train_" in column:
            np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])


def test_what_a_scorer_sees_is_a_separate_fit():
    table = pd.DataFrame(X).add_prefix("column")

    def look(estimator, rows, truth):
        alone = clone(estimator)
        assert [type(part) for _, part in alone.estimators] == [type(part) for _, part in PARTS]
        assert vars(alone).keys() < vars(estimator).keys()
        parts = estimator.estimators_
        assert [type(part) for part in parts] == [type(part) for _, part in PARTS]
        assert list(estimator.named_estimators_.values()) == parts
        assert list(estimator.feature_names_in_) == list(table.columns)
        assert estimator.n_jobs == 2
        assert parts[1].n_neighbors == estimator.get_params()["near__n_neighbors"]
        return float(np.mean(estimator.predict(rows) == truth))

    grid = {"near__n_neighbors": [1, 5], LINE: [0.1, 1.0]}
    for composite in (
        VotingClassifier(PARTS, n_jobs=2),
        StackingClassifier(PARTS, n_jobs=2, cv=2),
    ):
        how = {"cv": 2, "error_score": "raise"}
        theirs = GridSearchCV(composite, grid, **how).fit(table, LABELS)
        ours = GridSearch(composite, grid, scoring=look, **how).fit(table, LABELS)
        column = "mean_test_score"
        np.testing.assert_array_equal(ours.cv_results_[column], theirs.cv_results_[column])
        assert ours.fits.n_made == ours.fits.n_requested  # each is fitted, of shared parts


def test_candidates_without_a_common_part_are_tasks_apart():
    kind = group_candidates([VotingClassifier(PARTS)], CandidateScorer())[0].shared
    assert kind is not None
    near = [VotingClassifier([("near", KNeighborsClassifier(k))]) for k in (1, 2, 3)]
    both = VotingClassifier([("one", KNeighborsClassifier(1)), ("three", KNeighborsClassifier(3))])
    assert kind.partition(near, 1) == [[0], [1], [2]]
    assert kind.partition([*near, both], 1) == [[0, 2, 3], [1]]


@pytest.mark.parametrize(
    "composite",
    [
        VotingClassifier([*PARTS, ("chance", RandomForestClassifier(3))]),
        VotingClassifier([*PARTS, ("chance", SGDClassifier())]),
        VotingClassifier([*PARTS, ("chance", LogisticRegression(solver="saga"))]),
        VotingClassifier([*PARTS, ("inside", make_pipeline(StandardScaler(), SGDClassifier()))]),
        VotingClassifier([*PARTS, ("unknown", Nearest())]),
        VotingClassifier(
            [*PARTS, ("writes", make_pipeline(StandardScaler(copy=False), GaussianNB()))]
        ),
        StackingClassifier(PARTS, SGDClassifier()),
        StackingClassifier(PARTS, cv=KFold(3, shuffle=True)),
        StackingClassifier(PARTS, cv="prefit"),
    ],
)
def test_what_chance_decides_or_nobody_knows_is_not_shared(composite):
    groups = group_candidates([clone(composite), clone(composite)], CandidateScorer())
    assert [group.shared for group in groups] == [None, None]
