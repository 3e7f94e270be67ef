"""Units that take a known time: asleep, which takes no core, or computing, which does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.replay.measured import Drawn

if TYPE_CHECKING:
    from distributed import Client

LEAST = 30  # units of a calibration
NAP = 0.1  # seconds of each of them
COMPUTED = 0.3  # the same of those that compute, which take some time to begin
VALUES = 4096  # numbers of one turn of a computation: they stay in a core's own cache


@dataclass(frozen=True)
class Timed:
    """A unit that takes so many seconds asleep, or so many turns of a computation."""

    name: str
    cost: float
    seconds: float = 0.0
    turns: int = 0
    needs: tuple[str, ...] = ()


def take_time(shared: None, unit: Timed, needed: object = None) -> None:
    """The work."""
    time.sleep(unit.seconds)
    values = np.linspace(0, 1, VALUES)
    found = np.empty_like(values)
    for _ in range(unit.turns):  # each the same, that a long unit's are no cheaper
        np.sin(values, out=found)


def units_of(drawn: Drawn, seconds: float, turns_a_second: float | None = None) -> list[Timed]:
    """Units of a draw that take so many seconds together: asleep, or computing at that rate."""
    scaled = drawn.seconds * (seconds / drawn.seconds.sum())
    return [
        Timed(
            f"unit-{i}", cost,
            seconds=0.0 if turns_a_second else one,
            turns=round(one * turns_a_second) if turns_a_second else 0,
            needs=tuple(f"unit-{k}" for k in drawn.needs.get(i, ())),
        )
        for i, (cost, one) in enumerate(zip(drawn.costs.tolist(), scaled.tolist(), strict=True))
    ]  # fmt: skip


def span(client: Client, units: Sequence[Timed]) -> float:
    """Seconds from the start of the first unit to the end of the last, run by the program."""
    from pipelines.run.tasks import OnCluster

    outcomes = list(OnCluster(client).outcomes(take_time, None, units))
    begun = min(one.started for one in outcomes)
    return max(one.started + one.seconds for one in outcomes) - begun


def besides(client: Client, n_workers: int) -> float:
    """What a worker takes for a unit besides its sleep, on units of one length."""
    units = [Timed(f"nap-{i}", 1.0, seconds=NAP) for i in range(LEAST * n_workers)]
    span(client, units[: 2 * n_workers])  # connections are made, functions travel
    return max(0.0, span(client, units) * n_workers / len(units) - NAP)


def turns_a_second(client: Client, n_workers: int, lengths: Sequence[float] = ()) -> float:
    """Turns that each of so many workers does in a second while all compute.

    Told from what units say of themselves, while no worker has run out of them.

    Parameters
    ----------
    lengths : about how many seconds each takes; empty: of one length
    """
    from pipelines.run.tasks import OnCluster

    def rate(turns: Sequence[int]) -> float:
        units = [Timed(f"turn-{i}", one, turns=one) for i, one in enumerate(turns)]
        done = list(OnCluster(client).outcomes(take_time, None, units))
        end = min(_last_begin(done).values())
        # None, where a worker had not one before another had them all.
        whole: list[Any] = [one for one in done if one.started < end] or done
        return sum(one.unit.turns for one in whole) / sum(one.seconds for one in whole)

    guess = rate([1000] * 2 * n_workers)
    seconds = lengths or [COMPUTED] * (LEAST * n_workers // 2)
    return rate([max(1, round(one * guess)) for one in seconds])


def _last_begin(done: Sequence[Any]) -> dict[str, float]:
    begins: dict[str, float] = {}
    for one in done:
        begins[one.worker] = max(one.started, begins.get(one.worker, 0.0))
    return begins
