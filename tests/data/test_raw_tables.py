"""Other people's tables, as they come."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from skops.io import dumps

from pipelines.data.folds import fewest_rows, make_folds, merge_or_drop
from pipelines.data.load import load_dataset
from pipelines.data.placement import FoldedData
from pipelines.data.preparation import Preparation, fitted_from
from pipelines.data.tables import Reading, read_raw_table
from pipelines.data.tables.preprocess import TablePreprocessor
from pipelines.errors import InputError


@pytest.fixture
def file(tmp_path):
    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_number_that_is_infinite_is_one_line_and_no_warning(file):
    path = file("a,t\n" + "inf,x\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(40)))
    for target in "ta":
        with pytest.raises(InputError, match="has inf in line 2"):
            load_dataset(str(path), target=target)


def mixed(n_rows=120, seed=0):
    """Numbers with gaps, categories with gaps, an id, a date, and text to predict."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": np.arange(1, n_rows + 1),
            "age": rng.normal(50, 10, n_rows).round(1),
            "pulse": rng.integers(50, 90, n_rows),
            "sex": rng.choice(["F", "M", "?"], n_rows, p=[0.45, 0.45, 0.1]),
            "since": "2020-01-02",
            "grade": rng.choice(["1", "2", "x"], n_rows),
        }
    )
    high = frame.age + 12 * (frame.sex == "F") > 55
    frame["pay"] = np.where(high, "high", "low")
    frame.loc[::7, "age"] = np.nan
    return frame


@pytest.fixture
def pay(tmp_path):
    path = tmp_path / "pay.csv"
    mixed().to_csv(path, index=False)
    return path


# How the file is laid out


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "  "])
def test_separators_are_noticed(separator, file):
    rows = [["a", "b", "kind"], ["1.5", "2", "x"], ["2.5", "3", "y"], ["0.5", "4", "y"]]
    table = read_raw_table(file("\n".join(separator.join(row) for row in rows)))
    np.testing.assert_array_equal(table.matrix(), [[1.5, 2], [2.5, 3], [0.5, 4]])
    assert table.y.tolist() == ["x", "y", "y"]


def test_decimal_commas_between_semicolons(file):
    table = read_raw_table(file("a;kind\n1,5;x\n2,25;y\n"))
    assert table.matrix().tolist() == [[1.5], [2.25]]


def test_a_separator_within_quotes_or_text_separates_nothing(file):
    table = read_raw_table(file('name,kind\n"a;b",1\nc;d,2\nc;d,2\n"x;y",1\n'))
    assert table.kinds.categories == ("name",)
    assert table.X["name"].tolist() == ["a;b", "c;d", "c;d", "x;y"]


def test_iris_without_a_header_line_keeps_its_first_row(file):
    iris = load_iris(as_frame=True).frame
    iris["target"] = iris.target.map({0: "setosa", 1: "versicolor", 2: "virginica"})
    path = file(iris.to_csv(index=False, header=False), "iris.data")
    table = read_raw_table(path)
    assert len(table.y) == 150
    assert table.matrix()[0].tolist() == [5.1, 3.5, 1.4, 0.2]
    assert "no header line, columns are called 1 to 5" in table.lines()[0]
    assert table.kinds.numbers == ("1", "2", "3", "4")


def test_haberman_takes_its_target_by_number(file):
    """Where the first row made the header, --target 1 took a feature, and 1.1 was a class."""
    text = "30,64,1,1\n30,62,3,1\n30,65,0,2\n31,59,2,1\n31,65,4,2\n33,58,10,1\n"
    for target in ("4", "-1", None):
        table = read_raw_table(file(text), target)
        assert table.target == "4"
        assert table.y.tolist() == [1, 1, 2, 1, 2, 1]
        assert table.X.shape == (6, 3)


@pytest.mark.parametrize(
    ("text", "has_header"),
    [
        ("a,b\n1,x\n2,y\n", True),
        ("vhigh,2,low,acc\nvhigh,2,low,no\nlow,4,low,acc\n", False),
        ("p,x,s\ne,x,s\np,y,t\ne,x,t\n", False),  # text alone: what stands above stands below
        ("kind,cap,odour\ne,x,s\np,y,t\ne,x,t\n", True),
        ("0,1,2\n1.5,2,x\n1.5,3,y\n", True),  # counted columns
        ("?,1,x\n2,3,y\n", False),
        ("inf,1_000,kind\n1.5,2,x\n2.5,3,y\n", True),
        (",size,kind\n1,2.5,x\n2,3.5,y\n", True),  # a name is missing
    ],
)
def test_the_header_line_is_noticed(text, has_header, file):
    table = read_raw_table(file(text))
    assert len(table.y) == len(text.splitlines()) - has_header


def test_no_header_may_be_said(file):
    path = file("red,x\nblue,y\ngreen,y\n")
    assert len(read_raw_table(path).y) == 2
    table = read_raw_table(path, no_header=True)
    assert len(table.y) == 3
    assert table.target == "2"


def test_a_header_may_be_said(file, refused):
    """Names that are numbers look like a row."""
    path = file("1.9,2.1,kind\n1.5,2.5,x\n2.5,3.5,y\n3.5,4.5,x\n")
    assert read_raw_table(path).without_header
    table = read_raw_table(path, header=True)
    assert list(table.X.columns) == ["1.9", "2.1"]
    assert (table.target, len(table.y)) == ("kind", 3)
    refused(
        lambda: read_raw_table(path, header=True, no_header=True),
        "--header and --no-header contradict each other about the first line; leave one out",
    )


def test_a_duplicated_column_does_not_leak_the_label(file, refused):
    """pandas calls the second y ``y.1``, a feature that gives the label away."""
    path = file("y,a,y\n1,2,1\n0,3,0\n")
    refused(lambda: read_raw_table(path, "y"), "--dataset", "two columns are called 'y'")


# The target


def test_a_target_by_number_goes_after_a_name(file):
    path = file("0,1,kind\n1.5,3.5,x\n2.5,4.5,y\n")
    assert read_raw_table(path, "1").y.tolist() == [3.5, 4.5]


@pytest.mark.parametrize("target", ["0", "4", "-4", "1.5"])
def test_a_target_by_a_number_that_is_not_there(target, file, refused):
    path = file("a,b,kind\n1,2,x\n3,4,y\n")
    refused(lambda: read_raw_table(path, target), "--target", repr(target), "'a', 'b', 'kind'")


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        (["x", "y", "y", "x"], "classification"),
        ([1, 2, 1, 2], "classification"),
        ([True, False, True, True], "classification"),
        ([1.5, 2.0, 3.5, 4.5], "regression"),
    ],
)
def test_the_task_follows_from_the_target(labels, task, tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1.5, 2.5, 3.5, 5.0], "y": labels}).to_parquet(path)
    table = read_raw_table(path, "y")
    assert table.task == task
    assert table.y.dtype.kind in ("f" if task == "regression" else "iUb")


def test_many_whole_numbers_are_numbers_unless_asked(tmp_path):
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": np.arange(90) / 7, "y": np.arange(90) % 30}).to_csv(path, index=False)
    assert read_raw_table(path, "y").task == "regression"
    assert read_raw_table(path, "y", task="classification").y.dtype == np.int64


# Columns by kind


def test_kinds_of_columns(pay):
    table = read_raw_table(pay)
    assert table.kinds.numbers == ("age", "pulse")
    assert table.kinds.categories == ("sex", "grade")
    assert table.kinds.left_out == (("id", "id"), ("since", "date"))
    first, second = table.lines()
    assert "120 rows, target 'pay': 2 classes: high (" in first
    levels = "sex (2 levels), grade (3 levels)"
    assert f"2 numeric; 2 categorical: {levels};" in second
    assert "missing cells, imputed; left out: id (id), since (date)" in second


@pytest.mark.parametrize(
    ("column", "left_out"),
    [
        (np.arange(40), True),
        (np.arange(1, 41), True),
        (np.arange(40)[::-1], False),
        (np.arange(40) * 1.5, False),
        ([f"case {i}" for i in range(40)], True),
    ],
)
def test_names_of_rows_are_left_out(column, left_out, tmp_path):
    frame = pd.DataFrame({"first": column, "a": np.arange(40) % 7, "kind": list("xy") * 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = read_raw_table(tmp_path / "t.csv")
    assert table.kinds.left_out == ((("first", "id"),) if left_out else ())


@pytest.mark.parametrize(
    ("name", "n_patients", "left_out"),
    [("patient_id", 60, True), ("patient_id", 50, False), ("patients", 60, False)],
)
def test_an_id_that_rows_share_is_left_out(name, n_patients, left_out, tmp_path):
    shared = np.arange(180) * 7 % n_patients
    frame = pd.DataFrame({"a": np.arange(180) % 7, name: shared, "kind": list("xyz") * 60})
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = read_raw_table(tmp_path / "t.csv")
    assert table.kinds.left_out == (((name, "id"),) if left_out else ())


def test_kinds_that_are_said(pay, refused):
    table = read_raw_table(pay, number=["id"], category=["pulse"], leave_out=["sex"])
    assert table.kinds.numbers == ("id", "age")
    assert table.kinds.categories == ("pulse", "grade")
    assert table.kinds.left_out == (("sex", "as asked"), ("since", "date"))
    refused(lambda: read_raw_table(pay, number=["agee"]), "--number", "'agee'", "'age'")
    refused(lambda: read_raw_table(pay, number=["age"], leave_out=["age"]), "--leave-out", "once")
    refused(lambda: read_raw_table(pay, number=["grade"]), "numbers in column 'grade'", "'x'")


def test_more_than_fifty_levels_are_asked_about(tmp_path, refused):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "ticket": [f"t{i}" for i in rng.integers(0, 60, 400)],
            "cabin no": [f"c{i}" for i in rng.integers(0, 55, 400)],
        }
    ).assign(a=rng.normal(size=400), kind="x")
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    words = [
        "50 levels",
        "'ticket' (60)",
        "'cabin no' (55)",
        "--leave-out ticket 'cabin no'",
        "--category ticket 'cabin no'",
    ]
    refused(lambda: read_raw_table(path), "--dataset", *words)
    table = read_raw_table(path, category=["ticket"], leave_out=["cabin no"])
    assert table.X["ticket"].nunique() == 60


def test_a_level_is_one_however_it_was_read(tmp_path):
    for cells in (["1", "2", "x"], ["1", "2", None], [1, 2, 2], [1.0, 2.0, np.nan]):
        path = tmp_path / "t.csv"
        frame = pd.DataFrame({"grade": cells, "a": [0.5, 1.5, 2.5], "kind": list("pqq")})
        frame.to_csv(path, index=False)
        assert read_raw_table(path, category=["grade"]).X["grade"].tolist()[:2] == ["1", "2"]


def test_what_is_missing_and_what_is_a_level(file):
    cells = ["?", "NA", "", "NaN", "null", "N/A", "None", "no", "none"]
    table = read_raw_table(file("a,kind\n" + "".join(f"{cell},x\n" for cell in cells)))
    assert table.X["a"].isna().tolist() == [True] * 6 + [False] * 3
    assert table.X["a"].tolist()[6:] == ["None", "no", "none"]


# What is learned


def test_the_preprocessor_learns_from_the_rows_it_is_fitted_on(pay):
    table = read_raw_table(pay)
    fitted_rows, other_rows = table.X.iloc[:60], table.X.iloc[60:]
    learned = TablePreprocessor(table.kinds, scale=True, missing="impute").fit(fitted_rows)
    matrix = learned.transform(other_rows)
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous
    filled = SimpleImputer(strategy="median").fit(fitted_rows[["age", "pulse"]])
    scaled = StandardScaler().fit(filled.transform(fitted_rows[["age", "pulse"]]))
    expected = scaled.transform(filled.transform(other_rows[["age", "pulse"]]))
    np.testing.assert_allclose(matrix[:, :2], expected, rtol=1e-5, atol=1e-6)
    names = learned.get_feature_names_out().tolist()
    assert names == [
        "age",
        "pulse",
        "age missing",
        "sex=F",
        "sex=M",
        "sex missing",
        "grade=1",
        "grade=2",
        "grade=x",
    ]
    np.testing.assert_array_equal(matrix[:, 2], other_rows["age"].isna())
    for index, name in enumerate(names[3:], 3):
        column, _, level = name.partition("=")
        cells = other_rows[column.split()[0]]
        np.testing.assert_array_equal(matrix[:, index], cells.eq(level) if level else cells.isna())


def test_threads_at_once_leave_filters_of_warnings_alone(pay):
    table = read_raw_table(pay)
    learned = TablePreprocessor(table.kinds).fit(table.X)
    expected, filters = learned.transform(table.X), list(warnings.filters)
    with ThreadPoolExecutor(4) as threads:
        matrices = list(threads.map(lambda _: learned.transform(table.X), range(100)))
    assert warnings.filters == filters
    np.testing.assert_array_equal(matrices, [expected] * 100)


def test_it_is_an_estimator_of_scikit_learn(pay):
    table = read_raw_table(pay)
    learned = clone(TablePreprocessor(table.kinds, scale=False, missing="impute"))
    assert learned.get_params()["scale"] is False
    np.testing.assert_allclose(learned.fit_transform(table.X)[:, 1], table.X["pulse"])


def test_missing_cells_that_were_not_learned_are_refused(pay, refused):
    table = read_raw_table(pay, missing="drop")
    assert table.n_dropped > 0
    assert f"({table.n_dropped} with missing cells left out)" in table.lines()[0]
    learned = TablePreprocessor(table.kinds, missing="drop").fit(table.X)
    refused(lambda: learned.transform(read_raw_table(pay).X), "--dataset", "'age'", "data row 1")


def test_what_was_learned_is_stored_without_pickle(pay):
    table = read_raw_table(pay)
    learned = TablePreprocessor(table.kinds).fit(table.X.iloc[:50])
    arrays = learned.arrays()
    stored = arrays["preparation"].tobytes()
    assert b"pickle" not in stored
    again = fitted_from(arrays)
    np.testing.assert_array_equal(again.transform(table.X), learned.transform(table.X))
    foreign = dumps({"about": "{}", "columns": FunctionTransformer(np.exp)})
    for damaged in (b"", stored[:-40], b"PK\x03\x04" + stored[4:200], foreign):
        with pytest.raises(ValueError, match="not described as this program does"):
            fitted_from({**arrays, "preparation": np.frombuffer(damaged, np.uint8)})


def test_a_flipped_bit_of_what_was_learned_is_refused_or_changes_nothing(pay):
    table = read_raw_table(pay)
    learned = TablePreprocessor(table.kinds).fit(table.X)
    arrays, n_refused = learned.arrays(), 0
    places = range(0, len(arrays["preparation"]), 41)
    for position in places:
        damaged = arrays["preparation"].copy()
        damaged[position] ^= 4
        try:
            again = fitted_from({**arrays, "preparation": damaged})
        except ValueError:
            n_refused += 1
            continue
        np.testing.assert_array_equal(again.transform(table.X), learned.transform(table.X))
    assert n_refused > 0.9 * len(places)


# Ready for folds


def test_a_mixed_table_is_prepared_within_each_fold(pay):
    data = load_dataset(str(pay))
    assert isinstance(data.scaling, Preparation)
    assert data.n_inputs == len(data.scaling.layout) == 9
    folded = FoldedData.of(data, make_folds(data.y_train, 3, 0))
    for train, _ in folded.folds:
        matrix = folded.scaled("cpu", train)
        assert matrix.shape == (len(data.y_train), 9)
        np.testing.assert_allclose(matrix[train, :2].mean(axis=0), 0, atol=1e-5)
        np.testing.assert_allclose(matrix[train, :2].std(axis=0), 1, atol=1e-5)
        other = TablePreprocessor(data.scaling.kinds).fit(data.X_train.iloc[train])
        np.testing.assert_array_equal(matrix, other.transform(data.X_train))


def test_folds_have_one_width_though_a_level_or_gap_may_be_lacking(pay):
    data = load_dataset(str(pay))
    folded = FoldedData.of(data)
    few = np.flatnonzero(data.X_train["grade"].eq("1") & data.X_train["age"].notna())
    fold_scaling = folded.scaling_for(few)
    matrix = fold_scaling.transform(data.X_train)
    assert matrix.shape[1] == 9
    lacking = [
        column
        for column, name in enumerate(fold_scaling.layout)
        if name in ("age missing", "grade=2")
    ]
    assert not matrix[:, lacking].any()
    again = fitted_from(fold_scaling.arrays())
    np.testing.assert_array_equal(again.transform(data.X_test), fold_scaling.transform(data.X_test))


def test_the_fingerprint_of_a_mixed_table_follows_its_cells(pay, tmp_path):
    prints = {load_dataset(str(pay)).fingerprint for _ in range(2)}
    assert len(prints) == 1
    changed = mixed()
    changed.loc[5, "grade"] = "1" if changed.loc[5, "grade"] != "1" else "2"
    changed.to_csv(pay, index=False)
    assert load_dataset(str(pay)).fingerprint not in prints
    dropped = load_dataset(str(pay), reading=Reading(missing="drop"))
    assert len(dropped.y_train) + len(dropped.y_test) < 120


# Rare classes


def test_rows_that_a_class_needs():
    for n_folds in (1, 3, 5, 10):
        for test_size in (0.1, 0.2, 0.5):
            least = fewest_rows(n_folds, test_size)
            assert least - np.ceil(test_size * least) >= n_folds
            fewer = least - 1
            assert fewer < max(2, n_folds) or fewer - np.ceil(test_size * fewer) < n_folds


def test_all_rare_classes_are_named_at_once(refused):
    """As of abalone, whose 29 ages were refused one by one."""
    y = np.repeat([3, 5, 1, 26, 29], [40, 40, 1, 1, 2])
    words = [
        "--test-size",
        "--folds 5",
        "'1' (1), '26' (1), '29' (2)",
        "--rare drop",
        "--rare merge",
    ]
    refused(
        lambda: merge_or_drop(y, 5, 0.2, "refuse"), *words, "predict numbers with --task regression"
    )
    with pytest.raises(InputError, match=r"merge'?$"):
        merge_or_drop(np.repeat(["a", "b", "c"], [40, 40, 1]), 5, 0.2, "refuse")


def test_rare_classes_are_dropped_or_merged(refused):
    y = np.repeat([3, 5, 1, 26, 29], [40, 40, 3, 3, 2])
    kept, labels, line = merge_or_drop(y, 5, 0.2, "drop")
    assert np.unique(labels[kept]).tolist() == [3, 5]
    assert "left out: '1' (3), '26' (3), '29' (2)" in line
    kept, labels, line = merge_or_drop(y, 5, 0.2, "merge")
    assert kept.all()
    assert dict(zip(*np.unique(labels, return_counts=True), strict=True)) == {
        "3": 40,
        "5": 40,
        "rare": 8,
    }
    assert "merged into one class 'rare'" in line
    too_few = np.repeat([3, 5, 1], [40, 40, 2])
    refused(
        lambda: merge_or_drop(too_few, 5, 0.2, "merge"), "--rare merge", "'1' (2)", "--rare drop"
    )
    one_left = np.repeat([3, 5], [40, 2])
    refused(lambda: merge_or_drop(one_left, 5, 0.2, "drop"), "--rare drop", "two classes")


def test_common_classes_are_left_alone():
    y = np.repeat([1, 2], [30, 5])
    kept, labels, line = merge_or_drop(y, 5, 0.2, "refuse")
    assert kept.all()
    assert labels is y
    assert line == ""
    assert merge_or_drop(y[y == 1], 5, 0.2, "drop")[2] == ""
