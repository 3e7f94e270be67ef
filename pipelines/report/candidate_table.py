"""The table of the candidates on the page of a run of ``svm_grid``."""

from __future__ import annotations

import math

from pipelines.report.svm_folder import ACCURACY, SvmRun
from pipelines.report.table import MOST_ROWS, Cell, Columns, number_cell
from pipelines.report.wording import percent, significant
from pipelines.run_folder.columns import SVM_CANDIDATE
from pipelines.run_folder.judgement import Rivals, rivals

AS_GOOD = "as good"  # heading of what a candidate is beside the best


def candidate_columns(run: SvmRun) -> Columns:
    """Names and kinds of the columns; the score has one where it is not accuracy."""
    names = ["rank", "C", "gamma", "cv error", "standard deviation", "folds with a score",
             "support vectors", "fit time (s)", AS_GOOD]  # fmt: skip
    if _has_score(run):
        names.insert(3, f"cv {run.scoring}")
    return [(name, "text" if name == AS_GOOD else "number") for name in names]


def candidate_rows(run: SvmRun) -> list[list[Cell]]:
    """A row for each candidate, best first, with the cells of ``candidate_columns``."""
    if run.candidates.empty:
        return []
    table, with_score = run.candidates, _has_score(run)
    if not run.cells.empty:
        work = (
            run.cells.astype({"n_support": "float64"})
            .groupby(["C", "gamma"], as_index=False)
            .agg(n_support=("n_support", "mean"), fit_seconds=("fit_seconds", "sum"))
        )
        table = table.merge(work, on=["C", "gamma"], how="left")
    else:
        table = table.assign(n_support=math.nan, fit_seconds=math.nan)
    marks = marks_of(rivals(run.candidates, run.n_folds or 0, SVM_CANDIDATE), len(table))
    return [
        [
            number_cell(row["rank"], f"{row['rank']:,.0f}"),
            number_cell(row["C"], significant(row["C"])),
            number_cell(row["gamma"], significant(row["gamma"])),
            *([number_cell(row["score_mean"], f"{row['score_mean']:.4f}")] if with_score else []),
            number_cell(row["error_mean"], percent(row["error_mean"]), missing="failed"),
            number_cell(row["error_std"], percent(row["error_std"])),
            number_cell(row["n_ok"], f"{row['n_ok']:.0f}"),
            number_cell(row["n_support"], f"{row['n_support']:,.0f}"),
            number_cell(row["fit_seconds"], f"{row['fit_seconds']:,.2f}"),
            Cell(mark, mark),
        ]
        for row, mark in zip(table.head(MOST_ROWS).to_dict("records"), marks, strict=False)
    ]


def marks_of(found: Rivals | None, n_candidates: int, simplest: str = "simplest") -> list[str]:
    """Of each candidate, best first, what it is beside the best."""
    if found is None:
        return [""] * n_candidates
    marks = [
        "tied" if tied else "within 1 SE" if within else ""
        for tied, within in zip(found.tied, found.within, strict=True)
    ]
    marks[0] = "best"
    if found.has_simpler:
        place = int(found.simplest["rank"]) - 1
        marks[place] = f"{marks[place]}, {simplest}"
    return marks


def _has_score(run: SvmRun) -> bool:
    return run.scoring != ACCURACY and "score_mean" in run.candidates
