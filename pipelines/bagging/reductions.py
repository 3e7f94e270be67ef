"""Reduce the members' probabilities, a dask.array or in memory, to the ensemble's prediction."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.placement import SharedData, scatter, to_host
from pipelines.nn.member import Member, Prediction

if TYPE_CHECKING:
    from dask.array import Array
    from dask.delayed import Delayed
    from distributed import Client

    from pipelines.nn.settings import TrainingSettings

SAMPLES_PER_CHUNK = 8192
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
AGREE, CERTAIN = 0.75, 0.5
RULE = (
    "Defer to a human: fewer than three in four members vote for the class, or their mean "
    "certainty of it is below a half."
)


@dataclass(frozen=True)
class EnsemblePrediction:
    """The prediction of an ensemble; the first axis of each array is the samples'.

    Attributes
    ----------
    mean : float64 of shape (n_samples, n_classes)
        Mean of the members' probabilities.
    votes : int64 of shape (n_samples, n_classes)
        Members for which a class is the most probable.
    vote : int64 of shape (n_samples,)
        The class with most votes; a tie goes to the larger mean, then to the smaller class.
    by_mean : int64 of shape (n_samples,)
        The class of the largest mean.
    certainty : float64 of shape (n_samples,)
        Mean probability of the class of the vote.
    disagreement : float64 of shape (n_samples,)
        Fraction of the members that voted for another class.
    quantiles : float64 of shape (n_samples, n_classes, 5)
        Quantiles of the members' probabilities: least, lower quartile, median, upper quartile,
        largest.
    """

    mean: np.ndarray
    votes: np.ndarray
    vote: np.ndarray
    by_mean: np.ndarray
    certainty: np.ndarray
    disagreement: np.ndarray
    quantiles: np.ndarray

    @property
    def deferred(self) -> np.ndarray:
        """Whether ``RULE`` defers a sample to a human; bool array of shape (n_samples,)."""
        # The tolerance keeps rounding from deferring a vote of exactly three in four.
        return (self.disagreement > 1 - AGREE + 1e-12) | ~(self.certainty >= CERTAIN)


def as_dask_array(members: Sequence[Any]) -> Array:
    """The members' arrays as one dask.array of shape (n_members, n_samples, n_classes).

    There is at least one member. A chunk holds all members, so that each chunk is reduced alone.
    """
    import dask.array as da

    stacked = da.stack([da.asarray(member) for member in members])
    return stacked.rechunk((-1, SAMPLES_PER_CHUNK, -1))


def gather_predictions(
    predictions: Sequence[Any], shape: tuple[int, ...], dtype: Any = np.float32
) -> tuple[Array, Delayed]:
    """Combine predictions that workers hold, or will make.

    Parameters
    ----------
    predictions : sequence of Future or Delayed
        A ``Prediction`` of each member.
    shape : tuple of int
        The shape of one member's outputs.
    dtype : dtype, default float32
        The dtype of the outputs.

    Returns
    -------
    dask.array.Array of shape (n_members, *shape)
        The outputs.
    Delayed
        The mean distance.
    """
    import dask
    import dask.array as da

    chunks = [
        da.from_delayed(dask.delayed(prediction[0]), shape, dtype) for prediction in predictions
    ]
    return as_dask_array(chunks), dask.delayed(_mean)([prediction[1] for prediction in predictions])


def ask_on_workers(
    client: Client, members: Sequence[Member], X: np.ndarray, training: TrainingSettings
) -> Prediction:
    """Predict with members on workers, lazily; otherwise as ``Ensemble.predict``.

    Parameters
    ----------
    client : distributed.Client
    members : sequence of Member
    X : array of shape (n_samples, n_features)
        Scattered to the workers once.
    training : TrainingSettings
        Decides the device.

    Returns
    -------
    Prediction
        Its outputs are a dask.array on the workers, of cupy arrays on GPUs; its distance is a
        Delayed.
    """
    import dask

    rows, inputs = scatter(client, SharedData(X)), members[0].inputs
    ask = dask.delayed(_ask, pure=False)
    predictions = [ask(member, rows, training) for member in scatter(client, list(members))]
    dtype = np.float64 if inputs.is_regression else np.float32
    return Prediction(*gather_predictions(predictions, (len(X), inputs.n_outputs), dtype))


def _ask(member: Member, rows: SharedData, training: TrainingSettings) -> Prediction:
    return member.predict(rows.shared, training)


def _mean(of_members: Sequence[Any]) -> np.ndarray:
    return to_host(np.stack(of_members).mean(axis=0))


def reduce_members(probabilities: Any) -> Any:
    """Reduce the members' probabilities to votes, means, quantiles and disagreement.

    Parameters
    ----------
    probabilities : numpy or cupy array of shape (n_members, n_samples, n_classes)
        It is reduced on its own device. Each chunk of a dask.array, as of ``as_dask_array``, is
        reduced by a worker that has it.

    Returns
    -------
    EnsemblePrediction
        On the host; for a dask.array, a Delayed of it.
    """
    if hasattr(probabilities, "dask"):
        import dask

        chunks = probabilities.to_delayed(optimize_graph=False).ravel().tolist()
        return dask.delayed(_join)([dask.delayed(reduce_members)(chunk) for chunk in chunks])
    xp: Any = sys.modules[type(probabilities).__module__]
    n_members, _, n_classes = probabilities.shape
    p = probabilities.astype(np.float64)
    mean = p.mean(axis=0)
    favourite = xp.argmax(p, axis=2)
    votes = (favourite[:, :, None] == xp.arange(n_classes)).sum(axis=0)
    # Half the mean is below 1, so that it only decides ties; argmax takes the smaller class.
    vote = xp.argmax(votes + mean / 2, axis=1)
    is_voted = vote[:, None] == xp.arange(n_classes)
    arrays = (
        mean,
        votes,
        vote,
        xp.argmax(mean, axis=1),
        xp.where(is_voted, mean, 0).sum(axis=1),
        1 - xp.where(is_voted, votes, 0).sum(axis=1) / n_members,
        xp.moveaxis(xp.quantile(p, QUANTILES, axis=0), 0, -1),
    )
    return EnsemblePrediction(*map(to_host, arrays))


def _join(parts: Sequence[EnsemblePrediction]) -> EnsemblePrediction:
    arrays = zip(*(vars(part).values() for part in parts), strict=True)
    return EnsemblePrediction(*map(np.concatenate, arrays))


def hardest_samples(answers: EnsemblePrediction, n_samples: int) -> np.ndarray:
    """The samples with the most disagreement; among equals the least certain, then the first."""
    return np.lexsort((answers.certainty, -answers.disagreement.round(12)))[:n_samples]
