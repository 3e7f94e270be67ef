"""The page of a run of ``pagerank``: its figures, its answers, its words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.report.figures import Made, of_any_run
from pipelines.report.graph_figures import convergence, distribution, times
from pipelines.report.kind import Answer, Kind
from pipelines.report.table import Table, Value
from pipelines.report.wording import count, significant
from pipelines.run_folder import names
from pipelines.run_folder.columns import Iteration
from pipelines.run_folder.reading import Run, Unit, read_run
from pipelines.run_folder.records.pagerank import GraphRecord
from pipelines.run_folder.tables import read_table

PLACE = ("variant",)


@dataclass(frozen=True)
class GraphRun(Run[GraphRecord]):
    """A run of PageRank: ``cells`` has a row for each variant, ``iterations`` one for each step."""

    iterations: pd.DataFrame


def read_graph_run(folder: Path) -> GraphRun:
    """Read the folder of a run of ``pagerank``; raises what ``read_run`` raises."""
    run = read_run(folder, place=PLACE, cells_file=names.VARIANTS)
    iterations = read_table(run.path / names.ITERATIONS, Iteration)
    return GraphRun(
        **vars(run), iterations=_iterations_of(run.units) if iterations is None else iterations
    )


def _iterations_of(units: tuple[Unit, ...]) -> pd.DataFrame:
    """The iterations of a run that ended before it wrote their table."""
    found = [
        (row["variant"], i + 1, change, seconds)
        for unit in units
        for row in unit.rows
        for i, (change, seconds) in enumerate(
            zip(row.get("changes", ()), row.get("seconds", ()), strict=False)
        )
    ]
    return pd.DataFrame(found, columns=list(Iteration.columns()))


def _convergence(run: GraphRun) -> Made:
    if run.iterations.empty:
        return None
    n_variants = run.iterations["variant"].nunique()
    alt = (
        f"The L1 norm of the change against the iteration, {count(n_variants, 'line')}; the last "
        f"is {significant(float(run.iterations['change'].iloc[-1]))}."
    )
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


def _times(run: GraphRun) -> Made:
    table = _done(run)
    if len(table) < 2:
        return None
    fastest = table.sort_values("iteration_ms").iloc[0]
    alt = (
        f"Milliseconds of an iteration of {len(table)} variants; the fastest is "
        f"{fastest['variant']} with {significant(float(fastest['iteration_ms']))}."
    )
    return times(table), alt


def _done(run: GraphRun) -> pd.DataFrame:
    """Variants that gave ranks, with milliseconds."""
    if "iterating_seconds" not in run.cells:
        return run.cells.iloc[:0]
    done = run.cells[run.cells["iterations"].notna()]
    return done.assign(
        iteration_ms=1000 * done["iterating_seconds"] / done["iterations"],
        preparing_ms=1000 * done["preparing_seconds"],
    )


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


def _variants(run: GraphRun) -> Table:
    rows: list[list[Value]] = []
    for row in _done(run).to_dict("records"):
        measures = [
            float(row.get(name, math.nan)) for name in ("residual", "bound", "differs_from_first")
        ]
        rows.append(
            [
                str(row["variant"]),
                (float(row["iterations"]), f"{row['iterations']:,.0f}"),
                row["iteration_ms"],
                row["preparing_ms"],
                row["memory_bytes"] / 2**20,
                *((value, f"{value:.1e}") for value in measures),
            ]
        )
    return Table.of(
        ("variant", "iterations", "ms an iteration", "ms before", "MiB held", "residual",
         "bound on the error", "differs from the first by"), rows,
    )  # fmt: skip


def _content(run: GraphRun) -> dict[str, Any]:
    return {
        "top": _top(run),
        "variants": _variants(run),
        "left_out": sorted(run.record.left_out.items()),
    }


GRAPH = Kind(
    title="PageRank",
    template="pagerank.html",
    read=read_graph_run,
    figures={
        "convergence": _convergence,
        "distribution": _distribution,
        "times": _times,
        "timeline": of_any_run()["timeline"],
    },
    size=_size,
    answers=_answers,
    content=_content,
    place=PLACE,
    cell_name=lambda cell: str(cell["variant"]),
)
