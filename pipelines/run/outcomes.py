"""What a task is given and what becomes of it: units, their needs, their outcomes.

A unit is anything with a ``name`` and a ``cost``; the work is a plain function
``work(shared, unit)``. ``shared`` is scattered once and stays on the workers.

A unit may have ``needs``: names of units whose results its work takes as a third
argument, a list in that order, None for each that failed. It begins when
these are done, whatever the others do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from pipelines.run.compilation import compilation_told, with_compile_seconds
from pipelines.run.news import Line, Teller


class Unit(Protocol):
    """What one task does; hashable."""

    @property
    def name(self) -> str:
        """Shown on the dashboard; no two units of a run share it."""

    @property
    def cost(self) -> float:
        """Predicted, in any unit of time."""


AnyUnit = TypeVar("AnyUnit", bound=Unit)
# (shared, unit), or (shared, unit, results of what it needs); see ``news`` on ``tell``
Work = Callable[..., Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def needs_of(unit: Any) -> Sequence[str]:
    """Names of the units whose results a unit's work takes."""
    return getattr(unit, "needs", ())


@dataclass(frozen=True)
class Outcome(Generic[AnyUnit]):
    """What became of a unit: a result, or the error that ended its last try.

    ``part`` is what its rows are called where others were told before: the name that a unit
    of them alone would have, empty where there are none; None for the unit's own. ``cost`` is
    what was predicted of that part.
    """

    unit: AnyUnit
    result: Any = None
    error: str | None = None
    worker: str = ""
    started: float = 0.0  # seconds since the epoch
    seconds: float = 0.0
    compile_seconds: float = 0.0  # of these
    part: str | None = None
    cost: float | None = None


class Results:
    """Results that units still need of others, each as a task gives it; None of one that failed."""

    def __init__(self, units: Sequence[Any], known: Mapping[str, Any]) -> None:
        self._needed = {name for unit in units for name in needs_of(unit)}
        self.known: dict[str, Any] = {
            name: None if result is None else {"result": result} for name, result in known.items()
        }
        if missing := self._needed - {unit.name for unit in units} - set(known):
            raise ValueError(f"units need {sorted(missing)}, which are neither known nor to be run")

    def keep(self, outcome: Outcome[Any]) -> None:
        """Remember an outcome, if a unit needs it."""
        if outcome.unit.name in self._needed:
            self.known[outcome.unit.name] = (
                None if outcome.error is not None else {"result": outcome.result}
            )

    def suffice(self, unit: Any) -> bool:
        """Whether all that ``unit`` needs is done."""
        return all(name in self.known for name in needs_of(unit))

    def of(self, unit: Any) -> list[Any]:
        """What ``unit`` needs, in its order."""
        return [self.known[name] for name in needs_of(unit)]


@with_compile_seconds
def measured(
    work: Work, shared: Any, unit: AnyUnit, needed: list[Any], line: Line | None = None
) -> dict[str, Any]:
    """The task: the unit's result, with where and when it was computed.

    With a ``line`` the work can tell how far it is.
    """
    arguments = [[one and one["result"] for one in needed]] if needs_of(unit) else []
    teller = Teller(unit.name, _here(), line.open()) if line else None
    named = {"tell": teller} if teller else {}
    started, clock = time.time(), time.perf_counter()
    with compilation_told(teller.compiling) if teller else nullcontext():
        result = work(shared, unit, *arguments, **named)
    seconds = time.perf_counter() - clock
    return {"result": result, "worker": _here(), "started": started, "seconds": seconds}


def _here() -> str:
    """Address of the worker this runs on."""
    if "distributed" not in sys.modules:  # then this is no worker, and need not import it
        return "in process"
    from distributed import get_worker

    try:
        return get_worker().address
    except ValueError:
        return "in process"


def describe(error: BaseException) -> str:
    """An exception as one short line for a row's status."""
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__:
        return "out of memory"
    if type(error).__name__ == "KilledWorker":
        return f"its worker died {error.allowed_failures + 1} times"  # type: ignore[attr-defined]
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
