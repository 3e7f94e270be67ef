"""The figures of importances, and pages of runs that have them or not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import InputError
from pipelines.report import write_report
from pipelines.report.importances import MOST_BARS, importance_section
from pipelines.report.parts import Chart, Listing, SideBySide, every_part
from pipelines.report.style import BLUE, GREY
from pipelines.run_folder.names import IMPORTANCES, PARAMETER_IMPORTANCES
from pipelines.run_folder.reading import RunData
from tests.report.page_reader import Page, figures_in


def columns(n=3, scoring="accuracy"):
    """The first column decides, the last is noise."""
    importance = np.linspace(0.3, 0.0, n)
    return pd.DataFrame(
        {
            "column": [f"column {i}" for i in range(n)],
            "importance": importance,
            "low": importance - 0.1,
            "high": importance + 0.1,
            "scoring": scoring,
            "n_rows": 36,
            "n_repeats": 20,
        }
    )


def parameters():
    return pd.DataFrame(
        {
            "algorithm": "svm",
            "parameter": ["C", "gamma"],
            "importance": [0.8, 0.2],
            "low": [0.7, 0.1],
            "high": [0.9, 0.3],
            "explained": 0.75,
            "n_candidates": 64,
        }
    )


def charts(run):
    parts = every_part(importance_section(RunData.read(run)).parts)
    return {part.name: part for part in parts if isinstance(part, Chart)}


def test_a_run_without_tables_has_no_section(make_run):
    run = make_run()
    page = Page(write_report(run))
    assert "What it depends on" not in page.text
    assert not {"column_importances", "parameter_importances"} & figures_in(run)


def test_both_figures_stand_side_by_side(make_run):
    run = make_run()
    columns().to_parquet(run / IMPORTANCES)
    parameters().to_parquet(run / PARAMETER_IMPORTANCES)
    page = Page(write_report(run))
    assert {"column_importances", "parameter_importances"} <= figures_in(run)
    assert "each on 36 test samples" in page.text
    assert "explains 75 % of the variance" in page.text
    (side_by_side, *_) = importance_section(RunData.read(run)).parts
    assert isinstance(side_by_side, SideBySide)
    assert all(isinstance(part, Chart) for part in side_by_side.parts)


def test_importances_are_told_with_their_intervals(make_run):
    run = make_run()
    columns().to_parquet(run / IMPORTANCES)
    parameters().to_parquet(run / PARAMETER_IMPORTANCES)
    page = write_report(run).read_text(encoding="utf-8")
    assert "column 0: 30.00 % (20.00 % to 40.00 %)" in page
    assert "C: 80.00 % (70.00 % to 90.00 %)" in page


def test_a_lone_figure_has_its_table_beside_it(make_run):
    run = make_run()
    columns().to_parquet(run / IMPORTANCES)
    (side_by_side, *_) = importance_section(RunData.read(run)).parts
    assert isinstance(side_by_side, SideBySide)
    assert [type(part) for part in side_by_side.parts] == [Chart, Listing]


def test_what_reaches_zero_is_grey_and_the_rest_is_in_the_table(
    make_run,
):
    run = make_run()
    columns(MOST_BARS + 5).to_parquet(run / IMPORTANCES)
    chart = charts(run)["column_importances"]
    assert f"the {MOST_BARS} most important of {MOST_BARS + 5} columns" in chart.caption
    assert "most important are column 0, column 1, column 2" in chart.alt
    (axes,) = chart.draw().axes
    blue, grey = (
        next(line for line in axes.get_lines() if line.get_color() == colour)
        for colour in (BLUE, GREY)
    )
    assert len(blue.get_xdata()) + len(grey.get_xdata()) == MOST_BARS
    assert min(blue.get_xdata()) > 0.1 >= max(grey.get_xdata())
    assert axes.get_yticklabels()[0].get_text() == "column 0"
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first on top


@pytest.mark.parametrize(
    ("scoring", "label"),
    [
        ("accuracy", "rise in error of the test samples"),
        ("r2", "drop in r2 of the test samples"),
        ("neg_mean_absolute_error", "rise in mean absolute error of the test samples"),
    ],
)
def test_the_axis_says_what_becomes_worse(scoring, label, make_run):
    run = make_run()
    columns(scoring=scoring).to_parquet(run / IMPORTANCES)
    (axes,) = charts(run)["column_importances"].draw().axes
    assert axes.get_xlabel() == label


def test_a_damaged_table_is_refused(make_run):
    run = make_run()
    columns().drop(columns="low").to_parquet(run / IMPORTANCES)
    with pytest.raises(InputError, match=IMPORTANCES):
        write_report(run)
