"""The console summary of ``nn_bagging``, before and after a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.run.summary import baseline_lines, failed_fits, wall_time
from pipelines.run_folder.statistics import interval

if TYPE_CHECKING:
    from pipelines.data import Dataset


def form_of(dataset: Dataset) -> str:
    """Describe a sample in words: an image of so many pixels, or a row."""
    shape = dataset.image_shape
    return f"images of {shape[-2]} x {shape[-1]} pixels" if shape else "a table"


def of_plan(n_members: int, n_candidates: int, folds: int) -> str:
    """Return a line on the size of the run."""
    if n_candidates == 0:
        return f"ensemble   {_count(n_members, 'member')}, without a search"
    n_tasks = n_members * n_candidates
    return (
        f"ensemble   {_count(n_members, 'member')} x {_count(n_candidates, 'candidate')} x "
        f"{folds} folds = {n_tasks * folds:,} fits in {_count(n_tasks, 'task')}, and "
        f"{_count(n_members, 'refit')}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def of_run(record: Mapping[str, Any]) -> list[str]:
    """Return the answer, the time, and what failed."""
    n_test, rule = record["dataset"]["n_test"], record["selective_prediction"]
    kept = rule["n_kept"]
    wrong = f"{rule['n_wrong_kept'] / kept * 100:.2f} %" if kept else "none"
    lost = []
    if gone := record["lost_members"]:
        lost.append(
            f"warning    {len(gone)} of {record['options']['n_bootstrap']} members could not be "
            f"trained ({', '.join(map(str, gone))}): {record['why_lost']}"
        )
    return [
        f"members    test error {_percent(record['members_mean_test_error'])} on average, the best "
        f"{_percent(record['members_best_test_error'])}",
        f"vote       test error {_percent(record['vote_test_error'])} "
        f"({record['n_vote_errors']:,} of {n_test:,}, {interval(record['n_vote_errors'], n_test)})",
        f"mean       test error {_percent(record['mean_test_error'])} of the mean probability, "
        f"calibration error {_percent(record['test_calibration_error'])}",
        f"deferral   {n_test - kept:,} of {n_test:,} test samples are deferred to a human; "
        f"error of the others {wrong}",
        *_of_guarantee(record),
        *baseline_lines(record),
        wall_time(record),
        *failed_fits(record, ("member", "candidate", "fold")),
        *lost,
    ]


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.2f} %"


def _of_guarantee(record: Mapping[str, Any]) -> list[str]:
    lines = []
    if (proved := record.get("risk_control")) is not None:
        kept, wrong = proved["n_kept_test"], proved["n_wrong_kept_test"]
        lines.append(f"guarantee  {proved['line']}")
        if proved["threshold"] is not None:
            reached = "no test sample reaches it"
            if kept:
                samples = f"{kept:,} test sample" + "s" * (kept != 1)
                reached = f"reached by {samples}, of which {_percent(wrong / kept)} are wrong"
            lines.append(f"           {reached}")
    if (sets := record.get("prediction_sets")) is not None and sets["coverage"] is not None:
        lines.append(
            f"sets       prediction sets of {sets['mean_size']:.2f} classes on average, coverage "
            f"{_percent(sets['coverage'])}, "
            f"{_percent(sets['least_coverage'])} in the worst class (target "
            f"{_percent(sets['confidence'])})"
        )
    if (novelty := record.get("novelty")) is not None and novelty["n_named"]:
        lines.append(
            f"warning    {novelty['n_named']:,} test samples are novel (unlike all training rows); "
            "see test_predictions.parquet"
        )
    return lines
