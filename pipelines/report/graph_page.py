"""The page of a run of ``pagerank``: its figures, its answers, its words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from pipelines.report.figures import Made, of_any_run
from pipelines.report.graph_figures import convergence, distribution, times
from pipelines.report.graph_folder import PLACE, GraphRun, read_graph_run
from pipelines.report.kind import Answer, Kind
from pipelines.report.table import Cell, number_cell
from pipelines.report.wording import count, significant

VARIANT_TABLE = (
    ("variant", "text"), ("iterations", "number"), ("ms an iteration", "number"),
    ("ms before", "number"), ("MiB held", "number"), ("residual", "number"),
    ("bound on the error", "number"), ("differs from the first by", "number"),
)  # fmt: skip


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


def _top_rows(run: GraphRun) -> list[list[Cell]]:
    return [
        [
            number_cell(i + 1.0, str(i + 1)),
            Cell(one.node, one.node),
            number_cell(one.rank, f"{one.rank:.6g}"),
        ]
        for i, one in enumerate(run.record.top or ())
    ]


def _variant_rows(run: GraphRun) -> list[list[Cell]]:
    rows = []
    for row in _done(run).to_dict("records"):
        numbers = [
            (float(row["iterations"]), f"{row['iterations']:,.0f}"),
            (row["iteration_ms"], significant(row["iteration_ms"])),
            (row["preparing_ms"], significant(row["preparing_ms"])),
            (row["memory_bytes"] / 2**20, significant(row["memory_bytes"] / 2**20)),
            *(
                (value, f"{value:.1e}")
                for value in (
                    float(row.get(name, math.nan))
                    for name in ("residual", "bound", "differs_from_first")
                )
            ),
        ]
        rows.append(
            [
                Cell(str(row["variant"]), str(row["variant"])),
                *(number_cell(value, text.replace("nan", "–")) for value, text in numbers),
            ]
        )
    return rows


def _content(run: GraphRun) -> dict[str, Any]:
    return {
        "top": _top_rows(run),
        "variants": _variant_rows(run),
        "variant_columns": VARIANT_TABLE,
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
    sizes=(),
    answers=_answers,
    content=_content,
    place=PLACE,
    cell_name=lambda cell: str(cell["variant"]),
)
