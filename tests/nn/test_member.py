"""Members and ensembles: what they answer, and their file."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pipelines.data.scaling import FittedScaling
from pipelines.errors import InputError
from pipelines.nn import member as member_module
from pipelines.nn.inputs import Inputs, weight_shapes
from pipelines.nn.member import Ensemble, Member
from pipelines.nn.space import NetworkSpec

DIGITS, WINE = Inputs(64, 10, (8, 8)), Inputs(13, 3)
CONV = NetworkSpec("conv", 11, 0.05, 0.7, n_conv_layer=3, kernel_size=3)
MLP = NetworkSpec("mlp", 9, 0.05, 0.5)


def some_member(spec, inputs, seed=0):
    generator = np.random.default_rng(seed)
    weights = {
        name: generator.standard_normal(shape).astype(np.float32) / 8
        for name, shape in weight_shapes(spec, inputs).items()
    }
    if inputs.image_shape:
        return Member(spec, inputs, weights, FittedScaling(8.0, 4.6))
    width = inputs.n_features
    scaling = FittedScaling(generator.random(width), 1 + generator.random(width))
    return Member(spec, inputs, weights, scaling)


def images(n):
    return np.random.default_rng(1).integers(0, 17, (n, 64)).astype(np.uint8)


def test_blocks_of_rows_change_nothing(monkeypatch):
    whole = some_member(CONV, DIGITS).predict_proba(images(10))
    monkeypatch.setattr(member_module, "scoring_rows", lambda *_: 3)
    blocks = some_member(CONV, DIGITS).predict_proba(images(10))
    np.testing.assert_allclose(blocks, whole, atol=1e-6)
    assert some_member(CONV, DIGITS).predict_proba(images(0)).shape == (0, 10)


@pytest.mark.parametrize(("specs", "inputs"), [([CONV, MLP], DIGITS), ([MLP, MLP], WINE)])
def test_a_stored_ensemble_answers_the_same(tmp_path, specs, inputs):
    members = [some_member(spec, inputs, seed) for seed, spec in enumerate(specs)]
    labels = np.array([f"class {code}" for code in range(inputs.n_classes)])
    ensemble = Ensemble(members, labels)
    path = tmp_path / "ensemble.safetensors"
    ensemble.save(path, dataset="wine")
    loaded = Ensemble.load(path)
    X = images(6)[:, : inputs.n_features]
    expected = ensemble.member_proba(X)
    assert expected.shape == (2, 6, inputs.n_classes)
    np.testing.assert_array_equal(loaded.member_proba(X), expected)
    np.testing.assert_array_equal(loaded.classes_, labels)
    assert [member.spec for member in loaded.members] == specs


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("1.hidden.weight", np.zeros((2, 2), np.float32), "hidden.weight has the shape"),
        ("0.output.bias", np.full((1, 10), np.nan, np.float32), "output.bias is not finite"),
        ("0.scaling.center", np.zeros(3), "scaling.center has the shape"),
        ("0.conv.weight", None, "conv.weight"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path, name, value, message):
    from safetensors import safe_open

    path = tmp_path / "ensemble.safetensors"
    Ensemble([some_member(CONV, DIGITS), some_member(MLP, DIGITS)], np.arange(10)).save(path)
    arrays = load_file(path)
    with safe_open(path, framework="numpy") as stored:
        metadata = stored.metadata()
    del arrays[name]
    if value is not None:
        arrays[name] = value
    save_file(arrays, path, metadata=metadata)
    with pytest.raises(InputError, match=message) as refused:
        Ensemble.load(path)
    assert "\n" not in str(refused.value)


def test_a_module_keeps_its_layers_whatever_they_are_called(tmp_path):
    weights = {"preparation.weight": np.ones((3, 13), np.float32)}
    member = Member(NetworkSpec("own.py:Own", 0, 0.1, 0.9), WINE, weights, FittedScaling(0.0, 1.0))
    Ensemble([member], np.arange(3)).save(tmp_path / "ensemble.safetensors")
    (loaded,) = Ensemble.load(tmp_path / "ensemble.safetensors").members
    assert list(loaded.weights) == list(weights)


def test_no_such_file_is_one_line(tmp_path):
    with pytest.raises(InputError, match="must be an ensemble"):
        Ensemble.load(tmp_path / "none.safetensors")


def test_rows_beyond_single_precision_are_refused():
    member = some_member(MLP, WINE)
    rows = np.ones((3, WINE.n_features))
    rows[1, 0] = 1e300
    with pytest.raises(InputError, match=r"^rows must stay within single precision.* row 1 "):
        member.predict(rows)
