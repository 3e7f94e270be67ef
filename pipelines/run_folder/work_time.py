"""Work time of the workers of a run, for the console and the page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from pipelines.run_folder.reading import FinishedTask

SECONDS_OF_PAUSE = 60.0  # a shorter time without tasks is waiting, not a pause


@dataclass(frozen=True)
class WorkerTimeline:
    """The tasks of one worker in order, with its busy and its total seconds."""

    worker: str
    tasks: tuple[FinishedTask, ...]
    busy_seconds: float
    present_seconds: float

    @property
    def busy_fraction(self) -> float | None:
        """Fraction of its time that the worker was busy; None without any time."""
        return self.busy_seconds / self.present_seconds if self.present_seconds else None


def workers_of(tasks: Sequence[FinishedTask], known_workers: Sequence[str]) -> list[str]:
    """The workers that ``run.json`` lists, in its order, including those that ran no task.

    An empty list if the journal names none of them: then the two belong to different runs.
    """
    return (
        list(known_workers)
        if {worker for task in tasks for worker in task.workers} & {*known_workers}
        else []
    )


def worker_timelines(
    tasks: Sequence[FinishedTask], workers: Sequence[str] = ()
) -> list[WorkerTimeline]:
    """The timeline of each worker: first those of ``workers``, then the others in the journal."""
    tasks_by_worker: dict[str, list[FinishedTask]] = {worker: [] for worker in workers}
    for task in tasks:
        for worker in task.workers:
            tasks_by_worker.setdefault(worker, []).append(task)
    sessions, timelines = _sessions(tasks), []
    for worker, own_tasks in tasks_by_worker.items():
        busy = sum(end - start for start, end in _spans(own_tasks))
        present = sum(
            end - start
            for start, end in sessions
            if not own_tasks or any(start <= task.started <= end for task in own_tasks)
        )
        timelines.append(WorkerTimeline(worker, tuple(own_tasks), busy, present))
    return timelines


def busy_fraction(tasks: Sequence[FinishedTask], workers: Sequence[str] = ()) -> float | None:
    """Fraction of their time that the workers were busy; None without tasks.

    Their time lasts from the first task of a session to the end of its last, for as many workers as
    were present at once: the time during which a worker is missing, until another takes its place,
    counts.
    """
    rows = worker_timelines(tasks, workers)
    present = sum(
        _most_at_once(rows, start, end, workers) * (end - start) for start, end in _sessions(tasks)
    )
    return sum(row.busy_seconds for row in rows) / present if present else None


def _most_at_once(
    rows: Sequence[WorkerTimeline], start: float, end: float, known_workers: Collection[str]
) -> int:
    """Most workers that a session had at once, each counted from its first task to its last.

    Workers that ``run.json`` lists were present from the session's start, and to its end if they
    had no task.
    """
    changes: list[tuple[float, int]] = []
    for row in rows:
        session_tasks = [task for task in row.tasks if start <= task.started <= end]
        if session_tasks or not row.tasks:
            arrival = (
                start
                if row.worker in known_workers or not session_tasks
                else session_tasks[0].started
            )
            departure = max((task.ended for task in session_tasks), default=end)
            changes += [(arrival, 1), (departure, -1)]
    counts = accumulate(change for _, change in sorted(changes))
    return max(1, *counts)


def idle_periods(tasks: Sequence[FinishedTask]) -> list[tuple[float, float]]:
    """Start and end of pauses: gaps without a task that outlast all work and shorter gaps together.

    A gap of less than ``SECONDS_OF_PAUSE`` is not a pause.

    A resumed run has such a pause between its sessions; drawn to scale, it would leave no room for
    the work.
    """
    spans = _spans(tasks)
    gaps = [(end, start) for (_, end), (start, _) in pairwise(spans)]
    remaining = spans[-1][1] - spans[0][0] if spans else 0.0
    periods = []
    for start, end in sorted(gaps, key=lambda gap: gap[0] - gap[1]):
        remaining -= end - start
        if end - start < max(SECONDS_OF_PAUSE, remaining):
            break
        periods.append((start, end))
    return sorted(periods)


def shown_seconds(tasks: Sequence[FinishedTask]) -> float:
    """Seconds from the first task's start to the last one's end, without idle periods."""
    return sum(end - start for start, end in _parts(tasks))


def is_within_session(tasks: Sequence[FinishedTask], start: float, end: float) -> bool:
    """Whether an idle period is within one session: no worker was there, but the run went on."""
    before = [task.session for task in tasks if task.ended <= start]
    after = [task.session for task in tasks if task.started >= end]
    return bool(before and after) and 0 < before[-1] == after[0]


def compile_seconds(tasks: Sequence[FinishedTask]) -> float:
    """Seconds of compilation, for the worker with the most, as workers compile in parallel."""
    by_worker: dict[str, float] = {}
    for task in tasks:
        for worker in task.workers:
            by_worker[worker] = by_worker.get(worker, 0.0) + task.compile_seconds
    return max(by_worker.values(), default=0.0)


def peaks(tasks: Sequence[FinishedTask]) -> dict[str, dict[str, int]]:
    """For each worker, the most memory used in a task, in bytes, by the journal's names."""
    peaks_by_worker: dict[str, dict[str, int]] = {}
    for task in tasks:
        for worker in task.workers:
            worker_peaks = peaks_by_worker.setdefault(worker, {})
            worker_peaks |= {
                name: max(n, worker_peaks.get(name, 0)) for name, n in task.memory.items()
            }
    return peaks_by_worker


def _sessions(tasks: Sequence[FinishedTask]) -> list[tuple[float, float]]:
    """Start and end of the work of each session; if not known, of each part between pauses."""
    by_session: dict[int, list[FinishedTask]] = {}
    for task in tasks:
        by_session.setdefault(task.session, []).append(task)
    sessions = _parts(by_session.pop(0, []))
    for session_tasks in by_session.values():
        sessions.append(
            (min(task.started for task in session_tasks), max(task.ended for task in session_tasks))
        )
    return sessions


def _parts(tasks: Sequence[FinishedTask]) -> list[tuple[float, float]]:
    """Start and end of each period of work between two idle periods."""
    if not tasks:
        return []
    idle = idle_periods(tasks)
    starts = [min(task.started for task in tasks), *(end for _, end in idle)]
    return list(
        zip(starts, [*(start for start, _ in idle), max(t.ended for t in tasks)], strict=True)
    )


def _spans(tasks: Sequence[FinishedTask]) -> list[tuple[float, float]]:
    """The periods in which at least one of the tasks ran, in order."""
    spans: list[tuple[float, float]] = []
    for task in sorted(tasks, key=lambda task: task.started):
        if spans and task.started <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], task.ended))
        else:
            spans.append((task.started, task.ended))
    return spans
