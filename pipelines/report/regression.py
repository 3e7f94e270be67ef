"""Figures and facts of predicted numbers with intervals."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from pipelines.report.charts import Panel, Series, dots, series_chart
from pipelines.report.parts import Card, Chart
from pipelines.report.style import BLUE, INK, VERMILLION
from pipelines.report.wording import count, percent, significant
from pipelines.run_folder.statistics import wilson

FEWEST_SHOWN = 10  # a tenth of the samples
INTERVALS = ("true", "predicted", "lower", "upper")  # columns of the tables below


def intervals_chart(table: pd.DataFrame, confidence: float) -> Chart:
    """Return intervals over the sorted test samples, and their width against the error.

    Parameters
    ----------
    table : with the columns ``INTERVALS``, a line for each test sample
    confidence : float
        Fraction of intervals that are to hold their target.
    """
    table = table.sort_values("predicted", ignore_index=True)
    true, predicted, lower, upper = (table[name].to_numpy(float) for name in INTERVALS)
    place, missed = np.arange(1, len(table) + 1), _missed(table)
    of_kind = ((~missed, BLUE, "in its interval"), (missed, VERMILLION, "outside"))
    over_rows = [
        Series(place, predicted, band=(lower, upper), look={"color": INK, "linewidth": 1})
    ] + [
        Series(place[kind], true[kind], label=label, look=dots(colour, ".", alpha=0.7))
        for kind, colour, label in of_kind
        if kind.any()
    ]
    against_error = [
        Series(
            (upper - lower)[kind],
            np.abs(true - predicted)[kind],
            label=label,
            look=dots(colour, ".", alpha=0.5),
        )
        for kind, colour, label in of_kind
        if kind.any()
    ]
    panels = [
        Panel(over_rows, "test samples, by prediction", "target"),
        Panel(against_error, "width of the interval", "|true − predicted|"),
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
    """Return coverage of the test samples, with what chance allows, and the mean width.

    Parameters
    ----------
    table, confidence : as of ``intervals_chart``
    """
    n, n_missed = len(table), int(_missed(table).sum())
    if n == 0:
        return []
    low, high = wilson(n - n_missed, n)
    width = (table["upper"] - table["lower"]).mean()
    spread = float(table["true"].std(ddof=0))
    note = f"{significant(width / spread)} standard deviations of the target" if spread else ""
    return [
        Card(
            "coverage of intervals",
            percent((n - n_missed) / n),
            f"asked for {100 * confidence:.4g} %; 95 % interval {percent(low)} to {percent(high)}",
        ),
        Card("mean width of an interval", significant(width), note),
    ]


def kept_numbers_chart(table: pd.DataFrame, width: float | None = None) -> Chart:
    """Return the error among the predictions that are kept when the widest are deferred.

    Parameters
    ----------
    table : as of ``intervals_chart``
    width : float, optional
        Largest width of a prediction that is kept, drawn as a dot.
    """
    true, predicted, lower, upper = (table[name].to_numpy(float) for name in INTERVALS)
    widths = upper - lower
    distance = np.abs(true - predicted)[np.argsort(widths, kind="stable")]
    n_kept = np.arange(1, len(distance) + 1)
    error = np.cumsum(distance) / n_kept
    # Of a few the mean is chance alone.
    first = min(len(distance) // FEWEST_SHOWN, len(distance) - 1)
    look = {"color": BLUE, "drawstyle": "steps-post", "gid": "kept"}
    share = n_kept / len(distance)
    series = [Series(share[first:], error[first:], "by width of the interval", look=look)]
    if width is not None and (n := int(np.sum(widths <= width))):
        label = (
            f"up to {significant(width)}: {significant(error[n - 1])} of {percent(share[n - 1])}"
        )
        look = dots(VERMILLION, "o", 7, gid="rule")
        series.append(Series([share[n - 1]], [error[n - 1]], label, look=look))
    panel = Panel(
        series, "predictions kept", "mean |true − predicted|", scales=("percent", "linear")
    )
    caption = (
        "Mean error among the test samples that are kept when those of the widest intervals are "
        "deferred to a human; it rises to the right where width tells hard samples from easy ones."
    )
    title = "Deferring the uncertain to a human"
    return Chart("selective_prediction", partial(series_chart, [panel], title, 4.0), caption)


def _missed(table: pd.DataFrame) -> np.ndarray:
    return ~table["true"].between(table["lower"], table["upper"]).to_numpy(bool)
