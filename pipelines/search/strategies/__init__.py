"""Strategies: which candidate is tried next, on which splits; one file each.

A strategy of another package is found by its entry point in the group ``pleasingly.strategies``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.search.strategies.base import Scope, Strategy

STRATEGIES = ("grid", "race", "random", "halving", "tpe")
DRAWING = ("random", "tpe")  # those that draw candidates
CLASSES = {
    "grid": "grid:Grid",
    "random": "grid:Grid",  # its candidates are drawn before the first is tried
    "race": "race:Race",
    "halving": "halving:Halving",
    "tpe": "tpe:TPE",
}


def strategy_class(name: str) -> type[Strategy]:
    """The class of a strategy by its name."""
    module, _, kind = CLASSES[name].partition(":")
    found: type[Strategy] = getattr(import_module(f"{__name__}.{module}"), kind)
    return found


def make_strategy(options: Any, scope: Scope) -> Strategy:
    """The strategy that options name."""
    return strategy_class(options.strategy).of(scope, options)
