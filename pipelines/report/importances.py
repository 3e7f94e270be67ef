"""Importances on a page: of columns for predictions, of hyper-parameters for scores."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.report.charts import title_and_key
from pipelines.report.figure_values import add_values
from pipelines.report.parts import Chart, Folded, Listing, Part, Section, SideBySide, Text
from pipelines.report.style import BLUE, GREY, INK, PALE, one_axes, percent_labels
from pipelines.report.wording import count, percent, shorten, significant
from pipelines.run_folder.measures import ACCURACY
from pipelines.run_folder.names import IMPORTANCES, PARAMETER_IMPORTANCES
from pipelines.run_folder.reading import RunData, read_table
from pipelines.run_folder.rows import Row
from pipelines.run_folder.schema import Count, Number

MOST_BARS = 12  # most important columns that are drawn; the table has all
CORRELATED = (
    "Where columns carry the same information, such as two lengths of one object, each may look "
    "unimportant, because the other stands in for it."
)


class ColumnRow(Row):
    """A row of ``importances.parquet``; see docs/run-folder.md."""

    column: str
    importance: Number
    low: Number
    high: Number
    scoring: str
    n_rows: Count
    n_repeats: Count


class ParameterRow(Row):
    """A row of ``parameter_importances.parquet``."""

    algorithm: str
    parameter: str
    importance: Number
    low: Number
    high: Number
    explained: Number
    n_candidates: Count


def importance_section(run: RunData) -> Section:
    """The section on importances of columns and of hyper-parameters; empty without any."""
    columns = read_table(run.path / IMPORTANCES, ColumnRow)
    parameters = read_table(run.path / PARAMETER_IMPORTANCES, ParameterRow)
    charts, tables = list[Part](), list[Listing]()
    words = ""
    if columns is not None and len(columns):
        charts.append(_of_columns(columns))
        tables.append(Listing("Columns", _table(columns, "column"), _formats(columns)))
        words = CORRELATED
    if parameters is not None and len(parameters):
        charts.append(_of_parameters(parameters))
        table, by = _table(parameters, "parameter"), parameters["algorithm"]
        if by.nunique() > 1:
            table.insert(0, "algorithm", by.to_numpy())
        form = dict.fromkeys(("importance", "low", "high"), "{:.1%}".format)
        tables.append(Listing("Hyper-parameters", table, form))
    title = "What it depends on"
    if not charts:
        return Section("importance", title, [])
    # A single figure has its table at its side; with two, the tables are folded below.
    is_alone = len(charts) == 1
    parts: list[Part | None] = [SideBySide([*charts, tables[0]] if is_alone else charts)]
    if words:
        parts.append(Text(words))
    if not is_alone:
        parts.append(Folded("As tables", tables))
    return Section("importance", title, parts, link="Importance")


def _table(table: pd.DataFrame, name: str) -> pd.DataFrame:
    return table[[name, "importance", "low", "high"]].reset_index(drop=True)


def _formats(table: pd.DataFrame) -> dict[str, Any]:
    if table["scoring"].iloc[0] != ACCURACY:
        return {}
    return dict.fromkeys(("importance", "low", "high"), percent)


def _of_columns(table: pd.DataFrame) -> Chart:
    scoring, n_rows, n_repeats = (
        table[name].iloc[0] for name in ("scoring", "n_rows", "n_repeats")
    )
    is_accuracy = scoring == ACCURACY
    what = "error" if is_accuracy else str(scoring).removeprefix("neg_").replace("_", " ")
    rises = is_accuracy or str(scoring).startswith("neg_")
    label = f"{'rise' if rises else 'drop'} in {what} of the test samples"
    caption = (
        f"How much worse the {what} becomes when a column of the table is shuffled, which removes "
        f"its information. The dot is the mean of {n_repeats} repeats, each on {n_rows:,} test "
        "samples drawn with replacement; the bar is the 95 % interval over such draws, grey where "
        "it reaches 0."
    )
    if len(table) > MOST_BARS:
        caption += f" Shown are the {MOST_BARS} most important of {len(table):,} columns."
    first = table.head(3)["column"].tolist()
    alt = f"{label} when a column is shuffled; the most important are {', '.join(map(str, first))}."
    draw = partial(_dots, table.head(MOST_BARS), "column", "Columns", label, is_accuracy)
    return Chart("column_importances", draw, caption, alt=alt)


def _of_parameters(table: pd.DataFrame) -> Chart:
    are_several = table["algorithm"].nunique() > 1
    table = table.assign(
        parameter=[
            f"{algorithm.split('.')[-1]}: {name}" if are_several else name
            for algorithm, name in zip(table["algorithm"], table["parameter"], strict=True)
        ]
    )
    algorithms = table.drop_duplicates("algorithm")
    n, explained = int(algorithms["n_candidates"].sum()), algorithms["explained"].min()
    caption = (
        "How much each hyper-parameter contributes to a random forest's prediction of the ranks of "
        f"{count(n, 'candidate')}, as a fraction of all contributions. The dot is the mean over "
        "the trees, the bar covers 95 % of them. On candidates that it has not seen, the forest "
        f"explains {'at least ' if are_several else ''}{100 * explained:.0f} % of the variance. "
        "Importances depend on the values tried: a wider range weighs more."
    )
    first = str(table["parameter"].iloc[0])
    alt = f"Importance of hyper-parameters for the score; the most important is {first}."
    label = "fraction of the forest's explanation"
    draw = partial(_dots, table.head(MOST_BARS), "parameter", "Hyper-parameters", label, True)
    return Chart("parameter_importances", draw, caption, alt=alt)


def _dots(table: pd.DataFrame, by: str, title: str, label: str, is_percent: bool) -> Figure:
    """Draw importances, one below the other, as dots on their intervals."""
    height = 1.2 + 0.26 * max(6, len(table))
    figure, axes = one_axes(height, xlabel=label)
    places = np.arange(len(table))
    low, high = table["low"].to_numpy(float), table["high"].to_numpy(float)
    is_above_zero = low > 0
    for is_shown, colour in ((is_above_zero, BLUE), (~is_above_zero, GREY)):
        if is_shown.any():
            axes.hlines(
                places[is_shown], low[is_shown], high[is_shown], color=colour, lw=3, alpha=0.4
            )
            values = table["importance"].to_numpy(float)[is_shown]
            axes.plot(values, places[is_shown], "o", color=colour, ms=5, gid="importances")
    in_words = percent if is_percent else significant
    texts = [
        f"{row[by]}: {in_words(row['importance'])} "
        f"({in_words(row['low'])} to {in_words(row['high'])})"
        for row in table.to_dict("records")
    ]
    add_values(axes, (low + high) / 2, places, texts, ((high - low) / 2, 0.3))
    axes.axvline(0, color=INK, lw=0.8)
    names = [shorten(str(name), 24) for name in table[by]]
    axes.set_yticks(places, names)
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=PALE, lw=0.8)
    axes.set_axisbelow(True)
    if is_percent:
        percent_labels(axes.xaxis)
    title_and_key(figure, title, [])
    return figure
