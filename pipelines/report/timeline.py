"""A timeline of tasks: one lane for each worker."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from pipelines.report.style import GREY, INK, PALE, SKY, VERMILLION, WIDE, fitting, log10_labels
from pipelines.report.wording import duration, shortened
from pipelines.run_folder.reading import FinishedTask
from pipelines.run_folder.work_time import idle_periods, shown_seconds, worker_timelines

MOST_LABELS = 40


def worker_name(address: str) -> str:
    """Return a worker's address without its protocol, short enough for a label."""
    if address.startswith("inproc://"):  # what stands between says only that it is this machine
        return f"threads {address.rpartition('/')[2]}"
    return shortened(address.rpartition("://")[2] or "unknown", 24)


def timeline(
    tasks: Sequence[FinishedTask], workers: Sequence[str] = (), colour_by: str = ""
) -> Figure:
    """Draw bars of the tasks in one lane for each worker; what stays pale was idle.

    ``colour_by`` names the column of positive numbers whose logarithm tells a task's colour.
    """
    rows = worker_timelines(tasks, workers)
    timeline_row = min(0.36, 9.0 / len(rows))
    height = 1.15 + timeline_row * len(rows)
    figure = Figure(figsize=(fitting(WIDE), max(1.9, height)), layout="constrained")
    total = shown_seconds(tasks)
    second, name_of_time = _time_unit(total)
    axes = figure.add_subplot(xlabel=f"{name_of_time} since the first task started")
    breaks = idle_periods(tasks)
    seam = 0.015 * total
    origin = min(task.started for task in tasks)

    def place(moment: float) -> float:
        gone = sum(p.seconds - seam for p in breaks if p.started + p.seconds <= moment)
        return moment - origin - gone

    end = max(total + seam * len(breaks), 1e-6)
    axes.barh(range(len(rows)), end, height=0.8, color=PALE, zorder=0)
    colours = _Colours(tasks, colour_by)
    bars, faces, edges = [], [], []
    for number, row in enumerate(rows):
        for task, level, n_levels in _levels(row.tasks):
            left = place(task.started)
            top = number - 0.4 + 0.8 * level / n_levels
            low, right = top + 0.8 / n_levels, left + max(task.seconds, 1e-3 * end)
            bars.append([(left, top), (right, top), (right, low), (left, low)])
            faces.append(colours.of(task))
            edges.append(VERMILLION if task.n_failed else "white")
        share = "" if row.busy_share is None else f"{100 * row.busy_share:.0f} %"
        if len(rows) <= MOST_LABELS:
            axes.text(end * 1.006, number, share, va="center", fontsize=9, color=INK)
    # White between the bars must not pass for idle time where the bars are narrow.
    median = float(np.median([task.seconds for task in tasks]))
    thin = min(0.5, 0.06 * median / end * 72 * WIDE)
    axes.add_collection(
        PolyCollection(
            bars, facecolors=faces, edgecolors=edges, gid="tasks", zorder=2,
            linewidths=[1.4 if edge == VERMILLION else thin for edge in edges],
        ),
        autolim=False,
    )  # fmt: skip
    for idle in breaks:
        x = place(idle.started + idle.seconds) - seam / 2
        axes.axvline(x, color=INK, ls=(0, (3, 3)), lw=1, zorder=3)
        stopped = f"stopped for {duration(idle.seconds)}"
        axes.text(x, -0.55, stopped, ha="center", va="bottom", fontsize=8.5)
    axes.xaxis.set_major_locator(MultipleLocator(_round_step(end / second) * second))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / second:g}"))
    axes.set(xlim=(0, end), ylim=(len(rows) - 0.5, -0.5))
    step = -(-len(rows) // MOST_LABELS)
    axes.set_yticks(
        range(0, len(rows), step), [worker_name(row.worker) for row in rows[::step]], fontsize=9
    )
    axes.tick_params(axis="y", length=0)
    axes.spines[["left"]].set_visible(False)
    colours.draw_key(figure)
    if any(task.n_failed for task in tasks):
        key = Patch(facecolor="none", edgecolor=VERMILLION, lw=1.4, label="task with a failed cell")
        axes.legend(handles=[key], loc="lower right", bbox_to_anchor=(1, 1.0))
    return figure


def _time_unit(seconds: float) -> tuple[float, str]:
    if seconds < 600:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds < 7200 else (3600.0, "hours")


def _round_step(length: float) -> float:
    """Return a step of 1, 2 or 5 times a power of ten that cuts the length into 5 to 12 parts."""
    power = 10.0 ** np.floor(np.log10(length / 5))
    return float(power * max(digit for digit in (1, 2, 5) if digit * power <= length / 5))


class _Colours:
    """A task's colour tells what its rows share, such as the gamma that decides its time."""

    def __init__(self, tasks: Sequence[FinishedTask], name: str) -> None:
        self.name = name
        known = np.array([value for task in tasks if (value := self._log10(task)) is not None])
        self.values = np.unique(known)
        self.norm = Normalize(*((known.min(), known.max()) if known.size else (0, 1)))
        self.map = matplotlib.colormaps["cividis"]

    def _log10(self, task: FinishedTask) -> float | None:
        found = {row.get(self.name) for row in task.rows}
        value = found.pop() if len(found) == 1 else None
        return math.log10(value) if isinstance(value, int | float) and value > 0 else None

    def of(self, task: FinishedTask) -> tuple[float, ...] | str:
        value = self._log10(task)
        return SKY if value is None else self.map(self.norm(value))

    def draw_key(self, figure: Figure) -> None:
        if self.values.size > 1:
            bar = figure.colorbar(
                matplotlib.cm.ScalarMappable(self.norm, self.map),
                ax=figure.axes[0], pad=0.06, fraction=0.03, aspect=14, label=f"log₁₀ {self.name}",
            )  # fmt: skip
            bar.outline.set(edgecolor=GREY)
            log10_labels(bar.ax.yaxis, self.values, most=5)


def _levels(tasks: Sequence[FinishedTask]) -> list[tuple[FinishedTask, int, int]]:
    """Return each task, its level in the lane, and the number of levels.

    A worker with several threads runs tasks side by side; they share its lane.
    """
    ends: list[float] = []
    placed: list[tuple[FinishedTask, int]] = []
    for task in sorted(tasks, key=lambda task: task.started):
        # Clocks of two processes differ a little: a hair's overlap is none.
        slack = 0.02 * task.seconds
        level = next((i for i, end in enumerate(ends) if end <= task.started + slack), len(ends))
        ends[level : level + 1] = [task.ended]
        placed.append((task, level))
    return [(task, level, len(ends)) for task, level in placed]
