"""Newton's method on features, in the primal, with a hinge loss whose corner is rounded.

The width of the rounding shrinks until it hardly matters. Only rows within it take part in the
second derivatives: a step costs a pass over all rows, and a matrix of the features from few of
them. For small C, coordinate ascent is faster.

The method knows no lower bound of the objective. Where classes are nearly separable it would stop
far above the minimum, as its next step promises little. An interior-point method, which has such a
bound, therefore checks the largest C if there are not too many rows.

References
----------
O. Chapelle, "Training a support vector machine in the primal", Neural Computation 19, 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.data.fits import Progress
from pipelines.data.placement import to_host
from pipelines.svm.landmarks.interior import Point, solve_interior

# Half the width of the rounding, relative to a margin of 1: at first, when from weights of 0 all
# rows are within it, and from multipliers that are nearly right; and the factor of its shrinking.
FIRST_WIDTH, LATER_WIDTH, SHRINKING = 2.0, 0.5, 0.1
REACH = 10.0  # rows within so many widths may come within the rounding in one step
# Rows for each feature from which second derivatives are computed: a sample suffices.
ROWS_EACH = 8
MOST_STEPS = 200
# The interior-point method checks problems of up to so many rows for each feature, and of so many
# multiplications for a matrix of all rows (a second). It runs to this fraction of the tolerance, as
# its last steps gain most.
INTERIOR_ROWS_EACH, INTERIOR_PRODUCTS, INTERIOR_TOL = 32, 10**10, 0.25
MOST_HALVINGS, LEAST_DESCENT = 12, 1e-4
RIDGE = 1e-6  # relative to the largest second derivative; single precision resolves it
BLOCK_BYTES = 1 << 24  # bytes of features that a thread works on at once

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True)
class FeatureRows:
    """The rows of a problem: runs of the rows that features were computed for.

    Attributes
    ----------
    features : float32 array of shape (n, n_features)
    runs : sequence of (first, end)
        Rows of ``features``, from ``first`` to before ``end``.
    """

    features: Any
    runs: Sequence[tuple[int, int]]

    @property
    def numbers(self) -> np.ndarray:
        """The rows' numbers in ``features``, int64."""
        return np.concatenate([np.arange(first, end) for first, end in self.runs])

    def blocks(self, n_bytes: int) -> Iterator[tuple[slice, slice]]:
        """Yield blocks of rows: the slice of ``features``, and the slice of the problem's rows."""
        size, position = max(1, n_bytes // (4 * self.features.shape[1])), 0
        for first, end in self.runs:
            for start in range(first, end, size):
                stop = min(start + size, end)
                yield slice(start, stop), slice(position, position + stop - start)
                position += stop - start


@dataclass(frozen=True)
class Loss:
    """The loss of a row with value f: for each side, ``sign * (target - f)`` where that is above 0.

    One side, whose targets are the signs, is a classifier's hinge loss; two are the edges of a
    tube.

    Attributes
    ----------
    sides : sequence of (signs, targets)
        float32 arrays of shape (n_rows,).
    bounds : float32 array of shape (n_rows,)
        The factor of C for each row.
    Cs : float64 array of shape (n_C,)
    """

    sides: Sequence[tuple[Any, Any]]
    bounds: Any
    Cs: np.ndarray


@dataclass
class Weights:
    """The weights of features for each C.

    Attributes
    ----------
    w : float64 array of shape (n_features, n_C)
    objectives : float64 array of shape (n_C,)
        Half the squared norm, plus the losses times C.
    n_steps : int64 array of shape (n_C,)
    converged : bool array of shape (n_C,)
    """

    w: np.ndarray
    objectives: np.ndarray
    n_steps: np.ndarray
    converged: np.ndarray


def descend(
    rows: FeatureRows,
    loss: Loss,
    multipliers: Any,
    tol: float,
    *,
    most: int = MOST_STEPS,
    run: Map = map,
    xp: Any = np,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Progress | Weights]:
    """Solve a problem for all C.

    Parameters
    ----------
    rows : FeatureRows
    loss : Loss
    multipliers : float32 array of shape (n_sides * n_rows, n_C) or None
        A start, within the bounds; a C for which they are good enough takes no step. None to start
        from weights of 0.
    tol : float
        The fraction by which the objective may be above its minimum, as far as that is known.
    most : int
        The most steps.
    run : callable
        Like ``map``, with results in order; on a CPU, the ``map`` of a pool.
    xp : module
        numpy or cupy.
    block_bytes : int
        Bytes of features that a thread works on at once.

    Yields
    ------
    Progress or Weights
        Progress between steps, and finally the weights.
    """
    if not float(loss.bounds.sum()):  # no rows, or only rows without weight
        n_C = len(loss.Cs)
        w = np.zeros((rows.features.shape[1], n_C))
        yield Weights(w, np.zeros(n_C), np.zeros(n_C, np.int64), np.ones(n_C, np.bool_))
        return
    search = _Descent(rows, loss, run, xp, list(rows.blocks(block_bytes)), tol)
    search.begin(multipliers)
    n_rows, n_features = len(loss.bounds), rows.features.shape[1]
    is_provable = n_rows * n_features**2 <= INTERIOR_PRODUCTS
    is_provable &= n_rows <= INTERIOR_ROWS_EACH * n_features
    length = 0.5 if is_provable else 0.99
    for step in range(most):
        if not search.step():
            break
        yield Progress(length * max(1 - len(search.active) / len(loss.Cs), step / most))
    if is_provable:
        for fraction in search.prove(most):
            yield Progress(length + (0.99 - length) * fraction)
    yield Weights(search.w, search.objectives, search.n_steps, search.converged)


class _Descent:
    """Newton's method for all C of a problem at once, which share the passes over the features."""

    def __init__(
        self, rows: FeatureRows, loss: Loss, run: Map, xp: Any, blocks: Sequence[Any], tol: float
    ) -> None:
        self.rows, self.loss, self.run, self.xp, self.blocks = rows, loss, run, xp, blocks
        self.tol, self.numbers = tol, xp.asarray(rows.numbers)
        n_C, n_features = len(loss.Cs), rows.features.shape[1]
        self.w = np.zeros((n_features, n_C))
        self.values = xp.zeros((int(loss.bounds.shape[0]), n_C), np.float32)
        self.widths = np.full(n_C, FIRST_WIDTH)
        self.least = np.full(n_C, -np.inf)  # lower bounds of the objective, from the dual problem
        # The two parts of the objective of the weights.
        self.halves, self.hinges = np.zeros(n_C), np.full(n_C, np.inf)
        self.n_steps, self.converged = np.zeros(n_C, np.int64), np.zeros(n_C, np.bool_)
        self.active = np.arange(n_C)

    @property
    def objectives(self) -> np.ndarray:
        """The objectives of the current weights, float64 (n_C,)."""
        return self.halves + self.loss.Cs * self.hinges

    def begin(self, multipliers: Any) -> None:
        """Start from the weights that these multipliers give."""
        if multipliers is None:
            return
        sides, xp = self.loss.sides, self.xp
        parts = multipliers.reshape(len(sides), *self.values.shape)

        def pull(block: Any) -> Any:
            feature_rows, problem_rows = block
            pulls = (
                signs[problem_rows, None] * part[problem_rows]
                for (signs, _), part in zip(sides, parts, strict=True)
            )
            return self.rows.features[feature_rows].T @ sum(pulls)

        self.w = self._sum(pull)
        sums = [
            (part * (signs * targets)[:, None]).sum(axis=0, dtype=np.float64)
            for (signs, targets), part in zip(sides, parts, strict=True)
        ]
        self.least = to_host(xp.stack(sums)).sum(axis=0) - (self.w**2).sum(axis=0) / 2
        self.widths[:] = LATER_WIDTH
        self._move(self.w, np.ones(len(self.active)))

    def prove(self, most: int) -> Iterator[float]:
        """Check by an interior-point method whether the largest C is solved; yield fractions done.

        If not, Newton's method has stopped early: every C that is not proved to be solved is solved
        again, the smallest and the largest first. Where classes can be separated, the weights of
        the largest C are those of many others.
        """
        loss, xp, self.active = self.loss, self.xp, np.arange(len(self.loss.Cs))
        self.hinges, self.halves = self._evaluate()[0], (self.w**2).sum(axis=0) / 2
        was_converged = self.converged.copy()
        unproved = self._unproved([int(c) for c in np.argsort(loss.Cs, kind="stable")])
        if not unproved:
            return
        weighted_rows = xp.flatnonzero(loss.bounds > 0)
        features = self.rows.features[self.numbers[weighted_rows]].astype(np.float64)
        sides = [(signs[weighted_rows], targets[weighted_rows]) for signs, targets in loss.sides]
        bounds = loss.bounds[weighted_rows].astype(np.float64)

        def solve(c: int) -> Point:
            tol = INTERIOR_TOL * self.tol
            return solve_interior(features, sides, loss.Cs[c] * bounds, tol, most, xp)

        batch = unproved[-1:]
        while batch:
            before = self.objectives
            for c, point in zip(batch, self.run(solve, batch), strict=True):
                self.n_steps[c] += point.n_steps
                holds = loss.Cs >= point.bound_fraction * loss.Cs[c]
                self.least[holds] = np.maximum(self.least[holds], point.least)
                if point.objective < self.objectives[c]:
                    self.w[:, c], self.hinges[c] = to_host(point.w), point.loss / loss.Cs[c]
                    self.halves[c] = point.objective - point.loss
            c = batch[-1]
            if was_converged[c] and before[c] - self.least[c] <= self.tol * before[c]:
                self.converged |= was_converged
                return
            was_converged[:] = False
            self._unproved(batch)
            unproved = self._unproved([c for c in unproved if c not in batch])
            batch = sorted({*unproved[:1], *unproved[-1:]})
            yield 1 - len(unproved) / len(loss.Cs)

    def _unproved(self, numbers: Sequence[int]) -> list[int]:
        """Give each of these C the best weights and bound known; returns those still unproved."""
        for c in numbers:
            C = self.loss.Cs[c]
            best = int(np.argmin(self.halves + C * self.hinges))
            for values in (self.w.T, self.halves, self.hinges):
                values[c] = values[best]
            # Multipliers of a smaller C are within the bounds of a larger one, so its dual value is
            # a lower bound there, too.
            self.least[c] = self.least[self.loss.Cs <= C].max()
            gap = self.objectives[c] - self.least[c]
            self.converged[c] = gap <= self.tol * self.objectives[c]
        return [c for c in numbers if not self.converged[c]]

    def step(self) -> bool:
        """Take a step for each C that needs one; returns whether one was taken."""
        active, loss = self.active, self.loss
        hinge, smooth, pull = self._evaluate()
        half = (self.w[:, active] ** 2).sum(axis=0) / 2
        self.halves[active], self.hinges[active] = half, hinge
        hinge, smooth = half + loss.Cs[active] * hinge, half + loss.Cs[active] * smooth
        gradients = self.w[:, active] - pull
        near = hinge - self.least[active] <= self.tol * hinge
        directions = np.zeros_like(gradients)

        def solve(k: int) -> Any:
            return None if near[k] else self._direction(int(active[k]), gradients[:, k])

        for k, direction in enumerate(self.run(solve, range(len(active)))):
            if direction is not None:
                directions[:, k] = direction
        descents = -(gradients * directions).sum(axis=0)
        near |= smooth - hinge + np.maximum(descents, 0) / 2 <= self.tol * hinge
        self.converged[active[near]] = True
        far = ~near
        self.active, directions, descents = active[far], directions[:, far], descents[far]
        if not len(self.active):
            return False
        self._move(directions, smooth[far], descents)
        settled = descents < (smooth - hinge)[far] / 2
        self.widths[self.active[settled]] *= SHRINKING
        self.n_steps[self.active] += 1
        return True

    def _evaluate(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The active C's exact and rounded losses, and negative gradients of the rounded losses."""
        xp, active, (features, loss) = self.xp, self.active, (self.rows.features, self.loss)
        widths = xp.asarray(self.widths[active], np.float32)
        Cs = xp.asarray(loss.Cs[active], np.float32)

        def evaluate(block: Any) -> Any:
            feature_rows, problem_rows = block
            f, bounds = self.values[problem_rows][:, active], loss.bounds[problem_rows, None]
            hinge, smooth, pull = (xp.zeros_like(f) for _ in range(3))
            for signs, targets in loss.sides:
                over = signs[problem_rows, None] * (targets[problem_rows, None] - f)
                slope = xp.clip((over + widths) / (2 * widths), 0, 1)
                hinge += xp.maximum(over, 0)
                smooth += xp.where(slope < 1, widths * slope * slope, over)
                pull += signs[problem_rows, None] * slope
            sums = [(side * bounds).sum(axis=0, dtype=np.float64) for side in (hinge, smooth)]
            pull *= bounds * Cs
            return xp.concatenate([xp.stack(sums), features[feature_rows].T @ pull])

        totals = self._sum(evaluate)
        return totals[0], totals[1], totals[2:]

    def _direction(self, c: int, gradient: np.ndarray) -> np.ndarray:
        """The Newton direction for a C."""
        xp, loss, width = self.xp, self.loss, np.float32(self.widths[c])
        factors = xp.zeros(len(loss.bounds), np.float32)
        for signs, targets in loss.sides:
            off = xp.abs(signs * (targets - self.values[:, c]))
            # Rows beyond the rounding that a step may bring within it also take part: where few are
            # within it, a step that knows only those would go too far.
            factors += (off < REACH * width) / xp.maximum(off, width)
        factors *= loss.bounds
        parts, n_features = self._sample(factors, width, len(gradient) * ROWS_EACH), len(gradient)
        factors = xp.concatenate([factors[part] * np.float32(scale) for part, scale in parts])
        feature_rows = self.numbers[xp.concatenate([part for part, _ in parts])]
        root = self.rows.features[feature_rows]  # of the second derivatives
        root *= xp.sqrt(factors * np.float32(loss.Cs[c] / 2))[:, None]
        gradient = xp.asarray(gradient)
        ridge = 1 + RIDGE * float((root * root).sum(axis=0).max())
        if 2 * len(root) < n_features:  # by the smaller matrix (Woodbury's identity)
            root = root.astype(np.float64)
            inner = root @ root.T
            inner.reshape(-1)[:: len(root) + 1] += ridge
            return to_host((root.T @ xp.linalg.solve(inner, root @ gradient) - gradient) / ridge)
        second = (root.T @ root).astype(np.float64)
        second.reshape(-1)[:: n_features + 1] += ridge
        return to_host(-xp.linalg.solve(second, gradient))

    def _sample(self, factors: Any, width: Any, most: int) -> list[tuple[Any, float]]:
        """Rows for second derivatives, those within the rounding first, and the weight of each."""
        xp, parts, room = self.xp, [], most
        stiff = factors * width >= self.loss.bounds * np.float32(0.999)
        for numbers in (xp.flatnonzero(stiff), xp.flatnonzero((factors > 0) & ~stiff)):
            n = len(numbers)
            if n > room:
                numbers = numbers[xp.asarray(np.linspace(0, n - 1, room).astype(np.int64))]
            if len(numbers):
                parts.append((numbers, n / len(numbers)))
            room -= len(numbers)
        return parts or [(xp.arange(0), 1.0)]

    def _move(
        self, directions: np.ndarray, smooth: np.ndarray, descents: np.ndarray | None = None
    ) -> None:
        """Move along a direction for each active C, as far as the rounded objective decreases.

        Without ``descents``, move the whole way, from weights of 0.
        """
        xp, single = self.xp, self.xp.asarray(directions, np.float32)
        along = xp.empty((len(self.values), len(self.active)), np.float32)

        def multiply(block: Any) -> None:
            feature_rows, problem_rows = block
            along[problem_rows] = self.rows.features[feature_rows] @ single

        for _ in self.run(multiply, self.blocks):
            pass
        if descents is None:
            self.values[:] = along
            return

        def go(k: int) -> float:
            return self._length(k, along[:, k], directions[:, k], smooth[k], descents[k])

        lengths = np.array(list(self.run(go, range(len(self.active)))))
        self.w[:, self.active] += lengths * directions
        self.values[:, self.active] += xp.asarray(lengths, np.float32) * along

    def _length(
        self, k: int, along: Any, direction: np.ndarray, smooth: float, descent: float
    ) -> float:
        """The step length: halved until the rounded objective decreases enough."""
        xp, loss, c = self.xp, self.loss, int(self.active[k])
        w, width, length = self.w[:, c], np.float32(self.widths[c]), 1.0
        for _ in range(MOST_HALVINGS):
            total = xp.zeros_like(along)
            f = self.values[:, c] + np.float32(length) * along
            for signs, targets in loss.sides:
                over = signs * (targets - f)
                slope = xp.clip((over + width) / (2 * width), 0, 1)
                total += xp.where(slope < 1, width * slope * slope, over)
            moved = w + length * direction
            value = moved @ moved / 2 + loss.Cs[c] * float((total * loss.bounds).sum(dtype="f8"))
            if value <= smooth - LEAST_DESCENT * length * descent:
                return length
            length /= 2
        return 0.0

    def _sum(self, function: Callable[[Any], Any]) -> np.ndarray:
        """Add up a function of each block, in order; float64, on the host."""
        total: Any = 0.0
        for part in self.run(function, self.blocks):
            total = total + part.astype(np.float64)
        summed: np.ndarray = to_host(total)
        return summed
