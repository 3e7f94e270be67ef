"""Networks: a candidate's networks for all splits are trained together, as one stack.

A step of a single small network leaves a GPU mostly idle, and gives a CPU's cores small products.
So the networks of a candidate, one for each split, take their steps together; see
``pipelines.nn.stack``. Candidates that differ only in learning rate and momentum can join them.
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
from pipelines.nn.batched_fit import NoRoomError, ScoreRows, fit_networks, generator_of
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.size import predicted_training_seconds
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import DIVERGED, OK, Score, StackPart, Tensors, fit_target_scaling
from pipelines.search.shared.base import SharedFit, Split, SplitRows

if TYPE_CHECKING:
    from pipelines.nn.estimator import NetworkEstimator

CANDIDATES_TOGETHER = 4  # in a stack, each with a network for every split
TYPICAL_CLASSES = 10  # for a forecast, before classes are counted
# Epochs until early stopping ends a training: 12 on 800 rows, 6 on many; 40 with patience.
TYPICAL_EPOCHS, TYPICAL_EPOCHS_OF_TABLES = 8, 40


@dataclass(frozen=True)
class NetworkCandidate:
    """An unfitted network: its hyper-parameters, and the seed of its weights and its row orders.

    The network of split ``i`` draws from ``SeedSequence(random_state).spawn(n)[i]``.
    """

    spec: NetworkSpec
    random_state: int
    is_regression: bool = False

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Hyper-parameters and seed, by name."""
        return {**asdict(self.spec), "random_state": self.random_state}

    def as_estimator(self) -> Any:
        """An unfitted estimator of the task, for scorers that inspect one."""
        from sklearn.dummy import DummyClassifier, DummyRegressor

        return DummyRegressor() if self.is_regression else DummyClassifier()


class StackedNetworks(SharedFit):
    """Networks of one architecture, that of their ``spec``, trained as a stack."""

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
    ) -> tuple[Inputs, TrainingSettings]:
        """The shapes of a network's inputs and outputs, and the settings of its training."""

    @abstractmethod
    def place_rows(
        self, rows: SplitRows, network: Any
    ) -> tuple[FoldedData, np.ndarray | None, Sequence[Split]]:
        """The data set as networks take it, its classes, and the splits.

        Returns
        -------
        data : FoldedData
            With class codes, or numbers for a regression, as targets.
        classes : array of shape (n_classes,) or None
            The labels of the codes; None for a regression.
        splits : sequence of (training rows, rows to predict), int arrays
            All splits of the search, not only those of the task.
        """

    @abstractmethod
    def part(self, network: Any, splits: Sequence[Split], number: int) -> StackPart:
        """The part of the stack that is trained on the split with this number."""

    def partition(self, estimators: Sequence[Any], n_workers: int) -> list[list[int]]:
        """See ``SharedFit.partition``; a task for each candidate, or for several small ones.

        Several go together where the networks of one would leave the device idle.
        """
        n, first = len(estimators), estimators[0]
        is_idle = leaves_idle(self.settings(first, 1, 1, 1)[1], first.spec)
        n_groups = math.ceil(n / CANDIDATES_TOGETHER) if is_idle else n
        return [places.tolist() for places in np.array_split(np.arange(n), n_groups)]

    def cost(self, estimators: Sequence[Any], n_rows: int, n_features: int) -> float:
        """See ``SharedFit.cost``; in seconds, for a typical number of classes."""
        inputs, training = self.settings(estimators[0], n_rows, n_features, TYPICAL_CLASSES)
        return sum(
            predicted_training_seconds(estimator.spec, inputs, 1, training.batch_size, n_rows)
            for estimator in estimators
        )

    def fraction_of_steps(self, estimators: Sequence[Any], n_rows: int) -> float | None:
        """See ``SharedFit``; with early stopping the epochs that typical networks take."""
        _, training = self.settings(estimators[0], n_rows, 1, TYPICAL_CLASSES)
        if training.optimizer is not None and training.patience is None:
            return 1.0
        is_table = estimators[0].spec.network == "table"
        typical_epochs = TYPICAL_EPOCHS_OF_TABLES if is_table else TYPICAL_EPOCHS
        return min(1.0, typical_epochs / training.max_epochs)

    def fit_splits(
        self, rows: SplitRows, estimators: Sequence[Any], methods: Collection[str]
    ) -> Iterator[Fit | Progress]:
        """See ``SharedFit``; a network that diverges, or has no room, is yielded as an error."""
        data, classes, splits = self.place_rows(rows, estimators[0])
        # For all splits, not only the task's: the smallest decides the number of steps of an epoch,
        # which must not depend on how splits are dealt to tasks.
        parts = [
            [self.part(estimator, splits, i) for i in range(len(splits))]
            for estimator in estimators
        ]
        n_rows = min(len(part.rows) for part in parts[0])
        n_classes = 0 if classes is None else len(classes)
        inputs, training = self.settings(estimators[0], n_rows, data.X.shape[1], n_classes)
        cells = [(i, split) for i in range(len(estimators)) for split in range(rows.n_splits)]
        stacked_parts = [parts[i][rows.numbers[split]] for i, split in cells]
        predicted_numbers = [splits[rows.numbers[split]][1] for _, split in cells]

        def score(number: int, weights: Tensors, score: ScoreRows) -> Score:
            return score(predicted_numbers[number])

        remaining = iter(zip(cells, stacked_parts, strict=True))
        try:
            for outcome in fit_networks(data, stacked_parts, inputs, training, score, n_rows):
                if isinstance(outcome, Progress):
                    yield outcome
                    continue
                (candidate, split), part = next(remaining)
                evaluation, part_slices = outcome.result, rows.part_slices(split)
                target = fit_target_scaling(data.y, part.rows) if classes is None else None
                # Finite weights can still give outputs that are not.
                status = outcome.status if math.isfinite(evaluation.loss) else DIVERGED
                yield Fit(
                    candidate,
                    split,
                    partial(predictions_of, evaluation.outputs, classes, target, part_slices),
                    classes=classes,
                    error=None if status == OK else status,
                    fit_seconds=outcome.seconds,
                    score_seconds=evaluation.seconds,
                    n_iterations=len(outcome.losses),
                    # With training rows among the predicted rows, it is not the validation loss.
                    loss=None if "train" in rows.parts else evaluation.loss,
                )
        except NoRoomError as error:
            for cell, _ in remaining:
                yield Fit(*cell, error=str(error))


class Networks(StackedNetworks):
    """Networks of ``NetworkCandidate``s, whose rows are scaled by the scaling of the data set.

    Rows that another split validates, and that the bootstrap of this split leaves out, decide when
    its training ends, where early stopping is asked for.

    Parameters
    ----------
    inputs : Inputs
        Shapes of the inputs and outputs of all networks.
    training : TrainingSettings
    """

    types = (NetworkCandidate,)
    scales = True

    def __init__(self, inputs: Inputs, training: TrainingSettings) -> None:
        self.inputs, self.training = inputs, training

    def settings(self, network: NetworkCandidate, *sizes: int) -> tuple[Inputs, TrainingSettings]:
        return self.inputs, self.training

    def place_rows(
        self, rows: SplitRows, network: NetworkCandidate
    ) -> tuple[FoldedData, np.ndarray | None, Sequence[Split]]:
        classes = None if self.inputs.is_regression else np.arange(self.inputs.n_classes)
        return rows.data, classes, list(rows.splits)

    def part(self, network: NetworkCandidate, splits: Sequence[Split], number: int) -> StackPart:
        validated = np.concatenate([validation for _, validation in splits])
        left_out = np.setdiff1d(validated, np.concatenate(splits[number]))
        generator = generator_of(network.random_state, number)
        return StackPart(splits[number][0], generator, out_of_bag=left_out, spec=network.spec)


class NetworkEstimators(StackedNetworks):
    """``NetworkClassifier`` and ``NetworkRegressor``."""

    predictions_only = True
    gives = ("predict", "predict_proba", "predict_log_proba")

    @property
    def types(self) -> Collection[type]:  # type: ignore[override]
        """See ``SharedFit``; a property, so that scikit-learn is imported only when needed."""
        from pipelines.nn.estimator import NetworkClassifier, NetworkRegressor

        return NetworkClassifier, NetworkRegressor

    def settings(
        self, network: NetworkEstimator, n_rows: int, n_features: int, n_classes: int
    ) -> tuple[Inputs, TrainingSettings]:
        return network.inputs(n_features, n_classes), network.training(n_rows)

    def place_rows(
        self, rows: SplitRows, network: NetworkEstimator
    ) -> tuple[FoldedData, np.ndarray | None, Sequence[Split]]:
        X, y, splits = rows.matrix("cpu")
        targets = network.learn_targets(y)
        data = FoldedData(X, targets, X[:0], targets[:0], (), network.scaling)
        if rows.prepared is None:  # all tasks have these rows, so they share the copy on the device
            data = rows.data.placement.get(("networks", network.scaling), partial(replace, data))
        return data, getattr(network, "classes_", None), splits

    def part(self, network: NetworkEstimator, splits: Sequence[Split], number: int) -> StackPart:
        return network.part(splits[number][0])


def predictions_of(
    outputs: np.ndarray,
    classes: np.ndarray | None,
    target: FittedScaling | None,
    parts: Mapping[str, slice],
    method: str,
    part: str,
) -> np.ndarray:
    """Predictions for a part of the rows, from a network's outputs for all rows to predict.

    Parameters
    ----------
    outputs : float32 array of shape (n_rows, n_outputs)
        Logarithms of probabilities, or standardised targets; see ``Score``.
    classes : array of shape (n_classes,) or None
        Labels; None for a regression.
    target : FittedScaling or None
        The scaling of a regression's targets; None for a classification.
    parts : dict of str to slice
        Where each part is among the rows.
    method : {"predict", "predict_proba", "predict_log_proba"}
    part : {"test", "train"}
    """
    outputs = outputs[parts[part]]
    if target is not None:
        numbers: np.ndarray = target.center + target.scale * outputs[:, 0].astype(np.float64)
        return numbers
    if method == "predict" and classes is not None:
        labels: np.ndarray = classes[outputs.argmax(axis=1)]
        return labels
    return outputs if method == "predict_log_proba" else np.exp(outputs)


def leaves_idle(training: TrainingSettings, spec: NetworkSpec) -> bool:
    """Whether a single network with this spec leaves its device idle most of the time."""
    return training.device == "gpu" and spec.network == "cnn"


SHARED_FITS = (NetworkEstimators(),)
