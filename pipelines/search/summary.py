"""Lines of console output about the result of a search, and of ``cross_validate``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pipelines.run.progress import time_text
from pipelines.run.summary import baseline_lines, wall_time
from pipelines.run_folder.measures import Measure, measure_of
from pipelines.run_folder.record import splits_in_words, splits_of_best_in_words
from pipelines.run_folder.statistics import interval

MOST_PARTS = 100  # largest denominator of a fraction such as 1/3; others are shown as percentages


def validation_lines(record: Mapping[str, Any]) -> list[str]:
    """The lines about a run of ``cross_validate``: the best candidate, the others, the fits."""

    def parameters(candidate: Mapping[str, Any]) -> str:
        named_values = candidate["parameters"].items()
        return ", ".join(f"{name}={value}" for name, value in named_values) or "defaults"

    best, measure = record["best"], measure_of(record["scoring"][0])
    lines = [f"best       {best['algorithm']}: {parameters(best)}"]
    if best["score_mean"] is not None:
        lines.append(
            f"{cv_line(measure, best['score_mean'], best['score_std'])} {of_splits(record)}"
        )
    for row in record["algorithms"][1:]:
        lines.append(
            f"           {row['algorithm']}: "
            f"{measure.mean_and_spread(row['score_mean'], row['score_std'])} ({parameters(row)})"
        )
    for algorithm, state in (record.get("strategy") or {}).get("left_out", {}).items():
        lines.append(f"           {algorithm}: {state}")
    lines += [*nested_lines(record, measure), *test_lines(record), *baseline_lines(record)]
    lines += strategy_lines(record)
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


def strategy_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Lines about the fits of a strategy, the candidates it gave up, and those out of time."""
    if (strategy := record.get("strategy")) is None:
        return
    n = f"{strategy['n_candidates']:,} candidates"
    fits = f"{strategy['fits']:,} of {strategy['grid_fits']:,} fits"
    if strategy["share_fits"]:
        fractions = [part["share"] for part in strategy["parts"] if part["share"] < 1]
        fraction_text = fraction_in_words(fractions[0]) if len(fractions) == 1 else "shares"
        fits += f", and {strategy['share_fits']:,} on {fraction_text} of the rows"
    if strategy["n_stopped"]:
        fits += f": {strategy['n_stopped']:,} of {n} stopped early"
    if not strategy["n_stopped"] and strategy["name"] in GIVING_UP:
        fits += f": none of {n} stopped early"
    if strategy["n_stopped"] or strategy["share_fits"] or strategy["name"] in GIVING_UP:
        yield f"{strategy['name']:10} {fits}"
    if untried := untried_in_words(record):
        yield f"not tried  {untried}"


GIVING_UP = ("race", "halving")  # strategies


def untried_in_words(record: Mapping[str, Any]) -> str:
    """Whatever was not tried because time ended, in words; empty if everything was tried."""
    strategy = record.get("strategy") or {}
    n_part, n_none = strategy.get("n_out_of_time", 0), strategy.get("n_not_tried", 0)
    if not n_part and not n_none:
        return ""
    of_candidates, on_splits = (
        f"of {strategy['n_candidates']:,} candidates",
        f"not on all {splits_in_words(record)}",
    )
    words = f"{n_none:,} {of_candidates}" + (f", and {n_part:,} {on_splits}" if n_part else "")
    if not n_none:
        words = f"{n_part:,} {of_candidates} {on_splits}"
    budget = record["options"].get("time_budget")
    return words + (f": the time budget of {time_text(budget)} ended" if budget else "")


def fraction_in_words(row_fraction: float) -> str:
    """A fraction of the rows in words: ``1/3``, ``4.17 %``."""
    fraction = Fraction(row_fraction).limit_denominator(MOST_PARTS)
    is_near = math.isclose(fraction, row_fraction, rel_tol=1e-6)
    return str(fraction) if is_near else f"{100 * row_fraction:.3g} %"


def cv_line(measure: Measure, mean: float, std: float | None) -> str:
    """The line on the cross-validated error, or on another score with its name."""
    label = "cv error   " if measure.is_error else f"cv score   {measure.name} "
    return label + measure.mean_and_spread(mean, std)


def of_splits(record: Mapping[str, Any]) -> str:
    """Words about the spread of the best score: ``(standard deviation of 5 folds)``."""
    best = record["best"]
    has_one = best.get("score_std", best.get("error_std")) is None
    return f"({'' if has_one else 'standard deviation of '}{splits_of_best_in_words(record)})"


def nested_lines(record: Mapping[str, Any], measure: Measure) -> Iterator[str]:
    """The line on a nested cross-validation, if there was one."""
    if nested := record.get("nested"):
        score = measure.mean_and_spread(nested["score_mean"], nested["score_std"])
        yield (
            f"nested     {measure.name} {score} of what each of {nested['n_outer']} outer folds "
            "chose"
        )


def test_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Lines on the test rows: their error, and other scores."""
    scores = (record.get("test_scores") or {}).items()
    measured_scores = [(measure_of(name), score) for name, score in scores if score is not None]
    if score_texts := [
        f"{measure.name} {measure.text(measure.of(score))}"
        for measure, score in measured_scores
        if not measure.is_error
    ]:
        yield f"test score {', '.join(score_texts)}"
    if (n_wrong := record.get("n_test_errors")) is not None:
        n_test = record["dataset"]["n_test"]
        yield (
            f"test error {n_wrong / n_test * 100:.2f} % ({n_wrong:,} of {n_test:,}, "
            f"{interval(n_wrong, n_test)})"
        )
