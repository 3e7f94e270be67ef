"""Other people's tables: from the file as it came to predictions for another."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from pipelines.data.folds import make_folds
from pipelines.data.load import load_dataset
from pipelines.data.tables.preprocess import TablePreprocessor
from pipelines.svm_grid import main
from tests.command_runs import record

GRID = [
    "--n-c",
    "2",
    "--n-gamma",
    "2",
    "--log-c",
    "0",
    "1",
    "--log-gamma",
    "-2",
    "-1",
    "--folds",
    "3",
    "--cluster",
    "threads",
]


def mixed(n_rows, seed):
    """Numbers and categories with gaps, semicolons to come, text to predict at the end."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "case": np.arange(1, n_rows + 1),
            "age": rng.normal(50, 10, n_rows).round(1),
            "sex": rng.choice(["F", "M", "?"], n_rows, p=[0.45, 0.45, 0.1]),
            "grade": rng.choice(["1", "2", "x"], n_rows),
        }
    )
    high = frame.age + 12 * (frame.sex == "F") > 55
    frame["pay"] = np.where(high, "high", "low")
    frame.loc[::7, "age"] = np.nan
    return frame


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    mixed(150, 0).to_csv(folder / "pay.csv", index=False, sep=";")
    options = ["--dataset", str(folder / "pay.csv"), "--probability", *GRID]
    assert main([*options, "--results", str(folder / "run"), "--quiet"]) == 0
    return folder / "run"


@pytest.mark.slow
def test_the_cells_are_those_of_a_pipeline_fitted_within_each_fold(run):
    data = load_dataset(str(run.parent / "pay.csv"))
    folds = make_folds(data.y_train, 3, 0)
    cells = pd.read_parquet(run / "cv_results.parquet")
    assert len(cells) == 12
    different = 0
    for cell in cells.itertuples():
        train, validation = folds[cell.fold]
        peer = make_pipeline(TablePreprocessor(data.scaling.kinds), SVC(C=cell.C, gamma=cell.gamma))
        peer.fit(data.X_train.iloc[train], data.y_train[train])
        wrong = peer.predict(data.X_train.iloc[validation]) != data.y_train[validation]
        different += abs(int(wrong.sum()) - cell.n_errors)
    assert different <= 1


def test_predict_takes_another_table(run, tmp_path, capsys):
    other = mixed(60, 1)
    other.loc[3, "grade"] = "never seen"
    other = other[["grade", "pay", "sex", "age"]].assign(more=1)
    other.to_csv(tmp_path / "other.csv", index=False, sep="\t")
    assert main(["predict", str(run), str(tmp_path / "other.csv")]) == 0
    output = capsys.readouterr().out
    answers = pd.read_csv(tmp_path / "other-predictions.csv")
    assert answers.columns.tolist() == ["row", "predicted", "probability_high", "probability_low"]
    assert len(answers) == 60
    wrong = int(np.sum(answers.predicted != other.pay))
    assert wrong < 15
    assert f"({wrong} of 60) against column 'pay'" in output
    np.testing.assert_allclose(answers.filter(like="prob").sum(axis=1), 1)


def test_predict_without_the_target(run, tmp_path):
    frame = mixed(20, 2).drop(columns="pay")
    frame.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "answers" / "of.parquet"
    assert main(["predict", str(run), str(tmp_path / "new.csv"), "--output", str(out)]) == 0
    answers = pd.read_parquet(out)
    assert answers.columns.tolist()[:3] == ["row", "case", "predicted"]
    assert answers["row"].tolist() == list(range(1, 21))
    assert answers["case"].tolist() == frame["case"].tolist()


def test_predictions_execute_nothing_in_a_spreadsheet(tmp_path, capsys):
    frame = mixed(150, 0).replace({"pay": {"high": "=1+1", "low": "-low"}})
    frame["case"] = [f"@case{number}" for number in frame["case"]]
    frame.to_csv(tmp_path / "pay.csv", index=False)
    run, table = str(tmp_path / "run"), str(tmp_path / "pay.csv")
    assert main(["--dataset", table, *GRID, "--results", run, "--quiet"]) == 0
    assert main(["predict", run, table]) == 0
    answers = pd.read_csv(tmp_path / "pay-predictions.csv")
    assert set(answers["predicted"]) == {"'=1+1", "'-low"}
    assert answers["case"].str.startswith("'@").all()
    decisions = answers[["decision_=1+1", "decision_-low"]]
    assert (decisions.idxmax(axis=1).str[9:] == answers["predicted"].str[1:]).all()
    out = tmp_path / "exact.parquet"
    assert main(["predict", run, table, "--output", str(out)]) == 0
    assert set(pd.read_parquet(out)["predicted"]) == {"=1+1", "-low"}
    assert main(["predict", run, table, "--output", str(tmp_path / "exact.xlsx")]) == 2
    output = capsys.readouterr().err
    assert f"got {tmp_path / 'exact.xlsx'}; try {tmp_path / 'exact.csv'}" in output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop(columns=["sex", "age"]), "columns 'age', 'sex'"),
        (lambda frame: frame.assign(age="old"), "numbers in column 'age'"),
        (lambda frame: frame.assign(age=1e300), "single precision"),
    ],
)
def test_tables_that_cannot_be_answered(change, words, run, tmp_path, capsys):
    change(mixed(20, 3)).to_csv(tmp_path / "bad.csv", index=False)
    assert main(["predict", str(run), str(tmp_path / "bad.csv")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("svm-grid: ")
    assert words in line
    assert not (tmp_path / "bad-predictions.csv").exists()


def test_runs_that_cannot_answer(run, tmp_path, capsys):
    table = run.parent / "pay.csv"
    assert main(["predict", str(tmp_path), str(table)]) == 2
    assert "RUN must be a run folder" in capsys.readouterr().err
    metadata = json.loads((run / "run.json").read_text())
    metadata["dataset"].pop("table")
    (tmp_path / "run.json").write_text(json.dumps(metadata))
    assert main(["predict", str(tmp_path), str(table)]) == 2
    assert "is a run on images" in capsys.readouterr().err


def test_rows_of_a_table_without_a_header_line(tmp_path, capsys):
    """Target first, as in wine.data; rows to predict come without it, and columns move up."""
    rng = np.random.default_rng(0)
    kind = np.arange(90) % 3
    frame = pd.DataFrame({0: kind + 1, 1: rng.normal(kind, 0.3), 2: rng.normal(0, 1, 90)})
    frame.to_csv(tmp_path / "wine.data", index=False, header=False)
    options = ["--dataset", str(tmp_path / "wine.data"), "--target", "1", *GRID]
    assert main([*options, "--results", str(tmp_path / "run")]) == 0
    output = capsys.readouterr().out
    assert "90 rows, target '1': 3 classes: 1 (30), 2 (30), 3 (30)" in output
    assert "no header line, columns are called 1 to 3" in output
    frame.drop(columns=0).to_csv(tmp_path / "new.data", index=False, header=False)
    for name in ("wine.data", "new.data"):
        assert main(["predict", str(tmp_path / "run"), str(tmp_path / name)]) == 0
        stem = Path(name).stem
        answers = pd.read_csv(tmp_path / f"{stem}-predictions.csv")["predicted"]
        assert np.mean(answers != kind + 1) < 0.15


def test_missing_rows_get_no_answer_where_the_run_dropped_such(tmp_path):
    path = tmp_path / "pay.csv"
    mixed(150, 0).to_csv(path, index=False)
    options = ["--dataset", str(path), "--missing", "drop", *GRID]
    assert main([*options, "--results", str(tmp_path / "run"), "--quiet"]) == 0
    assert record(tmp_path / "run")["dataset"]["n_train"] < 110
    assert main(["predict", str(tmp_path / "run"), str(path)]) == 0
    answers = pd.read_csv(tmp_path / "pay-predictions.csv")["predicted"]
    gaps = mixed(150, 0).replace("?", np.nan)[["age", "sex", "grade"]].isna().any(axis=1)
    np.testing.assert_array_equal(answers.isna(), gaps)


def test_a_dry_run_shows_rows_as_the_solver_will_see_them(run, capsys):
    assert main(["--dataset", str(run.parent / "pay.csv"), *GRID, "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "table      pay.csv: 150 rows, target 'pay': 2 classes" in output
    levels = "2 categorical: sex (2 levels), grade (3 levels)"
    assert f"columns    1 numeric; {levels}" in output
    header = next(line for line in output.splitlines() if "sex=F" in line)
    names = "class age age missing sex=F sex=M sex missing grade=1 grade=2 grade=x"
    assert header.split() == names.split()
    data = load_dataset(str(run.parent / "pay.csv"))
    matrix = data.scaling.fit(data.X_train).transform(data.X_train)
    first = output.splitlines()[output.splitlines().index(header) + 1].split()
    assert first[0] == data.classes[data.y_train[0]]
    np.testing.assert_allclose([float(cell) for cell in first[1:]], matrix[0], rtol=0.01)


@pytest.fixture(scope="module")
def run_of_units(tmp_path_factory):
    """Lengths in cm, and a colour; of whole numbers a class."""
    folder = tmp_path_factory.mktemp("units")
    rows = "".join(f"{i % 9}.2 cm,{i / 7},{['red', 'blue'][i % 2]},{i % 2}\n" for i in range(60))
    (folder / "t.csv").write_text("w,h,colour,kind\n" + rows)
    options = ["--dataset", str(folder / "t.csv"), *GRID]
    assert main([*options, "--results", str(folder / "run"), "--quiet"]) == 0
    assert record(folder / "run")["dataset"]["table"]["units"] == {"w": "cm"}
    return folder / "run"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["2 cm;$1.5", "3 cm;$2"], ["numbers without a unit in column 'h'", "numbers with '$'"]),
        (["20 mm", "30 mm"], ["numbers with 'cm' in column 'w'", "numbers with 'mm'"]),
        (["0.02", "0.03"], ["numbers with 'cm' in column 'w'", "numbers without a unit"]),
        (["5,5 cm", "6,5 cm", "x"], ["'w'", "'x'", "line 4", "5,5 cm"]),
        (["5 cm", "x", "x", "x"], ["'w'", "'x'", "line 3", "5 cm"]),
    ],
)
def test_predict_takes_numbers_in_the_unit_of_the_run(cells, words, run_of_units, tmp_path, capsys):
    rows = "".join(f"{cell};{'1.5;' * (';' not in cell)}red\n" for cell in cells)
    (tmp_path / "new.csv").write_text("w;h;colour\n" + rows)
    assert main(["predict", str(run_of_units), str(tmp_path / "new.csv")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert all(word in line for word in words), line


def test_predict_says_which_levels_are_new(run_of_units, tmp_path, capsys):
    rows = "".join(f"-,{i},{colour}\n" for i, colour in enumerate(["red", "lila", "RED", "lila"]))
    (tmp_path / "new.csv").write_text("w,h,colour\n" + rows)
    assert main(["predict", str(run_of_units), str(tmp_path / "new.csv")]) == 0
    output = capsys.readouterr().out
    new = "column 'colour' has 2 levels that the run did not learn: 'lila', 'RED', in 3 rows"
    assert output.count(f"note       {new}\n") == 1
    assert "note       4 cells '-' as missing in 'w'\n" in output


def test_predict_says_which_cells_are_filled_in(run_of_units, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("w,h,colour\n,1,red\n,2,\n,3,red\n")
    assert main(["predict", str(run_of_units), str(tmp_path / "new.csv")]) == 0
    output = capsys.readouterr().out
    assert "note       column 'w' has no value: each is filled in\n" in output
    assert "note       column 'colour' has no value in 1 row: each is filled in\n" in output
    assert "column 'h'" not in output


def test_what_is_converted_is_said_by_runs_and_predictions(tmp_path, capsys):
    """Title lines, a byte of cp1252, decimal commas, percent, and ids with zeros before them."""
    frame = mixed(150, 0)[["case", "age", "pay"]].fillna({"age": 50})
    frame["case"] = [f"{case:05}" for case in frame["case"]]
    frame["size"] = [f"{age / 10:.2f} %".replace(".", ",") for age in frame.pop("age")]
    frame = frame.rename(columns={"size": "größe"})
    rows = frame.to_csv(index=False, sep=";")
    (tmp_path / "pay.csv").write_bytes(("Bericht\n\n" + rows).encode("cp1252"))
    options = ["--dataset", str(tmp_path / "pay.csv"), "--target", "pay", *GRID]
    assert main([*options, "--results", str(tmp_path / "run")]) == 0
    notes = record(tmp_path / "run")["dataset"]["notes"]
    assert notes == [
        "read as cp1252, a guess",
        "1 line above the table left out",
        "numbers with '%' read without it in 'größe'",
        "decimal commas in 'größe'",
    ]
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "pay.csv")]) == 0
    output = capsys.readouterr().out
    assert all(output.count(f"note       {note}\n") == 2 for note in notes)
    answers = pd.read_csv(tmp_path / "pay-predictions.csv", dtype={"case": str})
    assert answers["case"].tolist() == frame["case"].tolist()
    assert np.mean(answers["predicted"] != frame["pay"]) < 0.4
