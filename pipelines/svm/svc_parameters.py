"""The rules for the parameters of an SVC, each with its one-line refusal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from pipelines.svm.kernel import KERNELS


def check_parameters(svc: Any) -> None:
    """Hold the parameters of a ``PathSVC`` against their rules.

    Raises
    ------
    ValueError
        One line that names the parameter, the rule and the value.
    """

    def rule(holds: bool, name: str, text: str) -> None:
        if not holds:
            raise ValueError(f"{name} must be {text}, got {getattr(svc, name)!r}")

    rule(_is_number(svc.C) and svc.C > 0, "C", "a finite number above 0")
    named = isinstance(svc.gamma, str) and svc.gamma in ("scale", "auto")
    above_0 = _is_number(svc.gamma) and float(svc.gamma) > 0
    rule(named or above_0, "gamma", "a finite number above 0, 'scale' or 'auto'")
    rule(svc.kernel in KERNELS, "kernel", f"one of {', '.join(KERNELS)}")
    rule(_is_whole(svc.degree) and svc.degree >= 0, "degree", "a whole number, at least 0")
    rule(_is_number(svc.coef0), "coef0", "a finite number")
    rule(svc.decision in ("ovo", "ovr"), "decision", "'ovo' or 'ovr'")
    weights = svc.class_weight
    known = weights is None or (isinstance(weights, str) and weights == "balanced")
    rule(known or isinstance(weights, dict), "class_weight", "None, 'balanced' or a dict")
    if isinstance(weights, dict):
        usable = all(_is_number(factor) and factor > 0 for factor in weights.values())
        rule(usable, "class_weight", "of finite factors above 0")
    rule(_is_number(svc.tol) and svc.tol > 0, "tol", "a finite number above 0")
    limit = _is_whole(svc.max_iter) and (svc.max_iter == -1 or svc.max_iter >= 1)
    rule(limit, "max_iter", "at least 1, or -1 for no limit")
    threads = svc.n_threads is None or (_is_whole(svc.n_threads) and svc.n_threads >= 1)
    rule(threads, "n_threads", "None or at least 1")


def factors_by_code(class_weight: Mapping[Any, float], classes: np.ndarray) -> dict[int, float]:
    """Factors of C for class codes, from factors for labels; 1 where there is none.

    Raises
    ------
    ValueError
        It leaves out a class and names one that is not there: perhaps a slip.
    """
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown and not all(label in class_weight for label in labels):
        raise ValueError(
            f"class_weight must be of the classes of y, got {unknown[0]!r}, which is none of "
            f"{', '.join(map(repr, labels[:5]))}"
        )
    return {code: float(class_weight.get(label, 1.0)) for code, label in enumerate(labels)}


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
