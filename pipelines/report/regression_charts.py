"""Charts and cards of a regression with prediction intervals."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from pipelines.report.charts import Panel, Series, dots, series_chart
from pipelines.report.parts import Card, Chart
from pipelines.report.style import BLUE, INK, VERMILLION
from pipelines.report.wording import count, percent, significant
from pipelines.run_folder.statistics import wilson

FEWEST_SHOWN = 10  # means over less than a tenth of the samples are not drawn
INTERVALS = ("true", "predicted", "lower", "upper")  # columns that the functions below need


def intervals_chart(table: pd.DataFrame, confidence: float) -> Chart:
    """A chart of prediction intervals over the sorted test samples, and of error against width.

    Parameters
    ----------
    table : DataFrame
        A row for each test sample, with the columns ``INTERVALS``.
    confidence : float
        Fraction of intervals that should contain the target.

    Returns
    -------
    Chart
    """
    table = table.sort_values("predicted", ignore_index=True)
    true, predicted, lower, upper = (table[name].to_numpy(float) for name in INTERVALS)
    sample_ranks, missed = np.arange(1, len(table) + 1), _missed(table)
    groups = ((~missed, BLUE, "in its interval"), (missed, VERMILLION, "outside"))
    look = {"color": INK, "linewidth": 1}
    row_series, width_series = [Series(sample_ranks, predicted, band=(lower, upper), look=look)], []
    width, distance = upper - lower, np.abs(true - predicted)
    for is_in_group, colour, label in groups:
        if is_in_group.any():
            marks, pale = (dots(colour, ".", alpha=alpha) for alpha in (0.7, 0.5))
            row_series.append(
                Series(sample_ranks[is_in_group], true[is_in_group], label, look=marks)
            )
            width_series.append(Series(width[is_in_group], distance[is_in_group], label, look=pale))
    panels = [
        Panel(row_series, "test samples, by prediction", "target"),
        Panel(width_series, "width of the interval", "|true − predicted|"),
    ]
    caption = (
        "Left: predictions of the test samples in order (line), their intervals of "
        f"{100 * confidence:.4g} % (band) and the true targets (dots). Right: where width tells "
        "hard samples from easy ones, errors rise from left to right."
    )
    alt = (
        f"Intervals of {count(len(table), 'test sample')}, {int(missed.sum()):,} of whose targets "
        "lie outside, and the error of each against the width of its interval."
    )
    return Chart("intervals", partial(series_chart, panels), caption, wide=True, alt=alt)


def interval_cards(table: pd.DataFrame, confidence: float) -> list[Card]:
    """Cards for the coverage of test samples, with its 95 % interval, and for the mean width.

    For the parameters see ``intervals_chart``.
    """
    n, n_missed = len(table), int(_missed(table).sum())
    if n == 0:
        return []
    low, high = wilson(n - n_missed, n)
    width = (table["upper"] - table["lower"]).mean()
    spread = float(table["true"].std(ddof=0))
    note = f"{significant(width / spread)} standard deviations of the target" if spread else ""
    coverage_note = (
        f"asked for {100 * confidence:.4g} %; 95 % interval {percent(low)} to {percent(high)}"
    )
    return [
        Card("coverage of intervals", percent((n - n_missed) / n), coverage_note),
        Card("mean width of an interval", significant(width), note),
    ]


def kept_numbers_chart(table: pd.DataFrame, width: float | None = None) -> Chart:
    """A chart of the error among the predictions that are kept when wide intervals are deferred.

    Parameters
    ----------
    table : DataFrame
        As for ``intervals_chart``.
    width : float, optional
        The largest width that the run's rule keeps; drawn as a dot.

    Returns
    -------
    Chart
    """
    true, predicted, lower, upper = (table[name].to_numpy(float) for name in INTERVALS)
    widths = upper - lower
    distance = np.abs(true - predicted)[np.argsort(widths, kind="stable")]
    n_kept = np.arange(1, len(distance) + 1)
    error = np.cumsum(distance) / n_kept
    # The mean of a few samples is mostly chance.
    first = min(len(distance) // FEWEST_SHOWN, len(distance) - 1)
    coverage, rule = n_kept / len(distance), None
    if width is not None and (n := int(np.sum(widths <= width))):
        rule_point = coverage[n - 1], error[n - 1]
        text = f"width up to {significant(width)}: error {significant(rule_point[1])} at coverage "
        text += percent(rule_point[0])
        rule = *rule_point, text
    caption = (
        "Mean error among the test samples that are kept when those of the widest intervals are "
        "deferred to a human; it rises to the right where width tells hard samples from easy ones."
    )
    by, label = "width of the interval", "mean |true − predicted|"
    return deferral_chart(coverage[first:], error[first:], by, rule, caption, label)


def deferral_chart(
    coverage: np.ndarray,
    error: np.ndarray,
    by: str,
    rule: tuple[float, float, str] | None,
    caption: str,
    label: str,
    scale: str = "linear",
) -> Chart:
    """A chart of the error among the predictions that are kept, against the coverage.

    Parameters
    ----------
    coverage : float array of shape (n,)
        Fractions of the predictions that are kept.
    error : float array of shape (n,)
        Error among those that are kept.
    by : str
        Quantity that the predictions are sorted by, such as "certainty of the vote".
    rule : tuple of coverage, error and text, or None
        What the run's rule keeps; drawn as a dot.
    caption : str
    label : str
        Label of the error axis.
    scale : str, default "linear"
        Scale of the error axis, as for ``Panel``.

    Returns
    -------
    Chart
    """
    look = {"color": BLUE, "drawstyle": "steps-post", "gid": "kept"}
    series = [Series(coverage, error, f"by {by}", look=look)]
    if rule is not None:
        x, y, name = rule
        series.append(Series([x], [y], name, look=dots(VERMILLION, "o", 7, gid="rule")))
    panel = Panel(
        series, "coverage: fraction of predictions kept", label, scales=("percent", scale)
    )
    draw = partial(series_chart, [panel], "Deferring the uncertain to a human", 4.0)
    return Chart("selective_prediction", draw, caption)


def _missed(table: pd.DataFrame) -> np.ndarray:
    return ~table["true"].between(table["lower"], table["upper"]).to_numpy(bool)
