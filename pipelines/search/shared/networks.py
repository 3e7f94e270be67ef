"""Networks: those of all splits are trained as one, and so are candidates that differ in rates.

A step of one network leaves a GPU idle, and a CPU's cores with small products. So the networks
of a candidate, one for each split, take their steps together; see ``pipelines.nn.stack``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Predictions, Progress
from pipelines.data.placement import FoldedData
from pipelines.nn.estimator import NetworkClassifier
from pipelines.nn.fit import NoRoomError, ScoreRows, fit_networks, generator_of
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.size import predicted_cost
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import OK, Part, Score, Tensors, target_scaling
from pipelines.search.shared.base import SharedFit, SplitRows

CANDIDATES_TOGETHER = 4  # each of as many networks as there are splits


@dataclass(frozen=True)
class Network:
    """A network that is not fitted: its hyper-parameters, and the seed of its weights and orders.

    The network of split ``i`` draws by ``SeedSequence(random_state).spawn(n)[i]``.
    """

    spec: NetworkSpec
    random_state: int
    is_regression: bool = False

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return hyper-parameters and seed."""
        return {**asdict(self.spec), "random_state": self.random_state}

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

    def partition(self, estimators: Sequence[Any], n_workers: int) -> list[list[int]]:
        """Return the candidates one by one; some together where one leaves its device idle."""
        n = len(estimators)
        idle = leaves_idle(self.training, estimators[0].spec)
        n_groups = math.ceil(n / CANDIDATES_TOGETHER) if idle else n
        return [places.tolist() for places in np.array_split(np.arange(n), n_groups)]

    def cost(self, estimators: Sequence[Any], n_rows: int, n_features: int) -> float:
        """Predict the seconds on one split."""
        return sum(
            predicted_cost(one.spec, self.inputs, 1, self.training.batch_size, n_rows)
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
                spec=estimators[i].spec,
            )
            for i, split in places
        ]
        asked = [splits[split][1] for _, split in places]
        n_rows = min(len(train) for train, _ in rows.splits)
        fits = fits_of(rows.data, parts, asked, self.inputs, self.training, n_rows)
        for item, place in fits:
            if isinstance(item, Fit):
                item.candidate, item.split = places[place]
                if not self.inputs.is_regression:
                    item.classes = np.arange(self.inputs.n_classes)
            yield item


class Classifiers(SharedFit):
    """``NetworkClassifier`` of one architecture."""

    name = Networks.name
    types = (NetworkClassifier,)
    shared = ("learning_rate", "momentum")
    takes_weights = False
    predictions_only = True
    gives = ("predict", "predict_proba", "predict_log_proba")
    splits_together = True
    one_launch = True

    def partition(self, estimators: Sequence[NetworkClassifier], n_workers: int) -> list[list[int]]:
        """See ``Networks``."""
        first = estimators[0]
        return Networks(first.inputs(1, 1), first.training(1)).partition(estimators, n_workers)

    def cost(self, estimators: Sequence[NetworkClassifier], n_rows: int, n_features: int) -> float:
        """Predict the seconds on one split, by a typical number of classes."""
        first = estimators[0]
        kind = Networks(first.inputs(n_features, 10), first.training(n_rows))
        return kind.cost(estimators, n_rows, n_features)

    def fit_splits(
        self, rows: SplitRows, estimators: Sequence[NetworkClassifier], methods: Collection[str]
    ) -> Iterator[Fit | Progress]:
        """See ``SharedFit``; a network that does not fit the device, or diverges, is an error."""
        first, (X, y, splits) = estimators[0], rows.matrix("cpu")
        classes, codes = np.unique(y, return_inverse=True)
        codes = codes.astype(np.int32)
        data = FoldedData(X, codes, X[:0], codes[:0], (), first.scaling)
        if rows.prepared is None:  # candidates of other tasks share what lies on the device
            data = rows.data.placement.get(("networks", first.scaling), partial(replace, data))
            splits = [splits[number] for number in rows.numbers]
        places = [(i, split) for i in range(len(estimators)) for split in range(rows.n_splits)]
        parts = [estimators[i].part(splits[split][0]) for i, split in places]
        asked = [splits[split][1] for _, split in places]
        n_rows = min(len(part.rows) for part in parts)
        inputs, training = first.inputs(X.shape[1], len(classes)), first.training(n_rows)
        for item, place in fits_of(data, parts, asked, inputs, training, n_rows):
            if isinstance(item, Fit):
                item.candidate, item.split = places[place]
                item.classes = classes
                if item.predict is not None:
                    asked_parts = rows.parts_asked(item.split)
                    item.predict = partial(labelled, item.predict, classes, asked_parts)
                if "train" in rows.parts:
                    item.loss = None  # which is of those rows, too
            yield item


def labelled(
    predict: Any, classes: np.ndarray, parts: Mapping[str, slice], method: str, part: str
) -> np.ndarray:
    """Return what is predicted of a part of the rows that were asked, in labels."""
    answers: np.ndarray = predict(method, part)[parts[part]]
    return classes[answers] if method == "predict" else answers


def fits_of(
    data: FoldedData,
    parts: Sequence[Part],
    asked: Sequence[np.ndarray],
    inputs: Inputs,
    training: Training,
    n_rows: int,
) -> Iterator[tuple[Fit | Progress, int]]:
    """Train networks together, and ask each about rows; see ``fit_networks``.

    Parameters
    ----------
    asked : for each network the rows that it is scored on

    Yields
    ------
    A fit for each network, or progress; and the number of the network.
    """

    def score(number: int, weights: Tensors, score: ScoreRows) -> Score:
        return score(asked[number])

    left = iter(range(len(parts)))
    try:
        for item in fit_networks(data, parts, inputs, training, score, n_rows):
            if isinstance(item, Progress):
                yield item, 0
                continue
            scored, number = item.result, next(left)
            fit = Fit(0, 0, partial(predictions_of, scored.outputs), fit_seconds=item.seconds)
            if inputs.is_regression:
                target = target_scaling(data.y, parts[number].rows)
                targets = target.center + target.scale * scored.outputs[:, 0].astype(np.float64)
                fit.predict = Predictions({"predict": targets})
            fit.n_iterations, fit.score_seconds = len(item.losses), scored.seconds
            fit.loss, fit.error = scored.loss, None if item.status == OK else item.status
            yield fit, number
    except NoRoomError as error:
        for number in left:
            yield Fit(0, 0, error=str(error)), number


def predictions_of(certainty: np.ndarray, method: str, part: str) -> np.ndarray:
    """Return what logarithms of probabilities, (n_rows, n_classes), say."""
    if method == "predict":
        return certainty.argmax(axis=1)
    return certainty if method == "predict_log_proba" else np.exp(certainty)


def leaves_idle(training: Training, spec: NetworkSpec) -> bool:
    """Return whether one network of a spec leaves its device idle most of the time."""
    return training.device == "gpu" and spec.network == "cnn"


KINDS = (Classifiers(),)
