"""The rules for the parameters of an SVC, for every estimator that has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import _check_sample_weight

from pipelines.svm.kernel import KERNELS, PRECOMPUTED

ABOVE_0 = Interval(Real, 0, None, closed="neither")
AT_LEAST_1 = Interval(Integral, 1, None, closed="left")

# As ``BaseEstimator._validate_params`` takes them.
CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions({*KERNELS, PRECOMPUTED}), callable],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "decision": [StrOptions({"ovo", "ovr"})],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "tol": [ABOVE_0],
    "max_iter": [AT_LEAST_1, Options(Integral, {-1})],
}


def factors_by_code(class_weight: Mapping[Any, float], classes: np.ndarray) -> dict[int, float]:
    """Return factors of C for class codes, from factors for labels; 1 where there is none.

    Raises
    ------
    ValueError
        A factor is not above 0 and finite; or it leaves out a class and names one that is
        not there: perhaps a slip.
    """
    for label, factor in class_weight.items():
        if not (isinstance(factor, Real) and math.isfinite(factor) and factor > 0):
            raise ValueError(
                f"class_weight must be of finite factors above 0, got {factor!r} for {label!r}"
            )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown and not all(label in class_weight for label in labels):
        raise ValueError(
            f"class_weight must be of the classes of y, got {unknown[0]!r}, which is none of "
            f"{', '.join(map(repr, labels[:5]))}"
        )
    return {code: float(class_weight.get(label, 1.0)) for code, label in enumerate(labels)}


def rows_that_count(
    X: np.ndarray, classes: np.ndarray, codes: np.ndarray, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows of a weight above 0, and their weights; None where all weigh 1.

    Raises
    ------
    ValueError
        A class has no such row.
    """
    if sample_weight is None:
        return np.arange(len(X)), None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    rows = np.flatnonzero(weights > 0)
    lost = np.setdiff1d(np.arange(len(classes)), codes[rows])
    if len(lost):
        raise ValueError(
            f"sample_weight must be above 0 for a row of every class, class "
            f"{str(classes[lost[0]])!r} has none; drop the rows of that class"
        )
    return rows, weights[rows]


def positive(name: str, values: Any) -> list[Any]:
    """Refuse values that are not positive; return them as a list."""
    given = [values] if isinstance(values, str) or np.ndim(values) == 0 else list(values)
    words = ("scale", "auto") if name == "gamma" else ()
    if not given or not all(
        one in words if isinstance(one, str) else isinstance(one, Real) and 0 < float(one) < np.inf
        for one in given
    ):
        raise ValueError(f"{name} must be positive finite numbers, at least one, got {values!r}")
    return given
