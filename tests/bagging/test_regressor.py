from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, make_friedman1
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipelines import BaggedNetsRegressor
from pipelines.nn.member import Ensemble

MLP = {"network": "mlp", "n_hidden_layer": 32, "learning_rate": 0.02, "momentum": 0.5}


@pytest.mark.slow
@parametrize_with_checks(
    [BaggedNetsRegressor(2, 1, cv=2, space=MLP), BaggedNetsRegressor(2)],
    expected_failed_checks=lambda nets: {
        "check_sample_weight_equivalence_on_dense_data": (
            "rows are drawn by their weight: two of weight 1 are other draws than one of 2"
        )
    },
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def friedman():
    return make_friedman1(1300, noise=1.0, random_state=0)


@pytest.fixture(scope="module")
def fitted(friedman):
    X, y = friedman
    return BaggedNetsRegressor(random_state=0).fit(X[:300], y[:300])


def test_it_learns_and_its_intervals_cover(fitted, friedman):
    X, y = (part[300:] for part in friedman)
    assert fitted.score(X, y) > 0.85
    of_members = fitted.member_predictions(X)
    assert of_members.shape == (24, 1000)
    assert of_members.dtype == np.float64
    np.testing.assert_array_equal(fitted.predict(X), of_members.mean(axis=0))
    widths = []
    for confidence in (0.5, 0.8, 0.9, 0.95):
        lower, upper = fitted.predict_interval(X, confidence)
        covered = np.mean((lower <= y) & (y <= upper))
        assert confidence - 0.04 < covered < confidence + 0.06
        widths.append(np.mean(upper - lower))
    assert widths == sorted(widths)
    np.testing.assert_array_equal(fitted.predict_interval(X), fitted.predict_interval(X, 0.9))
    assert fitted.keeps(X, share=0.5).sum() == 500
    lower, upper = fitted.predict_interval(X, 0.8, by_spread=True)
    assert 0.76 < np.mean((lower <= y) & (y <= upper)) < 0.9
    median = float(np.median(upper - lower))
    kept = fitted.keeps(X, width=median, confidence=0.8)
    np.testing.assert_array_equal(kept, upper - lower <= median)


def test_out_of_bag_residuals_are_of_members_that_never_saw_a_row(fitted, friedman):
    intervals = fitted.intervals_
    X, y = (part[:300] for part in friedman)
    assert intervals.n_drawn_by_all == 0
    assert intervals.left_out.mean() == pytest.approx(0.37, abs=0.03)
    np.testing.assert_array_equal(intervals.truth, y)
    of_members = fitted.member_predictions(X).T
    mean = np.where(intervals.left_out, of_members, 0).sum(axis=1) / intervals.left_out.sum(axis=1)
    # Not to the bit: each half of the rows that a member left out is asked of the network as the
    # other half ended it.
    assert not np.array_equal(intervals.predicted, mean)
    assert np.std(intervals.predicted - mean) < 0.1 * y.std()
    assert np.mean(intervals.residuals**2) > 1.1 * np.mean((y - fitted.predict(X)) ** 2)
    # What a row of results says is the loss of the rows that its member left out.
    line = fitted.cv_results_.iloc[0]
    member = fitted.estimators_[0]
    assert member.target is not None
    left_out = intervals.left_out[:, 0]
    squared = ((of_members[left_out, 0] - y[left_out]) / member.target.scale) ** 2
    assert line["loss"] == pytest.approx(np.mean(squared) / 2, rel=1e-4)
    assert line["n_validation"] == left_out.sum()
    assert fitted.cv_results_[["n_errors", "error"]].isna().all(axis=None)


def test_the_seed_decides_and_workers_do_not(four_workers):
    X, y = load_diabetes(return_X_y=True)
    here = BaggedNetsRegressor(10, random_state=1).fit(X, y)
    cluster_model = clone(here).set_params(client=four_workers).fit(X, y)
    np.testing.assert_array_equal(cluster_model.member_predictions(X), here.member_predictions(X))
    np.testing.assert_array_equal(cluster_model.predict_interval(X), here.predict_interval(X))
    other = clone(here).set_params(random_state=2).fit(X, y)
    assert not np.array_equal(other.predict(X), here.predict(X))


@pytest.mark.parametrize(("scale", "offset"), [(1e6, -3e9), (1e-9, 0.0), (1.0, 1e12)])
def test_targets_may_have_any_units(
    fitted,
    friedman,
    scale,
    offset,
):
    X, y = friedman
    moved = clone(fitted).fit(X[:300], scale * y[:300] + offset)
    moved_outputs = np.stack([moved.predict(X), *moved.predict_interval(X)])
    plain = np.stack([fitted.predict(X), *fitted.predict_interval(X)])
    # Training is chaotic: what is rounded otherwise at 1e12 ends in slightly other networks.
    error = np.abs((moved_outputs - offset) / scale - plain)
    assert np.median(error) < 0.5
    assert moved.score(X[300:], scale * y[300:] + offset) > 0.85


def test_searched_networks_and_modules(friedman):
    X, y = (part[:400] for part in friedman)
    searched = BaggedNetsRegressor(3, 3, cv=3, network="mlp", random_state=0).fit(X, y)
    assert searched.score(X, y) > 0.5
    assert len(searched.candidates_) == 9
    best = searched.candidates_[searched.candidates_.is_best]
    assert best.loss_mean.lt(0.5).all()  # that of the mean
    module = BaggedNetsRegressor(
        2, network=Widened, optimizer="adamw", max_epochs=30, patience=5, random_state=0
    ).fit(X, y)
    assert module.score(X, y) > 0.7
    wrong = BaggedNetsRegressor(2, network=Widened(10, 3), max_epochs=1)
    with pytest.raises(ValueError, match=r"no member could be trained: .*size of tensor|shape"):
        wrong.fit(X, y)


class Widened(torch.nn.Module):
    """A network of the user's own, for a table."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.hidden = torch.nn.Linear(n_features, 64)
        self.output = torch.nn.Linear(64, n_outputs)

    def forward(self, X):
        return self.output(self.hidden(X).relu())


def test_images_have_numbers_too():
    images = load_digits().data
    ink = images.sum(axis=1)
    nets = BaggedNetsRegressor(2, 1, cv=2, space="small", image_shape=(8, 8), random_state=0)
    assert nets.fit(images[:500], ink[:500]).score(images[500:], ink[500:]) > 0.8
    assert nets.estimators_[0].spec.network == "conv"


def test_a_stored_ensemble_predicts_the_same(tmp_path, fitted, friedman):
    X = friedman[0][:50]
    fitted.ensemble_.save(tmp_path / "nets.safetensors")
    stored = Ensemble.load(tmp_path / "nets.safetensors")
    assert stored.members[0].target is not None
    np.testing.assert_array_equal(stored.member_proba(X)[:, :, 0], fitted.member_predictions(X))
    damaged = [replace(member, target=None) for member in stored.members]
    Ensemble(damaged, stored.classes_).save(tmp_path / "damaged.safetensors")
    with pytest.raises(ValueError, match="must be an ensemble that this program saved"):
        Ensemble.load(tmp_path / "damaged.safetensors")


def test_rows_are_drawn_by_their_weight_and_counted_by_it(fitted, friedman):
    X, y = (part[:300].copy() for part in friedman)
    y[::3] += 1000  # of no weight
    weights = np.where(np.arange(300) % 3, 1.0, 0.0)
    nets = clone(fitted).fit(X, y, sample_weight=weights)
    assert nets.predict(X).max() < 50
    assert len(nets.intervals_.truth) + nets.intervals_.n_drawn_by_all == 200
    lower, upper = nets.predict_interval(X)
    assert np.max(upper - lower) < 20
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        clone(fitted).fit(X, y, sample_weight=-weights)


def test_constant_targets_and_few_rows_and_members():
    X = np.random.default_rng(0).normal(size=(60, 3))
    constant = BaggedNetsRegressor(3, random_state=0).fit(X, np.full(60, 1e7 + 0.25))
    outputs = [constant.predict(X), *constant.predict_interval(X)]
    np.testing.assert_allclose(outputs, 1e7 + 0.25, rtol=1e-14)
    zero = BaggedNetsRegressor(3, random_state=0).fit(X, np.zeros(60))
    assert np.abs(zero.predict(X)).max() < 1e-300
    one_member = BaggedNetsRegressor(1, random_state=0).fit(X, X[:, 0])
    assert one_member.intervals_.n_drawn_by_all + len(one_member.intervals_.truth) == 60
    assert np.isfinite(one_member.predict_interval(X)).all()
    with pytest.raises(ValueError, match=r"^cv must be at most half .* got 5 for 5; use cv=2"):
        BaggedNetsRegressor().fit(X[:5], X[:5, 0])  # five folds of a row, which all would draw
    few = BaggedNetsRegressor(cv=2, random_state=0).fit(X[:5], X[:5, 0])
    with pytest.raises(ValueError, match=r"^confidence must be at most 0.833 with 5 out-of-bag"):
        few.predict_interval(X)
    assert np.isfinite(few.predict_interval(X, 0.5)).all()


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (np.ones((1, 2)), [1.0], "at least 2 rows, got n_samples = 1"),
        (np.ones((9, 2)), [1.0] * 8 + [np.nan], "Input y contains NaN"),
        (np.full((9, 2), np.nan), np.arange(9.0), "Input X contains NaN"),
        (np.ones((9, 2)), np.ones((9, 2)), "y should be a 1d array"),
        (np.ones((9, 2)), np.arange(9) * 1e300, "^y must have a standard deviation .* divide it"),
        (np.ones((9, 2)), list("abcdefghi"), "y must be numbers, got <U1"),
        (np.ones((3, 2)), np.arange(3.0), "^cv must be at most half .* got 5 for 3"),
    ],
)
def test_what_is_no_regression_is_refused(X, y, says):
    with pytest.raises(ValueError, match=says):
        BaggedNetsRegressor(2).fit(X, y)


@pytest.mark.parametrize("name", ["label_smoothing", "defer_error", "confidence"])
def test_what_is_of_classes_alone_is_no_parameter(name):
    assert name not in BaggedNetsRegressor().get_params()


def test_networks_that_leave_the_numbers_are_told(friedman):
    X, y = (part[:100] for part in friedman)
    wild = {"network": "mlp", "n_hidden_layer": 8, "learning_rate": 900.0, "momentum": 0.5}
    with pytest.raises(ValueError, match="no member could be trained: none of its candidates"):
        BaggedNetsRegressor(3, 1, space=wild, random_state=0).fit(X, y)
    module = BaggedNetsRegressor(
        2, network=Widened, space={"learning_rate": 900.0, "momentum": 0.9}, random_state=0
    )
    with pytest.raises(ValueError, match="no member could be trained: diverged"):
        module.fit(X, y)


def test_a_wide_table_does_not_make_networks_diverge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 10_000))
    y = X[:, :10].sum(axis=1)
    nets = BaggedNetsRegressor(3, random_state=0, device="cpu", max_epochs=40).fit(X, y)
    assert np.abs(nets.predict(X)).max() < 5 * np.abs(y).max()


def test_targets_too_close_for_squares_are_refused():
    X = np.arange(40.0)[:, None]
    with pytest.raises(ValueError, match="y must differ by 1e-150 or more"):
        BaggedNetsRegressor(2).fit(X, X[:, 0] * 1e-170)
