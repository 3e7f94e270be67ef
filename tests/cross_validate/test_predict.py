"""The best candidate of a run is kept, and asked about new rows."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from PIL import Image
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

from pipelines import InputError, Run
from pipelines.cross_validate import main
from pipelines.data.load import load_dataset
from pipelines.nn.features import Extractor
from pipelines.search.candidates import CATALOGUE, estimator_of
from pipelines.search.model import FittedEstimator, dump_model, load_estimator
from pipelines.svm_grid import main as svm_grid
from tests.command_runs import record

FEW = ["--folds", "3", "--cluster", "threads", "--quiet"]


def mixed(n_rows, seed):
    """Ids, numbers with gaps, text, and as targets a class and a number."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "case": [f"c{number:04d}" for number in range(n_rows)],
            "age": rng.normal(50, 10, n_rows).round(1),
            "height": rng.normal(170, 8, n_rows).round(1),
            "sex": rng.choice(["F", "M"], n_rows),
        }
    )
    cost = frame["age"] * 3 + 40 * (frame["sex"] == "F") + rng.normal(0, 1, n_rows)
    frame.loc[::9, "age"] = np.nan
    frame["cost"] = cost.round(2)
    frame["pay"] = np.select([cost < 150, cost < 180], ["low", "middle"], "high")
    return frame


def run_on(folder, dataset, *options):
    words = ["--dataset", str(dataset), *options, *FEW, "--results", str(folder / "run")]
    assert main(words) == 0
    return folder / "run"


def write_test_rows(data, path):
    """Write the test rows as a table in another order of columns; return their targets."""
    X = pd.DataFrame(data.X_test, columns=data.feature_names)
    X[X.columns[::-1]].to_csv(path, index=False)
    return data.y_test


STEPS = """
- reduce: {class: sklearn.decomposition.PCA, n_components: 2}
- chosen: {class: sklearn.feature_selection.SelectKBest, k: 1}
"""


@pytest.mark.parametrize(
    ("target", "options", "columns"),
    [
        ("pay", "--estimator forest --param n_estimators=5", "probability"),
        ("pay", "--estimator svm --param C=1,10", "decision"),
        ("pay", "--estimator boosting --param max_iter=3 --leave-out height", "probability"),
        ("pay", "--estimator knn --preprocess STEPS", "probability"),
        ("pay", "--estimator svm --param decision_function_shape=ovo", ""),
        ("pay", "--estimator pipelines.PathSVC", "decision"),
        ("cost", "--estimator svm --param C=1,10", ""),
        ("cost", "--estimator ridge", ""),
    ],
)
def test_the_test_rows_get_the_predictions_of_the_refit(target, options, columns, tmp_path, capsys):
    (tmp_path / "steps.yaml").write_text(STEPS)
    table = mixed(120, 0).drop(columns={"pay", "cost"} - {target})
    table.to_csv(tmp_path / "table.csv", index=False)
    words = options.replace("STEPS", str(tmp_path / "steps.yaml")).split()
    run = run_on(tmp_path, tmp_path / "table.csv", "--target", target, *words)
    task = "regression" if target == "cost" else "classification"
    data = load_dataset(str(tmp_path / "table.csv"), target=target, task=task)
    write_test_rows(data, tmp_path / "new.csv")
    assert main(["predict", str(run), str(tmp_path / "new.csv")]) == 0
    answers = pd.read_csv(tmp_path / "new-predictions.csv")
    if target == "cost":
        expected = pd.read_parquet(run / "test_residuals.parquet")["predicted"].to_numpy()
        np.testing.assert_allclose(answers["predicted"], expected, rtol=1e-12)
    else:
        codes = pd.read_parquet(run / "test_predictions.parquet")["predicted"].to_numpy()
        expected = data.classes[codes]
        assert answers["predicted"].tolist() == expected.tolist()
    named = [f"{columns}_{label}" for label in ("high", "low", "middle")] if columns else []
    assert answers.columns.tolist() == ["row", "predicted", *named]
    if columns == "probability":
        np.testing.assert_allclose(answers[named].sum(axis=1), 1)
    if columns:
        assert (answers[named].to_numpy().argmax(axis=1) == codes).mean() > 0.9
    assert ("of pairs of classes" in capsys.readouterr().out) == options.endswith("ovo")
    model = Run(run).model
    assert type(model) is FittedEstimator
    assert hasattr(model, "predict_proba") == (columns == "probability")
    assert np.array_equal(model.predict(data.X_test), expected)


def test_ids_and_the_error_are_told_and_the_column_of_groups_is_no_feature(tmp_path, capsys):
    table = mixed(120, 0).drop(columns="cost").assign(family=np.arange(120) // 4)
    table.to_csv(tmp_path / "table.csv", index=False)
    options = ["--cv", "group", "--groups", "family", "--estimator", "tree"]
    run = run_on(tmp_path, tmp_path / "table.csv", "--target", "pay", *options)
    new = mixed(30, 1).drop(columns="cost")
    new.loc[3, "sex"] = "X"
    new.to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(run), str(tmp_path / "new.csv")]) == 0
    answers, output = pd.read_csv(tmp_path / "new-predictions.csv"), capsys.readouterr().out
    assert answers.columns.tolist()[:3] == ["row", "case", "predicted"]
    wrong = int((answers["predicted"] != new["pay"]).sum())
    assert f"({wrong} of 30) against column 'pay'" in output
    assert "column 'sex' has 1 level that the run did not learn: 'X', in 1 row" in output


@pytest.mark.parametrize("features", [None, "hog"])
def test_images_get_the_predictions_of_the_refit(features, tmp_path):
    rng = np.random.default_rng(0)
    for number in range(45):
        kind = ("plain", "lines", "bars")[number % 3]
        pixels = rng.integers(0, 90, (20, 24, 3)).astype(np.uint8)
        pixels[{"plain": (), "lines": np.s_[::5], "bars": np.s_[:, ::5]}[kind] or np.s_[:0]] = 200
        folder = tmp_path / "images" / ("test" if number < 12 else "train") / kind
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number:02}.png")
    words = [] if features is None else ["--features", features]
    words += ["--data-dir", str(tmp_path / "data"), "--estimator", "svm"]
    run = run_on(tmp_path, tmp_path / "images", *words)
    data = load_dataset(str(tmp_path / "images"), data_dir=str(tmp_path / "data"))
    codes = pd.read_parquet(run / "test_predictions.parquet")["predicted"].to_numpy()
    output = tmp_path / "answers.csv"
    arguments = ["predict", str(run), "--image", str(tmp_path / "images" / "test")]
    assert main([*arguments, "--output", str(output)]) == 0
    of_files = dict(pd.read_csv(output)[["image", "predicted"]].to_numpy())
    paths = sorted((tmp_path / "images" / "test").rglob("*.png"))  # the order of a data set
    expected = [str(data.classes[code]) for code in codes]
    assert [of_files[str(path)] for path in paths] == expected
    X = (
        data.X_test
        if features is None
        else Extractor.of(features).features(data.X_test, (3, 20, 24))
    )
    assert Run(run).model.predict(X).tolist() == expected


def test_an_estimator_of_ones_own_is_named_and_not_kept(tmp_path, capsys):
    mixed(120, 0)[["height", "cost", "pay"]].to_csv(tmp_path / "table.csv", index=False)
    estimator = "tests.search.awkward.Nearest"
    words = ["--dataset", str(tmp_path / "table.csv"), "--target", "pay", "--estimator", estimator]
    run = tmp_path / "run"
    assert main([*words, *FEW[:-1], "--results", str(run)]) == 0
    why = f"its file would hold {estimator}, which might run code when it is read"
    assert record(run)["not_kept"] == why
    assert f"the model is not kept: {why}" in capsys.readouterr().out
    assert f"The model is not kept: {why}" in (run / "report.html").read_text()
    assert not (run / "model.skops").exists()
    assert main(["predict", str(run), str(tmp_path / "table.csv")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "RUN must hold a model" in line
    assert why in line
    with pytest.raises(InputError, match=estimator):
        Run(run).model  # noqa: B018  what is asked


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    mixed(120, 0)[["height", "cost", "pay"]].to_csv(folder / "table.csv", index=False)
    return run_on(folder, folder / "table.csv", "--target", "pay", "--estimator", "logistic")


@pytest.fixture
def rewritten(kept, tmp_path):
    """The folder of a run whose model anybody may have put there: no digest says what it was."""
    (tmp_path / "run").mkdir()
    about = record(kept) | {"files": {}}
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    return tmp_path / "run"


def refused(run, table, capsys):
    assert main(["predict", str(run), str(table)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    with pytest.raises(InputError):
        Run(run).model  # noqa: B018  what is asked
    return line


def test_a_model_that_was_changed_is_refused(kept, tmp_path, capsys):
    content, table = (kept / "model.skops").read_bytes(), kept.parent / "table.csv"
    try:
        (kept / "model.skops").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert "its SHA-256 is not that of the file the run left" in refused(kept, table, capsys)
        (kept / "model.skops").unlink()
        assert "it is gone" in refused(kept, table, capsys)
    finally:
        (kept / "model.skops").write_bytes(content)
    assert main(["predict", str(kept), str(table), "--output", str(tmp_path / "new.csv")]) == 0


class Harmful:
    """What pickle would call ``os.system`` for."""

    def __reduce__(self):
        return os.system, ("touch harm",)


def test_a_model_made_by_hand_runs_nothing(kept, rewritten, tmp_path, monkeypatch, capsys):
    from functools import partial
    from operator import methodcaller

    from sklearn.preprocessing import FunctionTransformer

    monkeypatch.chdir(tmp_path)
    table = kept.parent / "table.csv"
    for estimator, named in (
        (FunctionTransformer(partial(os.system, "touch harm")), "posix.system"),
        (FunctionTransformer(methodcaller("tofile", "harm")), "operator.methodcaller"),
        (FunctionTransformer(eval), "builtins.eval"),
        ([Harmful()], "Harmful"),
    ):
        parts = {"estimator": estimator, "classes_": None, "n_features_in_": 2, "scaling": None}
        skops.io.dump(parts, rewritten / "model.skops")
        line = refused(rewritten, table, capsys)
        assert "must be a model that this program saved" in line
        assert named in line
    # A type that is trusted, made by a function that is none of it.
    skops.io.dump({"estimator": RandomForestClassifier()}, rewritten / "model.skops")
    with zipfile.ZipFile(rewritten / "model.skops") as archive:
        schema = json.loads(archive.read("schema.json"))
    reduced = {"args": schema["key_types"]}
    schema["content"]["estimator"] |= {"__loader__": "LossNode", "__module__": "os"}
    schema["content"]["estimator"] |= {"__class__": "system", "__reduce__": reduced}
    with zipfile.ZipFile(rewritten / "model.skops", "w") as archive:
        archive.writestr("schema.json", json.dumps(schema))
    assert "os.system" in refused(rewritten, table, capsys)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_model_is_one_line(content, kept, rewritten, capsys):
    (rewritten / "model.skops").write_bytes(content)
    assert "must be a model that" in refused(rewritten, kept.parent / "table.csv", capsys)


def test_a_run_of_before_models_were_kept_says_so(kept, rewritten, capsys):
    line = refused(rewritten, kept.parent / "table.csv", capsys)
    assert "there is no model.skops" in line
    assert "run it anew" in line


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - {"xgboost"}))
def test_all_of_the_catalogue_is_kept_and_answers_the_same(name, task, tmp_path):
    if CATALOGUE[name][task == "regression"] is None:
        return
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    numbers = X @ [1.0, 2.0, -1.0]
    y = numbers if task == "regression" else np.digitize(numbers, [-1, 1]).astype(np.int32)
    estimator = estimator_of(name, task, 0).fit(X, y)
    labels = None if task == "regression" else np.array(["a", "b", "c"])
    content, why = dump_model(FittedEstimator(estimator, labels, 3))
    assert why == ""
    assert content is not None
    (tmp_path / "model.skops").write_bytes(content)
    (tmp_path / "run.json").write_text(json.dumps({"command": "cross_validate"}))
    expected = estimator.predict(X) if labels is None else labels[estimator.predict(X)]
    assert np.array_equal(load_estimator(tmp_path).predict(X), expected)


def test_what_is_no_run_and_misspelt_options_are_one_line(kept, tmp_path, capsys):
    table = str(kept.parent / "table.csv")
    for words, message in (
        ([], "RUN must be the folder of a finished run, got none"),
        ([str(tmp_path), table], "RUN must be a run folder with a run.json"),
        ([str(kept)], "a TABLE or --image, one of them"),
        ([str(kept), table, "--outputs", "a.csv"], "did you mean --output?"),
        ([str(kept), table, "more"], "more is not an option of this command"),
        ([str(kept), "--image", table], "RUN must be a run on images"),
    ):
        assert main(["predict", *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line, line
    with pytest.raises(SystemExit, match="0"):
        main(["predict", "-h"])
    assert "predict RUN [TABLE] [options]" in capsys.readouterr().out


def test_columns_of_a_data_frame_are_found_by_name(tmp_path):
    table = load_wine(as_frame=True).frame
    table.to_csv(tmp_path / "wine.csv", index=False)
    words = ["--dataset", str(tmp_path / "wine.csv"), "--target", "target", *FEW]
    X, reverse = table.drop(columns="target"), table.columns[-2::-1]
    for command, options in ((main, ["--estimator", "logistic"]), (svm_grid, ["--n-c", "2"])):
        run = tmp_path / options[-1]
        assert command([*words, *options, "--results", str(run)]) == 0
        model = Run(run).model
        expected = model.predict(X.to_numpy())
        assert (expected == table["target"]).mean() > 0.9
        assert (model.predict(X) == expected).all()
        assert (model.predict(table[reverse].assign(more=1.0)) == expected).all()
        with pytest.raises(ValueError, match="X must have the columns ash, and has none"):
            model.predict(X.drop(columns="ash"))


def test_a_model_that_does_not_name_its_classes_is_asked_for_these_alone(tmp_path):
    load_wine(as_frame=True).frame.to_csv(tmp_path / "wine.csv", index=False)
    words = ["--dataset", str(tmp_path / "wine.csv"), "--target", "target", *FEW]
    kind = ["--estimator", "sklearn.mixture.GaussianMixture", "--param", "n_components=3"]
    run = tmp_path / "run"
    assert main([*words, *kind, "--results", str(run)]) == 0
    assert main(["predict", str(run), str(tmp_path / "wine.csv")]) == 0
    answers = pd.read_csv(tmp_path / "wine-predictions.csv")
    assert list(answers) == ["row", "predicted"]


def test_answers_go_to_a_file_of_their_own(tmp_path, capsys):
    table = load_wine(as_frame=True).frame
    table.loc[3, "ash"] = np.nan
    path, run = tmp_path / "wine.csv", tmp_path / "run"
    table.to_csv(path, index=False)
    words = ["--dataset", str(path), "--target", "target", "--missing", "drop", *FEW]
    assert main([*words, "--estimator", "knn", "--results", str(run)]) == 0
    before = path.read_bytes()
    for output in (path, run / "test_predictions.parquet"):
        assert main(["predict", str(run), str(path), "--output", str(output)]) == 2
        assert "--output must be a file of its own" in capsys.readouterr().err
    assert path.read_bytes() == before
    # The row without an answer leaves the others whole numbers.
    for _ in range(2):  # an earlier answer is replaced
        assert main(["predict", str(run), str(path)]) == 0
    answers = (tmp_path / "wine-predictions.csv").read_text()
    cells = [line.split(",")[1] for line in answers.splitlines()]
    assert set(cells[1:]) == {"0", "1", "2", ""}
    assert cells[4] == ""


def test_advice_is_of_what_predict_takes(tmp_path, capsys):
    table = load_wine(as_frame=True).frame
    table.to_csv(tmp_path / "wine.csv", index=False)
    words = ["--dataset", str(tmp_path / "wine.csv"), "--target", "target", *FEW]
    run = tmp_path / "run"
    assert main([*words, "--estimator", "knn", "--results", str(run)]) == 0
    cells = table.astype(object)
    cells.loc[5, "ash"] = "many"
    cells.to_csv(tmp_path / "slip.csv", index=False)
    table.assign(ash=np.nan).to_csv(tmp_path / "gap.csv", index=False)
    capsys.readouterr()
    for name in ("slip", "gap"):
        assert main(["predict", str(run), str(tmp_path / f"{name}.csv")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("cross-validate: TABLE must have")
        assert "--" not in line


def test_pixels_of_any_type_get_the_predictions_of_the_refit(tmp_path):
    words = ["--limit", "300", "--estimator", "forest", "--cluster", "threads", "--folds", "2"]
    assert main([*words, "--quiet", "--results", str(tmp_path / "run")]) == 0
    run = Run(tmp_path / "run")
    table = pd.read_parquet(run / "test_probabilities.parquet")
    expected = table.filter(like="probability_").to_numpy()
    pixels = load_dataset("digits").X_test.reshape(len(table), -1)
    assert pixels.dtype == np.uint8
    for dtype in (np.uint8, np.int64, np.float32, np.float64):
        np.testing.assert_array_equal(run.model.predict_proba(pixels.astype(dtype)), expected)
