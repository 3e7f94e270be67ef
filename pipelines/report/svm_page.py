"""The page of a run of ``svm_grid``: its figures, its answers, its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipelines.report.candidate_table import candidate_columns, candidate_rows
from pipelines.report.figures import Made, of_any_run
from pipelines.report.kind import Answer, Kind
from pipelines.report.svm_figures import MOST_PANELS, fold_errors, fold_errors_best, heat_map
from pipelines.report.svm_folder import ACCURACY, SvmRun, read_svm_run
from pipelines.report.table import MOST_ROWS
from pipelines.report.wording import count, log10, percent, significant
from pipelines.run_folder.columns import SVM_CELL
from pipelines.run_folder.record import BestOfSvm

MOST_POINTS = 100_000  # of a grid's axis


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
                f"± {percent(best.error_std)}, standard deviation over the folds"
                if best.error_std is not None
                else "mean over the folds",
            ),
            *_score_answer(run, best),
        ]
    record = run.record
    if (test_error := record.test_error) is not None:
        n_wrong, n_test = record.n_test_errors, record.dataset.n_test
        note = f"{n_wrong} of {n_test} test points" if None not in (n_wrong, n_test) else ""
        answers.append(Answer("test error", percent(test_error), note))
    if (log_loss := record.test_log_loss) is not None:
        error = record.test_calibration_error
        note = f"calibration error {percent(error)}" if error is not None else ""
        answers.append(Answer("test log loss", f"{log_loss:.4f}", note))
    return answers


def _score_answer(run: SvmRun, best: BestOfSvm) -> list[Answer]:
    """The score that chose the best candidate, where it was not the error."""
    if run.scoring == ACCURACY or best.score_mean is None:
        return []
    note = f"± {best.score_std or 0:.4f}; it chose the best candidate"
    return [Answer(f"cv {run.scoring}", f"{best.score_mean:.4f}", note)]


def _cell_name(cell: Mapping[str, Any]) -> str:
    C, gamma = significant(cell["C"]), significant(cell["gamma"])
    return f"C = {C}, gamma = {gamma}, fold {cell['fold']:.0f}"


def _content(run: SvmRun) -> dict[str, Any]:
    return {
        "has_best": run.best is not None,
        "candidates": candidate_rows(run),
        "n_candidates": len(run.candidates),
        "most_rows": MOST_ROWS,
        "candidate_columns": candidate_columns(run),
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
    place=SVM_CELL,
    cell_name=_cell_name,
    content=_content,
)
