"""Reduce the members' probabilities to the ensemble's prediction, on one dask.array."""

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
        How many members find a class the most probable.
    vote : int64 of shape (n_samples,)
        The class of most votes; a tie goes to the larger mean, then to the smaller class.
    by_mean : int64 of shape (n_samples,)
        The class of the largest mean.
    certainty : float64 of shape (n_samples,)
        Mean probability of the class that was voted for.
    disagreement : float64 of shape (n_samples,)
        Share of the members that voted for another class.
    quantiles : float64 of shape (n_samples, n_classes, 5)
        Of the members' probabilities: least, lower quartile, median, upper quartile, most.
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
        return (self.disagreement > 1 - AGREE + 1e-12) | ~(self.certainty >= CERTAIN)


def as_dask_array(members: Sequence[Any]) -> Array:
    """Stack the members' arrays to one of shape (n_members, n_samples, n_classes).

    There is at least one member; Dask arrays stay lazy.
    """
    import dask.array as da

    stacked = da.stack([da.asarray(member) for member in members])
    return stacked.rechunk((-1, SAMPLES_PER_CHUNK, -1))


def gather_predictions(
    predictions: Sequence[Any], shape: tuple[int, ...], dtype: Any = np.float32
) -> tuple[Array, Delayed]:
    """Put predictions together that workers hold or will make: probabilities, mean distance.

    ``asked`` are Futures or Delayed, one for each member, of probabilities of that shape.
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
    """Ask members on workers, where the answer lies: as ``Ensemble.predict``, but lazy.

    The probabilities are a dask.array, of cupy on GPUs; the distance is a Delayed. ``X`` has the
    shape (n_samples, n_features); the training says the device.
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
    """Reduce members to votes, means, quantiles and disagreement, where their array lies.

    Parameters
    ----------
    probabilities : array of shape (n_members, n_samples, n_classes), of numpy or cupy
        Or what ``as_dask_array`` gives: each of its chunks is reduced by a worker that has it.

    Returns
    -------
    EnsemblePrediction, on the host; of a dask.array a Delayed of it
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
    # Below 1, so that it decides between equal counts alone; argmax takes the smaller class.
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
    """The samples of most disagreement; of equals the least certain, then the first."""
    return np.lexsort((answers.certainty, -answers.disagreement.round(12)))[:n_samples]
