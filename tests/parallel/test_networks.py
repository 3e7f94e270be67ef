"""Networks of ``data_parallel``."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, which trains them, comes with the extra nn")

from pipelines.parallel.training_problem import NetworkDescription  # noqa: E402


@pytest.mark.parametrize("name", ["bagging", "cnn"])
@pytest.mark.parametrize("shape", [(12, 10), (3, 12, 10)])
def test_networks_of_images_take_gray_and_coloured_rows(name, shape):
    n_inputs = int(torch.tensor(shape).prod())
    network = NetworkDescription(name, n_inputs, 4, image_shape=shape).make(0)
    assert network(torch.zeros(5, n_inputs)).shape == (5, 4)
