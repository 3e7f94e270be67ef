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
from pipelines.report.wording import count, log10, percent, significant, wrong_of
from pipelines.run_folder.columns import SVM_CANDIDATE, SVM_CELL
from pipelines.run_folder.judgement import edges, rivals, wider
from pipelines.run_folder.records.svm_grid import BestOfSvm

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
    within, tied = int(found.within.sum()) - 1, int(found.tied.sum()) - 1
    if not within:
        return "No other candidate is within one standard error of the best."
    text = f"{count(within, 'other candidate')} within one standard error of the best"
    text += f", {tied:,} of them tied with it" if tied else ""
    if not found.has_simpler:
        return f"{text}; the best is the simplest of all these."
    C, gamma = significant(found.simplest["C"]), significant(found.simplest["gamma"])
    error = percent(found.simplest["error_mean"])
    return (
        f"{text}; the simplest of all these has C = {C}, gamma = {gamma} and a cv error of {error}"
        " (rule of one standard error: smaller C, then smaller gamma)."
    )


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
        "rivals": _rivals(run),
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
    warnings=_warnings,
    place=SVM_CELL,
    cell_name=_cell_name,
    content=_content,
)
