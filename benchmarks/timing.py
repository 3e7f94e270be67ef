"""Several ways to do one thing, timed in turn: A B C, A B C, ..."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Timed(Generic[Result]):
    """Wall seconds of every turn of one line, and what its last turn gave."""

    name: str
    seconds: tuple[float, ...]
    result: Result

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """The fastest and the slowest turn."""
        return min(self.seconds), max(self.seconds)


def in_turn(
    lines: Mapping[str, Callable[[], Result]], repeats: int, echo: Callable[[str], None] = print
) -> list[Timed[Result]]:
    """Time every line once, then every line again, so that a slow spell hits them all.

    Parameters
    ----------
    lines : name -> function without arguments
    repeats : int
        Turns of each line, at least 1.
    echo : function
        Told of every turn.

    Returns
    -------
    list of Timed, in the order of ``summary_lines``
    """
    seconds: dict[str, list[float]] = {name: [] for name in lines}
    results: dict[str, Result] = {}
    for turn in range(1, repeats + 1):
        for name, run in lines.items():
            started = time.perf_counter()
            results[name] = run()
            seconds[name].append(time.perf_counter() - started)
            echo(f"turn {turn} of {repeats}  {name}: {seconds[name][-1]:.2f} s")
    return [Timed(name, tuple(seconds[name]), results[name]) for name in lines]


def ratios(slow: Timed[Result], fast: Timed[Result]) -> tuple[float, float, float]:
    """How many times longer ``slow`` takes: of the medians, then the least and most of a turn."""
    by_turn = [
        slow_seconds / other for slow_seconds, other in zip(slow.seconds, fast.seconds, strict=True)
    ]
    return slow.median / fast.median, min(by_turn), max(by_turn)
