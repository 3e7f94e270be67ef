"""Work time of the workers of a run, for the console and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipelines.run_folder.reading import FinishedTask

SECONDS_OF_PAUSE = 60.0  # what is shorter is waiting, not a pause


@dataclass(frozen=True)
class WorkerTimeline:
    """The tasks of one worker in order, with its busy and its total seconds."""

    worker: str
    tasks: tuple[FinishedTask, ...]
    busy_seconds: float
    present_seconds: float

    @property
    def busy_share(self) -> float | None:
        """The share of its time that it was at work."""
        return self.busy_seconds / self.present_seconds if self.present_seconds else None


def workers_of(tasks: Sequence[FinishedTask], known: Sequence[str]) -> list[str]:
    """Return the workers that ``run.json`` knows, in its order, those that ran no task among them.

    None, where the journal names no worker that ``run.json`` knows: then the two speak of
    different runs.
    """
    return list(known) if {worker for task in tasks for worker in task.workers} & {*known} else []


def worker_timelines(
    tasks: Sequence[FinishedTask], workers: Sequence[str] = ()
) -> list[WorkerTimeline]:
    """Return the tasks of each worker: known workers first, then those of the journal alone."""
    own: dict[str, list[FinishedTask]] = {worker: [] for worker in workers}
    for task in tasks:
        for worker in task.workers:
            own.setdefault(worker, []).append(task)
    parts, timelines = _parts(tasks), []
    for worker, some in own.items():
        busy = sum(end - start for start, end in _spans(some))
        present = sum(
            end - start
            for start, end in parts
            if not some or any(start <= task.started <= end for task in some)
        )
        timelines.append(WorkerTimeline(worker, tuple(some), busy, present))
    return timelines


def busy_share(tasks: Sequence[FinishedTask], workers: Sequence[str] = ()) -> float | None:
    """The share of the workers' time that they were at work; None without a task.

    A worker is there from the first unit of a session of the run, whoever runs it, to the end of
    the last one. Of several sessions those count in which it had a task; all, if it never had one.
    """
    rows = worker_timelines(tasks, workers)
    present = sum(row.present_seconds for row in rows)
    return sum(row.busy_seconds for row in rows) / present if present else None


def idle_periods(tasks: Sequence[FinishedTask]) -> list[tuple[float, float]]:
    """Return start and end of times without any task that are longer than all others together.

    A resumed run has such a time between its parts; drawn to scale it would
    leave no room for the work.
    """
    spans = _spans(tasks)
    gaps = [(end, start) for (_, end), (start, _) in pairwise(spans)]
    left = spans[-1][1] - spans[0][0] if spans else 0.0
    kept = []
    for start, end in sorted(gaps, key=lambda gap: gap[0] - gap[1]):
        left -= end - start
        if end - start < max(SECONDS_OF_PAUSE, left):
            break
        kept.append((start, end))
    return sorted(kept)


def shown_seconds(tasks: Sequence[FinishedTask]) -> float:
    """Return the seconds from the first task's start to the last one's end, without pauses."""
    return sum(end - start for start, end in _parts(tasks))


def compile_seconds(tasks: Sequence[FinishedTask]) -> float:
    """Return the compile seconds: workers compile side by side, so the longest counts."""
    by_worker: dict[str, float] = {}
    for task in tasks:
        for worker in task.workers:
            by_worker[worker] = by_worker.get(worker, 0.0) + task.compile_seconds
    return max(by_worker.values(), default=0.0)


def peaks(tasks: Sequence[FinishedTask]) -> dict[str, dict[str, int]]:
    """Return for each worker the most memory that a task had, in bytes, as the journal names it."""
    found: dict[str, dict[str, int]] = {}
    for task in tasks:
        for worker in task.workers:
            known = found.setdefault(worker, {})
            known |= {name: max(n, known.get(name, 0)) for name, n in task.memory.items()}
    return found


def _parts(tasks: Sequence[FinishedTask]) -> list[tuple[float, float]]:
    """Return start and end of each period of work between two idle periods."""
    if not tasks:
        return []
    idle = idle_periods(tasks)
    starts = [min(task.started for task in tasks), *(end for _, end in idle)]
    return list(
        zip(starts, [*(start for start, _ in idle), max(t.ended for t in tasks)], strict=True)
    )


def _spans(tasks: Sequence[FinishedTask]) -> list[tuple[float, float]]:
    """Return the times at which at least one of the tasks ran, in order."""
    spans: list[tuple[float, float]] = []
    for task in sorted(tasks, key=lambda task: task.started):
        if spans and task.started <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], task.ended))
        else:
            spans.append((task.started, task.ended))
    return spans
