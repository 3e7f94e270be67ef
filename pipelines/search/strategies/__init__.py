"""Strategies: which candidate is tried next, on which splits; one file each.

A strategy of another package is a subclass of ``Strategy`` that is found by its entry point in the
group ``pleasingly.strategies``; the names of those here go before it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError, error_line, opt

if TYPE_CHECKING:
    from pipelines.search.strategies.base import Strategy

DRAWING = ("random", "tpe")  # those that draw candidates
ENTRY_POINTS = "pleasingly.strategies"
CLASSES = {
    "grid": "grid:Grid",
    "race": "race:Race",
    "random": "grid:Grid",  # its candidates are drawn before the first is tried
    "halving": "halving:Halving",
    "tpe": "tpe:TPE",
}


def strategy_names() -> tuple[str, ...]:
    """The names of all; a search from Python does without what looks through every package."""
    return (*CLASSES, *sorted(entry_points(group=ENTRY_POINTS).names - CLASSES.keys()))


def strategy_class(name: str) -> type[Strategy]:
    """The class of a strategy by its name, one of these or of another package's."""
    if name in CLASSES:
        module, _, kind = CLASSES[name].partition(":")
        strategy: type[Strategy] = getattr(import_module(f"{__name__}.{module}"), kind)
        return strategy
    entries = entry_points(group=ENTRY_POINTS)
    places = {entry.value: entry for entry in entries if entry.name == name}
    if len(places) != 1:
        names = ", ".join(strategy_names())
        rule = f"must be one of {names}, got {name!r}; check the spelling, or install its package"
        if places:
            rule = (
                f"must be of one package, got {name!r}, which is {' and '.join(sorted(places))}; "
                f"uninstall one of them"
            )
        raise InputError(f"{opt('strategy')} {rule}")
    return _loaded(places.popitem()[1])


def packages_of(name: str) -> tuple[str, ...]:
    """The distributions beside ours whose versions decide what a strategy asks for."""
    if name == "tpe":
        return ("optuna",)
    entries = entry_points(group=ENTRY_POINTS) if name not in CLASSES else ()
    return tuple(entry.dist.name for entry in entries if entry.name == name and entry.dist)


def _loaded(entry: Any) -> type[Strategy]:
    """The class that an entry point names."""
    from pipelines.search.strategies.base import Strategy

    must = f"{opt('strategy', entry.name)} must be a subclass of {Strategy.__module__}.Strategy"
    try:
        strategy = entry.load()
    except Exception as error:  # the code of a package
        raise InputError(
            f"{must}, got {entry.value}, which cannot be imported ({error_line(error)}); "
            f"mend or uninstall its package"
        ) from error
    if not (isinstance(strategy, type) and issubclass(strategy, Strategy)):
        raise InputError(f"{must}, got {entry.value}; mend or uninstall its package")
    return strategy
