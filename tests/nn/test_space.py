"""Search spaces: what is drawn, and what is refused in one line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml

from pipelines.errors import InputError
from pipelines.nn.inputs import Inputs, weight_shapes
from pipelines.nn.space import LIMITS, PRESETS, NetworkSpec, SearchSpace

DIGITS = Inputs(64, 10, (8, 8))
TABLE = Inputs(5, 3)


def drawn(space, n=400, seed=0):
    generator = np.random.default_rng(seed)
    return [space.draw(generator) for _ in range(n)]


def test_the_study_draws_what_it_says():
    specs = drawn(SearchSpace.load("study"), 4000)
    channels = np.array([spec.n_conv_layer for spec in specs])
    assert (channels.min(), channels.max()) >= (1, 900)
    assert channels.max() <= 999
    assert {spec.kernel_size for spec in specs} == set(range(2, 11))
    assert min(spec.n_hidden_layer for spec in specs) >= 1
    assert max(spec.n_hidden_layer for spec in specs) <= 1999
    rates = np.log10([spec.learning_rate for spec in specs])
    assert -5 <= rates.min() < -4.9
    assert -1.1 < rates.max() <= -1
    assert rates.mean() == pytest.approx(-3, abs=0.1)  # uniform in log10
    momenta = np.log10([spec.momentum for spec in specs])
    assert momenta.min() >= -2
    assert momenta.max() <= 0
    assert momenta.mean() == pytest.approx(-1, abs=0.05)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_loads_and_is_its_own_description(name):
    space = SearchSpace.load(name)
    assert SearchSpace.from_mapping(space.describe()) == space
    for spec in drawn(space, 20):
        assert (spec.network == "conv") == (spec.kernel_size > 0)
        for parameter, (least, most) in LIMITS.items():
            if parameter in space.ranges:
                assert least <= getattr(spec, parameter) <= most


def test_kernels_larger_than_the_image_are_left_out():
    space = SearchSpace.load("study").for_images(DIGITS.image_shape)
    assert {spec.kernel_size for spec in drawn(space)} == set(range(2, 9))
    with pytest.raises(InputError, match=r"kernel_size must be at most 2.*got 3"):
        SearchSpace.load("small").for_images((4, 2))
    smallest = SearchSpace.load("small").for_images((3, 5))
    assert {spec.kernel_size for spec in drawn(smallest)} == {3}


def test_a_kernel_as_large_as_the_image_has_one_place():
    assert DIGITS.positions(8) == (1, 1)
    with pytest.raises(InputError, match="kernel_size must be at most 8"):
        DIGITS.positions(9)


def test_a_convolution_needs_images():
    with pytest.raises(InputError, match="space='mlp'"):
        SearchSpace.load("small").for_images(None)
    space = SearchSpace.load("mlp")
    assert space.for_images(None) is space
    assert "conv.weight" not in weight_shapes(space.draw(np.random.default_rng(0)), TABLE)


def test_a_file_may_fix_a_hyper_parameter(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("network: mlp\nn_hidden_layer: 7\nlearning_rate: 0.1\nmomentum: [0, 0.5]\n")
    for spec in drawn(SearchSpace.load(str(path)), 20):
        assert replace(spec, momentum=0.0) == NetworkSpec("mlp", 7, 0.1, 0.0)
        assert 0 <= spec.momentum <= 0.5


GOOD = {"network": "mlp", "n_hidden_layer": 7, "learning_rate": 0.1, "momentum": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rte": 1}, "takes network, n_hidden_layer.*got 'learning_rte'.*'learning_rate'"),
        ({"kernel_size": 3}, "network mlp takes .*got 'kernel_size'"),
        ({"network": 5}, "network must be one of conv, mlp, table, cnn, a name of .*got 5"),
        ({"momentum": "much"}, "momentum must be a number.*got 'much'"),
        ({"momentum": [0.5, 0.1]}, "low <= high"),
        ({"momentum": [0.5, 1.1]}, "momentum must lie between 0 and 1"),
        ({"momentum": True}, "momentum must be a number"),
        ({"learning_rate": {"log10": [-2, 999]}}, "learning_rate must be a number"),
        ({"learning_rate": {"log2": [-2, 0]}}, "learning_rate must be a number"),
        ({"learning_rate": 0}, "learning_rate must lie between"),
        ({"n_hidden_layer": 2.5}, "n_hidden_layer must be a whole number"),
        ({"n_hidden_layer": [1, 2, 3]}, "n_hidden_layer must be a whole number"),
        ({"n_hidden_layer": 0}, "n_hidden_layer must lie between 1"),
    ],
)
def test_bad_content_is_one_line(tmp_path, change, message):
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(GOOD | change))
    with pytest.raises(InputError, match=message) as refused:
        SearchSpace.load(str(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smal", "one of study, small, mlp.*did you mean 'small'"),
        ("none.yaml", "can be read, got none.yaml .No such file"),
    ],
)
def test_an_unknown_space_is_one_line(name, message):
    with pytest.raises(InputError, match=message):
        SearchSpace.load(name)


@pytest.mark.parametrize("content", ["a: [", "just words", "- 1\n", ""])
def test_a_file_that_is_no_mapping_is_one_line(tmp_path, content):
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match="must") as refused:
        SearchSpace.load(str(path))
    assert "\n" not in str(refused.value)
