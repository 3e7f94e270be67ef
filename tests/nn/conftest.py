"""Small data for networks, and a spec: the digits, and a table with scales of its own."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from pipelines.data.load import load_dataset
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.space import NetworkSpec

DIGITS = Inputs(64, 10, (8, 8))
WINE = Inputs(13, 3)
TRAINING = TrainingSettings(max_epochs=6)
SPEC = NetworkSpec("conv", 32, 0.05, 0.5, n_conv_layer=4, kernel_size=3)


@pytest.fixture(scope="session")
def digits():
    dataset = load_dataset("digits", limit=303)
    return FoldedData(
        dataset.X_train, dataset.y_train, dataset.X_test, dataset.y_test, (), dataset.scaling
    )


@pytest.fixture(scope="session")
def wine():
    X, y = load_wine(return_X_y=True)
    y = y.astype(np.int32)
    return FoldedData(X[::2], y[::2], X[1::2], y[1::2], (), Scaling("standardise"))
