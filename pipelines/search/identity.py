"""Keys that identify unfitted estimators by their class and parameters."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

PLAIN = (bool, int, float, str, bytes, type(None))


def identity(estimator: Any, without: Collection[str] = ()) -> Hashable:
    """Return equal for estimators of one class with equal parameters, some of which do not count.

    Parameters
    ----------
    estimator : anything with ``get_params``, unfitted
    without : names of the parameters that do not count

    Raises
    ------
    Exception
        A parameter is such that Python cannot pickle it.
    """
    params = estimator.get_params(deep=True)
    return type(estimator), tuple(
        (name, _of_value(value)) for name, value in sorted(params.items()) if name not in without
    )


def _of_value(value: Any) -> Hashable:
    if isinstance(value, PLAIN):
        return type(value).__name__, value
    if hasattr(value, "get_params") and not isinstance(value, type):
        return identity(value)
    import joblib

    return joblib.hash(value)


def is_repeatable(estimator: Any) -> bool:
    """Return whether fits are repeatable: every ``random_state`` inside is an integer."""
    params = estimator.get_params(deep=True)
    return all(
        isinstance(value, int) and not isinstance(value, bool)
        for name, value in params.items()
        if name.rsplit("__", 1)[-1] == "random_state"
    )
