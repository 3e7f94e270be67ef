from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from cluster_setup import open_cluster
from pipelines import BaggedNets
from pipelines.bagging.reductions import reduce_members
from pipelines.nn.member import Ensemble, Member

X, y = load_digits(return_X_y=True)
X, y = X[:300], y[:300]
SMALL: dict[str, Any] = {
    "n_estimators": 3,
    "n_iter": 2,
    "cv": 2,
    "max_epochs": 4,
    "image_shape": (8, 8),
    "random_state": 0,
}


@pytest.mark.slow
@parametrize_with_checks(
    [
        BaggedNets(
            n_estimators=2,
            n_iter=1,
            cv=2,
            space={"network": "mlp", "n_hidden_layer": 32, "learning_rate": 0.02, "momentum": 0.5},
        ),
        BaggedNets(n_estimators=2),
    ],
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
def fitted():
    return BaggedNets(**SMALL).fit(X, y)


def test_it_learns_and_its_pieces_agree(fitted):
    outputs = fitted.member_proba(X)
    assert outputs.shape == (3, 300, 10)
    np.testing.assert_allclose(outputs.sum(axis=2), 1, atol=1e-5)
    answers = reduce_members(outputs)
    np.testing.assert_array_equal(fitted.predict(X), answers.vote)
    calibrated = fitted.predict_proba(X)
    np.testing.assert_array_equal(calibrated, fitted.calibration_.scaled(answers.mean))
    np.testing.assert_array_equal(calibrated.argmax(axis=1), answers.by_mean)
    assert fitted.score(X, y) > 0.8
    assert len(fitted.candidates_) == 6
    assert len(fitted.cv_results_) == 12
    best = fitted.candidates_[fitted.candidates_.is_best]
    for number, candidate in zip(best.candidate, fitted.ensemble_.members, strict=True):
        row = best[best.candidate == number].iloc[0]
        assert (
            row.loss_mean
            == fitted.candidates_[fitted.candidates_.member == row.member].loss_mean.min()
        )
        assert candidate.spec.network == "conv"


def test_the_seed_decides_and_workers_do_not(fitted, four_workers, monkeypatch):
    outputs, answers = fitted.member_proba(X), fitted.predict_ensemble(X)
    remote_nets = clone(fitted).set_params(client=four_workers).fit(X, y)
    with monkeypatch.context() as here:
        here.setattr(Member, "predict_proba", None)  # workers ask the members, on their devices
        np.testing.assert_array_equal(remote_nets.member_proba(X), outputs)
        theirs = remote_nets.predict_ensemble(X)
    for field in fields(answers):
        np.testing.assert_allclose(
            getattr(theirs, field.name), getattr(answers, field.name), rtol=1e-12
        )
    other = clone(fitted).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(other.member_proba(X), outputs)


def test_what_members_say_on_gpus_is_reduced_there(
    fitted,
    gpu_stand_in,
    monkeypatch,
):
    """torch stands in for its own GPUs; of what it gives to cupy only reduced arrays come back."""
    outputs, answers, assessed = (
        fitted.member_proba(X),
        fitted.predict_ensemble(X),
        fitted.assess(X),
    )
    monkeypatch.setattr("pipelines.nn.settings.torch_device", lambda device: "cpu")
    monkeypatch.setattr("pipelines.bagging.reductions.SAMPLES_PER_CHUNK", 64)

    def copied():
        assert {what for _, what, _ in gpu_stand_in()} <= {"import", "to-host"}
        return sum(nbytes for _, _, nbytes in gpu_stand_in())

    gpu_nets = copy.copy(fitted)
    gpu_nets._training = replace(fitted._training, device="gpu")
    with open_cluster("threads", 2) as client:
        for gpu_nets.client in (None, client):
            before = copied()
            theirs = gpu_nets.predict_ensemble(X)
            for field in fields(answers):
                np.testing.assert_array_equal(
                    getattr(theirs, field.name), getattr(answers, field.name)
                )
            reduced = sum(getattr(answers, field.name).nbytes for field in fields(answers))
            distances = 4 * len(X)
            after = copied()
            assert after - before in (reduced, reduced + distances)
            np.testing.assert_array_equal(gpu_nets.assess(X).p, assessed.p)
            before = copied()
            assert before - after == reduced + distances
            np.testing.assert_array_equal(gpu_nets.member_proba(X), outputs)
            assert copied() - before in (outputs.nbytes, outputs.nbytes + distances)


def test_labels_of_any_kind_and_a_stored_ensemble(tmp_path, fitted):
    names = np.array(["zero", "one", "two"])
    mask = y < 3
    nets = BaggedNets(**SMALL).fit(X[mask], names[y[mask]])
    assert set(nets.predict(X[mask])) <= set(names)
    nets.ensemble_.save(tmp_path / "nets.safetensors")
    stored = Ensemble.load(tmp_path / "nets.safetensors")
    assert stored.classes_.tolist() == sorted(names)
    np.testing.assert_array_equal(stored.member_proba(X[:9]), nets.member_proba(X[:9]))


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"cv": 1}, "The 'cv' parameter of BaggedNets must be an int in the range .* Got 1"),
        ({"cv": 400}, "^cv must be at most half the training rows, .*got 400 for .*; use cv="),
        ({"n_estimators": 0}, "n_estimators"),
        ({"image_shape": (8, 9)}, "image_shape must be"),
        ({"space": "smal"}, "^space must be one of .* did you mean 'small'"),
        ({"image_shape": None, "space": "small"}, "^space has a convolution, .* use space='mlp'$"),
    ],
)
def test_bad_parameters_are_named(parameters, says):
    with pytest.raises(ValueError, match=says):
        BaggedNets(**SMALL | parameters).fit(X, y)


def test_members_that_diverge_are_told():
    wild = {"network": "mlp", "n_hidden_layer": 8, "learning_rate": 900.0, "momentum": 0.5}
    nets = BaggedNets(
        **SMALL
        | {"space": wild, "image_shape": None, "standardize": False, "n_iter": 1, "random_state": 5}
    )
    with pytest.raises(ValueError, match="no member could be trained"):
        nets.fit(X * 1e30, y)  # beyond single precision


def test_a_lost_member_is_a_warning(monkeypatch):
    from pipelines.bagging import work

    run_task = work.run_member_task

    def lose_one(problem, task, *rest, **settings):
        if task.name == "refit-member=1":
            raise MemoryError
        yield from run_task(problem, task, *rest, **settings)

    monkeypatch.setattr(work, "run_member_task", lose_one)
    with pytest.warns(FitFailedWarning, match="1 of 3 members could not be trained: out of memory"):
        nets = BaggedNets(**SMALL).fit(X, y)
    assert nets.member_proba(X).shape == (2, 300, 10)


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


def test_a_table_needs_no_search(wine, four_workers):
    """Twelve members in two groups, each of one draw, with the same bits on any workers."""
    train, test = (tuple(array[start::2] for array in wine) for start in (0, 1))
    nets = BaggedNets(random_state=0).fit(*train)
    assert nets.score(*test) > 0.93
    assert nets.predict_ensemble(test[0]).deferred.mean() < 0.15
    candidates = [member.spec for member in nets.ensemble_.members]
    assert [candidates.index(candidate) for candidate in candidates] == [0] * 6 + [6] * 6
    assert all(candidate.network == "table" for candidate in candidates)
    assert (nets.cv_results_.fold == -1).all()
    assert len(nets.cv_results_) == len(nets.candidates_) == 12
    assert nets.cv_results_.n_validation.between(15, 50).all()  # what a sample leaves out
    remote_nets = clone(nets).set_params(client=four_workers).fit(*train)
    np.testing.assert_array_equal(remote_nets.member_proba(wine[0]), nets.member_proba(wine[0]))


def test_a_table_can_be_searched(wine):
    nets = BaggedNets(n_estimators=2, n_iter=2, cv=3, random_state=0).fit(*wine)
    assert len(nets.cv_results_) == 12
    assert set(nets.cv_results_.fold) == {0, 1, 2}
    assert nets.cv_results_.error.mean() < 0.1


def test_rows_are_drawn_by_their_weight(wine):
    features, classes = wine
    only_two = BaggedNets(n_estimators=4, random_state=0).fit(
        features, classes, sample_weight=(classes != 1).astype(float)
    )
    assert not np.any(only_two.predict(features) == 1)
    images = BaggedNets(**SMALL).fit(X, y, sample_weight=(y < 5).astype(float))
    assert np.all(images.predict(X) < 5)
    for weights, says in (
        (-np.ones(178), "Negative values in data passed to `sample_weight`"),
        (np.zeros(178), "Sample weights must contain at least one non-zero number"),
    ):
        with pytest.raises(ValueError, match=says):
            BaggedNets().fit(features, classes, sample_weight=weights)


def test_the_parameter_space_is_named(wine):
    table = {"network": "table", "n_hidden_layer": 8, "learning_rate": 0.01}
    for space, says in (
        (table | {"momentum": 1.0}, "^space: momentum must lie between 0 and 0.9999, got 1.0$"),
        (table, "^space must say every hyper-parameter of network table, momentum missing"),
        (table | {"momentum": 0.9, "kernel_size": 3}, "^space: network table takes .* 'kernel"),
    ):
        with pytest.raises(ValueError, match=says):
            BaggedNets(space=space).fit(*wine)


class Pooled(torch.nn.Module):
    """A network of the user's own, for coloured images."""

    def __init__(self, in_channels, n_classes):
        super().__init__()
        self.convolution = torch.nn.Conv2d(in_channels, 8, 3)
        self.output = torch.nn.Linear(8, n_classes)

    def forward(self, X):
        return self.output(self.convolution(X).relu().mean((-1, -2)))


@pytest.mark.parametrize(
    "network",
    [Pooled, *(pytest.param(module, marks=pytest.mark.slow) for module in (Pooled(3, 2), "cnn"))],
)
def test_modules_learn_images_of_four_dimensions(network):
    """Stripes that lie or stand, in colours that say nothing."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(120, 3, 12, 12, generator=generator)
    y = np.arange(120) % 2
    images[y == 0, :, ::3] = 1
    images[y == 1, :, :, ::3] = 1
    nets = BaggedNets(
        2,
        network=network,
        augment="light",
        batch_size=16,
        max_epochs=25,
        random_state=0,
        optimizer="adamw",
        space={"learning_rate": 0.02, "momentum": 0.9}
        | ({"n_conv_layer": 4} if network == "cnn" else {}),
    )
    nets.fit(images, y)
    assert nets.score(images, y) > 0.9
    np.testing.assert_array_equal(nets.predict(images.numpy()), nets.predict(images))
    assert nets.cv_results_["fold"].tolist() == [-1, -1]
    assert nets.ensemble_.members[0].inputs.image_shape == (3, 12, 12)
    again = clone(nets).fit(images, y)
    np.testing.assert_array_equal(again.member_proba(images), nets.member_proba(images))


def test_light_augmentation_of_images_without_colours_is_that_of_digits():
    short = SMALL | {"n_estimators": 1, "n_iter": 1, "max_epochs": 1}
    light, digits = (
        BaggedNets(**short, augment=name).fit(X, y).predict_proba(X) for name in ("light", "digits")
    )
    assert np.array_equal(light, digits)
