"""Prediction intervals of a bagged regression, from the rows that its members left out.

The method is the jackknife+-after-bootstrap [1]_. No row is held back and nothing is trained again.
For each training row i the mean mu_i of the members that did not draw it stands for an ensemble
that never saw it, and R_i = abs(y_i - mu_i(x_i)) for its error. The interval of a new row x lies
between quantiles of mu_i(x) - R_i and of mu_i(x) + R_i over all training rows.

If new rows are exchangeable with the training rows, at least 1 - 2 (1 - c) of the intervals of
confidence c contain the target, whatever the networks are; the proof also takes the number of
members to be random. In practice it is about c, and more with few members, as mu_i is the mean of a
third of them and errs more than the mean of all.

The proof requires members that know nothing of rows they did not draw. Ours know a little, so that
residuals may be a little too small: out-of-bag rows end the training of a network for tables (each
half of them is judged by the network as the other half would have ended it), and a search selects
by folds of all rows. With that, coverage was measured (``benchmarks.bagging_intervals``), not
proved. It is coverage of all rows together: where noise differs from row to row, quiet rows are
covered more often than noisy ones.

With ``by_spread``, residuals are counted in units of the disagreement of the same members,
R_i / (s_i(x_i) + s), and multiplied by s_i(x) + s for the new row. Here s_i is the members'
standard deviation and s its mean over the training rows, which keeps widths between those of [1]_
and widths by disagreement alone [2]_. Such widths tell hard rows from easy ones, as deferral needs.

References
----------
.. [1] Kim, Xu and Barber, Predictive inference is free with the jackknife+-after-bootstrap,
   NeurIPS 33 (2020).
.. [2] Papadopoulos and Haralambous, Reliable prediction intervals with regression neural networks,
   Neural Networks 24 (2011).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.bagging.members import load_stored
from pipelines.bagging.record import INTERVALS
from pipelines.data.model_file import Arrays, write_model
from pipelines.errors import InputError, opt
from pipelines.nn.member import OutOfBagPrediction

CONFIDENCE = 0.9
BLOCK = 2**22  # numbers mu_i(x) in a block: 32 MiB, and up to five such arrays are held
ROUNDING = 1e-12  # 0.55 * 100 is 55.00000000000001, whose ceiling should be 55


@dataclass(frozen=True, eq=False)
class JackknifeIntervals:
    """The training rows that at least one member left out, from whose residuals intervals are made.

    Attributes
    ----------
    left_out : bool array of shape (n_rows, n_members)
        Which members did not draw a row, at least one for each row.
    truth : float64 array of shape (n_rows,)
        Targets, in their units.
    predicted, spread : float64 arrays of shape (n_rows,)
        Mean and standard deviation of the predictions of the members that left a row out.
    weights : float64 array of shape (n_rows,)
        Weights of the rows in quantiles; all equal without sample weights.
    n_drawn_by_all : int
        Rows that every member drew. They have no residual and are left out, as in the paper.
    """

    left_out: np.ndarray
    truth: np.ndarray
    predicted: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    n_drawn_by_all: int = 0

    @classmethod
    def of(
        cls,
        predictions: Iterable[OutOfBagPrediction],
        y: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> Self:
        """Pool the out-of-bag predictions of the members.

        Parameters
        ----------
        predictions : iterable of OutOfBagPrediction
            In the order in which the members predict later.
        y : float64 array of shape (n_samples,)
            Targets of all training rows.
        weights : float array of shape (n_samples,), optional
            Sample weights; rows of weight 0 are left out.
        """
        members = list(predictions)
        outputs = np.zeros((len(y), len(members)))
        left_out = np.zeros(outputs.shape, dtype=bool)
        for number, (rows, values, _) in enumerate(members):
            left_out[rows, number] = True
            outputs[rows, number] = values[:, 0]
        counts = left_out.sum(axis=1)
        weights = np.ones(len(y)) if weights is None else np.asarray(weights, np.float64)
        has_residual = (counts > 0) & (weights > 0)
        n_drawn_by_all = int(np.sum((counts == 0) & (weights > 0)))
        left_out, outputs, counts = (
            left_out[has_residual],
            outputs[has_residual],
            counts[has_residual],
        )
        predicted = outputs.sum(axis=1) / counts
        squares = np.where(left_out, outputs - predicted[:, None], 0) ** 2
        spread = np.sqrt(squares.sum(axis=1) / counts)
        return cls(
            left_out, y[has_residual], predicted, spread, weights[has_residual], n_drawn_by_all
        )

    @property
    def residuals(self) -> np.ndarray:
        """Targets minus predictions, float64 of shape (n_rows,)."""
        return self.truth - self.predicted

    def bounds(
        self, of_members: np.ndarray, confidence: float = CONFIDENCE, by_spread: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of the targets of new rows.

        With sample weights, quantiles are weighted [1]_; a new row has the mean of the weights.

        Parameters
        ----------
        of_members : float array of shape (n_members, n_samples)
            The members' predictions of the new rows.
        confidence : float, default 0.9
            The fraction of intervals that should contain their target; between 0 and 1.
        by_spread : bool, default False
            Whether widths depend on the members' disagreement; False is the method of the paper.

        Returns
        -------
        lower, upper : float64 arrays of shape (n_samples,)

        Raises
        ------
        InputError
            ``confidence`` is out of range, or needs more out-of-bag rows than there are.

        References
        ----------
        .. [1] Prinster, Liu and Saria, JAWS: auditing predictive uncertainty under covariate shift,
           NeurIPS 35 (2022).
        """
        if not (isinstance(confidence, Real) and 0 < confidence < 1):
            raise InputError(
                f"{opt('confidence')} must lie between 0 and 1, got {confidence!r}; use "
                f"{opt('confidence', CONFIDENCE)}"
            )
        n_rows, total = len(self.truth), float(self.weights.sum())
        if n_rows == 0:
            raise InputError(
                f"intervals need rows that a member left out, got none of "
                f"{self.n_drawn_by_all}; train more members or add rows"
            )
        least_weight = confidence * (total + total / n_rows) * (1 - ROUNDING)
        if not 0 < least_weight <= total:
            raise InputError(
                f"{opt('confidence')} must be at most {n_rows / (n_rows + 1):.3g} with {n_rows} "
                f"out-of-bag rows, got {confidence}; lower it, add rows, or train more members"
            )
        member_weights = (self.left_out / self.left_out.sum(axis=1, keepdims=True)).T
        margin, mean_spread = np.abs(self.residuals), float(self.spread.mean())
        by_spread = by_spread and mean_spread > 0
        lower, upper = np.empty((2, of_members.shape[1]))
        step = max(1, BLOCK // n_rows)
        for first in range(0, len(lower), step):
            block = slice(first, first + step)
            values = of_members[:, block].T.astype(np.float64)
            center = values.mean(axis=1, keepdims=True)  # squares of targets far from 0 lose digits
            offsets = (values - center) @ member_weights
            half_width = margin
            if by_spread:
                squares = (values - center) ** 2 @ member_weights - offsets**2
                spread = np.sqrt(squares.clip(min=0))  # s_i(x)
                half_width = margin / (self.spread + mean_spread) * (spread + mean_spread)
            without_row = center + offsets  # mu_i(x): (step, n)
            # Below a confidence of about a half the quantiles may cross. Every interval is widened
            # to contain the mean.
            mean = of_members[:, block].mean(axis=0)
            upper[block] = np.maximum(mean, self._quantile(without_row + half_width, least_weight))
            lower[block] = np.minimum(mean, -self._quantile(half_width - without_row, least_weight))
        return lower, upper

    def _quantile(self, values: np.ndarray, least_weight: float) -> np.ndarray:
        """In each line, the least value up to which the weights sum to ``least_weight`` or more."""
        if np.ptp(self.weights) == 0:
            index = math.ceil(least_weight / self.weights[0]) - 1
            values.partition(index, axis=1)
            return values[:, index]
        order = np.argsort(values, axis=1)
        is_reached = np.cumsum(self.weights[order], axis=1) >= least_weight
        is_reached[:, -1] = True  # also where rounding leaves the sum below it
        chosen = np.take_along_axis(order, is_reached.argmax(axis=1)[:, None], axis=1)
        return np.take_along_axis(values, chosen, axis=1)[:, 0]

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields as arrays for a model file."""
        return {f"intervals.{name}": np.atleast_1d(value) for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Restore intervals from the arrays of ``arrays``.

        Raises
        ------
        KeyError, ValueError
            An array is missing, or shapes do not agree.
        """
        parts: dict[str, Any] = {
            field.name: arrays[f"intervals.{field.name}"] for field in fields(cls)
        }
        n_drawn_by_all, left_out = int(parts.pop("n_drawn_by_all").item()), parts["left_out"]
        if left_out.ndim != 2 or left_out.dtype != bool:
            raise ValueError("its out-of-bag rows have no members")
        if len({*map(len, parts.values())}) > 1:
            raise ValueError("its out-of-bag rows do not belong together")
        return cls(**parts, n_drawn_by_all=n_drawn_by_all)


@dataclass(frozen=True, eq=False)
class RunIntervals:
    """The intervals of a run, whose widths depend on the members' disagreement.

    Attributes
    ----------
    jackknife : JackknifeIntervals
    confidence : float, default 0.9
    defer_width : float, optional
        The largest width, in units of the target, of a prediction that is not deferred.
    """

    jackknife: JackknifeIntervals
    confidence: float = CONFIDENCE
    defer_width: float | None = None

    def columns(self, of_members: np.ndarray) -> dict[str, np.ndarray]:
        """Columns of a table: ``lower``, ``upper`` and, with a width, which rows are ``kept``.

        ``of_members`` are the members' predictions, float of shape (n_members, n_samples).
        """
        lower, upper = self.jackknife.bounds(of_members, self.confidence, by_spread=True)
        columns = {"lower": lower, "upper": upper}
        if self.defer_width is not None:
            columns["kept"] = narrowest(lower, upper, width=self.defer_width)
        return columns

    def save(self, path: Path) -> None:
        """Write one safetensors file: numbers and text, no code."""
        about = {"confidence": self.confidence, "defer_width": self.defer_width}
        write_model(path, self.jackknife.arrays(), about)

    @classmethod
    def of_run(cls, run: Path) -> Self | None:
        """Load the intervals of a run; None if it is unfinished."""
        return load_stored(run / INTERVALS, cls._from_stored)

    @classmethod
    def _from_stored(cls, arrays: Arrays, about: dict[str, Any]) -> Self:
        jackknife, width = JackknifeIntervals.from_arrays(arrays), about["defer_width"]
        return cls(jackknife, float(about["confidence"]), None if width is None else float(width))


def narrowest(
    lower: np.ndarray, upper: np.ndarray, *, share: float | None = None, width: float | None = None
) -> np.ndarray:
    """Which rows to keep, those of the narrowest intervals; the others are deferred.

    Parameters
    ----------
    lower, upper : float arrays of shape (n_samples,)
    share : float, optional
        The fraction of the rows to keep, rounded down; above 0, at most 1. Among rows of equal
        width the first are kept.
    width : float, optional
        The largest width to keep, in units of the target; at least 0.

    Returns
    -------
    bool array of shape (n_samples,)

    Raises
    ------
    InputError
        Not exactly one of ``share`` and ``width`` is given, or it is out of range.
    """
    if (share is None) == (width is None):
        raise InputError(
            f"exactly one of {opt('share')} and {opt('width')} must say which rows to keep, got "
            f"{'none' if share is None else 'both'}; give one"
        )
    widths = np.asarray(upper) - np.asarray(lower)
    if width is not None:
        if not width >= 0:
            raise InputError(
                f"{opt('width')} must be at least 0, got {width}; use the largest width to keep"
            )
        return widths <= width
    assert share is not None
    if not 0 < share <= 1:
        raise InputError(
            f"{opt('share')} must be above 0 and at most 1, got {share}; use {opt('share', 0.9)} "
            "to defer one row in ten"
        )
    kept = np.zeros(len(widths), dtype=bool)
    kept[np.argsort(widths, kind="stable")[: math.floor(share * len(widths) + ROUNDING)]] = True
    return kept


def describe_intervals(
    truth: np.ndarray, lower: np.ndarray, upper: np.ndarray, confidence: float = CONFIDENCE
) -> dict[str, Any]:
    """Coverage and widths of intervals on test rows, for ``run.json``.

    Parameters
    ----------
    truth, lower, upper : float arrays of shape (n_samples,)
        At least one row; widths are in the target's units.
    confidence : float, default 0.9
        The coverage that was asked for.
    """
    n_covered, widths = int(np.sum((lower <= truth) & (truth <= upper))), upper - lower
    return {
        "confidence": confidence,
        "n_test": len(truth),
        "n_covered": n_covered,
        "coverage": n_covered / len(truth),
        "mean_width": float(widths.mean()),
        "median_width": float(np.median(widths)),
    }
