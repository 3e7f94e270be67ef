"""Training settings that all strategies share."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.parallel.stages.schedules import Plan

OPTIMIZERS = ("sgd", "adamw")  # of torch.optim
SCALINGS = ("none", "linear", "sqrt")
STORAGES = ("device", "host", "parquet")


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes
    ----------
    epochs : int
        At the most.
    batch_size : int
        Rows of a rank's batch; the ranks' batches together are the union batch.
    optimizer : {"sgd", "adamw"}
    scale_lr : {"none", "linear", "sqrt"}
        What the learning rate is multiplied with: 1, the number of ranks (Goyal et al. 2017),
        or its root (Krizhevsky 2014).
    warm_up : int
        Steps in which the learning rate rises to its value, linearly.
    patience : int or None
        Epochs without a lower validation loss after which training ends.
    until_loss : float or None
        Validation loss at which it ends.
    checkpoint_seconds : float
        Between two checkpoints on disk.
    storage : {"device", "host", "parquet"}
        Where the rows lie; a batch goes from host or disk to the device when it is gathered.
    prefetch : int
        Batches that a thread gathers ahead.
    augment : str
        As ``pipelines.nn.augment`` names it; each step's draws are those of its number and rank.
    plan : Plan or None
        How the network itself is divided among ranks; None where each has a copy.
    """

    epochs: int = 20
    batch_size: int = 128
    optimizer: str = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.9
    scale_lr: str = "none"
    warm_up: int = 0
    patience: int | None = None
    until_loss: float | None = None
    checkpoint_seconds: float = 10.0
    storage: str = "device"
    prefetch: int = 0
    plan: Plan | None = None
    augment: str = "none"

    def rate(self, step: int, n_ranks: int) -> float:
        """Return the learning rate of a step, counted from 1."""
        factor = {"none": 1.0, "linear": float(n_ranks), "sqrt": n_ranks**0.5}[self.scale_lr]
        return self.learning_rate * factor * min(1.0, step / max(1, self.warm_up))
