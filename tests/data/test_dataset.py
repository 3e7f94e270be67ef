import dataclasses
import json
import pickle

import numpy as np
import pytest

from pipelines.data.dataset import Dataset
from pipelines.data.scaling import PIXELS_0_16


@pytest.fixture
def small():
    return Dataset(
        name="small",
        X_train=np.arange(24, dtype=np.uint8).reshape(6, 4),
        y_train=np.array([0, 1, 2, 0, 1, 2], np.int32),
        X_test=np.arange(8, dtype=np.uint8).reshape(2, 4),
        y_test=np.array([2, 0], np.int32),
        classes=np.array(["a", "b", "c"]),
        image_shape=(2, 2),
        feature_names=None,
        scaling=PIXELS_0_16,
    )


def test_describe_is_json_and_complete(small):
    described = json.loads(json.dumps(small.describe()))
    assert described == {
        "name": "small",
        "task": "classification",
        "n_train": 6,
        "n_test": 2,
        "n_features": 4,
        "n_classes": 3,
        "classes": ["a", "b", "c"],
        "image_shape": [2, 2],
        "scaling": PIXELS_0_16.describe(),
        "fingerprint": small.fingerprint,
    }


def test_fingerprint_is_the_same_for_equal_arrays(small):
    assert len(small.fingerprint) == 64
    copy = pickle.loads(pickle.dumps(small))
    assert copy.fingerprint == small.fingerprint
    assert dataclasses.replace(small, name="other").fingerprint == small.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"X_train": np.zeros((6, 4), np.uint8)},
        {"X_train": np.arange(24, dtype=np.int8).reshape(6, 4)},
        {"X_train": np.arange(24, dtype=np.uint8).reshape(4, 6)},
        {"y_train": np.array([0, 1, 2, 0, 2, 1], np.int32)},
        {"X_test": np.ones((2, 4), np.uint8)},
        {"y_test": np.array([0, 2], np.int32)},
        {"classes": np.array(["a", "b", "d"])},
        {"feature_names": ["a", "b", "c", "old"]},
    ],
)
def test_fingerprint_sees_each_array_and_the_names_of_columns(small, change):
    assert dataclasses.replace(small, **change).fingerprint != small.fingerprint
