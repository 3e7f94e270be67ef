"""The lines about the result of ``svm_grid`` on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.run.summary import baseline_lines, failure_lines, wall_time
from pipelines.run_folder.measures import measure_of
from pipelines.run_folder.record import n_splits_of
from pipelines.run_folder.statistics import within_one_standard_error
from pipelines.search.summary import cv_line, nested_lines, of_splits, strategy_lines, test_lines
from pipelines.svm_search.boundary import most_fits, on_grid_boundary, widening_command
from pipelines.svm_search.record import CANDIDATE, CELL

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


def of_grid(record: Mapping[str, Any], candidates: pd.DataFrame, run: Path) -> list[str]:
    """Lines about a run: its best candidate and errors, the baseline, the time, failed fits."""
    best, options, n_splits = record["best"], record["options"], n_splits_of(record) or 1
    spread = of_splits(record)
    scoring = options.get("scoring") or "accuracy"
    parameters = [
        f"{name} = {best[name]:.3g}" for name in ("C", "gamma", "epsilon") if name in best
    ]
    lines = [f"best       {', '.join(parameters)}"]
    if ends := on_grid_boundary(candidates, n_splits):
        command, n_more = widening_command(record["argv"], options, ends, run)
        lines += [
            f"           {' and '.join(map(str, ends))} of the grid; the optimum may lie outside "
            f"it. To widen it by {most_fits(record, n_more)}:",
            f"           {command}",
        ]
    lines += _as_good(candidates, n_splits)
    if scoring != "accuracy":
        lines.append(
            cv_line(measure_of(scoring), best["score_mean"], best.get("score_std"))
            + ("" if "error_mean" in best else f" {spread}")
        )
    if "error_mean" in best:
        lines.append(
            cv_line(measure_of("accuracy"), 1 - best["error_mean"], best.get("error_std"))
            + f" {spread}"
        )
    lines += [*nested_lines(record, measure_of(scoring)), *test_lines(record)]
    if "test_log_loss" in record:
        lines.append(
            f"test proba log loss {record['test_log_loss']:.4f}, "
            f"calibration error {record['test_calibration_error'] * 100:.2f} %"
        )
    if "exactness" in record:
        lines.append(f"landmarks  {exactness_in_words(record['exactness'], record)}")
    return [
        *lines,
        *baseline_lines(record),
        *strategy_lines(record),
        wall_time(record),
        *failure_lines(record, CELL),
    ]


def exactness_in_words(exactness: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """A sentence about the errors with landmarks and with the exact kernel; see
    ``distance_from_exact``."""
    of_numbers = record["dataset"].get("task") == "regression"
    measure = "squared errors, of the targets' variance" if of_numbers else "errors"
    rates = {name: f"{100 * exactness[name]:.2f} %" for name in ("approximate", "exact")}
    points = [f"{100 * exactness[name]:+.2f}" for name in ("difference", "low", "high")]
    return (
        f"{rates['approximate']} {measure} for {rates['exact']} of exact fits: {points[0]} points "
        f"({points[1]} to {points[2]}), the best candidate fitted on {exactness['n_rows']:,} rows "
        f"and asked about {exactness['n_tested']:,} others; of more rows it can be more"
    )


def _as_good(candidates: pd.DataFrame, n_splits: int) -> Iterator[str]:
    """Yield lines about the candidates within a standard error of the best, and the simplest."""
    marks = within_one_standard_error(candidates, n_splits, CANDIDATE) or []
    if (n := sum(map(bool, marks))) < 2:
        return
    tied = f" ({n_tied} tied with it)" if (n_tied := sum("tied" in mark for mark in marks)) else ""
    subject = "1 other candidate is" if n == 2 else f"{n - 1:,} other candidates are"
    yield f"           {subject} within one standard error of the best{tied}"
    for C, gamma in candidates[["C", "gamma"]][["simplest" in mark for mark in marks]].to_numpy():
        yield f"simplest   of these: C = {C:.3g}, gamma = {gamma:.3g}"
