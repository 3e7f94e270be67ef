"""What the console says of the result of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.run.summary import baseline_lines, failed_fits, wall_time
from pipelines.run_folder import columns
from pipelines.run_folder.measures import Measure, measure_of
from pipelines.run_folder.record import fits_of_a_candidate, n_splits_of, splits_in_words
from pipelines.run_folder.statistics import (
    interval,
    on_grid_boundary,
    widen,
    within_one_standard_error,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


def of_algorithms(record: Mapping[str, Any]) -> list[str]:
    """Return what ``cross_validate`` found: the best, how it compares, what was shared."""

    def parameters(one: Mapping[str, Any]) -> str:
        given = one["parameters"].items()
        return ", ".join(f"{name}={value}" for name, value in given) or "defaults"

    best, measure = record["best"], measure_of(record["scoring"][0])
    lines = [f"best       {best['algorithm']}: {parameters(best)}"]
    if best["score_mean"] is not None:
        lines.append(
            f"{_cv_line(measure, best['score_mean'], best['score_std'])} "
            f"(standard deviation of {splits_in_words(record)})"
        )
    for one in record["algorithms"][1:]:
        lines.append(
            f"           {one['algorithm']}: "
            f"{measure.mean_and_spread(one['score_mean'], one['score_std'])} ({parameters(one)})"
        )
    lines += [*_nested(record, measure), *_test(record), *baseline_lines(record)]
    lines.append(
        f"fits       {record['fits_made']:,} computed for {record['fits_asked']:,} requested"
        + (
            f"; first steps {record['steps_asked']:,} asked for, {record['steps_made']:,} made"
            if record["steps_asked"]
            else ""
        )
    )
    for failure in record["failures"]:
        lines.append(
            f"warning    {failure['count']:,} of {record['n_cells']:,} fits {failure['status']}"
        )
    return [*lines, wall_time(record)]


def of_grid(record: Mapping[str, Any], candidates: pd.DataFrame, run: Path) -> list[str]:
    """Return what ``svm_grid`` found: the best, how sure it is, the time, and what failed.

    Parameters
    ----------
    candidates : best first
    run : its folder
    """
    best, options, n_splits = record["best"], record["options"], n_splits_of(record) or 1
    spread = f"(standard deviation of {splits_in_words(record)})"
    scoring = options.get("scoring") or "accuracy"
    found = [f"{name} = {best[name]:.3g}" for name in ("C", "gamma", "epsilon") if name in best]
    lines = [f"best       {', '.join(found)}"]
    if ends := on_grid_boundary(candidates, n_splits):
        command, n_more = widen(record["argv"], options, ends, run)
        lines += [
            f"           {' and '.join(map(str, ends))} of the grid; the optimum may lie outside "
            f"it. To widen it by {n_more * fits_of_a_candidate(record):,} fits:",
            f"           {command}",
        ]
    lines += _as_good(candidates, n_splits)
    if scoring != "accuracy":
        lines.append(
            _cv_line(measure_of(scoring), best["score_mean"], best["score_std"])
            + ("" if "error_mean" in best else f" {spread}")
        )
    if "error_mean" in best:
        lines.append(
            f"cv error   {best['error_mean'] * 100:.2f} % ± {best['error_std'] * 100:.2f} % "
            f"{spread}"
        )
    lines += [*_nested(record, measure_of(scoring)), *_test(record)]
    if "test_log_loss" in record:
        lines.append(
            f"test proba log loss {record['test_log_loss']:.4f}, "
            f"calibration error {record['test_calibration_error'] * 100:.2f} %"
        )
    return [
        *lines,
        *baseline_lines(record),
        wall_time(record),
        *failed_fits(record, columns.SVM_CELL),
    ]


def _as_good(candidates: pd.DataFrame, n_splits: int) -> Iterator[str]:
    """Give lines on the candidates that tie with the best, and the simplest of them."""
    marks = within_one_standard_error(candidates, n_splits, columns.SVM_CANDIDATE) or []
    if (n := sum(map(bool, marks))) < 2:
        return
    tied = f" ({more} tied with it)" if (more := sum("tied" in mark for mark in marks)) else ""
    others = "1 other candidate is" if n == 2 else f"{n - 1:,} other candidates are"
    yield f"           {others} within one standard error of the best{tied}"
    for C, gamma in candidates[["C", "gamma"]][["simplest" in mark for mark in marks]].to_numpy():
        yield f"simplest   of these: C = {C:.3g}, gamma = {gamma:.3g}"


def _cv_line(measure: Measure, mean: float, std: float | None) -> str:
    """Return the cross-validated error, or the name of another measure and what it is."""
    label = "cv error   " if measure.is_error else f"cv score   {measure.name} "
    return label + measure.mean_and_spread(mean, std)


def _nested(record: Mapping[str, Any], measure: Measure) -> Iterator[str]:
    """Give the estimate of a nested cross-validation, where there is one."""
    if nested := record.get("nested"):
        found = measure.mean_and_spread(nested["score_mean"], nested["score_std"])
        yield (
            f"nested     {measure.name} {found} of what each of {nested['n_outer']} outer folds "
            "chose"
        )


def _test(record: Mapping[str, Any]) -> Iterator[str]:
    """Give the error of the test rows, and the scores that are no error."""
    scores = (record.get("test_scores") or {}).items()
    known = [(measure_of(name), score) for name, score in scores if score is not None]
    if others := [f"{one.name} {one.text(one.of(x))}" for one, x in known if not one.is_error]:
        yield f"test score {', '.join(others)}"
    if (n_wrong := record.get("n_test_errors")) is not None:
        n_test = record["dataset"]["n_test"]
        yield (
            f"test error {n_wrong / n_test * 100:.2f} % ({n_wrong:,} of {n_test:,}, "
            f"{interval(n_wrong, n_test)})"
        )
