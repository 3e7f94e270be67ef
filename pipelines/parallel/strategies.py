"""Strategies of data parallelism: when ranks share gradients or average their models."""

from __future__ import annotations

from dataclasses import dataclass

# Name -> what K counts, and K where none is given; 0 where there is none.
STRATEGIES = {
    "every-step": ("", 0), "every-k": ("steps", 4), "never": ("", 0), "average": ("epochs", 1)
}  # fmt: skip


@dataclass(frozen=True)
class Strategy:
    """When ranks share gradients or average their models.

    ``every-step``: each step is made with the gradient of the union batch, as DDP does.
    ``every-k``: each k-th step is, between them each rank goes its own way, and models are averaged
    after each epoch; after the study, which shared at each 2nd, 4th and 10th. ``average``: models
    are averaged after each k-th epoch (McDonald et al. 2010). ``never``: ranks never communicate.
    Where models are averaged, so is the optimiser's state (momentum, or both moments of AdamW).

    Attributes
    ----------
    name : one of ``STRATEGIES``
    k : steps or epochs, whatever the strategy counts
    """

    name: str
    k: int

    @property
    def always_equal(self) -> bool:
        """Whether all ranks have the same weights after every step."""
        return self.name == "every-step"

    def shares(self, step: int) -> bool:
        """Return whether a step, counted from 1, uses the gradient of all ranks' batches."""
        return self.always_equal or (self.name == "every-k" and step % self.k == 0)

    def averages(self, epoch: int) -> bool:
        """Return whether models are averaged after an epoch, counted from 0."""
        return self.name == "every-k" or (self.name == "average" and (epoch + 1) % self.k == 0)


def strategy_of(text: str) -> Strategy:
    """Return the strategy that is typed ``NAME`` or ``NAME=K``, checked by ``is_strategy``."""
    name, equals, number = text.partition("=")
    unit, k = STRATEGIES[name]
    if equals and not (unit and number.isdecimal() and int(number)):
        raise ValueError(f"{number} is no number of {unit}")
    return Strategy(name, int(number) if equals else k)


def is_strategy(text: str) -> str | None:
    """Check an option's value: return the rule it breaks, or None."""
    try:
        for one in text.split(","):
            strategy_of(one)
    except (KeyError, ValueError):
        known = ", ".join(name + ("=K" if unit else "") for name, (unit, _) in STRATEGIES.items())
        return f"of {known}, K at least 1"
    return None
