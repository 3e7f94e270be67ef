"""The console summary of a cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.data.dataset import CLASSIFICATION, Dataset
from pipelines.run.summary import baseline_lines, wall_time
from pipelines.run_folder.measures import Measure, measure_of
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
    best, measure = record["best"], measure_of(record["scoring"][0])
    lines = [f"best       {best['algorithm']}: {as_recorded(best['parameters'])}"]
    if best["score_mean"] is not None:
        lines.append(
            f"{cv_line(measure, best['score_mean'], best['score_std'])} "
            "(standard deviation of the folds)"
        )
    for one in record["algorithms"][1:]:
        lines.append(
            f"           {one['algorithm']}: "
            f"{measure.mean_and_spread(one['score_mean'], one['score_std'])} "
            f"({as_recorded(one['parameters'])})"
        )
    lines += nested_lines(record, measure)
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


def cv_line(measure: Measure, mean: float, std: float | None) -> str:
    """Return the cross-validated error, or the name of another measure and what it is."""
    label = "cv error   " if measure.is_error else f"cv score   {measure.name} "
    return label + measure.mean_and_spread(mean, std)


def nested_lines(record: Mapping[str, Any], measure: Measure) -> list[str]:
    """Return the estimate of a nested cross-validation, where there is one."""
    if not (nested := record.get("nested")):
        return []
    found = measure.mean_and_spread(nested["score_mean"], nested["score_std"])
    n_outer = nested["n_outer"]
    return [f"nested     {measure.name} {found} of what each of {n_outer} outer folds chose"]


def scores_line(scores: Mapping[str, float | None]) -> str:
    """Return scores that there are, with their names, less the error that has its own line."""
    there = [(measure_of(name), score) for name, score in scores.items() if score is not None]
    return ", ".join(
        f"{one.name} {one.text(one.of(score))}" for one, score in there if not one.is_error
    )
