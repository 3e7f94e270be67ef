"""The settings of training that all networks of a run share, and their defaults."""

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
BY_HAND = ("conv", "mlp", "table")  # networks whose gradients are written out by hand
# Of a network for tables: batch size, most steps, and bounds of the epochs that these come to.
BATCH, STEPS, EPOCHS = 256, 200, (20, 200)
REGRESSION_STEPS, REGRESSION_EPOCHS = 1000, (20, 1000)
PATIENCE, REGRESSION_PATIENCE = 20, 30  # epochs without a smaller out-of-bag loss
TABLE_SMOOTHING, TABLE_DECAY = 0.02, 0.1
# ``least_fall`` of conv and mlp: noise of the targets stays in a squared error, so that progress
# is a small fraction of it.
REGRESSION_FALL = 0.02
# Of a module that torch differentiates: batch size, most steps, bounds of the epochs, smoothing.
MODULE_BATCH, MODULE_STEPS, MODULE_EPOCHS, SMOOTHING = 64, 1500, (12, 60), 0.05
DECAY = {"sgd": 5e-4, "adamw": 0.05}
OF_OPTIMIZER = ("optimizer", "schedule", "label_smoothing", "weight_decay")


@dataclass(frozen=True)
class TrainingSettings:
    """How networks are trained.

    Attributes
    ----------
    batch_size : int
        Rows of a step; the last step of an epoch takes the remaining ones.
    max_epochs : int
    least_fall : float
        Training ends after an epoch whose mean loss is not smaller than that of the epoch before by
        more than this fraction of it, 0.02 in a regression. Networks for tables end as described in
        ``pipelines.nn.early_stopping``.
    precision : {"fp32", "tf32", "bf16"}
        The precision of products on a GPU; a CPU computes in single precision, except with "bf16".
    device : {"cpu", "gpu"}
    n_threads : int
        Threads of this process, on a CPU. The last bits of a result may depend on it: a run that is
        to be reproduced elsewhere leaves it at 1.
    memory_bytes : int, optional
        Memory of the device that training may take, its data included; by default all that is free
        on a GPU, and without limit on a CPU.
    optimizer : {"sgd", "adamw"} or None
        None trains a network of ``BY_HAND`` by its own rule: conv and mlp with plain stochastic
        gradient descent, table as described in ``pipelines.nn.early_stopping``, where smoothing,
        decay and patience also count. Otherwise torch differentiates the network, see
        ``pipelines.nn.modules``.
    schedule : {"onecycle", "cosine", "none"}
        The course of the learning rate over all steps; the rate that is set is the highest.
    label_smoothing : float
        The fraction of a label that is spread over all classes.
    weight_decay : float
        The decay of all weights except biases and norms; decoupled with "adamw".
    patience : int, optional
        Epochs without a smaller out-of-bag loss after which a network ends and returns to its best
        state; by default all epochs are trained.
    augment : str
        As ``choose_augmentation`` gives it: "none", "digits", "photographs", ...
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

    # Keywords of ``of`` that users set, under the same names in commands and estimators.
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
        """The settings for a network, with its defaults where a keyword is None.

        Parameters
        ----------
        network : str
            As ``NetworkSpec.network``. A network of ``BY_HAND`` is trained by its own rule unless a
            keyword asks for something that this rule lacks.
        n_rows : int
            Training rows; they decide how many epochs the default number of steps takes.
        batch_size, max_epochs, optimizer, schedule, label_smoothing, weight_decay, patience
            As for the attributes; None takes the network's default.
        augment, precision
            As for the attributes.
        is_regression : bool, default False
        **settings
            Other attributes.
        """
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
    """torch's name of a device: ``cpu``, or ``cuda`` for ``gpu``."""
    return "cuda" if device == "gpu" else device


def need_torch() -> None:
    """Raise InputError, which says how to install it, if torch is missing."""
    if find_spec("torch") is None:
        raise InputError(f"networks need torch, which is not installed; run {install_line('nn')}")
