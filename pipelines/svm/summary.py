"""What a grid search says on the terminal, before and after."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pipelines.run.summary import failed_fits, wall_time
from pipelines.run_folder import columns


def of_grid(n_c: int, n_gamma: int, folds: int, decision: str, scoring: str) -> str:
    """One line on the size of the search."""
    return (
        f"grid       {n_c} C x {n_gamma} gamma x {folds} folds = "
        f"{n_c * n_gamma * folds:,} fits, {decision}"
        + ("" if scoring == "accuracy" else f", the best by {scoring}")
    )


def of_run(record: Mapping[str, Any]) -> list[str]:
    """The answer, the time, and what failed."""
    best = record["best"]
    return [
        f"best       C = {best['C']:.3g}, gamma = {best['gamma']:.3g}",
        *_of_edges(record),
        *_of_score(record),
        f"cv error   {best['error_mean'] * 100:.2f} % ± {best['error_std'] * 100:.2f} %",
        f"test error {record['test_error'] * 100:.2f} % "
        f"({record['n_test_errors']} of {record['dataset']['n_test']:,})",
        *_of_probabilities(record),
        wall_time(record),
        *failed_fits(record, columns.SVM_CELL),
    ]


def _of_edges(record: Mapping[str, Any]) -> list[str]:
    """A line when the best candidate lies where the grid ends, and better ones may lie beyond."""
    options, best = record["options"], record["best"]
    found = []
    for name, axis in (("C", "c"), ("gamma", "gamma")):
        ends = options[f"log_{axis}"]
        at = [end for end in ends if math.isclose(math.log10(best[name]), end, abs_tol=1e-9)]
        if at and options[f"n_{axis}"] > 1:
            found.append(f"the {'smallest' if at[0] == min(ends) else 'largest'} {name}")
    if not found:
        return []
    return [f"           {' and '.join(found)} of the grid: a better one may lie beyond"]


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
