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

    Members are those of ``BaggedNets`` with one output, trained on half the squared error of
    targets that are standardised on each member's own rows; predictions are in the targets' units.
    Intervals are those of the jackknife+-after-bootstrap [1]_: no row is held back and no network
    is trained for them. ``pipelines.bagging.intervals`` says what they promise.

    Parameters
    ----------
    n_estimators : int, default 24
        Members; at least 1. About a third of them leave a row out, and the fewer these are, the
        wider are the intervals.
    n_iter, cv, space, network, augment, image_shape, standardize, batch_size, client
        As for ``BaggedNets``. A module must have one output; a class is called with ``n_outputs``
        or ``n_classes`` of 1.
    max_epochs, optimizer, schedule, weight_decay, patience, precision, device, random_state
        As for ``BaggedNets``, except that by default ``table`` trains for as many epochs as make
        1,000 steps, within 20 to 1,000, and ends after 30 without a smaller out-of-bag loss.

    Attributes
    ----------
    estimators_ : list of Member
        The trained networks.
    ensemble_ : Ensemble
        The same networks together; its ``save`` and ``load`` run no code.
    intervals_ : JackknifeIntervals
        Targets, out-of-bag predictions and residuals of the training rows.
    candidates_, cv_results_ : DataFrame
        As for ``BaggedNets``, without errors; ``loss`` is half the squared error, in squared
        standard deviations of the targets.
    n_features_in_ : int

    References
    ----------
    .. [1] Kim, Xu and Barber, Predictive inference is free with the jackknife+-after-bootstrap,
       NeurIPS 33 (2020).

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
        """The predictions of every member, in the targets' units.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or, for images, (n_samples, channels, height, width).

        Returns
        -------
        float64 array of shape (n_members, n_samples)
        """
        outputs: Any = self._ask(X).outputs
        on_host = to_host(outputs) if self.client is None else outputs.map_blocks(to_host)
        of_members: np.ndarray = self._compute(on_host)[:, :, 0]
        return of_members

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The mean of the members, in the targets' units.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or, for images, (n_samples, channels, height, width).

        Returns
        -------
        float64 array of shape (n_samples,)
        """
        mean: np.ndarray = self.member_predictions(X).mean(axis=0)
        return mean

    def predict_interval(
        self, X: ArrayLike, confidence: float = CONFIDENCE, by_spread: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of the targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        confidence : float, default 0.9
            The fraction of intervals that should contain their target; between 0 and 1.
        by_spread : bool, default False
            Whether widths depend on the disagreement of the members, as in a run of ``nn_bagging``;
            otherwise they hardly differ.

        Returns
        -------
        lower, upper : float64 arrays of shape (n_samples,)

        Raises
        ------
        InputError
            ``confidence`` is out of range, or needs more training rows than there are.
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
        """Which rows need no human, those of the narrowest intervals.

        Intervals are those with ``by_spread``, whose widths tell hard rows from easy ones. Exactly
        one of ``share`` and ``width`` must be given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        share : float, optional
            The fraction of the rows to keep; above 0, at most 1.
        width : float, optional
            The largest width to keep, in units of the target; at least 0.
        confidence : float, default 0.9
            The confidence of the intervals.

        Returns
        -------
        bool array of shape (n_samples,)

        Raises
        ------
        InputError
            Not exactly one of ``share`` and ``width`` is given, or a number is out of range.
        """
        bounds = self.predict_interval(X, confidence, by_spread=True)
        return narrowest(*bounds, share=share, width=width)
