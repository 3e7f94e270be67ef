"""Strategies: which candidate is tried next, on which splits; one file each.

A strategy of another package is a subclass of ``Strategy`` that is found by its entry point in the
group ``pleasingly.strategies``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.extensions import Extensions

if TYPE_CHECKING:
    from pipelines.search.strategies.base import Strategy

__all__ = ["STRATEGIES", "strategy_class", "strategy_packages"]

DRAWING = ("random", "tpe")  # those that draw candidates
STRATEGIES = Extensions(
    "pleasingly.strategies",
    f"{__name__}.base:Strategy",
    "strategy",
    {
        "grid": f"{__name__}.grid:Grid",
        "race": f"{__name__}.race:Race",
        "random": f"{__name__}.grid:Grid",  # its candidates are drawn before the first is tried
        "halving": f"{__name__}.halving:Halving",
        "tpe": f"{__name__}.tpe:TPE",
    },
)


def strategy_class(name: str) -> type[Strategy]:
    """The class of a strategy by its name, one of these or of another package's."""
    strategy: type[Strategy] = STRATEGIES.load(name)
    return strategy


def strategy_packages(name: str) -> tuple[str, ...]:
    """The distributions beside ours whose versions decide what a strategy asks for."""
    return ("optuna",) if name == "tpe" else STRATEGIES.distributions(name)
