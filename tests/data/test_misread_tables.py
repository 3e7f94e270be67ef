"""Files as people have them: each is read as its author meant it, with a note, or refused."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.data.load import load_dataset
from pipelines.data.tables import Reading, read_raw_table
from pipelines.errors import InputError

N = 60


@pytest.fixture
def read(tmp_path):
    """A table of a text, or of columns: a line of names, and a line for each row."""

    def read(text="", target="kind", encoding="utf-8", **options):
        path = tmp_path / "t.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return read_raw_table(path, target, **options)

    return read


def text_of(cells, header="w,h,kind"):
    """Rows of a cell of interest, a number that never counts, and a class."""
    rows = (f"{cell},{i % 5 + 0.5},{'ab'[i % 2]}\n" for i, cell in enumerate(cells))
    return f"{header}\n" + "".join(rows)


def notes(table):
    return "; ".join(table.conversions)


# Columns of numbers


@pytest.mark.parametrize(
    ("pattern", "expected", "note"),
    [
        ("\u2212{}.5", lambda i: -i - 0.5, ""),
        ("{} 100", lambda i: i * 1000 + 100, "thousands apart"),
        ("{}\u00a0100", lambda i: i * 1000 + 100, "thousands apart"),
        ("{}\u202f100", lambda i: i * 1000 + 100, "thousands apart"),
        ("{}'100", lambda i: i * 1000 + 100, "thousands apart"),
        ('"{},100"', lambda i: i * 1000 + 100, "thousands apart"),
        ('"{},100.25"', lambda i: i * 1000 + 100.25, "thousands apart"),
        ('"{}.100,25"', lambda i: i * 1000 + 100.25, "decimal commas"),
        ("${}", lambda i: i, "'$'"),
        ("$ {}.5", lambda i: i + 0.5, "'$'"),
        ("-${}", lambda i: -i, "'$'"),
        ("{} €", lambda i: i, "'€'"),
        ("EUR {}", lambda i: i, "'EUR'"),
        ("{}%", lambda i: i, "'%'"),
        ("{}.5cm", lambda i: i + 0.5, "'cm'"),
        ("{} km/h", lambda i: i, "'km/h'"),
        ("({}.5)", lambda i: -i - 0.5, "brackets"),
        ("$({}.5)", lambda i: -i - 0.5, "brackets"),
        ("~{}.5", lambda i: i + 0.5, "'~'"),
        ('"12,34,{:03}"', lambda i: 1_234_000 + i, "thousands apart"),
        ("{} °C", lambda i: i, "'°C'"),
        ("{}.5D0", lambda i: i + 0.5, ""),
        ("{}.5E+02", lambda i: 100 * i + 50, ""),
        ('"{},5"', lambda i: i + 0.5, "decimal commas"),
    ],
)
def test_numbers_with_a_mark_are_numbers(pattern, expected, note, read):
    numbers = [11 * (i % 37) + 10 for i in range(N)]
    table = read(text_of(pattern.format(i) for i in numbers))
    assert table.kinds.numbers == ("w", "h")
    np.testing.assert_array_equal(table.X["w"], [expected(i) for i in numbers])
    assert note in notes(table)
    assert not note or "'w'" in notes(table)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("0,{:03}", lambda i: i / 1000),  # no thousands: a zero does not begin them
        ("{0},{0:03}", lambda i: i + i / 1000),  # German, where nothing else tells
    ],
)
def test_three_digits_after_a_comma(pattern, expected, read):
    numbers = [11 * (i % 37) + 10 for i in range(N)]
    lines = [f"{pattern.format(i)};{i % 7};{'ab'[i % 2]}\n" for i in numbers]
    table = read("w;h;kind\n" + "".join(lines))
    np.testing.assert_allclose(table.X["w"], [expected(i) for i in numbers])
    assert notes(table) == "decimal commas in 'w'"
    if pattern != "0,{:03}":
        stops = [line.replace(";", ";0.5;", 1) for line in lines]
        table = read("w;x;h;kind\n" + "".join(stops))
        assert table.X["w"].tolist() == [1001 * i for i in numbers]
        assert "thousands apart" in notes(table)


@pytest.mark.parametrize("whole", ["{}", "{}.250", "1.{:03}.000"])
def test_stops_between_thousands_beside_decimal_commas(whole, read):
    numbers = [11 * (i % 37) + 10 for i in range(N)]
    lines = [f"{whole.format(i)};{i % 7},25;{'ab'[i % 2]}\n" for i in numbers]
    table = read("w;h;kind\n" + "".join(lines))
    assert table.X["w"].tolist() == [int(whole.format(i).replace(".", "")) for i in numbers]
    assert ("thousands apart" in notes(table)) == ("." in whole)


@pytest.mark.parametrize("other", ["6,250,{:03}", "$6,250.{:02}"])
def test_commas_between_thousands_beside_other_thousands(other, read):
    lines = [f"{i % 9 + 1},250;{other.format(i)};{'ab'[i % 2]}\n" for i in range(N)]
    assert read("w;h;kind\n" + "".join(lines)).X["w"].tolist() == [
        1000 * (i % 9 + 1) + 250 for i in range(N)
    ]


def test_digits_of_base_16_are_text(read):
    table = read(text_of(f"0x{i % 3:02}" for i in range(N)))
    assert table.X["w"][:3].tolist() == ["0x00", "0x01", "0x02"]


def test_numbers_in_two_units_are_refused_as_two_decimal_marks_are(read, refused):
    for cells in (
        [f"{i} cm" if i % 2 else f"{i} mm" for i in range(N)],
        [f"${i}" if i % 3 else f"{i}" for i in range(N)],
        [f"{i}.5" if i % 2 else f'"{i},5"' for i in range(N)],
    ):
        refused(lambda cells=cells: read(text_of(cells)), "numbers of one form", "'w'", "line ")


def test_codes_of_digits_and_letters_are_categories(read):
    table = read(text_of(f"{i % 3}{'abcd'[i % 4]}" for i in range(N)))
    assert table.kinds.categories == ("w",)
    assert table.X["w"][:3].tolist() == ["0a", "1b", "2c"]


@pytest.mark.parametrize(
    "date",
    ["2020/01/{:02}", "2020-{:02}", "{}-Jan-2020", "07:{:02}", "{:02}-01-2020", "2020-01-{:02}"],
)
@pytest.mark.parametrize("n_days", [3, 12])
def test_dates_are_left_out(date, n_days, read):
    cells = [date.format(i % n_days + 1) for i in range(N)]
    assert read(text_of(cells)).kinds.left_out == (("w", "date"),)
    cells[::5] = ["-"] * 12
    assert read(text_of(cells)).kinds.left_out == (("w", "date"),)


def test_zeros_before_numbers_are_told(read):
    table = read(text_of(f"{i * 37:05}" for i in range(1, N)))
    assert table.X["w"][0] == 37
    assert notes(table) == "zeros before numbers left out, '00037' is 37, in 'w'"


@pytest.mark.parametrize("sign", ["-", "--", "..", ".", "missing", "#DIV/0!", "n.a.", "None"])
def test_known_signs_in_numbers_are_missing_cells(sign, read):
    table = read(text_of(sign if i % 7 == 3 else i * 0.5 for i in range(N)))
    assert table.X["w"].isna().to_numpy().nonzero()[0].tolist() == list(range(3, N, 7))
    assert table.X["w"][4] == 2.0
    assert f"{len(range(3, N, 7))} cells {sign!r} as missing in 'w'" in notes(table)


@pytest.mark.parametrize("cell", ["o.5", "1.5.2", "12;5", "1-5", "abc", "5 apples", "0x1F"])
def test_a_slip_among_numbers_is_refused_by_its_line(cell, read, refused):
    text = text_of(cell if i == 33 else i + 0.25 for i in range(80))
    refused(lambda: read(text), "'w'", repr(cell), "line 35", "--missing-values", "--category w")
    column = read(text, missing_values=[cell]).X["w"]
    assert (column[32], column.isna().sum(), column[34]) == (32.25, 1, 34.25)
    assert read(text.replace(f"\n{cell},", "\n7.5,")).X["w"][33] == 7.5


@pytest.mark.parametrize("word", ["BDL", "x", "(D)", "<2", "oops{}", "5.5-", "\u22655"])
@pytest.mark.parametrize(("n_rows", "every"), [(90, 2), (90, 3), (90, 7), (12, 6), (4, 4)])
def test_words_among_numbers_that_differ_are_slips(word, n_rows, every, read, refused):
    cells = [word.format(i) if i % every == 1 else i + 0.25 for i in range(n_rows)]
    refused(lambda: read(text_of(cells)), "'w'", repr(word.format(1)), "line 3", "--leave-out w")


@pytest.mark.parametrize("word", ["NULL", "Nan", "\\N", "n.v.", "Not Available"])
def test_words_of_databases_are_missing_in_numbers(word, read):
    table = read(text_of(word if i % 3 == 1 else i + 0.25 for i in range(N)))
    assert table.X["w"].isna().to_numpy().nonzero()[0].tolist() == list(range(1, N, 3))


def test_few_numbers_beside_words_are_levels(read):
    for cells in (["1", "2", "x"], ["1a", "2b", "3", "4"], ["<18", "18-65", ">65"]):
        table = read(text_of(cells[i % len(cells)] for i in range(N)))
        assert table.kinds.categories == ("w",)
        assert table.X["w"].tolist()[: len(cells)] == cells


def test_a_mark_in_one_cell_alone_is_a_slip(read, refused):
    """12% beside 0.5 is another unit, and 1,234 beside 1.5 another decimal mark, or thousands."""
    refused(
        lambda: read(text_of("12%" if i == 40 else i / 7 for i in range(N))), "'12%'", "line 42"
    )


def test_decimal_commas_far_down(read):
    text = "w;kind\n" + "3;a\n" * 220 + "3,5;b\n" * 40
    table = read(text)
    assert table.X["w"].tolist() == [3.0] * 220 + [3.5] * 40
    assert notes(table) == "decimal commas in 'w'"


def test_decimal_commas_beside_text_with_commas(read):
    rows = [f"{i},1;{i % 4},0;Doe, J{i};{'ab'[i % 2]}\n" for i in range(30)]
    table = read("w;h;who;kind\n" + "".join(rows))
    assert table.X["w"].tolist() == [i + 0.1 for i in range(30)]
    assert table.kinds.left_out == (("who", "text, different in every row"),)


def test_numbers_that_all_differ_are_no_id(read):
    assert read(text_of(f"{i}.{i}" for i in range(N))).kinds.numbers == ("w", "h")


@pytest.mark.parametrize("names", ["customer_id", "id", "code", "name"])
def test_text_that_looks_like_ids_is_left_out(names, read):
    table = read(text_of((f"K-{i:04}" for i in range(N)), f"{names},h,kind"))
    assert table.kinds.left_out == ((names, "id"),)


# What stands above, below and beside the rows

ROWS = [f"{i}.5,{i % 5},{'ab'[i % 2]}\n" for i in range(30)]
BODY = "".join(ROWS)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("sep=;\n" + ("w,h,kind\n" + BODY).replace(",", ";"), ""),
        ("Statistics of fruit\nSource: an office\n\nw,h,kind\n" + BODY, "2 lines above the table"),
        ("# by hand\n# second, with a comma\nw,h,kind\n" + BODY, "2 lines above the table"),
        ("w,h,kind\n" + BODY + "\n\n", ""),
        ("\n\nw,h,kind\n" + BODY, ""),
        (("w,h,kind\n" + BODY).replace("\n", "\r"), ""),
        (("w,h,kind\n" + BODY).replace("\n", "\r\n"), ""),
        (("w,h,kind\n" + BODY).replace(",", " , "), ""),
        (("w,h,kind\n" + BODY).replace(",", "\t"), ""),
        (("w,h,kind\n" + BODY).replace(",", "   "), ""),
        ("w,h,kind\n" + "".join(row.replace("\n", ",\n") for row in ROWS), ""),
        ("w,h,kind\n" + BODY + "1,2,a,extra\n", "1 row of more than 3 cells left out"),
    ],
)
def test_what_stands_about_rows(text, note, read):
    table = read(text)
    assert table.X["w"].tolist() == [i + 0.5 for i in range(30)]
    assert table.X["h"].tolist() == [i % 5 for i in range(30)]
    assert table.y.tolist() == ["a", "b"] * 15
    assert note in notes(table)
    assert note or not notes(table)


@pytest.mark.parametrize(
    "quoted", ["'Doe, J{}'", '"say \\"hi, {}\\""', '"say ""hi, {}"""', '"two\nlines {}"']
)
def test_quotes(quoted, read):
    cells = [quoted.format(i % 3) for i in range(N)]
    table = read(
        "h,who,kind\n" + "".join(f"{i}.5,{cell},{'ab'[i % 2]}\n" for i, cell in enumerate(cells))
    )
    word = quoted[1:-1].replace('\\"', '"').replace('""', '"')
    assert table.X["who"].tolist() == [word.format(i % 3) for i in range(N)]


def test_a_quote_that_is_not_closed_is_told(read):
    table = read("w,h,kind\n" + BODY + '7.5,2,"a\n')
    assert "a quote is not closed" in notes(table)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "utf-16-le"])
def test_encodings(encoding, read):
    table = read("größe,h,kind\n" + BODY.replace("a\n", "süß\n"), encoding=encoding)
    assert "größe" in table.X
    assert table.y[0] == "süß"
    assert encoding.startswith("utf-8") or notes(table).startswith(f"read as {encoding}")


def test_an_encoding_may_be_said(tmp_path, read):
    path = tmp_path / "t.csv"
    path.write_bytes(("größe,kind\n" + "1.5,ä\n2.5,b\n" * 9).encode("cp437"))
    assert read_raw_table(path, "kind", encoding="cp437").y[0] == "ä"


def test_rows_that_lack_cells_are_told(read):
    table = read(
        "kind,w,h\n" + "".join(f"{'ab'[i % 2]},{i}.5,{i % 5}\n" for i in range(30)) + "b,7.9\n"
    )
    assert (len(table.y), table.n_missing) == (31, 1)
    assert "1 row of fewer than 3 cells" in notes(table)


@pytest.mark.parametrize("n_rows", [2, 30])
def test_the_row_names_of_r(n_rows, read):
    rows = "".join(f'"r{i}" {i}.5 {i % 5} "{"ab"[i % 2]}"\n' for i in range(n_rows))
    table = read('"w" "h" "kind"\n' + rows)
    assert table.X["w"].tolist() == [i + 0.5 for i in range(n_rows)]
    assert "row names" in notes(table)


@pytest.mark.parametrize(
    "years",
    [
        "1990,1991,1992",
        "2001,2002,2003",
        "1990,2000,2005",
        "2020-01,2020-02,2020-03",
        "1/22/20,1/23/20,1/24/20",
        "0,1,2",
    ],
)
def test_years_and_dates_as_a_header(years, read):
    table = read(
        f"country,{years}\n" + "".join(f"C{i},{i}.5,{i * 2},{i / 4}\n" for i in range(30)), "-1"
    )
    assert table.target == years.split(",")[-1]
    assert len(table.y) == 30


def test_lines_of_a_header_are_joined(read):
    table = read(
        "A,,B,\nx,y,x,y\n(m),(kg),(m),(kg)\n" + "".join(f"{i}.5,1,2,{i % 2}\n" for i in range(30)),
        "-1",
    )
    assert list(table.X.columns) == ["A x (m)", "A y (kg)", "B x (m)"]
    assert "3 lines of header joined" in notes(table)


def test_a_header_that_stands_again_is_refused(read, refused):
    refused(lambda: read(("w,h,kind\n" + BODY) * 2), "header stands again")


def test_a_header_longer_than_a_field_of_csv(read):
    names = [f"column-{i:05}" for i in range(12_000)]
    line = ",".join(["1.5"] * len(names))
    table = read(",".join(names) + ",kind\n" + f"{line},a\n{line},b\n" * 2)
    assert len(table.kinds.numbers) == 12_000


# Labels


@pytest.mark.parametrize(
    "labels", [("00501", "00502"), ("01", "1"), ("1E5", "2E3"), ("1.0", "1"), ("+1", "-1")]
)
def test_labels_stay_as_they_are_written(labels, read):
    text = "w,kind\n" + "".join(f"{i}.5,{labels[i % 2]}\n" for i in range(30))
    assert read(text, task="classification").y.tolist() == list(labels) * 15


@pytest.mark.parametrize("sign", ["-", ".", "unknown", "None"])
def test_signs_are_labels(sign, read):
    labels = ["0", "1", sign]
    text = "w,kind\n" + "".join(f"{i}.5,{labels[i % 3]}\n" for i in range(30))
    table = read(text)
    assert table.y.tolist() == labels * 10
    assert not notes(table)
    table = read(text.replace("w,kind", "kind,w"), no_missing_values=True)
    assert table.X["w"].tolist() == labels * 10


def test_labels_that_numpy_wrote_are_whole_numbers(read):
    table = read("w,kind\n" + "".join(f"{i}.5,{i % 3:.18e}\n" for i in range(30)))
    assert table.y.tolist() == [0, 1, 2] * 10
    assert "'0.000000000000000000e+00' is 0, in 'kind'" in notes(table)


def test_what_happens_to_numbers_is_not_told_of_labels(read):
    table = read("w,kind\n" + "".join(f"{i}.5,{i % 3 * 5}%\n" for i in range(30)))
    assert set(table.y) == {"0%", "5%", "10%"}
    assert not notes(table)


def test_words_for_missing_cells_that_no_cell_is_are_told(read):
    table = read(text_of(range(N)), missing_values=["-999", "7"])
    assert "no cell is '-999'" in notes(table)


def test_na_may_be_a_label_and_a_level(read, refused):
    zones = ["APAC", "EUR", "NA"]
    text = "w,zone,kind\n" + "".join(f"{i}.5,{zones[i % 3]},{zones[i % 3]}\n" for i in range(30))
    refused(lambda: read(text), "--target", "10 of 30", "line 4", "'NA'", "--no-missing-values")
    table = read(text, no_missing_values=True)
    assert table.y.tolist() == zones * 10
    assert table.X["zone"].tolist() == zones * 10


@pytest.mark.parametrize(
    ("word", "cell"),
    [
        ("999", "999"),
        ("X", "X"),
        ("keine Angabe", "keine Angabe"),
        ("-999", "-999.00"),
        ("-999.0", "-999"),
        ("99.5", "99.50"),
        ("0.0", "0"),
    ],
)
def test_words_for_missing_cells(word, cell, read):
    table = read(text_of(cell if i == 4 else i + 0.25 for i in range(N)), missing_values=[word])
    assert table.X["w"].isna().to_numpy().nonzero()[0].tolist() == [4]


# Parquet


def test_the_index_of_a_frame_is_a_column_where_it_has_a_name(tmp_path):
    frame = pd.DataFrame(
        {"age": np.arange(30) % 7, "w": np.arange(30) / 2, "kind": list("ab") * 15}
    )
    frame.set_index("age").to_parquet(tmp_path / "t.parquet")
    assert read_raw_table(tmp_path / "t.parquet", "kind").kinds.numbers == ("age", "w")
    frame[frame.age > 2].to_parquet(tmp_path / "t.parquet")  # an index without one counts rows
    assert read_raw_table(tmp_path / "t.parquet", "kind").kinds.numbers == ("age", "w")


def test_a_folder_of_other_columns_is_refused(tmp_path, refused):
    folder = tmp_path / "t.parquet"
    folder.mkdir()
    frame = pd.DataFrame({"w": np.arange(30) / 2, "kind": list("ab") * 15})
    frame.to_parquet(folder / "1.parquet")
    frame[["kind", "w"]].to_parquet(folder / "2.parquet")
    assert len(read_raw_table(folder, "kind").y) == 60
    frame.rename(columns={"w": "h"}).to_parquet(folder / "3.parquet")
    refused(lambda: read_raw_table(folder, "kind"), "'3.parquet' has other columns", "'h', 'w'")


@pytest.fixture
def read_columns(tmp_path):
    """A table of Parquet with columns of interest, a number, and a class."""

    def read(target="kind", **columns):
        path, n_rows = tmp_path / "t.parquet", len(next(iter(columns.values())))
        kind = pa.array([*"ab"] * n_rows)[:n_rows]
        h = pa.array(np.arange(n_rows) % 5 + 0.5)
        pq.write_table(pa.table({"h": h, "kind": kind} | columns), path)
        return read_raw_table(path, target)

    return read


def test_text_of_parquet_is_read_as_that_of_a_file(read_columns, refused):
    table = read_columns(w=[f"{i},25" for i in range(N)], who=["x ", "x", "None"] * 20)
    assert table.X["w"].tolist() == [i + 0.25 for i in range(N)]
    assert notes(table) == "decimal commas in 'w'"
    assert table.X["who"][:3].tolist() == ["x ", "x", "None"]
    cells = [f"{i}.25" for i in range(N)]
    cells[33] = "o.5"
    message = refused(lambda: read_columns(w=cells), "'w'", "'o.5'", "data row 34", "--category w")
    assert "--missing-values" not in message


def test_labels_of_parquet_stay_as_they_are(read_columns):
    assert set(read_columns(kind=["x ", "x", "-"] * 20).y) == {"x ", "x", "-"}
    assert set(read_columns(kind=["01", "1", "1.0"] * 20).y) == {"01", "1", "1.0"}
    amounts = [Decimal(i) / 1000 for i in range(N)]
    table = read_columns("w", w=amounts)
    assert (table.task, table.y.tolist()) == ("regression", [i / 1000 for i in range(N)])


@pytest.mark.parametrize("column", [[[1, 2]], [{"a": 1}], [b"x"]])
def test_a_target_that_is_no_value_is_refused(column, read_columns, refused):
    refused(lambda: read_columns("w", w=column * N), "numbers or text", "'w'")


@pytest.mark.parametrize("moment", [datetime.date(2020, 1, 7), datetime.time(7, 30)])
def test_dates_and_times_of_parquet_are_left_out(moment, read_columns):
    assert read_columns(w=[moment] * N).kinds.left_out == (("w", "date"),)


def test_parts_of_a_folder(tmp_path):
    folder = tmp_path / "t.parquet"
    folder.mkdir()
    for name, w in (("part-10", [0.5]), ("part-2", [None]), ("part-1", [3])):
        pq.write_table(pa.table({"w": w * 30, "kind": [name] * 30}), folder / f"{name}.parquet")
    for name in ("._part-1.parquet", "_x.parquet"):
        (folder / name).write_bytes(b"x")
    table = read_raw_table(folder, "kind")
    assert table.y[::30].tolist() == ["part-1", "part-2", "part-10"]
    np.testing.assert_array_equal(table.X["w"][::30], [3, np.nan, 0.5])


@pytest.mark.parametrize(
    ("name", "option", "kind"),
    [
        ("digits", {"leave_out": ("x",)}, "a table of your own"),
        ("digits", {"encoding": "cp1252"}, "a table of your own"),
        ("t.parquet", {"missing_values": ("x",)}, "a file of text"),
        ("t.parquet", {"header": True}, "a file of text"),
        ("t.npz", {"no_missing_values": True}, "a file of text"),
    ],
)
def test_options_that_would_be_ignored_are_refused(name, option, kind, tmp_path, refused):
    path = name if name == "digits" else str(tmp_path / name)
    refused(lambda: load_dataset(path, reading=Reading(**option)), f"is for {kind}", path)


# Dialects in which another one could be seen


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("who", ["New York", "John Smith", "red hair", "5 kg"])
def test_what_stands_between_cells_is_no_blank(who, delimiter, read):
    """Each row has as many words as the others."""
    rows = [delimiter.join([f"{i}.5", who, "ab"[i % 2]]) for i in range(30)]
    for above in ("", "Title line\n\n"):
        table = read(above + "\n".join([delimiter.join(["w", "T (°C)", "kind"]), *rows]))
        assert table.X["w"].tolist() == [i + 0.5 for i in range(30)]
        assert "T (°C)" in table.X
        assert table.y.tolist() == ["a", "b"] * 15


@pytest.mark.parametrize("delimiter", [";", "\t", "|", " "])
@pytest.mark.parametrize("header", ["w;h;kind\n", ""])
def test_decimal_commas_do_not_stand_between_cells(header, delimiter, read):
    text = header + "".join(f"{i},25;{i % 5},5;{'ab'[i % 2]}\n" for i in range(30))
    table = read(text.replace(";", delimiter), "-1")
    assert table.X.iloc[:, 0].tolist() == [i + 0.25 for i in range(30)]
    assert table.X.iloc[:, 1].tolist() == [i % 5 + 0.5 for i in range(30)]


@pytest.mark.parametrize("word", ["grün", "süß", "é", "Málaga", "5½", "x’s", "preis €"])
@pytest.mark.parametrize("n_rows", [4, 60])
def test_a_few_letters_of_cp1252(word, n_rows, read):
    text = "w,farbe,kind\n" + "".join(f"{i}.5,{word},{'ab'[i % 2]}\n" for i in range(n_rows))
    table = read(text, encoding="cp1252", category=["farbe"])
    assert set(table.X["farbe"]) == {word}
    assert notes(table) == "read as cp1252, a guess"


# Headers that could be rows, and rows that could be headers


@pytest.mark.parametrize(
    "first",
    ["1,2,14.23,a", "1500,1600,5,a", "0,1,2,a", "o.5,1,2,a", "<1,2,3,a", ",2,3,a", "#N/A,2,3,a"],
)
def test_a_row_that_could_be_a_header(first, read):
    rows = [f"{i + 3},{i * 7 % 11},{i % 5}.5,{'ab'[i % 2]}\n" for i in range(30)]
    table = read(first + "\n" + "".join(rows), "4", missing_values=["o.5", "<1"])
    assert len(table.y) == 31
    assert table.X["2"][1:].tolist() == [i * 7 % 11 for i in range(30)]


@pytest.mark.parametrize(
    "names", ["gene,1007,1053,kind", "350,351,352,kind", "w,3,h,kind", "country,2019,h,kind"]
)
def test_a_header_with_numbers(names, read):
    rows = [f"{i}.5,{i * 7 % 11},{i % 5}.5,{'ab'[i % 2]}\n" for i in range(30)]
    table = read(names + "\n" + "".join(rows))
    assert table.y.tolist() == ["a", "b"] * 15
    assert [*table.X] == names.split(",")[:3]


def test_a_first_row_with_one_cell(read):
    table = read(
        "name,gdp,pop\nAruba,,\n" + "".join(f"C{i % 9},{i}.5,{i % 7}\n" for i in range(30)),
        "pop",
        missing="drop",
    )
    assert table.X["name"][0] == "C0"
    assert len(table.y) == 30


def test_a_header_of_a_table_of_text_that_stands_again(read, refused):
    body = "".join(f"{'xyz'[i % 3]},{'ab'[i % 2]}\n" for i in range(30))
    refused(lambda: read(("h,kind\n" + body) * 2), "header stands again in line 32")


@pytest.mark.parametrize(
    "above",
    [
        "Source,World Bank,,,\n\nUpdated,2020-01-01,,,\n",
        "Created:,2020,,,\nUser:,me,you,,\n",
        "# a\n# b, c\n",
    ],
)
def test_lines_of_words_above_the_table(above, read):
    rows = "".join(f"{i}.5,{i % 7},{i % 5},{i % 3},{'ab'[i % 2]}\n" for i in range(30))
    table = read(above + "w,x,y,z,kind\n" + rows)
    assert [*table.X] == ["w", "x", "y", "z"]
    assert "lines above the table left out" in notes(table)


@pytest.mark.parametrize("comments", ["# w,h,kind\n", "# w,h,kind\n# by me\n", "# w h kind\n"])
def test_a_comment_that_names_the_columns(comments, read):
    body = BODY.replace(",", " ") if " h " in comments else BODY
    table = read(comments + body)
    assert [*table.X] == ["w", "h"]
    assert "a comment, 'w h kind', names the columns" in notes(table)


def test_a_line_of_dashes_is_no_name(read):
    assert [*read("w,h,kind\n---,---,---\n" + BODY).X] == ["w", "h"]


def test_whole_numbers_beyond_int64_stay_numbers(read):
    rows = "".join(f"{i % 7},{(-1) ** i * (1.5 + i):.16e}\n" for i in range(40))
    table = read("a,y\n" + rows.replace("e+00", "e+30").replace("e+01", "e+31"), target="y")
    assert table.task == "regression"
    assert np.abs(table.y).max() > 1e30


@pytest.mark.parametrize(
    ("exponent", "says"),
    [(300, "within ±3.4e38.* divide the column"), (-200, "differ by 1e-150.* multiply the column")],
)
def test_numbers_whose_squares_are_lost_are_no_targets(read, exponent, says):
    rows = "".join(f"{i % 7},{i * i + 0.25}e{exponent}\n" for i in range(40))
    with pytest.raises(InputError, match=says):
        read("a,y\n" + rows, target="y")
