"""What a grid search says on the terminal, before and after."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pipelines.run.progress import clock

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.data import Dataset
    from pipelines.search.svm_options import Options

CELLS_NAMED = 5


def silent(line: str) -> None:
    """Say nothing."""


def aloud(line: str) -> None:
    """Say a line on stdout; a run goes on when nobody listens any more."""
    with suppress(OSError):
        print(line, flush=True)


def of_data(dataset: Dataset) -> str:
    """One line on the data set."""
    n_train, n_features = dataset.X_train.shape
    return (
        f"data       {dataset.name}: {n_train:,} training rows, {n_features} features, "
        f"{dataset.n_classes} classes; {len(dataset.y_test):,} test rows"
    )


def of_grid(options: Options) -> str:
    """One line on the size of the search."""
    n_cells = options.n_c * options.n_gamma * options.folds
    return (
        f"grid       {options.n_c} C x {options.n_gamma} gamma x {options.folds} folds = "
        f"{n_cells:,} fits, {options.decision}"
        + ("" if options.scoring == "accuracy" else f", the best by {options.scoring}")
    )


def of_cluster(kind: str, workers: list[dict[str, Any]], solver: str) -> str:
    """One line on the workers."""
    gpus = sorted({worker["gpu"] for worker in workers if worker["gpu"]})
    counted = f"{len(workers)} worker" + "s" * (len(workers) != 1)
    with_gpus = f" with {', '.join(gpus)}" if gpus else ""
    return f"cluster    {kind}, {counted}{with_gpus}, solver {solver}"


def failures(results: pd.DataFrame) -> dict[str, Any]:
    """Cells whose status is not "ok": counts for ``run.json``, each status with its cells."""
    not_ok = results[results.status != "ok"]
    return {
        "n_cells": len(results),
        "n_failed": int(results.n_errors.isna().sum()),
        "failures": [
            {
                "status": status,
                "count": len(cells),
                "cells": cells[["C", "gamma", "fold"]].to_dict("records"),
            }
            for status, cells in not_ok.groupby("status")
        ],
    }


def of_run(record: dict[str, Any]) -> list[str]:
    """The answer, the time, and what failed."""
    best = record["best"]
    busy = record["busy_share"]
    return [
        f"best       C = {best['C']:.3g}, gamma = {best['gamma']:.3g}",
        *_of_score(record),
        f"cv error   {best['error_mean'] * 100:.2f} % ± {best['error_std'] * 100:.2f} %",
        f"test error {record['test_error'] * 100:.2f} % "
        f"({record['n_test_errors']} of {record['dataset']['n_test']:,})",
        *_of_probabilities(record),
        f"wall time  {clock(record['wall_seconds'])}"
        + (f", workers busy {busy * 100:.0f} %" if busy is not None else ""),
        *_of_failures(record),
    ]


def _of_score(record: dict[str, Any]) -> list[str]:
    best, scoring = record["best"], record["options"].get("scoring", "accuracy")
    if scoring == "accuracy":
        return []
    return [f"cv score   {scoring} {best['score_mean']:.4f} ± {best['score_std']:.4f}"]


def _of_probabilities(record: dict[str, Any]) -> list[str]:
    if "test_log_loss" not in record:
        return []
    return [
        f"test proba log loss {record['test_log_loss']:.4f}, "
        f"calibration error {record['test_calibration_error'] * 100:.2f} %"
    ]


def _of_failures(record: dict[str, Any]) -> list[str]:
    lines = []
    for failure in record["failures"]:
        named = [
            f"C={cell['C']:.3g} gamma={cell['gamma']:.3g} fold={cell['fold']}"
            for cell in failure["cells"][:CELLS_NAMED]
        ]
        more = failure["count"] - len(named)
        lines.append(
            f"attention  {failure['count']} of {record['n_cells']} fits {failure['status']}: "
            + "; ".join(named)
            + (f"; and {more} more" if more else "")
        )
    return lines
