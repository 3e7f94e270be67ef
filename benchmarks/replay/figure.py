"""The figure of a replay: time over the bound against workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.report.style import BLUE, GREY, INK, VERMILLION

COLOURS = {
    "contiguous static split": VERMILLION,
    "barrier after each fold": "#CC79A7",
    "random static split": "#E69F00",
    "queue, in the grid's order": "#56B4E9",
    "queue, longest first": GREY,
    "ours": BLUE,
}
PANELS = {
    ("svm_grid", "measured"): "a grid as it was measured: {svm_grid} tasks",
    ("nn_bagging", "measured"): "an ensemble as it was measured: {nn_bagging} tasks",
    ("svm_grid", "grown"): "grids that grow: {tasks} tasks a worker",
}


def draw(record: dict[str, Any], path: Path) -> None:
    """A panel for each job; dashed where there are more tasks than were measured."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels = {key: said for key, said in PANELS.items() if key[0] in record["measured_tasks"]}
    size = (4.4 * len(panels), 4.4)
    figure, all_axes = plt.subplots(1, len(panels), figsize=size, layout="constrained")
    many = {**record["measured_tasks"], "tasks": record["tasks_per_worker"]}
    for axes, ((command, job), title) in zip(all_axes, panels.items(), strict=True):
        for name, colour in COLOURS.items():
            line = [
                one for one in record["lines"]
                if (one["command"], one["job"], one["schedule"]) == (command, job, name)
            ]  # fmt: skip
            n_measured = record["measured_tasks"][command]
            _band(axes, line, name, colour, n_measured)
        axes.set_xscale("log")
        axes.set(xlabel="workers", title=title.format(**many))
        axes.set_ylim(0.98, 3)
        axes.grid(alpha=0.3)
        ticks = [1, 4, 16, 64] if job == "measured" else [1, 10, 100, 1000, 10_000]
        axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
        axes.set_xticks([], minor=True)
    all_axes[0].set_ylabel("time / bound")
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3,
                  frameon=False)  # fmt: skip
    figure.suptitle(
        f"Bands: 90 % of {record['draws']} draws. Dashed: more tasks than were measured.",
        fontsize=10, color=INK, x=0.01, ha="left",
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _band(axes: Any, line: list[dict[str, Any]], name: str, colour: str, n_measured: int) -> None:
    workers = [one["n_workers"] for one in line]
    median = [one["median"] for one in line]
    axes.fill_between(
        workers, [one["low"] for one in line], [one["high"] for one in line], color=colour,
        alpha=0.15, linewidth=0,
    )  # fmt: skip
    known = sum(one["n_tasks"] <= n_measured for one in line)
    wide = 2.4 if name == "ours" else 1.4
    axes.plot(workers[:known], median[:known], color=colour, linewidth=wide, label=name)
    if known < len(line):
        since = max(0, known - 1)
        axes.plot(workers[since:], median[since:], color=colour, linewidth=wide, linestyle="--")
