"""Sections and tables."""

import pandas as pd
import pytest
from matplotlib.figure import Figure

from pipelines.report.parts import (
    Cell,
    Chart,
    Folded,
    Gallery,
    Listing,
    Pairs,
    Section,
    SideBySide,
    Text,
)

EMPTY, FULL = pd.DataFrame({"a": []}), pd.DataFrame({"a": ["b"]})


@pytest.mark.parametrize(
    ("part", "is_shown"),
    [
        (None, False),
        (Text("words alone"), False),
        (Chart("drawn", Figure, ""), True),
        (Listing("rows", FULL), True),
        (Listing("no rows", EMPTY), False),
        (Listing("no table", None), False),
        (Gallery([]), False),
        (Pairs([]), False),
        (Folded("a click away", [Listing("rows", FULL)]), True),
        (SideBySide([Text("words"), None, Listing("no rows", EMPTY)]), False),
    ],
)
def test_a_section_is_shown_where_more_than_words_is_there(part, is_shown):
    assert Section("name", "Title", [Text("words"), part]).is_shown is is_shown


def test_numbers_and_text_are_told_apart_and_sorted_by_what_they_are():
    frame = pd.DataFrame({"n": [3, 1437], "cv_error": [0.5, None], "kind": ["x", None]})
    listing = Listing("A table", frame, {"cv_error": "{:.0%}".format}, links=["a", "b"])
    assert listing.columns == [("n", "number"), ("cv error", "number"), ("kind", "text")]
    assert listing.rows == [
        [Cell("3", None, "a"), Cell("50%", "0.5"), Cell("x")],
        [Cell("1,437", "1437", "b"), Cell("–", ""), Cell("–")],
    ]
