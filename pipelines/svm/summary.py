"""What a grid search says on the terminal, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.run.summary import failed_fits, wall_time
from pipelines.run_folder import columns
from pipelines.run_folder.judgement import edges, interval, rivals, wider

if TYPE_CHECKING:
    import pandas as pd


def of_grid(n_c: int, n_gamma: int, folds: int, decision: str, scoring: str) -> str:
    """One line on the size of the search."""
    return (
        f"grid       {n_c} C x {n_gamma} gamma x {folds} folds = "
        f"{n_c * n_gamma * folds:,} fits, {decision}"
        + ("" if scoring == "accuracy" else f", the best by {scoring}")
    )


def of_run(record: Mapping[str, Any], candidates: pd.DataFrame) -> list[str]:
    """The answer, how sure it is, the time, and what failed."""
    best, n_folds = record["best"], record["options"]["folds"]
    return [
        f"best       C = {best['C']:.3g}, gamma = {best['gamma']:.3g}",
        *_of_edges(record, candidates),
        *_of_rivals(candidates, n_folds),
        *_of_score(record),
        f"cv error   {best['error_mean'] * 100:.2f} % ± {best['error_std'] * 100:.2f} % "
        f"(standard deviation of {n_folds} folds)",
        f"test error {record['test_error'] * 100:.2f} % "
        f"({record['n_test_errors']:,} of {(n_test := record['dataset']['n_test']):,}, "
        f"{interval(record['n_test_errors'], n_test)})",
        *_of_probabilities(record),
        wall_time(record),
        *failed_fits(record, columns.SVM_CELL),
    ]


def _of_edges(record: Mapping[str, Any], candidates: pd.DataFrame) -> list[str]:
    """Where the grid seems to end too early, and the command that widens it."""
    found = edges(candidates, record["options"]["folds"])
    if not found:
        return []
    return [
        f"           {' and '.join(map(str, found))} of the grid: a better one may lie beyond",
        f"           {wider(record['argv'], record['options'], found)}",
    ]


def _of_rivals(candidates: pd.DataFrame, n_folds: int) -> list[str]:
    """How many candidates are as good, and the simplest of them."""
    found = rivals(candidates, n_folds, columns.SVM_CANDIDATE)
    if found is None or (n := int(found.within.sum())) == 1:
        return []
    tied = f", {more} of them tied with it" if (more := int(found.tied.sum()) - 1) else ""
    lines = [f"           {n - 1:,} others are within one standard error{tied}"]
    if found.has_simpler:
        C, gamma = found.simplest["C"], found.simplest["gamma"]
        lines.append(f"simplest   of all these: C = {C:.3g}, gamma = {gamma:.3g}")
    return lines


def _of_score(record: Mapping[str, Any]) -> list[str]:
    best, scoring = record["best"], record["options"].get("scoring", "accuracy")
    if scoring == "accuracy":
        return []
    return [f"cv score   {scoring} {best['score_mean']:.4f} ± {best['score_std']:.4f}"]


def _of_probabilities(record: Mapping[str, Any]) -> list[str]:
    if "test_log_loss" not in record:
        return []
    return [
        f"test proba log loss {record['test_log_loss']:.4f}, "
        f"calibration error {record['test_calibration_error'] * 100:.2f} %"
    ]
