"""The figure and the facts of intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection

from pipelines.report.regression_charts import interval_cards, intervals_chart, kept_numbers_chart


@pytest.fixture
def table():
    """Three of 40 targets outside intervals that grow, in no order."""
    rng = np.random.default_rng(0)
    predicted = rng.permutation(np.linspace(0, 10, 40))
    half = 1 + predicted / 5
    true = predicted + half * rng.uniform(-1, 1, 40)
    true[:3] = predicted[:3] + 2 * half[:3]
    columns = {"true": true, "predicted": predicted, "lower": predicted - half}
    return pd.DataFrame({**columns, "upper": predicted + half})


def test_intervals_are_drawn_in_the_order_of_predictions(table):
    chart = intervals_chart(table, 0.9)
    assert chart.alt.startswith("Intervals of 40 test samples, 3 of whose targets lie outside")
    assert "intervals of 90 % (band)" in chart.caption
    over_rows, against_error = chart.draw().axes
    line, inside, outside = over_rows.get_lines()
    assert np.all(np.diff(line.get_ydata()) >= 0)
    assert [len(dots.get_xdata()) for dots in (line, inside, outside)] == [40, 37, 3]
    (band,) = [
        collection for collection in over_rows.collections if isinstance(collection, PolyCollection)
    ]
    assert band.get_datalim(over_rows.transData).height == pytest.approx(14, abs=0.1)
    _, far = against_error.get_lines()
    np.testing.assert_allclose(far.get_ydata(), far.get_xdata())  # twice half the width
    assert against_error.get_xlabel() == "width of the interval"


def test_a_chart_without_misses_has_no_dots_outside(table):
    over_rows, _ = intervals_chart(table.iloc[3:], 0.9).draw().axes
    assert len(over_rows.get_lines()) == 2


def test_cards_say_coverage_and_width(table):
    coverage, width = interval_cards(table, 0.9)
    assert coverage.value == "92.50 %"
    assert coverage.note == "asked for 90 %; 95 % interval 80.14 % to 97.42 %"
    assert width.value == "4"
    assert width.note.endswith(" standard deviations of the target")
    assert interval_cards(table.iloc[:0], 0.9) == []
    constant = table.assign(true=1.0)
    assert interval_cards(constant, 0.9)[1].note == ""


def test_the_error_of_what_is_kept_rises_with_the_width(table):
    width = float(np.median(table["upper"] - table["lower"]))
    (axes,) = kept_numbers_chart(table, width).draw().axes
    line, rule = axes.get_lines()
    off = np.abs(table["true"] - table["predicted"])
    assert line.get_xdata()[0] == pytest.approx(5 / 40)  # of fewer the mean is chance
    assert line.get_ydata()[-1] == pytest.approx(off.mean())
    narrow = (table["upper"] - table["lower"]) <= width
    assert rule.get_xdata() == pytest.approx([narrow.mean()])
    assert rule.get_ydata() == pytest.approx([off[narrow].mean()])
    assert len(kept_numbers_chart(table, 1.0).draw().axes[0].get_lines()) == 1  # none is so narrow
