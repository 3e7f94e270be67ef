"""When the workers of a run were at work: what the terminal and the page both say of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipelines.run_folder.reading import Unit

SECONDS_OF_PAUSE = 60.0  # what is shorter is waiting, not a pause


@dataclass(frozen=True)
class WorkerTimeline:
    """What one worker did: its units in order, how long it was at work, and how long there."""

    worker: str
    units: tuple[Unit, ...]
    busy_seconds: float
    present_seconds: float

    @property
    def busy_share(self) -> float | None:
        """Time at work of the time it was there."""
        return self.busy_seconds / self.present_seconds if self.present_seconds else None


@dataclass(frozen=True)
class IdlePeriod:
    """A time at which the run was stopped, between a run and its resumption."""

    started: float
    seconds: float


def all_workers(units: Iterable[Unit]) -> set[str]:
    """The workers that the journal names."""
    return {worker for unit in units for worker in unit.workers}


def workers_of(units: Sequence[Unit], known: Sequence[str]) -> list[str]:
    """The workers that ``run.json`` knows, in its order, those that ran no unit among them.

    None, where the journal names no worker that ``run.json`` knows: then the two speak of
    different runs.
    """
    return list(known) if all_workers(units) & set(known) else []


def worker_timelines(units: Sequence[Unit], workers: Sequence[str] = ()) -> list[WorkerTimeline]:
    """The units of each worker: the known workers first, then those only the journal names."""
    own: dict[str, list[Unit]] = {worker: [] for worker in workers}
    for unit in units:
        for worker in unit.workers:
            own.setdefault(worker, []).append(unit)
    parts = _parts(units)
    return [
        WorkerTimeline(worker, tuple(some), _covered_seconds(some), _present_seconds(some, parts))
        for worker, some in own.items()
    ]


def busy_share(units: Sequence[Unit], workers: Sequence[str] = ()) -> float | None:
    """Time at which workers were at work, of the time they were there; None without a unit.

    A worker is there from the first unit of a session of the run, whoever runs it, to the end of
    the last one. Of several sessions those count in which it had a unit; all, if it never had one.
    """
    rows = worker_timelines(units, workers)
    present = sum(row.present_seconds for row in rows)
    return sum(row.busy_seconds for row in rows) / present if present else None


def idle_periods(units: Sequence[Unit]) -> list[IdlePeriod]:
    """The times without any unit that are longer than all the others together.

    A resumed run has such a time between its parts; drawn to scale it would
    leave no room for the work.
    """
    gaps = [
        IdlePeriod(end, start - end)
        for (_, end), (start, _) in zip(_spans(units), _spans(units)[1:], strict=False)
    ]
    if not gaps:
        return []
    whole = max(unit.ended for unit in units) - min(unit.started for unit in units)
    kept: list[IdlePeriod] = []
    for gap in sorted(gaps, key=lambda gap: -gap.seconds):
        whole -= gap.seconds
        if gap.seconds < max(SECONDS_OF_PAUSE, whole):
            break
        kept.append(gap)
    return sorted(kept, key=lambda gap: gap.started)


def shown_seconds(units: Sequence[Unit]) -> float:
    """From the first unit's start to the last one's end, without the pauses."""
    return sum(end - start for start, end in _parts(units))


def compile_seconds(units: Sequence[Unit]) -> float:
    """How long the workers compiled: at the same time, so the one that took longest counts."""
    by_worker: dict[str, float] = {}
    for unit in units:
        for worker in unit.workers:
            by_worker[worker] = by_worker.get(worker, 0.0) + unit.compile_seconds
    return max(by_worker.values(), default=0.0)


def _parts(units: Sequence[Unit]) -> list[tuple[float, float]]:
    """Begin and end of what lies between the pauses."""
    if not units:
        return []
    parts, start = [], min(unit.started for unit in units)
    for idle in idle_periods(units):
        parts.append((start, idle.started))
        start = idle.started + idle.seconds
    return [*parts, (start, max(unit.ended for unit in units))]


def _present_seconds(own: Sequence[Unit], parts: Sequence[tuple[float, float]]) -> float:
    return sum(
        end - start
        for start, end in parts
        if not own or any(start <= unit.started <= end for unit in own)
    )


def _spans(units: Sequence[Unit]) -> list[tuple[float, float]]:
    """The times at which at least one of the units ran, in order."""
    spans: list[tuple[float, float]] = []
    for unit in sorted(units, key=lambda unit: unit.started):
        if spans and unit.started <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], unit.ended))
        else:
            spans.append((unit.started, unit.ended))
    return spans


def _covered_seconds(units: Sequence[Unit]) -> float:
    return sum(end - start for start, end in _spans(units))
