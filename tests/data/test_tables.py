import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.data.tables import read_raw_table


def read_table(path, target=None):
    """A plain table: its features as a matrix, its labels, and the names of the features."""
    table = read_raw_table(path, target, task="classification", missing="refuse")
    assert table.is_plain
    return table.matrix(), table.y, list(table.kinds.numbers)


FRAME = pd.DataFrame(
    {
        "width": [0.5, 1.5, 2.5, 3.5],
        "count": [1, 2, 3, 4],
        "ripe": [True, False, True, True],
        "species": ["plum", "pear", "plum", "fig"],
    }
)
EXPECTED = np.array([[0.5, 1, 1], [1.5, 2, 0], [2.5, 3, 1], [3.5, 4, 1]])


def save(frame, path):
    if path.suffix.lower() == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return path


@pytest.fixture(params=[".csv", ".parquet"])
def write(request, tmp_path):
    return lambda frame: save(frame, tmp_path / f"fruit{request.param}")


@pytest.fixture
def csv(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "fruit.csv"
        path.write_text(text, encoding=encoding)
        return path

    return write


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "fruit.npz", **arrays)
        return tmp_path / "fruit.npz"

    return write


def test_table(write):
    X, y, names = read_table(write(FRAME), "species")
    np.testing.assert_array_equal(X, EXPECTED)
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    assert y.tolist() == ["plum", "pear", "plum", "fig"]
    assert y.dtype.kind == "U"
    assert names == ["width", "count", "ripe"]


@pytest.mark.parametrize(
    ("labels", "kind", "expected"),
    [
        ([3, 1, 3, 2], "i", [3, 1, 3, 2]),
        ([1.0, 0.0, 1.0, 2.0], "i", [1, 0, 1, 2]),
        (["1a", "b", "b", "1a"], "U", ["1a", "b", "b", "1a"]),
    ],
)
def test_types_of_labels(labels, kind, expected, write):
    y = read_table(write(FRAME.assign(species=labels)), "species")[1]
    assert y.dtype.kind == kind
    assert y.tolist() == expected


def test_truth_values_as_labels_are_as_they_are_written(tmp_path):
    frame = FRAME.drop(columns="ripe").assign(species=[True, False, True, True])
    labels = read_table(save(frame, tmp_path / "t.parquet"), "species")[1]
    assert (labels.dtype.kind, labels.tolist()) == ("b", [True, False, True, True])
    labels = read_table(save(frame, tmp_path / "t.csv"), "species")[1]
    assert labels.tolist() == ["True", "False", "True", "True"]


def test_categories_nullable_types_and_decimals(tmp_path):
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, 2], dtype="Int64"),
            "ripe": pd.array([True, False], dtype="boolean"),
            "grade": pd.Categorical([7, 5]),
            "kind": pd.Categorical(["x", "y"]),
        }
    )
    X, y, _ = read_table(save(frame, tmp_path / "t.parquet"), "kind")
    np.testing.assert_array_equal(X, [[1, 1, 7], [2, 0, 5]])
    assert y.tolist() == ["x", "y"]


def test_capital_suffix_and_byte_order_mark(tmp_path):
    path = tmp_path / "FRUIT.CSV"
    path.write_text("a,b\n1,2\n3,4\n", encoding="utf-8-sig")
    X, y, names = read_table(path, "b")
    assert names == ["a"]
    assert X.tolist() == [[1], [3]]
    assert y.tolist() == [2, 4]


def test_parquet_in_parts(tmp_path):
    folder = tmp_path / "parts.parquet"
    folder.mkdir()
    for i in range(2):
        save(FRAME.iloc[2 * i : 2 * i + 2], folder / f"part.{i}.parquet")
    np.testing.assert_array_equal(read_table(folder, "species")[0], EXPECTED)


def test_npz(npz):
    X, y, names = read_table(npz(X=EXPECTED.astype(np.float32), y=np.array(list("abab"))))
    np.testing.assert_array_equal(X, EXPECTED)
    assert X.dtype == np.float64
    assert y.tolist() == list("abab")
    assert names == ["x0", "x1", "x2"]
    labels = read_table(npz(X=EXPECTED, kind=np.arange(4, dtype=">i4")), "kind")[1]
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, 1, 2, 3]


# Files


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("content", [b"\xff\xfe\x00\n\n\xb1,\xb2\n1,2,3\n", b"PK\x03\x04\n"])
def test_unparsable(suffix, content, tmp_path, refused):
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(content)
    refused(lambda: read_table(path, "y"), "--", str(path))


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_truncated(suffix, tmp_path, refused):
    path = tmp_path / f"cut{suffix}"
    if suffix == ".npz":
        np.savez(path, X=EXPECTED, y=np.arange(4))
    else:
        save(FRAME, path)
    path.write_bytes(path.read_bytes()[:-40])
    refused(lambda: read_table(path, "species"), "--dataset", "cannot be read", str(path))


def test_two_columns_of_one_name(tmp_path, refused):
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.table([[1], [2], [3]], names=["a", "1", "1"]), path)
    refused(lambda: read_table(path, "a"), "--dataset", "cannot be read", "two columns", "'1'")


# The target


def test_the_last_column_is_the_target_where_it_is_text(write):
    table = read_raw_table(write(FRAME))
    assert (table.target, table.task) == ("species", "classification")
    assert "target 'species'" in table.lines()[0]
    assert "the last column, which is text" in table.lines()[0]


def test_the_last_column_is_the_target_where_it_has_few_values(write, refused):
    frame = pd.DataFrame({"width": np.arange(60) / 7, "stars": np.arange(60) % 5})
    assert read_raw_table(write(frame)).target == "stars"
    other = frame[["stars", "width"]]
    refused(
        lambda: read_raw_table(write(other)), "--target", "column to predict", "'stars', 'width'"
    )
    assert read_raw_table(write(other), task="regression").target == "width"


def test_target_missing_names_the_nearest(write, refused):
    words = ["--target", "'specis'", "did you mean 'species'?", "'width', 'count'"]
    refused(lambda: read_table(write(FRAME), "specis"), *words)
    message = refused(lambda: read_table(write(FRAME), "zzz"), "--target", "'zzz'")
    assert "did you mean" not in message


# Features


def test_text_among_numbers_is_a_level(csv):
    table = read_raw_table(csv('a,b\n1,0\n2,1\n"one\nword",0\nx,1\n'), "b")
    assert table.kinds.categories == ("a",)
    assert table.X["a"].tolist() == ["1", "2", "one\nword", "x"]


def test_long_text_and_long_names_are_cut(tmp_path, refused):
    frame = pd.DataFrame({"n\n" * 200: [f"{'v' * 5000}{i % 60}" for i in range(90)]})
    path = save(frame.assign(y=1), tmp_path / "long.parquet")
    message = refused(lambda: read_table(path, "y"), "60", "--leave-out")
    assert len(message) < 1500 + len(str(tmp_path))


@pytest.mark.parametrize(
    "values", [pd.to_datetime(["2024-01-01"] * 4), pd.to_timedelta([1, 2, 3, 4])]
)
def test_dates_and_durations_are_left_out(values, tmp_path):
    table = read_raw_table(save(FRAME.assign(count=values), tmp_path / "t.parquet"))
    assert table.kinds.left_out == (("count", "date"),)
    assert "left out: count (date)" in table.lines()[1]


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e308, -1e308, 3.5e38])
def test_values_beyond_single_precision(value, write, refused):
    path = write(FRAME.assign(count=[1.0, 2.0, value, 4.0]))
    position = "line 4" if path.suffix == ".csv" else "data row 3"
    words = ["--dataset", "single precision", "'count'", str(value), position]
    refused(lambda: read_table(path, "species"), *words)


@pytest.mark.parametrize(
    ("values", "n_missing"), [([1.0, np.nan, 3.0, np.nan], 2), ([True, None, False, True], 1)]
)
def test_missing_numbers(values, n_missing, write, refused):
    path = write(FRAME.assign(count=values))
    table = read_raw_table(path)
    assert table.n_missing == n_missing
    assert not table.is_plain
    assert len(read_raw_table(path, missing="drop").y) == 4 - n_missing
    words = ["--missing refuse", "'count'", f"{n_missing} missing in 4 rows", "--missing impute"]
    refused(lambda: read_raw_table(path, missing="refuse"), *words)


# .npz


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"data": EXPECTED, "y": np.arange(4)}, ["array X", "'data', 'y'"]),
        ({"X": EXPECTED}, ["--target", "'y'", "nothing"]),
        ({"X": EXPECTED, "labels": np.arange(4)}, ["--target", "'y'", "'labels'"]),
        ({"X": EXPECTED, "y": np.arange(3)}, ["(4, 3)", "(3,)"]),
        ({"X": EXPECTED, "y": np.zeros((4, 1))}, ["(4, 3)", "(4, 1)"]),
        ({"X": np.zeros((4, 2, 2)), "y": np.arange(4)}, ["(4, 2, 2)"]),
        ({"X": np.zeros((0, 3)), "y": np.arange(0)}, ["at least one row"]),
        ({"X": np.array([["a"], ["b"]]), "y": np.arange(2)}, ["of numbers", "'X'"]),
        ({"X": EXPECTED * 1j, "y": np.arange(4)}, ["of numbers", "complex"]),
        ({"X": EXPECTED, "y": np.arange(4) * 1j}, ["'y'", "complex"]),
        ({"X": EXPECTED.astype(object), "y": np.arange(4)}, ["cannot be read", "Object arrays"]),
        (
            {"X": EXPECTED, "y": np.array([1, "a", 2, 3], object)},
            ["cannot be read", "Object arrays"],
        ),
        (
            {"X": EXPECTED * np.nan, "y": np.arange(4)},
            ["must have a feature column", "'x0' (no value)"],
        ),
        ({"X": EXPECTED, "y": np.array([0, 1, np.nan, 1])}, ["--target", "1 of 4", "row 3"]),
    ],
)
def test_bad_npz(arrays, words, npz, refused):
    refused(lambda: read_table(npz(**arrays)), "fruit.npz", *words)


def _table(frame=FRAME, **columns):
    """A writer of one table."""
    return lambda path: save(frame.assign(**columns), path)


def _of(content):
    return lambda path: path.write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )


def _npy(path):
    with path.open("wb") as file:
        np.save(file, EXPECTED)


def _foreign(path):
    with zipfile.ZipFile(path, "w") as archive:
        for name in "Xy":
            archive.writestr(name, "not an array")


def _twice(path):
    columns = [pa.array([i]) for i in range(3)]
    pq.write_table(pa.Table.from_arrays(columns, names=["a", "b", "b"]), path)


WIDE = pd.DataFrame(np.zeros((1, 14)), columns=[f"c{i}" for i in range(14)])
UNREADABLE = "cannot be read"


@pytest.mark.parametrize(
    ("name", "write", "target", "words"),
    [
        ("none.csv", lambda path: None, "y", ["existing", "none.csv"]),
        ("folder.csv", Path.mkdir, "y", ["existing", "folder.csv"]),
        ("fruit.xlsx", Path.touch, "y", [".csv", ".parquet", ".npz", "fruit.xlsx"]),
        ("t.csv", _of(""), "b", ["at least one row"]),
        ("t.csv", _of("a,b\n"), "b", ["at least one row"]),
        ("t.parquet", _table(FRAME.iloc[:0]), "species", ["at least one row"]),
        ("t.csv", _of("a,b\n1,2\n3,4,5\n"), "b", [UNREADABLE, "2 columns", "1 of 2 rows"]),
        ("t.parquet", _twice, "a", [UNREADABLE]),
        ("t.npz", _npy, None, [UNREADABLE]),
        ("t.npz", _foreign, None, ["X of shape"]),
        (
            "t.csv",
            _table(species=["plum", None, None, "fig"]),
            "species",
            ["--target", "'species'", "2 of 4 rows", "line 3"],
        ),
        (
            "t.parquet",
            _table(species=[1.0, 2.0, 2.25, np.inf]),
            "species",
            ["--target", "class labels", "2.25", "data row 3"],
        ),
        ("t.csv", _table(FRAME[["species"]]), "species", ["feature column", "--target 'species'"]),
        ("t.csv", _table(WIDE), "zzz", ["'c9' and 4 more"]),
        ("t.parquet", _table(count=[[1], [2], [3], [4]]), "ripe", ["numbers or text", "'count'"]),
        (
            "t.csv",
            _table(count=[1, np.nan, np.nan, 4], width=[1, np.nan, 2, 3]),
            "species",
            ["'width'", "1 missing", "1 other column too"],
        ),
    ],
)
def test_what_cannot_be_read_is_one_line(name, write, target, words, tmp_path, refused):
    write(tmp_path / name)
    refused(lambda: read_table(tmp_path / name, target), *words)
