"""The figure of a long run: memory and journal against units."""

from __future__ import annotations

from pathlib import Path

from benchmarks.soaked.watch import LAUNCHER, Watched
from pipelines.report.style import BLUE, INK, VERMILLION


def draw(seen: Watched, path: Path) -> None:
    """Memory of every process, and the size of the journal, against the units that are done."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for name in sorted(seen.memory):
        megabytes = [None if one is None else one / 1e6 for one in seen.memory[name]]
        points = [
            (n, mb)
            for n, mb in zip(seen.units, megabytes, strict=True)
            if mb is not None and 0 < n < max(seen.units)  # while units are done
        ]
        of_launcher = name == LAUNCHER
        left.plot(
            *zip(*points, strict=True), color=VERMILLION if of_launcher else BLUE, linewidth=1.2,
            alpha=1 if of_launcher else 0.7, label=name,
        )  # fmt: skip
    left.set(xlabel="units done", ylabel="memory of a process, MB")
    left.set_ylim(0)
    left.legend(frameon=False, fontsize=8)
    right.plot(seen.units, [one / 1e6 for one in seen.journal_bytes], color=INK, linewidth=1.2)
    right.set(xlabel="units done", ylabel="journal, MB")
    right.set_ylim(0)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
