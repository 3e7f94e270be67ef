"""Timeline of the tasks of a run, with one lane for each worker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from pipelines.report.figure_values import add_values
from pipelines.report.style import INK, PALE, SKY, VERMILLION, WHITE, WIDE
from pipelines.report.wording import duration, shorten
from pipelines.run_folder.reading import FinishedTask
from pipelines.run_folder.work_time import (
    idle_periods,
    is_within_session,
    shown_seconds,
    worker_timelines,
)

MOST_LABELS = 40  # lanes up to which each has a label
# Length of a unit of time in seconds, its name, and the seconds from which the next one is used.
UNITS = ((1.0, "seconds", 600), (60.0, "minutes", 7200), (3600.0, "hours", float("inf")))


def worker_name(address: str) -> str:
    """Label of a worker: its address without the protocol, shortened."""
    if address.startswith("inproc://"):  # the part between only names this machine and process
        return f"threads {address.rpartition('/')[2]}"
    return shorten(address.rpartition("://")[2] or "unknown", 24)


def timeline(tasks: Sequence[FinishedTask], workers: Sequence[str] = ()) -> Figure:
    """Draw tasks as bars, in one lane for each worker; idle time is pale.

    Parameters
    ----------
    tasks : sequence of FinishedTask
        At least one.
    workers : sequence of str, default ()
        Addresses of all workers, so that a worker without tasks also has a lane.

    Returns
    -------
    Figure
    """
    rows = worker_timelines(tasks, workers)
    timeline_row = min(0.36, 9.0 / len(rows))
    height = 1.15 + timeline_row * len(rows)
    figure = Figure(figsize=(WIDE, max(1.9, height)), layout="constrained")
    total = shown_seconds(tasks)
    second, name_of_time = next((length, name) for length, name, most in UNITS if total < most)
    axes = figure.add_subplot()
    # At the left, as a phone shows the left end of a wide figure.
    axes.set_xlabel(f"{name_of_time} since the first task started", loc="left")
    breaks = idle_periods(tasks)
    seam = 0.015 * total  # width of the gap that stands for a period between two sessions
    origin = min(task.started for task in tasks)

    def position(moment: float) -> float:
        skipped_seconds = sum(end - start - seam for start, end in breaks if end <= moment)
        return (moment - origin - skipped_seconds) / second

    end = max((total + seam * len(breaks)) / second, 1e-6)
    axes.barh(range(len(rows)), end, height=0.8, color=PALE, zorder=0)
    # White edges of narrow bars are thin, so that they do not look like idle time.
    median = float(np.median([task.seconds for task in tasks])) / second
    thin = min(0.5, 0.06 * median / end * 72 * WIDE)
    for number, row in enumerate(rows):
        axes.broken_barh(
            [
                (position(task.started), max(task.seconds / second, 1e-3 * end))
                for task in row.tasks
            ],
            (number - 0.4, 0.8),
            facecolors=SKY,
            gid="tasks",
            zorder=2,
            edgecolors=[VERMILLION if task.n_failed else WHITE for task in row.tasks],
            linewidths=[1.4 if task.n_failed else thin for task in row.tasks],
        )
        starts = np.array([position(task.started) for task in row.tasks])
        halves = np.array([task.seconds / second / 2 for task in row.tasks])
        texts = [
            f"{task.name}: {duration(task.seconds)} on {worker_name(row.worker)}"
            for task in row.tasks
        ]
        add_values(axes, starts + halves, np.full(len(texts), number), texts, (halves, 0.4))
        busy_text = "" if row.busy_fraction is None else f"{100 * row.busy_fraction:.0f} %"
        if len(rows) <= MOST_LABELS:
            axes.text(end * 1.006, number, busy_text, va="center", fontsize=9, color=INK)
    for start, stop in breaks:
        x = position(stop) - seam / 2 / second
        axes.axvline(x, color=INK, ls=(0, (3, 3)), lw=1, zorder=3)
        state = "no worker" if is_within_session(tasks, start, stop) else "stopped"
        label = f"{state} for {duration(stop - start)}"
        axes.text(x, -0.55, label, ha="center", va="bottom", fontsize=8.5)
    axes.xaxis.set_major_locator(MaxNLocator(12, steps=[1, 2, 5, 10]))
    axes.set(xlim=(0, end), ylim=(len(rows) - 0.5, -0.5))
    label_step = -(-len(rows) // MOST_LABELS)
    lane_names = [worker_name(row.worker) for row in rows[::label_step]]
    axes.set_yticks(range(0, len(rows), label_step), lane_names, fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.spines[["left"]].set_visible(False)
    if any(task.n_failed for task in tasks):
        key = Patch(facecolor="none", edgecolor=VERMILLION, lw=1.4, label="task with a failed fit")
        axes.legend(handles=[key], loc="lower right", bbox_to_anchor=(1, 1.0))
    return figure
