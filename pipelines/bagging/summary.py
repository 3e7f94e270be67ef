"""The lines of the terminal about an ensemble's result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.data.dataset import REGRESSION
from pipelines.data.tables.words import counted
from pipelines.run.summary import baseline_lines, failure_lines, wall_time
from pipelines.run_folder.measures import ACCURACY, measure_of
from pipelines.run_folder.statistics import interval
from pipelines.search.scoring import DEFAULT_SCORING
from pipelines.search.summary import nested_lines, strategy_lines, test_lines

_percent = measure_of(ACCURACY).text


def of_ensemble(record: Mapping[str, Any]) -> list[str]:
    """Lines on the members, the vote or mean, the deferred rows, and the fits that failed."""
    task = record["dataset"]["task"]
    lines = [
        *(_of_numbers(record) if task == REGRESSION else _of_votes(record)),
        *nested_lines(record, measure_of(DEFAULT_SCORING[task])),
        *baseline_lines(record),
        *strategy_lines(record),
        wall_time(record),
        *failure_lines(record, ("member", "candidate", "fold")),
    ]
    if lost := record["lost_members"]:
        lines.append(
            f"warning    {len(lost)} of {record['options']['n_bootstrap']} members could not "
            f"be trained ({', '.join(map(str, lost))}): {record['why_lost']}"
        )
    return lines


def _of_numbers(record: Mapping[str, Any]) -> Iterator[str]:
    """Lines on a regression: members, their mean, intervals, and the deferred rows."""
    intervals, n_test = record["intervals"], record["dataset"]["n_test"]
    yield (
        f"members    test root mean squared error {record['members_mean_test_rmse']:.4g} on "
        f"average, the best {record['members_best_test_rmse']:.4g}"
    )
    yield from test_lines(record)
    yield (
        f"intervals  {100 * intervals['coverage']:.2f} % coverage of test samples "
        f"({intervals['n_covered']:,} of {n_test:,}, {interval(intervals['n_covered'], n_test)}; "
        f"target {100 * intervals['confidence']:.4g} %), mean width {intervals['mean_width']:.4g}"
    )
    if n_without := intervals["n_drawn_by_all"]:
        yield (
            f"note       {counted(n_without, 'training row')} drawn by every member: not among the "
            "out-of-bag rows of the intervals"
        )
    if (rule := record.get("deferral")) is not None:
        kept_error = "none are left"
        if (error := rule["mean_absolute_error"]) is not None:
            kept_error = f"mean absolute error of the others {error:.4g}"
        yield (
            f"deferral   {n_test - rule['n_kept']:,} of {n_test:,} test samples are deferred to a "
            f"human, whose interval is wider than {rule['width']:.6g}; {kept_error}"
        )


def _of_votes(record: Mapping[str, Any]) -> Iterator[str]:
    """Lines on a classification: errors of members, vote and mean, and how far to trust them."""
    n_test, rule = record["dataset"]["n_test"], record["selective_prediction"]
    kept, n_vote = rule["n_kept"], record["n_vote_errors"]
    wrong, calibration = "none", _percent(record["test_calibration_error"])
    if kept:
        wrong = _percent(rule["n_wrong_kept"] / kept)
    scaled = record.get("calibration")
    if scaled is not None and scaled["temperature"] != 1:  # 1: there were too few rows to fit one
        calibration += f", {_percent(scaled['test_calibration_error'])}"
        calibration += f" at temperature {scaled['temperature']:.2f}"
    yield (
        f"members    test error {_percent(record['members_mean_test_error'])} on average, the "
        f"best {_percent(record['members_best_test_error'])}"
    )
    yield (
        f"vote       test error {_percent(record['vote_test_error'])} "
        f"({n_vote:,} of {n_test:,}, {interval(n_vote, n_test)})"
    )
    yield (
        f"mean       test error {_percent(record['mean_test_error'])} of the mean probability, "
        f"calibration error {calibration}"
    )
    yield (
        f"deferral   {n_test - kept:,} of {n_test:,} test samples are deferred to a human; "
        f"error of the others {wrong}"
    )
    if (proved := record.get("risk_control")) is not None:
        kept = proved["n_kept_test"]
        yield f"guarantee  {proved['line']}"
        if proved["threshold"] is not None:
            reached = "no test sample reaches it"
            if kept:
                reached = (
                    f"reached by {counted(kept, 'test sample')}, of which "
                    f"{_percent(proved['n_wrong_kept_test'] / kept)} are wrong"
                )
            yield f"           {reached}"
    if (sets := record.get("prediction_sets")) is not None:
        yield (
            f"sets       prediction sets of {sets['mean_size']:.2f} classes on average, "
            f"coverage {_percent(sets['coverage'])}, {_percent(sets['least_coverage'])} in the "
            f"worst class (target {_percent(sets['confidence'])})"
        )
    if (novelty := record.get("novelty")) is not None and novelty["n_named"]:
        yield (
            f"warning    {novelty['n_named']:,} test samples are novel (unlike all training "
            "rows); see test_predictions.parquet"
        )
