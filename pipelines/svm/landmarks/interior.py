"""An interior-point method on features: the weights for one C, however large, in some twenty steps.

A predictor-corrector method. A step computes a matrix of the features in double precision, from
all rows that matter to it. The dual problem bounds the distance from the minimum.

References
----------
S. Fine, K. Scheinberg, "Efficient SVM training using low-rank kernel representations", JMLR 2,
2001.

S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on
Optimization 2, 1992.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

MOST_STEPS = 60
TO_THE_BOUND = 0.99  # a step goes at most this fraction of the way to the nearest bound
# The matrix of a step leaves out rows that add up to at most this much, next to the ridge of 1.
LEFT_OUT = 1e-3


def solve_interior(
    features: Any,
    sides: Sequence[tuple[Any, Any]],
    upper: Any,
    tol: float,
    most: int = MOST_STEPS,
    xp: Any = np,
) -> Point:
    """Solve a problem for one C.

    Parameters
    ----------
    features : float64 array of shape (n, n_features)
    sides : sequence of (signs, targets), arrays of shape (n,), see ``Loss``
    upper : float64 array of shape (n,)
        The bound of each multiplier, above 0: C times its factor for the row.
    tol : float
        Duality gap as a fraction of the objective.
    most : int
        The most steps.
    xp : module
        numpy or cupy.

    Returns
    -------
    Point
        Not converged if its ``objective`` is above its ``least`` by more than ``tol`` allows.
    """
    signs, targets = (xp.stack(parts).astype(np.float64) for parts in zip(*sides, strict=True))
    point = Point(features, signs, signs * targets, upper, xp)
    while point.objective - point.least > tol * point.objective and point.n_steps < most:
        try:
            point.step()
        except ValueError:  # rounding has left no factor, or no finite number; it stays unconverged
            break
    return point


class Point:
    """The state of the method: multipliers within their bounds, and the bounds' own multipliers.

    Attributes
    ----------
    w : float64 array of shape (n_features,)
        The best weights so far.
    objective : float
        The objective of these weights.
    loss : float
        The objective without half the squared norm.
    least : float
        The best lower bound of the objective, from the dual problem.
    bound_fraction : float
        The multipliers that give ``least`` are at most this fraction of their bounds, so it also
        holds for other C's, from this fraction of C on.
    n_steps : int
    """

    def __init__(self, features: Any, signs: Any, aims: Any, upper: Any, xp: Any) -> None:
        self.features, self.signs, self.aims, self.upper, self.xp = features, signs, aims, upper, xp
        self.norms = (features * features).sum(axis=1)
        self.n_steps, self.objective, self.least = 0, np.inf, -np.inf
        self.alpha = xp.minimum(upper / 2, xp.ones(signs.shape))
        self._judge()
        self.low = xp.maximum(self.excess, 0) + 1
        self.high = self.low - self.excess

    def _judge(self) -> None:
        """Compute the weights and bounds of these multipliers, and keep them if they are best."""
        w = self._pull(self.alpha)
        self.excess = self._values(w) - self.aims
        half = float(w @ w) / 2
        loss = float((self.upper * self.xp.maximum(-self.excess, 0)).sum())
        candidates = [(half + loss, loss, 1.0)]
        margin = float((self.excess + self.aims).min()) if len(self.signs) == 1 else 0.0
        if margin > 0:  # a multiple of the weights separates all rows without a loss
            candidates.append((half / margin**2, 0.0, 1 / margin))
        objective, loss, factor = min(candidates)
        if objective < self.objective:
            self.w, self.objective, self.loss = w * factor, objective, loss
        least = float((self.aims * self.alpha).sum()) - half
        if least > self.least:
            self.least, self.bound_fraction = least, float((self.alpha / self.upper).max())

    def step(self) -> None:
        """Take a step: first a predictor, then the step corrected by what the predictor shows."""
        xp, alpha, low, high = self.xp, self.alpha, self.low, self.high
        room = self.upper - alpha
        self.stiffness = low / alpha + high / room
        weights = (1 / self.stiffness).sum(axis=0)
        order = xp.argsort(weights * self.norms)
        kept_rows = order[xp.cumsum((weights * self.norms)[order]) > LEFT_OUT]
        root = self.features[kept_rows] * xp.sqrt(weights[kept_rows])[:, None]
        self.solve = _solver_of(root.T @ root, xp)
        d_alpha, d_low, d_high = self._change(-alpha * low, -room * high)
        p = _reach((alpha, d_alpha), (room, -d_alpha))
        q = _reach((low, d_low), (high, d_high))
        before = float((alpha * low + room * high).sum())
        after = float(((alpha + p * d_alpha) * (low + q * d_low)).sum())
        after += float(((room - p * d_alpha) * (high + q * d_high)).sum())
        centre = (after / before) ** 3 * before / (2 * alpha.size)
        d_alpha, d_low, d_high = self._change(
            centre - alpha * low - d_alpha * d_low, centre - room * high + d_alpha * d_high
        )
        p = _reach((alpha, d_alpha), (room, -d_alpha))
        q = _reach((low, d_low), (high, d_high))
        self.alpha, self.low, self.high = alpha + p * d_alpha, low + q * d_low, high + q * d_high
        self.n_steps += 1
        self._judge()

    def _change(self, of_low: Any, of_high: Any) -> tuple[Any, Any, Any]:
        """The changes of alpha, low and high for given changes of alpha * low and room * high."""
        room = self.upper - self.alpha
        target = self.low - self.high - self.excess + of_low / self.alpha - of_high / room
        total, remainder = 0 * target, target
        for _ in range(2):  # the second time corrects for rows left out, and for rounding
            part = self._values(self.solve(self._pull(remainder / self.stiffness)))
            total = total + (remainder - part) / self.stiffness
            remainder = target - self.stiffness * total - self._values(self._pull(total))
        return total, (of_low - self.low * total) / self.alpha, (of_high + self.high * total) / room

    def _values(self, w: Any) -> Any:
        return self.signs * (self.features @ w)

    def _pull(self, alpha: Any) -> Any:
        return (self.signs * alpha).sum(axis=0) @ self.features


def _reach(*pairs: tuple[Any, Any]) -> float:
    """The longest step, at most 1, at which some positive numbers stay positive."""
    ratios = [float((-change / numbers).max()) for numbers, change in pairs]
    return min(1.0, TO_THE_BOUND / max(*ratios, TO_THE_BOUND))


def _solver_of(matrix: Any, xp: Any) -> Callable[[Any], Any]:
    """A function that multiplies a vector by the inverse of a matrix plus a ridge of 1."""
    matrix.reshape(-1)[:: len(matrix) + 1] += 1
    if xp is np:
        return partial(cho_solve, cho_factor(matrix, overwrite_a=True), check_finite=False)
    inverse = xp.linalg.inv(matrix)
    return lambda vector: inverse @ vector
