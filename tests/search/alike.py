"""Whether two fitted estimators are the same, to the bit."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.tree._tree import Tree

LEAF = -1


def assert_alike(actual, expected, name=""):
    """Compare parameters and fitted attributes, and those of all estimators within.

    Private attributes do not count, nor do the generators that stages of gradient boosting hold.
    """
    assert type(actual) is type(expected), name
    if isinstance(expected, np.random.RandomState):
        if "estimators_" not in name:
            assert_alike(actual.get_state(), expected.get_state(), name)
    elif isinstance(expected, Tree):
        assert_trees_alike(actual, expected, name)
    elif isinstance(expected, BaseEstimator):
        public = [key for key in vars(expected) if not key.startswith("_")]
        assert public == [key for key in vars(actual) if not key.startswith("_")], name
        for key in public:
            assert_alike(getattr(actual, key), getattr(expected, key), f"{name}.{key}")
    elif isinstance(expected, dict):
        assert_alike(list(actual.items()), list(expected.items()), name)
    elif isinstance(expected, list | tuple) or getattr(expected, "dtype", "") == "O":
        assert len(actual) == len(expected), name
        for i, pair in enumerate(zip(actual, expected, strict=True)):
            assert_alike(*pair, f"{name}[{i}]")
    elif isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype, name
        np.testing.assert_array_equal(actual, expected, err_msg=name)
    elif hasattr(expected, "__dict__"):
        assert_alike(vars(actual), vars(expected), name)
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=name)


def assert_trees_alike(actual, expected, name=""):
    """Compare all that trees hold; where a leaf sends missing values is not set."""
    for key in ("node_count", "max_depth", "n_leaves", "capacity", "n_features", "n_outputs"):
        assert getattr(actual, key) == getattr(expected, key), f"{name}.{key}"
    np.testing.assert_array_equal(actual.value, expected.value, err_msg=name)
    nodes = [tree.__getstate__()["nodes"] for tree in (actual, expected)]
    for key in nodes[0].dtype.names:
        fields = [array[key] for array in nodes]
        if key == "missing_go_to_left":
            fields = [field[expected.children_left != LEAF] for field in fields]
        np.testing.assert_array_equal(*fields, err_msg=f"{name}.{key}")


def methods_of(estimator):
    """The methods by which an estimator predicts."""
    names = ("predict", "predict_proba", "predict_log_proba", "decision_function")
    return [name for name in names if hasattr(estimator, name)]
