"""The page of a run of ``pagerank``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.report.base import Report
from pipelines.report.charts import Panel, Series, dashed, grid_lines, series_chart
from pipelines.report.parts import Card, Chart, Columns, Listing, Pairs, Section, Table, Text
from pipelines.report.style import BLUE, SKY, one_axes, powers_of_ten
from pipelines.report.wording import count, significant
from pipelines.run_folder import names
from pipelines.run_folder.columns import Iteration
from pipelines.run_folder.reading import read_run
from pipelines.run_folder.records.pagerank import GraphRecord
from pipelines.run_folder.tables import read_table


@dataclass(frozen=True)
class GraphReport(Report[GraphRecord]):
    """A run of PageRank; ``iterations`` is None until it is finished."""

    title = "PageRank"
    iterations: pd.DataFrame | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the folder of a run of ``pagerank``; raises what ``read_run`` raises."""
        run = read_run(folder)
        return cls(**vars(run), iterations=read_table(run.path / names.ITERATIONS, Iteration))

    def size(self) -> str:
        """Say how large the graph is."""
        record = self.record
        sizes = "PageRank"
        if record.n_nodes and record.n_edges:
            sizes = f"{record.n_nodes:,} nodes, {record.n_edges:,} edges"
        alpha = record.options.alpha
        return sizes + (f", alpha {alpha:g}" if alpha is not None else "")

    def conclusion(self) -> str:
        """Name the highest node, and say how exact its rank is."""
        record = self.record
        if not record.top:
            return "There are no ranks yet."
        first = record.top[0]
        text = f"Node {first.node} ranks highest, with {significant(first.rank)}"
        if record.n_iterations is not None:
            ended = "converged" if record.converged else "not converged"
            text += f"; {ended} after {count(record.n_iterations, 'iteration')}"
        if record.bound is not None:
            text += f"; the ranks are off by at most {record.bound:.1e} in total"
        return f"{text}."

    def cards(self) -> list[Card]:
        """Return what tells how exact the ranks are."""
        record, cards = self.record, []
        if record.n_iterations is not None:
            note = "converged" if record.converged else "ended before the change reached tol"
            cards.append(Card("iterations", f"{record.n_iterations:,}", note))
        for value, label, note in (
            (record.bound, "error at most", "L1 norm, from the change and rounding"),
            (record.residual, "residual", "L1 norm, measured in float64"),
            (record.change, "change", "L1 norm, of the last iteration"),
        ):
            if value is not None:
                cards.append(Card(label, f"{value:.1e}", note))
        return cards

    def sections(self) -> list[Section]:
        """Return the highest ranks, how they came about, and what they cost."""
        record = self.record
        top = [
            ((i, str(i)), one.node, (one.rank, f"{one.rank:.6g}"))
            for i, one in enumerate(record.top or (), 1)
        ]
        costs = [
            (name, f"{value:.3g} {unit}")
            for name, value, unit in (
                ("before the first iteration", record.setup_seconds, "s"),
                ("iterations", record.iterating_seconds, "s"),
                ("held between iterations", (record.memory_bytes or 0) / 2**20, "MiB"),
            )
            if value
        ]
        note = Text(f"The first {len(top)}; all of them are in {names.RANKS}.")
        table = Listing("Highest ranks", Table.of(("place", "node", "rank"), top))
        figures = Columns([self._convergence(), self._distribution()])
        return [
            Section("top", "Highest ranks", [note, table]),
            Section("figures", "Figures", [figures]),
            Section("costs", "Time and memory", [Pairs(costs)]),
        ]

    def _convergence(self) -> Chart | None:
        if self.iterations is None or self.iterations.empty:
            return None
        shown = self.iterations[self.iterations["change"] > 0]
        marker = "." if len(shown) < 60 else None
        series = [Series(shown["iteration"], shown["change"], "change",
                         look={"color": BLUE, "marker": marker})]  # fmt: skip
        if len(shown) and (tol := self.record.options.tol):
            ends = [shown["iteration"].min(), shown["iteration"].max()]
            series.append(Series(ends, [tol, tol], f"tol {tol:g}", look=dashed()))
        panel = Panel(series, "iteration", "L1 norm of the change", scales=("linear", "log"))
        alt = "The change of every iteration, which falls to tol."
        caption = (
            "L1 norm of the change in each iteration; it shrinks at least by the factor alpha."
        )
        return Chart("convergence", partial(series_chart, [panel], "Convergence"), alt, caption)

    def _distribution(self) -> Chart | None:
        found = self.record.distribution
        if not found.counts:
            return None
        low, high = significant(found.bounds[0]), significant(found.bounds[-1])
        alt = f"Histogram of the ranks, from {low} to {high}."
        draw = partial(distribution, np.array(found.bounds), np.array(found.counts, float))
        caption = "How many nodes have which rank, on logarithmic axes."
        return Chart("distribution", draw, alt, caption)


def distribution(bounds: np.ndarray, counts: np.ndarray) -> Figure:
    """Draw the distribution of ranks: number of nodes by rank, both axes logarithmic.

    Parameters
    ----------
    bounds : float64 of shape (n + 1,)
    counts : of shape (n,)
    """
    figure, axes = one_axes(3.8, xlabel="rank", ylabel="nodes", xscale="log", yscale="log")
    axes.stairs(counts, bounds, fill=True, facecolor=SKY, edgecolor=BLUE, baseline=0.5)
    axes.set_ylim(0.5, 2 * max(1.0, float(counts.max(initial=1))))
    powers_of_ten(axes.xaxis)
    powers_of_ten(axes.yaxis)
    grid_lines(axes)
    return figure
