"""The figure of formations: time and efficiency against workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.report.style import BLUE, VERMILLION

COLOURS = {"svm_grid": BLUE, "nn_bagging": VERMILLION}
MARKS = {"local": "o", "slurm": "s"}


def draw(record: dict[str, Any], path: Path) -> None:
    """Measured points solid, replayed ones dashed."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axes, key in zip(panels, ("seconds", "efficiency"), strict=True):
        for command, colour in COLOURS.items():
            dashed = [one for one in record["replayed"] if one["command"] == command]
            axes.plot(
                [one["n_workers"] for one in dashed], [one[key] for one in dashed], "--",
                color=colour, linewidth=1, label=f"{command}, replayed",
            )  # fmt: skip
            for place, mark in MARKS.items():
                lines = [
                    one for one in record["lines"]
                    if (one["command"], one["place"]) == (command, place)
                ]  # fmt: skip
                if lines:
                    axes.plot(
                        [one["n_workers"] for one in lines], [one[key] for one in lines], mark,
                        color=colour, markersize=5, markerfacecolor="none" if mark == "s" else None,
                        label=f"{command}, {place}",
                    )  # fmt: skip
        axes.set_xscale("log", base=2)
        ticks = [1, 2, 4, 8, 16, 32]
        axes.set_xticks(ticks, map(str, ticks))
        axes.set_xlabel("workers")
        axes.set_ylabel(key)
        axes.grid(alpha=0.3)
    names: dict[int, list[str]] = {}
    for one in record["lines"]:
        named = names.setdefault(one["n_workers"], [])
        named += [one["formation"]] if one["formation"] not in named else []
    for n_workers, named in names.items():
        panels[1].annotate(
            "\n".join(named), (n_workers, 1.02), xycoords=("data", "axes fraction"), fontsize=7,
            ha="center",
        )  # fmt: skip
    panels[0].set_yscale("log", base=2)
    panels[0].set_yticks(ticks := [2, 4, 8, 16, 32, 64], map(str, ticks))
    panels[1].set_ylim(0, 1.05)
    panels[1].legend(frameon=False, fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
