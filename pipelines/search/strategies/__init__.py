"""Strategies decide which candidate is tried next, and on which splits; one file each.

Another package adds a subclass of ``Strategy`` by an entry point in the group
``pleasingly.strategies``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.extensions import Extensions

if TYPE_CHECKING:
    from pipelines.search.strategies.base import Strategy

__all__ = ["STRATEGIES", "strategy_class", "strategy_packages"]

DRAWING = ("random", "tpe")  # strategies whose candidates are drawn from distributions
STRATEGIES = Extensions(
    "pleasingly.strategies",
    f"{__name__}.base:Strategy",
    "strategy",
    {
        "grid": f"{__name__}.grid:Grid",
        "race": f"{__name__}.race:Race",
        "random": f"{__name__}.grid:Grid",  # all candidates are drawn before the first is tried
        "halving": f"{__name__}.halving:Halving",
        "tpe": f"{__name__}.tpe:TPE",
    },
)


def strategy_class(name: str) -> type[Strategy]:
    """The class of a strategy by its name, ours or another package's."""
    strategy: type[Strategy] = STRATEGIES.load(name)
    return strategy


def strategy_packages(name: str) -> tuple[str, ...]:
    """The distributions, besides ours, whose versions decide what a strategy asks for."""
    return ("optuna",) if name == "tpe" else STRATEGIES.distributions(name)
