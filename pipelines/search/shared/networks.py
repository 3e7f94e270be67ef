"""Networks: those of all splits are trained as one, and so are candidates that differ in rates.

A step of one network leaves a GPU idle, and a CPU's cores with small products. So the networks
of a candidate, one for each split, take their steps together; see ``pipelines.nn.stack``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.fits import Fit, Progress
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import FittedScaling
from pipelines.nn.fit import NoRoomError, ScoreRows, fit_networks, generator_of
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.size import predicted_cost
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import DIVERGED, OK, Part, Score, Tensors, target_scaling
from pipelines.search.shared.base import SharedFit, Split, SplitRows

if TYPE_CHECKING:
    from pipelines.nn.estimator import NetworkEstimator

CANDIDATES_TOGETHER = 4  # each of as many networks as there are splits
TYPICAL_CLASSES = 10
# Epochs of networks that end by themselves: of 800 rows 12, of many 6; with patience 40.
TYPICAL_EPOCHS, TYPICAL_EPOCHS_OF_TABLES = 8, 40


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


class StackedNetworks(SharedFit):
    """Networks of one architecture, which their ``spec`` says."""

    name = "stacked networks"
    package = "torch"
    shared = ("learning_rate", "momentum")
    takes_weights = False
    splits_together = True
    one_launch = True
    most_seconds = 4.0  # the cost is in seconds, of a large machine's core

    @abstractmethod
    def settings(
        self, network: Any, n_rows: int, n_features: int, n_classes: int
    ) -> tuple[Inputs, Training]:
        """Return the shapes of a network, and how it is trained."""

    @abstractmethod
    def placed(
        self, rows: SplitRows, network: Any
    ) -> tuple[FoldedData, np.ndarray | None, Sequence[Split]]:
        """Return rows with class codes or numbers; the classes of the codes, None of numbers; and
        for every split there is the numbers of the rows to train on and to ask about."""

    @abstractmethod
    def part(self, network: Any, splits: Sequence[Split], number: int) -> Part:
        """Return the network of a split."""

    def partition(self, estimators: Sequence[Any], n_workers: int) -> list[list[int]]:
        """Return the candidates one by one; some together where one leaves its device idle."""
        n, first = len(estimators), estimators[0]
        idle = leaves_idle(self.settings(first, 1, 1, 1)[1], first.spec)
        n_groups = math.ceil(n / CANDIDATES_TOGETHER) if idle else n
        return [places.tolist() for places in np.array_split(np.arange(n), n_groups)]

    def cost(self, estimators: Sequence[Any], n_rows: int, n_features: int) -> float:
        """Predict the seconds on one split, where classes are not counted for a typical number."""
        inputs, training = self.settings(estimators[0], n_rows, n_features, TYPICAL_CLASSES)
        return sum(
            predicted_cost(one.spec, inputs, 1, training.batch_size, n_rows) for one in estimators
        )

    def share_of_steps(self, estimators: Sequence[Any], n_rows: int) -> float | None:
        """See ``SharedFit``; the epochs of typical networks that end by themselves."""
        _, training = self.settings(estimators[0], n_rows, 1, TYPICAL_CLASSES)
        if training.optimizer is not None and training.patience is None:
            return 1.0
        is_table = estimators[0].spec.network == "table"
        typical = TYPICAL_EPOCHS_OF_TABLES if is_table else TYPICAL_EPOCHS
        return min(1.0, typical / training.max_epochs)

    def fit_splits(
        self, rows: SplitRows, estimators: Sequence[Any], methods: Collection[str]
    ) -> Iterator[Fit | Progress]:
        """See ``SharedFit``; a network that does not fit the device, or diverges, is an error."""
        data, classes, splits = self.placed(rows, estimators[0])
        # Of all splits: networks take the same steps whichever of them the task has.
        parts = [[self.part(one, splits, i) for i in range(len(splits))] for one in estimators]
        n_rows = min(len(part.rows) for part in parts[0])
        n_classes = 0 if classes is None else len(classes)
        inputs, training = self.settings(estimators[0], n_rows, data.X.shape[1], n_classes)
        places = [(i, split) for i in range(len(estimators)) for split in range(rows.n_splits)]
        stacked = [parts[i][rows.numbers[split]] for i, split in places]
        asked = [splits[rows.numbers[split]][1] for _, split in places]

        def score(number: int, weights: Tensors, score: ScoreRows) -> Score:
            return score(asked[number])

        left = iter(zip(places, stacked, strict=True))
        try:
            for item in fit_networks(data, stacked, inputs, training, score, n_rows):
                if isinstance(item, Progress):
                    yield item
                    continue
                (candidate, split), part = next(left)
                scored, of_parts = item.result, rows.parts_asked(split)
                target = target_scaling(data.y, part.rows) if classes is None else None
                # Weights may be numbers, and what they answer none.
                status = item.status if math.isfinite(scored.loss) else DIVERGED
                yield Fit(
                    candidate,
                    split,
                    partial(predictions_of, scored.outputs, classes, target, of_parts),
                    classes=classes,
                    error=None if status == OK else status,
                    fit_seconds=item.seconds,
                    score_seconds=scored.seconds,
                    n_iterations=len(item.losses),
                    # That of training rows, where they are asked, is in it, too.
                    loss=None if "train" in rows.parts else scored.loss,
                )
        except NoRoomError as error:
            for place, _ in left:
                yield Fit(*place, error=str(error))


class Networks(StackedNetworks):
    """Networks that scale their rows as the data say, of one ``Network`` each.

    Rows of the splits that are neither drawn for a network nor validated, as a bootstrap leaves
    some, end its training where that is asked for.
    """

    types = (Network,)
    scales = True

    def __init__(self, inputs: Inputs, training: Training) -> None:
        self.inputs, self.training = inputs, training

    def settings(self, network: Network, *sizes: int) -> tuple[Inputs, Training]:
        return self.inputs, self.training

    def placed(
        self, rows: SplitRows, network: Network
    ) -> tuple[FoldedData, np.ndarray | None, Sequence[Split]]:
        classes = None if self.inputs.is_regression else np.arange(self.inputs.n_classes)
        return rows.data, classes, list(rows.splits)

    def part(self, network: Network, splits: Sequence[Split], number: int) -> Part:
        validated = np.concatenate([validation for _, validation in splits])
        left_out = np.setdiff1d(validated, np.concatenate(splits[number]))
        generator = generator_of(network.random_state, number)
        return Part(splits[number][0], generator, out_of_bag=left_out, spec=network.spec)


class NetworkEstimators(StackedNetworks):
    """``NetworkClassifier`` or ``NetworkRegressor``."""

    predictions_only = True
    gives = ("predict", "predict_proba", "predict_log_proba")

    @property
    def types(self) -> Collection[type]:  # type: ignore[override]
        """See ``SharedFit``; scikit-learn is imported where its classes are looked for."""
        from pipelines.nn.estimator import NetworkClassifier, NetworkRegressor

        return NetworkClassifier, NetworkRegressor

    def settings(
        self, network: NetworkEstimator, n_rows: int, n_features: int, n_classes: int
    ) -> tuple[Inputs, Training]:
        return network.inputs(n_features, n_classes), network.training(n_rows)

    def placed(
        self, rows: SplitRows, network: NetworkEstimator
    ) -> tuple[FoldedData, np.ndarray | None, Sequence[Split]]:
        X, y, splits = rows.matrix("cpu")
        targets = network.learn_targets(y)
        data = FoldedData(X, targets, X[:0], targets[:0], (), network.scaling)
        if rows.prepared is None:  # candidates of other tasks share what lies on the device
            data = rows.data.placement.get(("networks", network.scaling), partial(replace, data))
        return data, getattr(network, "classes_", None), splits

    def part(self, network: NetworkEstimator, splits: Sequence[Split], number: int) -> Part:
        return network.part(splits[number][0])


def predictions_of(
    outputs: np.ndarray,
    classes: np.ndarray | None,
    target: FittedScaling | None,
    parts: Mapping[str, slice],
    method: str,
    part: str,
) -> np.ndarray:
    """Return what outputs of a network, see ``Score``, say of a part of the rows asked about."""
    outputs = outputs[parts[part]]
    if target is not None:
        numbers: np.ndarray = target.center + target.scale * outputs[:, 0].astype(np.float64)
        return numbers
    if method == "predict" and classes is not None:
        labels: np.ndarray = classes[outputs.argmax(axis=1)]
        return labels
    return outputs if method == "predict_log_proba" else np.exp(outputs)


def leaves_idle(training: Training, spec: NetworkSpec) -> bool:
    """Return whether one network of a spec leaves its device idle most of the time."""
    return training.device == "gpu" and spec.network == "cnn"


KINDS = (NetworkEstimators(),)
