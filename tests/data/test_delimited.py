"""Text as it comes: dialects, encodings, headers, and what is none of the table."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipelines.data.delimited import NoTable, read_text_table

NAMES = ("w", "h", "kind")
ROWS = [["5.1", "3.5", "a"], ["4.9", "3.0", "b"], ["6.2", "3.4", "a"], ["5.9", "3.1", "b"]]


def written(delimiter=",", end="\n", names=NAMES):
    lines = ([names] if names else []) + ROWS
    return "".join(delimiter.join(line) + end for line in lines)


def read(path, text, **options):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_text_table(path, **options)


def rows_of(table):
    return [list(row.values()) for row in table.cells.to_pylist()]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (written(), NAMES),
        (written(";"), NAMES),
        (written("\t"), NAMES),
        (written("|"), NAMES),
        (written(", "), NAMES),
        (written(" "), NAMES),
        (written("   "), NAMES),
        (written(end="\r\n"), NAMES),
        (written(end="\r"), NAMES),
        (written(names=None), None),
        ("\ufeff" + written(), NAMES),
        (written().encode("utf-16"), NAMES),
        (written().encode("utf-16-le"), NAMES),
        ("sep=;\n" + written(";"), NAMES),
        ("SEP=|\r\n" + written("|", "\r\n"), NAMES),
        ("\n\n" + written(), NAMES),
        (written() + "\n\n", NAMES),
        ("# measured, by hand\n# in 2020\n" + written(), NAMES),
        ("#w,h,kind\n" + written(names=None), NAMES),
        ("# x, y\n" + written("\t"), NAMES),
        ("Iris of the garden\n\n" + written(), NAMES),
        ("Iris of the garden,,\n,,\n" + written(), NAMES),
        (written().replace("w,h,kind", '"w","h","kind"'), NAMES),
        (written().replace("w,h,kind", " w , h,kind "), NAMES),
    ],
    ids=repr,
)
def test_a_table_is_read_however_it_is_written(text, names, tmp_path):
    table = read(tmp_path / "t.csv", text)
    assert table.names == names
    assert rows_of(table) == ROWS


@pytest.mark.parametrize(
    ("text", "names", "first"),
    [
        (
            '"w" "h" "kind"\n"1" 5.1 3.5 "a"\n"2" 4.9 3.0 "b"\n',
            ("", *NAMES),
            ["1", "5.1", "3.5", "a"],
        ),
        ("w,h\nr1,5.1,3.5\nr2,4.9,3.0\n", ("", "w", "h"), ["r1", "5.1", "3.5"]),
        (
            "land,1990,1991,1992\na,1,2,3\nb,4,5,6\n",
            ("land", "1990", "1991", "1992"),
            ["a", "1", "2", "3"],
        ),
        ("0,1,2\n5.1,3.5,a\n4.9,3.0,b\n", ("0", "1", "2"), ["5.1", "3.5", "a"]),
        ("w,h,kind\ncm,cm,\n5.1,3.5,a\n4.9,3.0,b\n", ("w cm", "h cm", "kind"), ["5.1", "3.5", "a"]),
        (
            "size,,kind\nw,h,\n5.1,3.5,a\n4.9,3.0,b\n",
            ("size w", "size h", "kind"),
            ["5.1", "3.5", "a"],
        ),
        ("w,h,\n5.1,3.5,\n4.9,3.0,\n", ("w", "h"), ["5.1", "3.5", ""]),
        ('name,w\n"Doe, J",1\n"Roe \\"R\\", K",2\n', ("name", "w"), ["Doe, J", "1"]),
        ('name,w\n"Doe ""D"", J",1\n"Roe, K",2\n', ("name", "w"), ['Doe "D", J', "1"]),
        ("name,w\n'Doe, J',1\n'Roe, K',2\n'Poe, E',3\n", ("name", "w"), ["Doe, J", "1"]),
        ('"name", "w"\n"Doe, J", "1"\n"Roe, K", "2"\n', ("name", "w"), ["Doe, J", "1"]),
        ("a,b\nb,c\nc,a\nc,b\n", None, ["a", "b"]),
        ('name,note\na,"two\nlines"\nb,"1,2"\n', ("name", "note"), ["a", "two\nlines"]),
    ],
)
def test_headers_and_quotes(text, names, first, tmp_path):
    table = read(tmp_path / "t.csv", text)
    assert table.names == names
    assert rows_of(table)[0] == first


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "cp437", "utf-16", "cp949"])
def test_an_encoding_that_is_asked_for(encoding, tmp_path):
    word = "한국" if encoding == "cp949" else "é"
    text = written().replace("kind", word).encode(encoding)
    assert read(tmp_path / "t.csv", text, encoding=encoding).names == ("w", "h", word)


def test_what_excel_writes_on_windows_is_noticed_and_said(tmp_path):
    text = "städte;größe;straße\n" + "Köln;1,5;Große Gasse\nZürich;2,5;Am Bühl\n" * 20
    table = read(tmp_path / "t.csv", text.encode("cp1252"))
    assert table.names == ("städte", "größe", "straße")
    assert table.notes == ("read as cp1252, a guess",)


LACKING = "than 3 cells, the first in line 42, taken as lacking the last"


@pytest.mark.parametrize(
    ("extra_lines", "note", "n_rows"),
    [
        ("7.0,3.2\n", f"1 row of fewer {LACKING}", 41),
        ("7.0\n7.0\n", f"2 rows of fewer {LACKING}", 42),
        ("7.0,3.2,a,b\n", "1 row of more than 3 cells left out, the first in line 42", 40),
        (",,\n", None, 40),
        ("7.0,3.2,a,\n", None, 41),
        ('7.0,3.2,"a\n', "a quote is not closed", 41),
        ('7.0,3.2,"a\nb"\n', "1 cell of several lines, the first in line 42", 41),
        ('7.0,3.2,5" disk\n', None, 41),
    ],
)
def test_rows_of_other_lengths_are_told(extra_lines, note, n_rows, tmp_path):
    table = read(tmp_path / "t.csv", written() + written(names=None) * 9 + extra_lines)
    assert len(rows_of(table)) == n_rows
    assert table.notes[:1] == ((note,) if note else ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no row"),
        ("\n \n", "has no row"),
        (written() * 2, "its header stands again"),
        (written() + "\n" + "a,b\n1,2\n" + "1,2,3,4,5\n" * 3, "several tables, or no quotes"),
        (b"\x00\x01\x02" * 50, "bytes of 0"),
        (
            written() + written(names=None) * 2 + '7.0,3.2,"a\n1,2,b\n3,4,c\n',
            "one is not closed in line 14",
        ),
        (
            written() + written(names=None) * 2 + '7.0,"3,a\n1,"2,b\n',
            "one is not closed in line 14",
        ),
        ("@relation iris\n@attribute w real\n@data\n1,a\n", "is ARFF"),
        ('[{"w": 1}, {"w": 2}]\n', "is JSON"),
        ("+1 1:5.2 2:3\n-1 1:4 2:2.5\n", "libsvm"),
        ("<!DOCTYPE html>\n<table>\n", "HTML"),
        ("w,kind\n" + "1,2,a,b\n2,3,b,c\n1,5,a,b\n" * 9, "2 names of columns, but 4 cells"),
    ],
)
def test_what_is_no_table_is_refused_by_its_reason(text, reason, tmp_path):
    with pytest.raises(NoTable, match=reason):
        read(tmp_path / "t.csv", text)


@pytest.mark.parametrize("above", ["", "sep=,\n", "# a comment\n", "A title\n\n"])
def test_the_line_of_a_row(above, tmp_path):
    text = above + 'w,h,kind\n1,2,"a\nb"\n\n3,4,c\n5,6,d\n'
    table = read(tmp_path / "t.csv", text)
    lines = text.splitlines()
    assert [lines[table.line_of(row) - 1] for row in range(3)] == ['1,2,"a', "3,4,c", "5,6,d"]


def test_apostrophes_within_cells_in_apostrophes(tmp_path):
    lines = [f"{i},'the dog's bed, number \"{i}\"','a'" for i in range(9)]
    table = read(tmp_path / "t.csv", "w,'what','kind'\n" + "\n".join(lines) + "\n")
    assert table.names == ("w", "what", "kind")
    assert rows_of(table)[3] == ["3", 'the dog\'s bed, number "3"', "a"]


def test_a_terminal_has_no_second_progress_bar():
    """DuckDB draws one of its own where standard output is a terminal, unless it is told not to."""
    script = (
        "from pipelines.data.delimited import connected\n"
        "print(connected().sql(\"SELECT current_setting('enable_progress_bar')\").fetchall())"
    )
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb") as terminal:
        subprocess.run([sys.executable, "-c", script], stdin=theirs, stdout=theirs, check=True)
        assert terminal.read1(100).strip() == b"[(False,)]"
    os.close(theirs)
