"""The stopping tolerance where a C is too small to tell rows apart."""

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary import BinaryProblem

# Half the margins' distance: decision values that reach over less have a smaller
# tolerance in proportion.
_TIGHT = 0.5
# What float64 residuals still resolve, of their size.
_RESOLVED = 1e-13


@compiled()
def reach(problem: BinaryProblem) -> tuple[float, float]:
    """How far C = 1 can move decision values apart, and how far it can move them.

    The smaller of the ranges of the two classes' pulls over the training rows, and
    the largest pull; without pulls no bound is known.
    """
    weight, pull_first, pull_second = problem.weight, problem.pull_first, problem.pull_second
    if pull_first.size == 0:
        return np.inf, 0.0
    top, bottom = np.full(2, -np.inf), np.full(2, np.inf)
    for k in range(weight.size):
        if weight[k] > 0.0:
            top[0], bottom[0] = max(top[0], pull_first[k]), min(bottom[0], pull_first[k])
            top[1], bottom[1] = max(top[1], pull_second[k]), min(bottom[1], pull_second[k])
    span = min(top[0] - bottom[0], top[1] - bottom[1])
    return span, max(np.abs(top).max(), np.abs(bottom).max())


@compiled()
def tolerance_at(C: float, tol: float, span: float, size: float) -> float:
    """``tol``, less where C does not let decision values differ by the margins' 2.

    There a gap of ``tol`` may be all that rows differ by, and which class has the
    largest value would be an accident of the start.
    """
    resolved = _RESOLVED * (1.0 + C * size)
    return min(tol, max(tol * _TIGHT * C * span, resolved))
