"""Networks: those of all splits are trained as one, and so are candidates that differ in rates.

A step of one network leaves a GPU idle, and a CPU's cores with small products. So the networks
of a candidate, one for each split, take their steps together; see ``pipelines.nn.stack``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Predictions, Progress
from pipelines.nn.fit import NoRoomError, ScoreRows, fit_networks, generator_of
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.size import predicted_cost
from pipelines.nn.space import Candidate
from pipelines.nn.stack import OK, Part, Score, Tensors, target_scaling
from pipelines.search.shared.base import SharedFit, SplitRows

CANDIDATES_TOGETHER = 4  # each of as many networks as there are splits


@dataclass(frozen=True)
class Network:
    """A network that is not fitted: its hyper-parameters, and the seed of its weights and orders.

    The network of split ``i`` draws by ``SeedSequence(random_state).spawn(n)[i]``.
    """

    candidate: Candidate
    random_state: int
    is_regression: bool = False

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return hyper-parameters and seed."""
        return {**asdict(self.candidate), "random_state": self.random_state}

    def as_estimator(self) -> Any:
        """Return an unfitted estimator, as which scorers see it."""
        from sklearn.dummy import DummyClassifier, DummyRegressor

        return DummyRegressor() if self.is_regression else DummyClassifier()


class Networks(SharedFit):
    """Networks of one architecture.

    Rows of the splits that are neither drawn for a network nor validated, as a bootstrap leaves
    some, end its training where that is asked for.

    Parameters
    ----------
    inputs : Inputs
    training : Training
    """

    name = "stacked networks"
    types = (Network,)
    shared = ("learning_rate", "momentum")
    takes_weights = False
    splits_together = True
    one_launch = True
    scales = True

    def __init__(self, inputs: Inputs, training: Training) -> None:
        self.inputs, self.training = inputs, training

    def partition(self, estimators: Sequence[Network], n_workers: int) -> list[list[int]]:
        """Return the candidates one by one; some together where one leaves its device idle."""
        n = len(estimators)
        idle = leaves_idle(self.training, estimators[0].candidate)
        n_groups = math.ceil(n / CANDIDATES_TOGETHER) if idle else n
        return [places.tolist() for places in np.array_split(np.arange(n), n_groups)]

    def cost(self, estimators: Sequence[Network], n_rows: int, n_features: int) -> float:
        """Predict the seconds on one split."""
        return sum(
            predicted_cost(one.candidate, self.inputs, 1, self.training.batch_size, n_rows)
            for one in estimators
        )

    def fit_splits(
        self, rows: SplitRows, estimators: Sequence[Network], methods: Collection[str]
    ) -> Iterator[Fit | Progress]:
        """See ``SharedFit``; a network that does not fit the device, or diverges, is an error."""
        splits = [rows.splits[number] for number in rows.numbers]
        everything = np.concatenate([validation for _, validation in rows.splits])
        left_out = [np.setdiff1d(everything, np.concatenate(split)) for split in splits]
        places = [(i, split) for i in range(len(estimators)) for split in range(len(splits))]
        parts = [
            Part(
                splits[split][0],
                generator_of(estimators[i].random_state, rows.numbers[split]),
                out_of_bag=left_out[split],
                candidate=estimators[i].candidate,
            )
            for i, split in places
        ]

        def score(number: int, weights: Tensors, score: ScoreRows) -> Score:
            return score(splits[places[number][1]][1])

        n_rows = min(len(train) for train, _ in rows.splits)
        fits = fit_networks(rows.data, parts, self.inputs, self.training, score, n_rows)
        left = iter(places)
        try:
            for item in fits:
                if isinstance(item, Progress):
                    yield item
                    continue
                fit = Fit(*next(left), fit_seconds=item.seconds, n_iterations=len(item.losses))
                scored = item.result
                fit.loss, fit.score_seconds = scored.loss, scored.seconds
                if self.inputs.is_regression:
                    drawn = splits[fit.split][0]
                    target = target_scaling(rows.data.y, drawn)
                    targets = target.center + target.scale * scored.outputs[:, 0].astype(np.float64)
                    fit.predict = Predictions({"predict": targets})
                else:
                    fit.classes = np.arange(self.inputs.n_classes)
                    fit.predict = partial(predictions_of, scored.outputs)
                fit.error = None if item.status == OK else item.status
                yield fit
        except NoRoomError as error:
            for place in left:
                yield Fit(*place, error=str(error))


def predictions_of(certainty: np.ndarray, method: str, part: str) -> np.ndarray:
    """Return what logarithms of probabilities, (n_rows, n_classes), say."""
    if method == "predict":
        return certainty.argmax(axis=1)
    return certainty if method == "predict_log_proba" else np.exp(certainty)


def leaves_idle(training: Training, candidate: Candidate) -> bool:
    """Return whether one network of a candidate leaves its device idle most of the time."""
    return training.device == "gpu" and candidate.network == "cnn"
