"""The contract of shared fits: each candidate gets what a fit of its own would have given."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import KFold

from pipelines.data.fits import Fit, Progress
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.search.fitting import group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared.base import WEIGHTS, SharedFit, SplitRows

N_ROWS, PARTS = 240, ("test", "train")


class SharedFitContract:
    """Tests of a kind of shared work; a subclass defines ``shared_fit`` and ``estimators``.

    Fixtures ``data`` and ``tolerance`` may be defined, too: by default they are 240 handwritten
    digits, or diabetes patients for a regression, and 1e-9, relative and absolute, of what a plain
    fit of a clone by scikit-learn predicts.
    """

    @pytest.fixture
    def shared_fit(self) -> SharedFit:
        """The kind of shared work to be tested."""
        raise NotImplementedError("define the fixture shared_fit in the subclass")

    @pytest.fixture
    def estimators(self) -> Sequence[Any]:
        """Two unfitted estimators or more that share this work, and predict differently."""
        raise NotImplementedError("define the fixture estimators in the subclass")

    @pytest.fixture
    def other_estimators(self) -> Sequence[Any]:
        """Estimators of the same classes that must not be of this group, if there are any."""
        return ()

    @pytest.fixture
    def data(self, estimators: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Features and targets."""
        load = load_digits if is_classifier(estimators[0]) else load_diabetes
        X, y = load(return_X_y=True)
        return X[:N_ROWS], y[:N_ROWS]

    @pytest.fixture
    def tolerance(self) -> float:
        """By how much predictions may differ from those of plain fits."""
        return 1e-9

    def test_these_estimators_are_one_group(
        self, shared_fit: SharedFit, estimators: Sequence[Any]
    ) -> None:
        assert len(estimators) > 1
        assert all(shared_fit.knows(estimator) for estimator in estimators)
        keys = [shared_fit.group_key(estimator) for estimator in estimators]
        assert None not in keys
        assert len(set(keys)) == 1
        assert keys[0] == shared_fit.group_key(clone(estimators[0]))
        groups = group_candidates(estimators, CandidateScorer(), shared_fits=[shared_fit])
        assert [group.shared for group in groups] == [shared_fit], "a search would not share"

    def test_other_estimators_are_not_of_the_group(
        self,
        shared_fit: SharedFit,
        estimators: Sequence[Any],
        other_estimators: Sequence[Any],
    ) -> None:
        key = shared_fit.group_key(estimators[0])
        assert all(shared_fit.group_key(estimator) != key for estimator in other_estimators)

    def test_a_subclass_is_not_known(
        self, shared_fit: SharedFit, estimators: Sequence[Any]
    ) -> None:
        subclass = type("Other", (type(estimators[0]),), {})
        assert not shared_fit.knows(object.__new__(subclass))

    def test_it_goes_to_workers(self, shared_fit: SharedFit) -> None:
        assert type(pickle.loads(pickle.dumps(shared_fit))) is type(shared_fit)

    def test_costs_are_finite_and_grow_with_rows(
        self, shared_fit: SharedFit, estimators: Sequence[Any]
    ) -> None:
        cost, larger = (shared_fit.cost(estimators, n_rows, 20) for n_rows in (1_000, 100_000))
        assert 0 < cost <= larger < np.inf

    def test_a_group_is_cut_without_loss(
        self, shared_fit: SharedFit, estimators: Sequence[Any]
    ) -> None:
        assert len(shared_fit.partition(estimators, 1)) == 1, "one worker loses shared work"
        for n_workers in (1, 2, 100):
            parts = shared_fit.partition(estimators, n_workers)
            assert sorted(number for part in parts for number in part) == list(
                range(len(estimators))
            )

    def test_each_candidate_is_fitted_once_on_each_split(
        self,
        shared_fit: SharedFit,
        estimators: Sequence[Any],
        data: tuple[np.ndarray, np.ndarray],
    ) -> None:
        rows, fits, fractions = fit_on_splits(shared_fit, estimators, data)
        cells = [(fit.candidate, fit.split) for fit in fits]
        assert sorted(cells) == list(product(range(len(estimators)), range(rows.n_splits)))
        assert fractions == sorted(fractions)
        assert all(0 <= fraction <= 1 for fraction in fractions)
        assert not any(fit.error for fit in fits)

    def test_work_is_shared(
        self,
        shared_fit: SharedFit,
        estimators: Sequence[Any],
        data: tuple[np.ndarray, np.ndarray],
    ) -> None:
        _, fits, _ = fit_on_splits(shared_fit, estimators, data)
        assert not [fit.apart for fit in fits if fit.apart]
        if not getattr(shared_fit, "fits_each", False):
            assert sum(fit.n_fits for fit in fits) < len(fits)

    @pytest.mark.parametrize("is_weighted", [False, True])
    def test_predictions_are_those_of_plain_fits(
        self,
        shared_fit: SharedFit,
        estimators: Sequence[Any],
        data: tuple[np.ndarray, np.ndarray],
        tolerance: float,
        is_weighted: bool,
    ) -> None:
        if is_weighted and not shared_fit.takes_weights:
            pytest.skip("it takes no weights: with weights, fits are plain")
        X, y = data
        before = X.copy(), y.copy()
        weights = np.linspace(0.1, 3, len(X)) if is_weighted else None
        rows, fits, _ = fit_on_splits(shared_fit, estimators, data, weights)
        responses = []
        for fit in fits:
            train, test = rows.splits[fit.split]
            weighted = {} if weights is None else {WEIGHTS: weights[train]}
            plain = clone(estimators[fit.candidate]).fit(X[train], y[train], **weighted)
            for method in ("predict", "predict_proba", "decision_function"):
                if not hasattr(plain, method) or method not in {"predict", *shared_fit.gives}:
                    continue
                assert fit.predict is not None
                for part, part_rows in (("test", test), ("train", train)):
                    shared = fit.predict(method, part)
                    expected = getattr(plain, method)(X[part_rows])
                    assert np.shape(shared) == expected.shape
                    if expected.dtype.kind in "fc":
                        np.testing.assert_allclose(shared, expected, tolerance, tolerance)
                    else:
                        assert np.array_equal(shared, expected)
            responses.append(getattr(plain, "predict_proba", plain.predict)(X[test]))
        first_split = [
            response for fit, response in zip(fits, responses, strict=True) if fit.split == 0
        ]
        assert any(not np.array_equal(first_split[0], response) for response in first_split[1:]), (
            "these estimators predict alike, which shows nothing"
        )
        assert all(map(np.array_equal, before, data)), "it wrote to the rows"


def fit_on_splits(
    shared_fit: SharedFit,
    estimators: Sequence[Any],
    data: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray | None = None,
) -> tuple[SplitRows, list[Fit], list[float]]:
    """The rows of three shuffled splits, the fits on them and the fractions in between."""
    X, y = data
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    folded = FoldedData(X, y, X[:0], y[:0], (), Scaling("none"))
    rows = SplitRows(folded, splits, range(len(splits)), "contract", None, estimators[0], PARTS)
    if weights is not None:
        rows.fit_params = {WEIGHTS: weights}
    clones = [clone(estimator) for estimator in estimators]
    fits, fractions = list[Fit](), list[float]()
    for event in shared_fit.fit_splits(rows, clones, ("predict",)):
        if isinstance(event, Progress):
            fractions.append(event.fraction)
        else:
            fits.append(event)
    return rows, fits, fractions
