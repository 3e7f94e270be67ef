"""The console summary of a cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.data.dataset import CLASSIFICATION, Dataset
from pipelines.run.summary import baseline_lines, wall_time
from pipelines.run_folder.statistics import interval
from pipelines.search.candidates import Candidate
from pipelines.search.plan import as_recorded


def of_plan(
    data: Dataset, candidates: Sequence[Candidate], scoring: Sequence[str], n_splits: int, cv: str
) -> list[str]:
    """Return data, task, candidates."""
    what = f"{len(data.classes)} classes" if data.task == CLASSIFICATION else "numbers"
    algorithms = ", ".join(dict.fromkeys(one.algorithm for one in candidates))
    n = len(candidates) * n_splits
    return [
        *data.lines,
        f"data       {data.name}: {len(data.y_train):,} training rows, "
        f"{data.X_train.shape[1]} columns; {len(data.y_test):,} test rows",
        f"task       {data.task}: {what}; {'--cv ' + cv if cv != 'auto' else 'default folds'}, "
        f"scored by {', '.join(scoring)}",
        f"candidates {len(candidates):,} of {algorithms} x {n_splits} folds = {n:,} fits",
    ]


def of_run(record: Mapping[str, Any]) -> list[str]:
    """Return the best, how it compares, what was shared, the time, what failed."""
    best, first = record["best"], record["scoring"][0]
    lines = [f"best       {best['algorithm']}: {as_recorded(best['parameters'])}"]
    if best["score_mean"] is not None:
        lines.append(
            f"cv score   {first} {best['score_mean']:.4f} ± {best['score_std']:.4f} "
            "(standard deviation of the folds)"
        )
    for one in record["algorithms"][1:]:
        lines.append(
            f"           {one['algorithm']}: {one['score_mean']:.4f} ± {one['score_std']:.4f} "
            f"({as_recorded(one['parameters'])})"
        )
    if nested := record.get("nested"):
        lines.append(
            f"nested     {first} {nested['score_mean']:.4f} ± {nested['score_std']:.4f} of what "
            f"each of {nested['n_outer']} outer folds chose"
        )
    if tested := scores_line(record["test_scores"]):
        lines.append(f"test score {tested}")
    if (n_wrong := record.get("n_test_errors")) is not None:
        n_test = record["dataset"]["n_test"]
        lines.append(
            f"test error {n_wrong / n_test * 100:.2f} % ({n_wrong:,} of {n_test:,}, "
            f"{interval(n_wrong, n_test)})"
        )
    lines += baseline_lines(record)
    lines.append(
        f"fits       {record['fits_asked']:,} asked for, {record['fits_made']:,} made"
        + (
            f"; first steps {record['steps_asked']:,} asked for, {record['steps_made']:,} made"
            if record["steps_asked"]
            else ""
        )
    )
    for failure in record["failures"]:
        lines.append(
            f"attention  {failure['count']:,} of {record['n_cells']:,} fits {failure['status']}"
        )
    return [*lines, wall_time(record)]


def scores_line(scores: Mapping[str, float | None]) -> str:
    """Return scores that there are, with their names."""
    return ", ".join(f"{name} {score:.4f}" for name, score in scores.items() if score is not None)
