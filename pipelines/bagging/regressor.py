"""``BaggedNetsRegressor``: networks that predict a number, with an interval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from pipelines.bagging.estimator import BaggedNetworks
from pipelines.bagging.intervals import (
    CONFIDENCE,
    JackknifeIntervals,
    RunIntervals,
    narrowest,
)
from pipelines.data.placement import FoldedData, to_host
from pipelines.nn.member import Ensemble, OutOfBagPrediction
from pipelines.nn.stack import numbers_of

NO_INTERVALS = (
    "This %(name)s has no intervals yet: call 'fit', or resume the run, which ended before it set "
    "them."
)


class BaggedNetsRegressor(RegressorMixin, BaggedNetworks):
    """Neural networks on bootstrap samples whose mean predicts a number, with an interval.

    The members of ``BaggedNets`` with one output each, trained on half the squared error of
    targets that are standardised on each member's own rows; predictions are in the targets'
    units. Intervals are those of the jackknife+-after-bootstrap (Kim, Xu and Barber, NeurIPS 33,
    2020): no row is held back and no network is trained for them; see
    ``pipelines.bagging.intervals`` for what they promise.

    Parameters
    ----------
    n_estimators : int, default 24
        Members; at least 1. A row is left out by a third of them, and the fewer these are, the
        wider the intervals.
    n_iter, cv, space, network, augment, image_shape, standardize, batch_size, client
        As of ``BaggedNets``. A module must have one output; a class is given ``n_outputs``, or
        ``n_classes``, of 1.
    max_epochs, optimizer, schedule, weight_decay, patience, precision, device, random_state
        As of ``BaggedNets``, but that the networks of a table train for at most 1,000 steps, 20 to
        1,000 epochs, and end after 30 without a smaller loss of the rows that they left out.

    Attributes
    ----------
    estimators_ : list of Member
        The trained networks.
    ensemble_ : Ensemble
        The same together; its ``save`` and ``load`` run no code.
    intervals_ : JackknifeIntervals
        Targets, out-of-bag predictions and residuals of the training rows.
    candidates_, cv_results_ : DataFrame
        As of ``BaggedNets``, without errors; ``loss`` is half the squared error, in squared
        standard deviations of the targets.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> nets = BaggedNetsRegressor(random_state=0).fit(X, y)
    >>> lower, upper = nets.predict_interval(X[:5], confidence=0.8)
    >>> lower.shape
    (5,)
    """

    def _targets(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        return numbers_of(y), 0

    def _learn_from(self, out_of_bag: list[OutOfBagPrediction], data: FoldedData) -> None:
        self.ensemble_ = Ensemble(self.estimators_, np.empty(0))
        self.intervals_ = JackknifeIntervals.of(out_of_bag, data.y, data.weights)

    def _recall(self, run: Path) -> None:
        if (stored := RunIntervals.of_run(run)) is not None:
            self.intervals_ = stored.jackknife

    def member_predictions(self, X: ArrayLike) -> np.ndarray:
        """What every member predicts, float64 of shape (n_members, n_samples)."""
        outputs: Any = self._ask(X).outputs
        on_host = to_host(outputs) if self.client is None else outputs.map_blocks(to_host)
        of_members: np.ndarray = self._compute(on_host)[:, :, 0]
        return of_members

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the mean of the members, float64 of shape (n_samples,), in the targets' units."""
        mean: np.ndarray = self.member_predictions(X).mean(axis=0)
        return mean

    def predict_interval(
        self, X: ArrayLike, confidence: float = CONFIDENCE, by_spread: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of the targets, float64 arrays of shape (n_samples,).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        confidence : float, default 0.9
            Fraction of intervals that are to hold their target; between 0 and 1.
        by_spread : bool, default False
            Whether widths go by the disagreement of the members, as those of a run of
            ``nn_bagging`` do; else they hardly differ.

        Raises
        ------
        InputError
            ``confidence`` is outside, or needs more training rows than there are.
        """
        check_is_fitted(self, "intervals_", msg=NO_INTERVALS)
        return self.intervals_.bounds(self.member_predictions(X), confidence, by_spread)

    def keeps(
        self,
        X: ArrayLike,
        *,
        share: float | None = None,
        width: float | None = None,
        confidence: float = CONFIDENCE,
    ) -> np.ndarray:
        """Which rows need no human, those of the narrowest intervals: bool, (n_samples,).

        The intervals are those ``by_spread``, whose widths tell hard rows from easy ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        share : float, optional
            Fraction of the rows to keep; above 0, at most 1.
        width : float, optional
            Largest width to keep, in units of the target; one of the two is given.
        confidence : float, default 0.9
            Of the intervals.

        Raises
        ------
        InputError
            Not exactly one of ``share`` and ``width``, or a number is outside its range.
        """
        bounds = self.predict_interval(X, confidence, by_spread=True)
        return narrowest(*bounds, share=share, width=width)
