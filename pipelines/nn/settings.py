"""Training settings that all candidates share, and their requirements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

from cluster_setup.installation import install_line
from pipelines.errors import InputError

PRECISIONS = ("fp32", "tf32", "bf16")
OPTIMIZERS, SCHEDULES = ("sgd", "adamw"), ("onecycle", "cosine", "none")
OF_NETWORKS = ("torch", "torchvision")  # distributions whose versions decide results
BY_HAND = ("conv", "mlp", "table")  # networks whose gradients are written out
# Of a network for tables: rows of a step, and steps at most, in so many epochs.
BATCH, STEPS, EPOCHS = 256, 200, (20, 200)
REGRESSION_STEPS, REGRESSION_EPOCHS = 1000, (20, 1000)
PATIENCE, REGRESSION_PATIENCE = 20, 30  # epochs without a smaller loss of the left-out rows
TABLE_SMOOTHING, TABLE_DECAY = 0.02, 0.1
REGRESSION_FALL = 0.02  # ``least_fall`` of conv and mlp: noise stays in a squared error
# Of a module that torch differentiates.
MODULE_BATCH, MODULE_STEPS, MODULE_EPOCHS, SMOOTHING = 64, 1500, (12, 60), 0.05
DECAY = {"sgd": 5e-4, "adamw": 0.05}
OF_OPTIMIZER = ("optimizer", "schedule", "label_smoothing", "weight_decay")


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a run.

    Attributes
    ----------
    batch_size : int
        Rows of a step; the last of an epoch takes what is left.
    least_fall : float
        Training ends with an epoch whose mean loss is not below that of the epoch before
        by more than this part of it, 0.02 in a regression; that of a network for tables ends as
        ``pipelines.nn.early_stopping`` says.
    precision : {"fp32", "tf32", "bf16"}
        Of products on a GPU; a CPU computes in single precision, but for "bf16".
    device : {"cpu", "gpu"}
    n_threads : int
        Of this process, on a CPU. The bits of a result may depend on it, so that a run
        that is to be repeated elsewhere leaves it at 1.
    memory_bytes : int, optional
        What training may take of the device, its data included; on a GPU, by default,
        what is free there; on a CPU no limit.
    optimizer : {"sgd", "adamw"} or None
        None trains a network of ``BY_HAND`` as it was written: conv and mlp by plain stochastic
        gradient descent, table as ``pipelines.nn.early_stopping`` says, for which smoothing, decay
        and patience count, too. Any other is a module that torch differentiates, see
        ``pipelines.nn.modules``.
    schedule : {"onecycle", "cosine", "none"}
        Of the learning rate, which is its highest, over all steps.
    label_smoothing : float
        Share of a label that goes to all classes alike.
    weight_decay : float
        Of all weights but biases and norms; decoupled for "adamw".
    patience : int, optional
        Epochs without a smaller loss of the out-of-bag rows after which a network ends and goes
        back to its best; by default all epochs are trained.
    augment : str
        As ``pipelines.nn.augment`` names it: "none", "digits", "photographs", ...
    """

    batch_size: int = 10
    max_epochs: int = 20
    least_fall: float = 0.2
    precision: str = "fp32"
    device: str = "cpu"
    n_threads: int = 1
    memory_bytes: int | None = None
    optimizer: str | None = None
    schedule: str = "none"
    label_smoothing: float = 0.0
    weight_decay: float = 0.0
    patience: int | None = None
    augment: str = "none"

    # Keywords of ``of`` by which commands and estimators call what a user may choose.
    choices: ClassVar = ("batch_size", "max_epochs", "patience", "precision", *OF_OPTIMIZER)

    @classmethod
    def of(
        cls,
        network: str,
        n_rows: int,
        *,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        optimizer: str | None = None,
        schedule: str | None = None,
        label_smoothing: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        augment: str = "none",
        precision: str = "fp32",
        is_regression: bool = False,
        **settings: Any,
    ) -> TrainingSettings:
        """Make settings, with the defaults of a kind of network where None is given."""
        chosen_settings: set[Any] = {optimizer, schedule}
        if network != "table":
            chosen_settings |= {label_smoothing, weight_decay, patience}
        if (
            network in BY_HAND
            and chosen_settings == {None}
            and augment == "none"
            and precision != "bf16"
        ):
            batch, epochs = cls.batch_size, cls.max_epochs
            if is_regression:
                settings["least_fall"] = REGRESSION_FALL
            if network == "table":
                batch = BATCH
                steps, bounds = STEPS, EPOCHS
                if is_regression:
                    steps, bounds = REGRESSION_STEPS, REGRESSION_EPOCHS
                settings["patience"] = patience or (
                    REGRESSION_PATIENCE if is_regression else PATIENCE
                )
                settings["weight_decay"] = TABLE_DECAY if weight_decay is None else weight_decay
                smoothing = TABLE_SMOOTHING if label_smoothing is None else label_smoothing
                settings["label_smoothing"] = smoothing
                epochs = _epochs(steps, math.ceil(n_rows / (batch_size or batch)), bounds)
            return cls(batch_size or batch, max_epochs or epochs, precision=precision, **settings)
        optimizer = optimizer or ("adamw" if network == "table" else "sgd")
        batch = batch_size or MODULE_BATCH
        epochs = _epochs(MODULE_STEPS, math.ceil(n_rows / batch), MODULE_EPOCHS)
        return cls(
            batch,
            max_epochs or epochs,
            precision=precision,
            optimizer=optimizer,
            schedule=schedule or "onecycle",
            label_smoothing=SMOOTHING if label_smoothing is None else label_smoothing,
            weight_decay=DECAY[optimizer] if weight_decay is None else weight_decay,
            patience=patience,
            augment=augment,
            **settings,
        )


def _epochs(n_steps: int, steps_per_epoch: int, bounds: tuple[int, int]) -> int:
    min_epochs, max_epochs = bounds
    return min(max(n_steps // steps_per_epoch, min_epochs), max_epochs)


def torch_device(device: str) -> str:
    """Torch's name of a device: ``cpu``, or ``cuda`` for ``gpu``."""
    return "cuda" if device == "gpu" else device


def need_torch() -> None:
    """Raise a one-line error if torch is missing."""
    if find_spec("torch") is None:
        raise InputError(f"networks need torch, which is not installed; run {install_line('nn')}")
