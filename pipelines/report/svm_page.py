"""The page of a run of ``svm_grid``: its figures, its answers, its words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.report.figures import Made, of_any_run
from pipelines.report.kind import Answer, Kind
from pipelines.report.svm_figures import MOST_PANELS, fold_errors, fold_errors_best, heat_map
from pipelines.report.table import AS_GOOD, MOST_ROWS, Table, number_cell
from pipelines.report.wording import as_good, count, log10, percent, significant, wrong_of
from pipelines.run_folder import ranking
from pipelines.run_folder.columns import SVM_CANDIDATE, SVM_CELL, SvmCandidate
from pipelines.run_folder.judgement import edges, rivals, wider
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.records.svm_grid import BestOfSvm, SvmRecord

ACCURACY = "accuracy"  # the scoring of a run that names none: 1 - error
MOST_POINTS = 100_000  # of a grid's axis


class SvmRun(Run[SvmRecord]):
    """A run over C and gamma: ``candidates`` has one row per (C, gamma), best first."""

    @property
    def best(self) -> BestOfSvm | None:
        """The best candidate: as the run recorded it, else rank 1 of the candidates."""
        if self.record.best is not None and self.record.best.error_mean is not None:
            return self.record.best
        scored = self.candidates[self.candidates["error_mean"].notna()]
        if scored.empty:
            return None
        first = scored.iloc[0].dropna().to_dict()
        return BestOfSvm(**{name: float(first[name]) for name in BestOfSvm.model_fields
                            if name in first})  # fmt: skip

    @property
    def scoring(self) -> str:
        """What chose the best candidate."""
        return self.record.options.scoring or "accuracy"


def read_svm_run(folder: Path) -> SvmRun:
    """Read the folder of a run of ``svm_grid``; raises what ``read_run`` raises."""
    run = read_run(folder, candidate=SvmCandidate, place=SVM_CELL, candidates_of=candidates_of)
    best_first = run.candidates.sort_values(["rank", *SVM_CANDIDATE], kind="stable")
    return SvmRun(**vars(run) | {"candidates": best_first.reset_index(drop=True)})


def candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """The candidates of a run that has ranked none, best first."""
    if cells.empty:
        return pd.DataFrame(columns=list(SvmCandidate.columns()), dtype=float)
    accuracy = 1 - cells["error"]  # a run begun before there were scorings has errors alone
    score = cells["score"].fillna(accuracy) if "score" in cells else accuracy
    return ranking.candidates_of(cells.assign(score=score), SVM_CANDIDATE, n_folds)


def _heat_map(run: SvmRun) -> Made:
    candidates = run.candidates
    if candidates.empty:
        return None
    alt = f"Heat map of the mean validation error of {count(len(candidates), 'candidate')}"
    if run.best is not None:
        alt += (
            f"; the best{_by_scoring(run)} is C = {significant(run.best.C)}, "
            f"gamma = {significant(run.best.gamma)} with an error of {percent(run.best.error_mean)}"
        )
    options = run.record.options
    grids = _grid(options.log_c, options.n_c), _grid(options.log_gamma, options.n_gamma)
    return heat_map(candidates, run.best, *grids), alt + "."


def _by_scoring(run: SvmRun) -> str:
    return "" if run.scoring == ACCURACY else f" by {run.scoring}"


def _grid(ends: Sequence[float] | None, n_points: int | None) -> list[float]:
    """The whole grid of C or gamma as the options say it; empty where they do not."""
    if ends is None or len(ends) != 2 or not n_points or n_points > MOST_POINTS:
        return []
    if max(map(abs, ends)) > 300:  # beyond what a double can hold
        return []
    return [float(value) for value in np.logspace(ends[0], ends[1], n_points)]


def _fold_errors_best(run: SvmRun) -> Made:
    if run.best is None or run.cells.empty:
        return None
    alt = (
        f"Box plot of the validation errors of the folds against log10 C at the best gamma, "
        f"{significant(run.best.gamma)}; the best C{_by_scoring(run)} is "
        f"{significant(run.best.C)}, with a mean error of {percent(run.best.error_mean)}."
    )
    return fold_errors_best(run.cells, run.best), alt


def _fold_errors(run: SvmRun) -> Made:
    if run.cells.empty:
        return None
    n_gamma = run.cells["gamma"].nunique()
    alt = (
        "Box plots of the validation errors of the folds against log10 C, "
        f"{count(min(n_gamma, MOST_PANELS), 'panel')}, one for each gamma"
        + ("" if n_gamma <= MOST_PANELS else f" of {MOST_PANELS} among {n_gamma}")
        + ", on the same axes."
    )
    return fold_errors(run.cells, run.best), alt


def _size(run: SvmRun) -> str:
    n_C, n_gamma = run.record.options.n_c, run.record.options.n_gamma
    if not run.candidates.empty and None in (n_C, n_gamma):
        n_C, n_gamma = run.candidates["C"].nunique(), run.candidates["gamma"].nunique()
    return f"{n_C} C × {n_gamma} gamma" if n_C and n_gamma else "A search"


def _answers(run: SvmRun) -> list[Answer]:
    answers = []
    if (best := run.best) is not None:
        answers += [
            Answer("best C", significant(best.C), f"log₁₀ C = {log10(best.C)}"),
            Answer("best gamma", significant(best.gamma), f"log₁₀ gamma = {log10(best.gamma)}"),
            Answer(
                "cv error",
                percent(best.error_mean),
                f"± {percent(best.error_std)}, standard deviation of {run.n_folds} folds"
                if best.error_std is not None
                else "mean over the folds",
            ),
            *_score_answer(run, best),
        ]
    record = run.record
    if (test_error := record.test_error) is not None:
        n_wrong, n_test = record.n_test_errors, record.dataset.n_test
        answers.append(Answer("test error", percent(test_error), wrong_of(n_wrong, n_test)))
    if (log_loss := record.test_log_loss) is not None:
        error = record.test_calibration_error
        note = f"calibration error {percent(error)}" if error is not None else ""
        answers.append(Answer("test log loss", f"{log_loss:.4f}", note))
    return answers


def _warnings(run: SvmRun) -> list[tuple[str, str]]:
    """What the terminal warns of, too: a grid that seems to end too early."""
    record = run.record
    found = edges(run.candidates, run.n_folds or 0)
    if record.status != "finished" or not found:
        return []
    text = f"The best candidate has {' and '.join(map(str, found))} of the grid, and is better than"
    text += " its neighbour by more than one standard error: a better one may lie beyond. To widen:"
    return [(text, wider(record.argv, run.facts["options"], found) if record.argv else "")]


def _rivals(run: SvmRun) -> str:
    """How many candidates are as good as the best, and the simplest of them."""
    found = rivals(run.candidates, run.n_folds or 0, SVM_CANDIDATE)
    if found is None:
        return ""
    C, gamma = significant(found.simplest["C"]), significant(found.simplest["gamma"])
    error = percent(found.simplest["error_mean"])
    return as_good(
        found, "the best is the simplest of all these",
        f"the simplest of all these has C = {C}, gamma = {gamma} and a cv error of {error}"
        " (rule of one standard error: smaller C, then smaller gamma)",
    )  # fmt: skip


def _score_answer(run: SvmRun, best: BestOfSvm) -> list[Answer]:
    """The score that chose the best candidate, where it was not the error."""
    if run.scoring == ACCURACY or best.score_mean is None:
        return []
    note = f"± {best.score_std or 0:.4f}; it chose the best candidate"
    return [Answer(f"cv {run.scoring}", f"{best.score_mean:.4f}", note)]


def _candidates(run: SvmRun) -> Table:
    """A row for each candidate, best first; the score has a column where it is not accuracy."""
    with_score = run.scoring != ACCURACY and "score_mean" in run.candidates
    names = ("rank", "C", "gamma", *([f"cv {run.scoring}"] if with_score else []), "cv error",
             "standard deviation", "folds with a score", "support vectors", "fit time (s)",
             AS_GOOD)  # fmt: skip
    if run.candidates.empty:
        return Table.of(names, [])
    if run.cells.empty:
        table = run.candidates.assign(n_support=math.nan, fit_seconds=math.nan)
    else:
        by_candidate = run.cells.astype({"n_support": "float64"}).groupby(["C", "gamma"])
        work = by_candidate.agg(n_support=("n_support", "mean"), fit_seconds=("fit_seconds", "sum"))
        table = run.candidates.merge(work.reset_index(), on=["C", "gamma"], how="left")
    found = rivals(run.candidates, run.n_folds or 0, SVM_CANDIDATE)
    marks = found.marks() if found else [""] * len(table)
    return Table.of(
        names,
        [
            [
                (row["rank"], f"{row['rank']:,.0f}"),
                row["C"],
                row["gamma"],
                *([(row["score_mean"], f"{row['score_mean']:.4f}")] if with_score else []),
                number_cell(row["error_mean"], percent(row["error_mean"]), missing="failed"),
                (row["error_std"], percent(row["error_std"])),
                (row["n_ok"], f"{row['n_ok']:.0f}"),
                (row["n_support"], f"{row['n_support']:,.0f}"),
                (row["fit_seconds"], f"{row['fit_seconds']:,.2f}"),
                mark,
            ]
            for row, mark in zip(table.head(MOST_ROWS).to_dict("records"), marks, strict=False)
        ],
    )


def _cell_name(cell: Mapping[str, Any]) -> str:
    C, gamma = significant(cell["C"]), significant(cell["gamma"])
    return f"C = {C}, gamma = {gamma}, fold {cell['fold']:.0f}"


def _content(run: SvmRun) -> dict[str, Any]:
    return {
        "has_best": run.best is not None,
        "rivals": _rivals(run),
        "candidates": _candidates(run),
        "n_candidates": len(run.candidates),
        "most_rows": MOST_ROWS,
        "scoring": run.scoring if run.scoring != ACCURACY else "",
    }


SVM = Kind(
    title="SVM grid search",
    template="svm_grid.html",
    read=read_svm_run,
    figures={
        "heat_map": _heat_map,
        "fold_errors_best": _fold_errors_best,
        "fold_errors": _fold_errors,
        **of_any_run(colour_by="gamma"),
    },
    size=_size,
    sizes=("n_c", "n_gamma", "folds"),
    answers=_answers,
    warnings=_warnings,
    place=SVM_CELL,
    cell_name=_cell_name,
    content=_content,
)
