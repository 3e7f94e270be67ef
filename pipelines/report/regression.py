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


def _missed(table: pd.DataFrame) -> np.ndarray:
    return ~table["true"].between(table["lower"], table["upper"]).to_numpy(bool)
