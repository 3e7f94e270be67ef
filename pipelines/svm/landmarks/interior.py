"""An interior-point method on features: a machine's weights in some twenty steps, however large C.

Fine and Scheinberg, Efficient SVM training using low-rank kernel representations (JMLR 2001), with
Mehrotra's predictor and corrector. A step makes a matrix of the features from all rows that matter
to it, in double precision. The dual problem says how far from the minimum it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

MOST_STEPS = 60
TO_THE_BOUND = 0.99  # of the way to the nearest bound, the most that a step goes
# What rows that a step's matrix leaves out may add up to, beside the ridge of 1.
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
    sides : (signs, targets), arrays of shape (n,); see ``Loss``
    upper : float64 array of shape (n,), above 0: C, times what it is multiplied with for each row
    tol : share of the objective that its minimum may be below what is found
    """
    signs, targets = (xp.stack(parts).astype(np.float64) for parts in zip(*sides, strict=True))
    point = Point(features, signs, signs * targets, upper, xp)
    while point.objective - point.least > tol * point.objective and point.n_steps < most:
        try:
            point.step()
        except ValueError:  # no factor, or no number, by rounding: what there is has not converged
            break
    return point


class Point:
    """Where the method is: multipliers within their bounds, and those of the bounds.

    Attributes
    ----------
    w : float64 array of shape (n_features,), the best weights until now
    objective : float, theirs
    lost : float, what is in it besides half the squared norm
    least : float, what the objective is not below, by the dual problem
    share : float, of its C from which on that holds for others
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
        """Look at what the multipliers make, and keep it where it is the best."""
        w = self._pull(self.alpha)
        self.excess = self._values(w) - self.aims
        half = float(w @ w) / 2
        loss = float((self.upper * self.xp.maximum(-self.excess, 0)).sum())
        candidates = [(half + loss, loss, 1.0)]
        margin = float((self.excess + self.aims).min()) if len(self.signs) == 1 else 0.0
        if margin > 0:  # a multiple of the weights separates all rows
            candidates.append((half / margin**2, 0.0, 1 / margin))
        objective, loss, factor = min(candidates)
        if objective < self.objective:
            self.w, self.objective, self.loss = w * factor, objective, loss
        least = float((self.aims * self.alpha).sum()) - half
        if least > self.least:
            self.least, self.bound_fraction = least, float((self.alpha / self.upper).max())

    def step(self) -> None:
        """Go a step: where to it would lead is tried first, then it is made with that in view."""
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
        """Changes by which alpha * low and room * high change by these, and all else fits."""
        room = self.upper - self.alpha
        target = self.low - self.high - self.excess + of_low / self.alpha - of_high / room
        total, remainder = 0 * target, target
        for _ in range(2):  # again, for the rows that were left out, and rounding
            part = self._values(self.solve(self._pull(remainder / self.stiffness)))
            total = total + (remainder - part) / self.stiffness
            remainder = target - self.stiffness * total - self._values(self._pull(total))
        return total, (of_low - self.low * total) / self.alpha, (of_high + self.high * total) / room

    def _values(self, w: Any) -> Any:
        return self.signs * (self.features @ w)

    def _pull(self, alpha: Any) -> Any:
        return (self.signs * alpha).sum(axis=0) @ self.features


def _reach(*pairs: tuple[Any, Any]) -> float:
    """How far the changes of some positive numbers can go, of a length of 1."""
    ratios = [float((-change / numbers).max()) for numbers, change in pairs]
    return min(1.0, TO_THE_BOUND / max(*ratios, TO_THE_BOUND))


def _solver_of(matrix: Any, xp: Any) -> Callable[[Any], Any]:
    """What multiplies a vector by the inverse of a matrix and a ridge of 1."""
    matrix.reshape(-1)[:: len(matrix) + 1] += 1
    if xp is np:
        return partial(cho_solve, cho_factor(matrix, overwrite_a=True), check_finite=False)
    inverse = xp.linalg.inv(matrix)
    return lambda vector: inverse @ vector
