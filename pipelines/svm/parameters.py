"""The rules for the parameters of an SVC, for every estimator that has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, Options, StrOptions

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


def refuse_a_hard_margin(C: Any) -> None:
    """Say why C may not be infinite.

    Raises
    ------
    ValueError
    """
    if isinstance(C, Real) and math.inf == C:
        raise ValueError(
            "C must be finite, got inf: where classes overlap a hard margin has no solution; "
            "use a large number, 1e6 for instance"
        )


def factors_by_code(class_weight: Mapping[Any, float], classes: np.ndarray) -> dict[int, float]:
    """Factors of C for class codes, from factors for labels; 1 where there is none.

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
