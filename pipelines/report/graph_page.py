"""The page of a run of ``pagerank``: its figures, its answers, its words."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from pipelines.report.candidate_table import Cell, number_cell
from pipelines.report.figures import OF_ANY_RUN, Made
from pipelines.report.graph_figures import convergence, distribution, times
from pipelines.report.graph_folder import GraphRun, read_graph_run
from pipelines.report.kind import Answer, Kind
from pipelines.report.wording import count, significant
from pipelines.run_folder.reading import finite

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
    return convergence(run.iterations, finite(run.part("options").get("tol"))), alt


def _distribution(run: GraphRun) -> Made:
    bounds, counts = run.distribution
    if not len(counts):
        return None
    alt = (
        f"Histogram of the ranks on logarithmic axes, from {significant(float(bounds[0]))} to "
        f"{significant(float(bounds[-1]))}."
    )
    return distribution(bounds, counts), alt


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
    n_nodes, n_edges = run.run.get("n_nodes"), run.run.get("n_edges")
    sizes = f"{n_nodes:,} nodes, {n_edges:,} edges" if n_nodes and n_edges else "PageRank"
    alpha = finite(run.part("options").get("alpha"))
    return sizes + (f", alpha {alpha:g}" if alpha is not None else "")


def _answers(run: GraphRun) -> list[Answer]:
    answers = []
    if run.top:
        best = run.top[0]
        answers.append(Answer("highest", str(best["node"]), f"rank {significant(best['rank'])}"))
    if (n_iterations := run.number("n_iterations")) is not None:
        note = "" if run.run.get("converged") else "ended before the change reached tol"
        answers.append(Answer("iterations", f"{n_iterations:.0f}", note))
    for name, label, note in (
        ("change", "change", "L1 norm, of the last iteration"),
        ("residual", "residual", "L1 norm, measured in float64"),
        ("bound", "error at most", "L1 norm, from the change and rounding"),
    ):
        if (value := run.number(name)) is not None:
            answers.append(Answer(label, f"{value:.1e}", note))
    return answers


def _top_rows(run: GraphRun) -> list[list[Cell]]:
    return [
        [
            number_cell(i + 1.0, str(i + 1)),
            Cell(str(one["node"]), str(one["node"])),
            number_cell(float(one["rank"]), f"{one['rank']:.6g}"),
        ]
        for i, one in enumerate(run.top)
    ]


def _variant_rows(run: GraphRun) -> list[list[Cell]]:
    rows = []
    for row in _done(run).to_dict("records"):
        numbers = [
            (float(row["iterations"]), f"{row['iterations']:.0f}"),
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
    left_out = run.run.get("left_out")
    return {
        "top": _top_rows(run),
        "variants": _variant_rows(run),
        "variant_columns": VARIANT_TABLE,
        "left_out": sorted(left_out.items()) if isinstance(left_out, dict) else [],
    }


GRAPH = Kind(
    title="PageRank",
    template="pagerank.html",
    read=read_graph_run,
    figures={
        "convergence": _convergence,
        "distribution": _distribution,
        "times": _times,
        "timeline": OF_ANY_RUN["timeline"],
    },
    size=_size,
    sizes=(),
    answers=_answers,
    place=("variant",),
    cell_name=str,
    content=_content,
)
