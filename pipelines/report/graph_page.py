"""The page of a run of ``pagerank``: its figures, its answers, its words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.report.figures import Made, of_any_run
from pipelines.report.kind import Answer, Kind
from pipelines.report.style import INK, VERMILLION, one_axes, powers_of_ten
from pipelines.report.table import Table
from pipelines.report.wording import significant
from pipelines.run_folder import names
from pipelines.run_folder.columns import Iteration
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.records.pagerank import GraphRecord
from pipelines.run_folder.tables import read_table


@dataclass(frozen=True)
class GraphRun(Run[GraphRecord]):
    """A run of PageRank; ``iterations`` is None until it is finished."""

    iterations: pd.DataFrame | None


def read_graph_run(folder: Path) -> GraphRun:
    """Read the folder of a run of ``pagerank``; raises what ``read_run`` raises."""
    run = read_run(folder)
    return GraphRun(**vars(run), iterations=read_table(run.path / names.ITERATIONS, Iteration))


def convergence(iterations: pd.DataFrame, tol: float | None) -> Figure:
    """Draw the L1 norm of the change against the iteration.

    Parameters
    ----------
    iterations : DataFrame
        iteration, change.
    tol : float or None
        The change that ends the iteration.
    """
    figure, axes = one_axes(3.6, xlabel="iteration", ylabel="L1 norm of the change", yscale="log")
    shown = iterations[iterations["change"] > 0]
    marker = "." if len(shown) < 60 else None
    axes.plot(shown["iteration"], shown["change"], marker=marker, color=VERMILLION)
    if tol:
        axes.axhline(tol, color=INK, linewidth=0.8, linestyle="--")
        axes.annotate(f"tol {tol:g}", (1, tol), xytext=(0, 4), textcoords="offset points")
    powers_of_ten(axes.yaxis)
    axes.grid(alpha=0.3)
    return figure


def distribution(bounds: np.ndarray, counts: np.ndarray) -> Figure:
    """Draw the distribution of ranks: number of nodes by rank, both axes logarithmic.

    Parameters
    ----------
    bounds : float64 of shape (n + 1,)
    counts : of shape (n,)
    """
    figure, axes = one_axes(3.6, xlabel="rank", ylabel="nodes", xscale="log", yscale="log")
    axes.stairs(counts, bounds, fill=True, color=VERMILLION, alpha=0.75, baseline=0.5)
    axes.set_ylim(0.5, 2 * max(1.0, float(counts.max(initial=1))))
    powers_of_ten(axes.xaxis)
    powers_of_ten(axes.yaxis)
    axes.grid(alpha=0.3)
    return figure


def _convergence(run: GraphRun) -> Made:
    if run.iterations is None or run.iterations.empty:
        return None
    last = significant(float(run.iterations["change"].iloc[-1]))
    alt = f"The L1 norm of the change against the iteration; the last is {last}."
    return convergence(run.iterations, run.record.options.tol), alt


def _distribution(run: GraphRun) -> Made:
    found = run.record.distribution
    if not found.counts:
        return None
    alt = (
        f"Histogram of the ranks on logarithmic axes, from {significant(found.bounds[0])} to "
        f"{significant(found.bounds[-1])}."
    )
    return distribution(np.array(found.bounds), np.array(found.counts, float)), alt


def _size(run: GraphRun) -> str:
    record = run.record
    sizes = "PageRank"
    if record.n_nodes and record.n_edges:
        sizes = f"{record.n_nodes:,} nodes, {record.n_edges:,} edges"
    alpha = record.options.alpha
    return sizes + (f", alpha {alpha:g}" if alpha is not None else "")


def _answers(run: GraphRun) -> list[Answer]:
    record, answers = run.record, []
    if record.top:
        best = record.top[0]
        answers.append(Answer("highest", best.node, f"rank {significant(best.rank)}"))
    if record.n_iterations is not None:
        note = "" if record.converged else "ended before the change reached tol"
        answers.append(Answer("iterations", f"{record.n_iterations:,}", note))
    for value, label, note in (
        (record.change, "change", "L1 norm, of the last iteration"),
        (record.residual, "residual", "L1 norm, measured in float64"),
        (record.bound, "error at most", "L1 norm, from the change and rounding"),
    ):
        if value is not None:
            answers.append(Answer(label, f"{value:.1e}", note))
    return answers


def _top(run: GraphRun) -> Table:
    found = enumerate(run.record.top or (), 1)
    rows = [((i, str(i)), one.node, (one.rank, f"{one.rank:.6g}")) for i, one in found]
    return Table.of(("place", "node", "rank"), rows)


def _content(run: GraphRun) -> dict[str, Any]:
    record = run.record
    costs = [
        (name, f"{value:.3g} {task}")
        for name, value, task in (
            ("before the first iteration", record.setup_seconds, "s"),
            ("iterations", record.iterating_seconds, "s"),
            ("held between iterations", (record.memory_bytes or 0) / 2**20, "MiB"),
        )
        if value
    ]
    return {"top": _top(run), "costs": costs}


GRAPH = Kind(
    title="PageRank",
    template="pagerank.html",
    read=read_graph_run,
    figures={
        "convergence": _convergence,
        "distribution": _distribution,
        "timeline": of_any_run()["timeline"],
    },
    size=_size,
    answers=_answers,
    content=_content,
)
