"""Sections and tables."""

import pandas as pd
import pytest
from matplotlib.figure import Figure

from pipelines.report.parts import (
    Cell,
    Chart,
    Columns,
    Folded,
    Gallery,
    Listing,
    Pairs,
    Part,
    Section,
    Table,
    Text,
    table_of,
)

EMPTY, FULL = Table.of(("a",), []), Table.of(("a",), [["b"]])


@pytest.mark.parametrize(
    ("part", "is_shown"),
    [
        (None, False),
        (Text("words alone"), False),
        (Chart("drawn", Figure, "", ""), True),
        (Listing("rows", FULL), True),
        (Listing("no rows", EMPTY), False),
        (Listing("no table", None), False),
        (Gallery([]), False),
        (Pairs([]), False),
        (Folded("a click away", [Listing("rows", FULL)]), True),
        (Columns([Text("words"), [Text("words"), Listing("rows", FULL)]]), True),
        (Columns([None, [Listing("no rows", EMPTY), None]]), False),
    ],
)
def test_a_section_is_shown_where_more_than_words_is_there(
    part: Part | None, is_shown: bool
) -> None:
    assert Section("name", "Title", [Text("words"), part]).is_shown is is_shown


def test_numbers_and_text_are_told_apart_and_sorted_by_what_they_are() -> None:
    table = Table.of(("n", "share", "name"), [[3.0, (0.25, "25 %"), "a"], [None, 0.5, "b"]])
    assert [kind for _, kind in table.columns] == ["number", "number", "text"]
    assert table.rows[0][1] == Cell("25 %", 0.25, is_number=True)
    assert table.rows[1][0] == Cell("–", "", is_number=True)
    sorts = [[cell.sorts_by_text for cell in row] for row in table.rows]
    assert sorts == [[True, False, True], [False, False, True]]


def test_any_table_is_listed() -> None:
    table = table_of(pd.DataFrame({"cv_error": [0.5, None], "kind": ["x", None]}), ("cv_error",))
    assert [name for name, _ in table.columns] == ["cv error", "kind"]
    assert [cell.text for cell in table.rows[0]] == ["50.00 %", "x"]
    assert table.rows[1][0].text == "–"
