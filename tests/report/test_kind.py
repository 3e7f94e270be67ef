import pytest

from pipelines.report.kind import Chart, Columns, Listing, Part, Section, Text
from pipelines.report.table import Table

EMPTY, FULL = Table.of(("a",), []), Table.of(("a",), [["b"]])


@pytest.mark.parametrize(
    ("part", "is_shown"),
    [
        (Text("words alone"), False),
        (Chart("drawn", ""), True),
        (Chart("not drawn", ""), False),
        (Listing("rows", FULL), True),
        (Listing("no rows", EMPTY), False),
        (Listing("no table", None), False),
        (Columns([Text("words"), [Text("words"), Listing("rows", FULL)]]), True),
        (Columns([Text("words"), [Listing("no rows", EMPTY)]]), False),
    ],
)
def test_a_section_is_shown_where_a_figure_or_a_table_is_there(part: Part, is_shown: bool) -> None:
    assert Section("name", "Title", [Text("words"), part]).is_shown({"drawn"}) is is_shown
