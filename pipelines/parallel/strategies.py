"""Strategies of data parallelism: when ranks share gradients or average their models.

A strategy answers two questions at each step, and says what merging is. Where a model is
merged, the state of the optimiser is averaged with it (momentum, or both moments of AdamW),
but by DiLoCo, whose inner state stays each rank's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from pipelines.parallel.flat import FlatModel
    from pipelines.process_group.group import Group

Tensors = dict[str, "torch.Tensor"]
OUTER_RATE, OUTER_MOMENTUM = 0.7, 0.9


@dataclass(frozen=True)
class TrainingStep:
    """The current step, counted from 1 over all epochs; its epoch, from 0, of ``epochs``."""

    step: int
    epoch: int
    epochs: int


class Strategy:
    """The base class of strategies; as it stands, ranks never communicate.

    Parameters
    ----------
    k : steps or epochs, whatever the strategy counts
    """

    always_equal = False  # whether all ranks have the same weights after every step
    inner: str | None = None  # the optimiser that it brings along

    def __init__(self, k: int = 0) -> None:
        self.k = k

    def shares(self, now: TrainingStep) -> bool:
        """Return whether this step uses the gradient of all ranks' batches."""
        return False

    def merges(self, now: TrainingStep) -> bool:
        """Return whether the models are averaged after this step."""
        return False

    def merges_after_epoch(self, now: TrainingStep) -> bool:
        """Return whether the models are averaged after this epoch."""
        return False

    def begin(self, model: FlatModel, kept: Mapping[str, torch.Tensor]) -> None:
        """Load what ``state`` returned, nothing at the start; the model has its weights."""

    def state(self) -> Tensors:
        """Return the state of the strategy, for a checkpoint."""
        return {}

    def merge(self, model: FlatModel, group: Group) -> None:
        """Make one model of all: the mean of weights, buffers and the optimiser's state."""
        for one in model.state().values():
            group.mean(one)


class EveryStep(Strategy):
    """Every step is made with the gradient of the union batch: what DDP computes.

    The gradient of all layers is one buffer and is added up in one call.
    """

    always_equal = True

    def shares(self, now: TrainingStep) -> bool:
        return True


class EveryK(Strategy):
    """The gradient is shared at each k-th step, between them each rank goes its own way.

    Models are merged after each epoch. After the study, which shared at each 2nd, 4th and 10th.
    """

    def shares(self, now: TrainingStep) -> bool:
        return now.step % self.k == 0

    def merges_after_epoch(self, now: TrainingStep) -> bool:
        return True


class Average(Strategy):
    """Models are merged after each k-th epoch (McDonald et al. 2010), and after the last."""

    def merges_after_epoch(self, now: TrainingStep) -> bool:
        return (now.epoch + 1) % self.k == 0


class PostLocal(Strategy):
    """Shared gradients for the first half of the epochs, then merged after each k-th step.

    Lin et al., *Don't use large mini-batches, use local SGD*, 2018.
    """

    def shares(self, now: TrainingStep) -> bool:
        return not self._is_local(now)

    def merges(self, now: TrainingStep) -> bool:
        return self._is_local(now) and now.step % self.k == 0

    def merges_after_epoch(self, now: TrainingStep) -> bool:
        return True  # else an epoch would begin from as many models as there are ranks

    def _is_local(self, now: TrainingStep) -> bool:
        return 2 * now.epoch >= now.epochs


class DiLoCo(Strategy):
    """Each rank makes k steps of AdamW; their mean change is a step of Nesterov's momentum.

    Douillard et al., *DiLoCo: distributed low-communication training of language models*, 2023:
    outer learning rate 0.7, momentum 0.9.
    """

    inner = "adamw"

    def merges(self, now: TrainingStep) -> bool:
        return now.step % self.k == 0

    def begin(self, model: FlatModel, kept: Mapping[str, torch.Tensor]) -> None:
        self._outer = {
            "weights": kept.get("weights", model.weights).to(model.weights.device, copy=True),
            "velocity": kept.get("velocity", 0 * model.weights).to(model.weights.device, copy=True),
        }

    def state(self) -> Tensors:
        return self._outer

    def merge(self, model: FlatModel, group: Group) -> None:
        from torch.optim.sgd import sgd

        group.mean(model.weights)
        for one in model.buffers.values():
            group.mean(one)
        weights, velocity = self._outer["weights"], self._outer["velocity"]
        sgd(
            [weights], [weights - model.weights], [velocity], lr=OUTER_RATE,
            momentum=OUTER_MOMENTUM, nesterov=True, weight_decay=0.0, dampening=0.0, maximize=False,
        )  # fmt: skip
        model.weights.copy_(weights)


# Name -> class, what k counts, and k where none is given; 0 where there is none.
STRATEGIES: dict[str, tuple[Callable[[int], Strategy], str, int]] = {
    "every-step": (EveryStep, "", 0),
    "every-k": (EveryK, "steps", 4),
    "never": (Strategy, "", 0),
    "average": (Average, "epochs", 1),
    "post-local": (PostLocal, "steps", 8),
    "diloco": (DiLoCo, "steps", 20),
}


def strategy_of(text: str) -> Strategy:
    """Return the strategy that is typed ``NAME`` or ``NAME=K``, checked by ``is_strategy``."""
    name, equals, number = text.partition("=")
    make, unit, k = STRATEGIES[name]
    if equals and not (unit and number.isdecimal() and int(number)):
        raise ValueError(f"{number} is no number of {unit}")
    return make(int(number) if equals else k)


def is_strategy(text: str) -> str | None:
    """Check an option's value: return the rule it breaks, or None."""
    try:
        for one in text.split(","):
            strategy_of(one)
    except (KeyError, ValueError):
        known = ", ".join(
            name + ("=K" if unit else "") for name, (_, unit, _) in STRATEGIES.items()
        )
        return f"of {known}, K at least 1"
    return None
