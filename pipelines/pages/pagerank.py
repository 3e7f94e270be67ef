"""Page of a run of ``pagerank``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.graph.record import ITERATIONS, RANKS, GraphRecord, RankHistogram
from pipelines.report.base import Report
from pipelines.report.charts import Panel, Series, dashed, grid_lines, series_chart
from pipelines.report.parts import Card, Chart, Listing, Pairs, Section, SideBySide, Text
from pipelines.report.style import BLUE, SKY, one_axes, powers_of_ten
from pipelines.report.values import add_values
from pipelines.report.wording import count, significant
from pipelines.run_folder.reading import read_table


@dataclass(frozen=True)
class GraphReport(Report):
    """A run of ``pagerank``."""

    title = "PageRank"

    record: GraphRecord

    def size(self) -> str:
        """Number of nodes and edges of the graph, and alpha."""
        record = self.record
        sizes = "PageRank"
        if record.n_nodes and record.n_edges:
            sizes = f"{record.n_nodes:,} nodes, {record.n_edges:,} edges"
        alpha = record.options.alpha
        return sizes + (f", alpha {alpha:g}" if alpha is not None else "")

    def conclusion(self) -> str:
        """The node with the highest score."""
        if not self.record.top:
            return "There are no scores yet."
        first = self.record.top[0]
        return f"Node {first.node} has the highest score, {significant(first.rank)}."

    def cards(self) -> list[Card]:
        """Cards on the number of iterations and the error of the scores."""
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
        """Sections on the highest scores, convergence, distribution, time and memory."""
        record = self.record
        top = pd.DataFrame([node.model_dump() for node in record.top or ()])
        top = top.rename(columns={"rank": "score"})  # its rank is the position
        top.insert(0, "rank", range(1, len(top) + 1))
        costs = [
            (name, f"{value:.3g} {unit}")
            for name, value, unit in (
                ("before the first iteration", record.setup_seconds, "s"),
                ("iterations", record.iterating_seconds, "s"),
                ("memory between iterations", (record.memory_bytes or 0) / 2**20, "MiB"),
            )
            if value
        ]
        note = Text(f"The first {len(top)}; all of them are in {RANKS}.")
        table = Listing("Highest scores", top, {"score": "{:.6g}".format})
        charts: list[Chart | None] = [self._convergence()]
        if record.distribution.counts:
            draw = partial(distribution_figure, record.distribution)
            caption = "Number of nodes by score; both axes are logarithmic."
            charts.append(Chart("distribution", draw, caption))
        return [
            Section("top", "Highest scores", [note, table]),
            Section("figures", "Convergence and distribution", [SideBySide(charts)]),
            Section("costs", "Iterations and memory", [Pairs(costs)]),
        ]

    def _convergence(self) -> Chart | None:
        iterations = read_table(self.path / ITERATIONS)
        if iterations is None or iterations.empty:
            return None
        shown = iterations[iterations["change"] > 0]
        look = {"color": BLUE, "marker": "." if len(shown) < 60 else None}
        series = [Series(shown["iteration"], shown["change"], "change", look=look)]
        if len(shown) and (tol := self.record.options.tol):
            ends = [shown["iteration"].min(), shown["iteration"].max()]
            series.append(Series(ends, [tol, tol], f"tol {tol:g}", look=dashed()))
        panel = Panel(series, "iteration", "L1 norm of the change", scales=("linear", "log"))
        caption = (
            "L1 norm of the change in each iteration; it shrinks at least by a factor of alpha."
        )
        return Chart("convergence", partial(series_chart, [panel], "Convergence"), caption)


def distribution_figure(ranks: RankHistogram) -> Figure:
    """Draw the number of nodes by score; both axes are logarithmic."""
    figure, axes = one_axes(3.8, xlabel="score", ylabel="nodes", xscale="log", yscale="log")
    axes.stairs(ranks.counts, ranks.bounds, fill=True, facecolor=SKY, edgecolor=BLUE, baseline=0.5)
    low, high = np.array(ranks.bounds[:-1]), np.array(ranks.bounds[1:])
    counts = np.array(ranks.counts)
    texts = [
        f"score {significant(start)} to {significant(end)}: {count(int(n), 'node')}"
        for start, end, n in zip(low, high, counts, strict=True)
    ]
    has_nodes = counts > 0
    middle, top = (low + high) / 2, counts.clip(min=0.5)
    positions = (middle[has_nodes], (top[has_nodes] + 0.5) / 2)
    shown_texts = [text for text, is_shown in zip(texts, has_nodes, strict=True) if is_shown]
    half = ((high - low)[has_nodes] / 2, (top[has_nodes] - 0.5) / 2)
    add_values(axes, *positions, shown_texts, half)
    axes.set_ylim(0.5, 2 * max(1, *ranks.counts))
    powers_of_ten(axes.xaxis)
    powers_of_ten(axes.yaxis)
    grid_lines(axes)
    return figure
