"""The model of a run answers elsewhere as it does here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from safetensors import safe_open
from sklearn.datasets import load_diabetes

from pipelines.__main__ import main
from pipelines.data.load import load_dataset
from pipelines.export.check import Answers, compare_answers
from pipelines.run.errors import RunStopped
from pipelines.run.predict import load_model

FEW = "--folds 2 --cluster threads --quiet"
SVM = f"svm-grid --n-c 2 --n-gamma 2 --limit 300 {FEW}"
NETS = f"nn-bagging --n-bootstrap 3 --n-tuning 1 --max-epochs 2 {FEW}"
MIXED = "--dataset mixed.csv --target pay"


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    """Tables in the current folder: numbers with gaps, text with gaps and umlauts; numbers."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, 160).round(1),
            "label": rng.choice(["F", "M"], 160),  # a column named as an output is
            "town": rng.choice(["Bonn", "Köln", "Ulm"], 160),
        }
    )
    cost = frame["age"] * 3 + 40 * (frame["label"] == "F")
    frame.loc[::9, "age"] = np.nan
    frame.loc[::11, "town"] = None
    frame["pay"] = np.select([cost < 150, cost < 180], ["low", "middle"], "high")
    frame.to_csv("mixed.csv", index=False)
    load_diabetes(as_frame=True).frame.to_csv("diabetes.csv", index=False)


def run_of(words):
    assert main([*words.split(), "--results", "run"]) == 0
    return Path("run")


def exported(run, to, capsys):
    """The file, and what the command said."""
    capsys.readouterr()
    assert main(["export", str(run), "--to", to]) == 0
    suffix = {"sklearn": ".pkl"}.get(to, f".{to}")
    return Path(f"run{suffix}"), capsys.readouterr().out


def onnx_answers(file, X):
    """What ONNX Runtime says of rows, as a program without this package asks."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    inputs = {}
    for model_input in session.get_inputs():
        if model_input.name == "X":
            X = X.drop(columns="target") if hasattr(X, "columns") else X
            single = model_input.type == "tensor(float)"
            inputs["X"] = np.asarray(X, np.float32 if single else np.float64)
            continue
        column = X[model_input.name.removeprefix("column ")]
        cells = (
            column.fillna("").to_numpy(object) if model_input.type == "tensor(string)" else column
        )
        inputs[model_input.name] = np.asarray(cells).reshape(-1, 1)
    names = [model_output.name for model_output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


@pytest.mark.parametrize(
    "words",
    [
        f"{SVM} {MIXED} --probability",
        f"{SVM} {MIXED} --decision ovr",
        f"{SVM} --dataset diabetes.csv --target target",
        f"cross-validate {MIXED} --estimator knn {FEW}",
        f"cross-validate {MIXED} --estimator forest --param n_estimators=5 {FEW}",
        f"cross-validate {MIXED} --estimator pipelines.PathSVC {FEW}",
        f"cross-validate --dataset diabetes.csv --target target --estimator svm {FEW}",
        f"{NETS} {MIXED}",
        f"{NETS} --dataset diabetes.csv --target target",
    ],
)
def test_onnx_answers_as_predict(words, capsys):
    run = run_of(words)
    file, output = exported(run, "onnx", capsys)
    assert "test rows: " in output
    table = Path(words.split("--dataset ")[1].split()[0])
    command = words.split()[0]
    assert main([command, "predict", "run", str(table), "--output", "answers.csv"]) == 0
    answers, other = pd.read_csv("answers.csv"), onnx_answers(file, pd.read_csv(table))
    if "prediction" in other:
        np.testing.assert_allclose(other["prediction"], answers["predicted"], rtol=1e-9)
        return
    assert other["label"].tolist() == answers["predicted"].tolist()
    kind = "probabilities" if "probabilities" in other else "decision"
    classes = json.loads(record_of(file)["class_names"])
    columns = [f"{'probability' if kind == 'probabilities' else kind}_{name}" for name in classes]
    np.testing.assert_allclose(other[kind], answers[columns], atol=1e-5)


def record_of(file):
    """The metadata of an ONNX file."""
    return {entry.key: entry.value for entry in onnx.load(file).metadata_props}


@pytest.mark.parametrize("options", ["--probability", "--decision ovr", "--kernel poly"])
def test_images_are_scaled_inside(options, capsys):
    run = run_of(f"{SVM} {options}")
    file, _ = exported(run, "onnx", capsys)
    data, model = load_dataset("digits"), load_model(run)
    other = onnx_answers(file, data.X_test)
    assert (other["label"] == model.predict(data.X_test)).all()
    assert other["label"].dtype == np.int64
    if "probabilities" in other:
        probabilities = model.predict_proba(data.X_test)
        np.testing.assert_allclose(other["probabilities"], probabilities, atol=1e-9)
    about = record_of(file)
    assert about["run"] == "run"
    assert json.loads(about["class_names"]) == [str(digit) for digit in range(10)]


def test_an_ensemble_of_images_is_one_graph(capsys):
    run = run_of(f"{NETS} --limit 300 --network conv")
    file, output = exported(run, "onnx", capsys)
    assert "whether to defer" in output
    data = load_dataset("digits")
    other, table = (
        onnx_answers(file, data.X_test),
        pd.read_parquet(run / "test_predictions.parquet"),
    )
    assert (other["label"] == load_model(run).predict(data.X_test)).all()
    assert (other["votes"].sum(axis=1) == 3).all()
    assert len(table) == len(other["label"])
    file, _ = exported(run, "safetensors", capsys)
    with safe_open(file, framework="numpy") as stored:
        assert {"how", "members", "run"} <= stored.metadata().keys()
        assert any(name.startswith("2.") for name in stored.keys())  # noqa: SIM118


# Run by a Python in which this package cannot be imported.
ALONE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pipelines", "cluster_setup"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import json, pandas as pd
file, table = sys.argv[1:]
if file.endswith(".skops"):
    import skops.io
    model = skops.io.load(file, trusted=skops.io.get_untrusted_types(file=file))
else:
    import joblib
    model = joblib.load(file)
json.dump(model.predict(pd.read_csv(table)).tolist(), sys.stdout)
"""


@pytest.mark.parametrize("to", ["sklearn", "skops"])
@pytest.mark.parametrize(
    "words", [f"{SVM} {MIXED}", f"cross-validate {MIXED} --estimator knn {FEW}"]
)
def test_scikit_learn_alone_reads_it(words, to, capsys):
    run = run_of(words)
    file, output = exported(run, to, capsys)
    assert ("loading a pickle runs code" in output) is (to == "sklearn")
    words_alone = [sys.executable, "-W", "ignore", "-c", ALONE, str(file), "mixed.csv"]
    done = subprocess.run(words_alone, capture_output=True, text=True, check=True)
    assert main([words.split()[0], "predict", "run", "mixed.csv", "--output", "a.csv"]) == 0
    assert json.loads(done.stdout) == pd.read_csv("a.csv")["predicted"].tolist()


def test_a_model_that_answers_otherwise_is_not_written(monkeypatch, capsys):
    run = run_of(f"{SVM} {MIXED}")
    from pipelines.export import svm

    add_machine = svm.add_machine

    def other(graph, rows, machine):
        from dataclasses import replace

        add_machine(graph, rows, replace(machine, intercepts=machine.intercepts + 0.5))

    monkeypatch.setattr(svm, "add_machine", other)
    before = sorted(Path().iterdir())
    capsys.readouterr()
    assert main(["export", str(run)]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("export: the exported model does not answer as the run's own: ")
    assert "of 32 labels equal" in complaint
    assert sorted(Path().iterdir()) == before


def test_where_the_data_are_gone_support_vectors_take_their_place(
    capsys,
):
    run = run_of(f"{SVM} --dataset diabetes.csv --target target")
    Path("diabetes.csv").rename("moved.csv")
    _, output = exported(run, "onnx", capsys)
    assert "support vectors in place of the test rows, which cannot be read" in output
    assert main(["export", "run", "--dataset", "moved.csv"]) == 0
    assert "check      88 test rows: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (f"{SVM} {MIXED}", "--output model.txt", "--output must be a file that ends in .onnx"),
        (f"{SVM} {MIXED}", "--to tflite", "--to: invalid choice: 'tflite'"),
        (f"{NETS} {MIXED}", "--to skops", "--to must be onnx or safetensors for a run of nn-bag"),
        (f"cross-validate {MIXED} --estimator knn {FEW}", "--to safetensors", "use --to skops"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(words, options, message, capsys):
    run = run_of(words)
    capsys.readouterr()
    assert main(["export", str(run), *options.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_graph_keeps_no_model(tmp_path, capsys):
    Path("edges.csv").write_text("a,b\nb,c\nc,a\n")
    assert (
        main(["pagerank", "--edges", "edges.csv", "--cluster", "threads", "--results", "run"]) == 0
    )
    capsys.readouterr()
    assert main(["export", "run"]) == 2
    assert "which keeps no model to export" in capsys.readouterr().err


def test_answers_agree_only_if_every_label_and_probability_does():
    labels, p = np.array(["a", "b"]), np.array([[0.5, 0.5], [0.25, 0.75]])
    answers = Answers(labels, {"probabilities": p})
    summary = compare_answers(answers, Answers(labels, {"probabilities": p + 9e-6}))
    assert summary == "2 of 2 labels equal, probabilities at most 9e-06 apart"
    with pytest.raises(RunStopped, match="1 of 2 labels equal"):
        compare_answers(answers, Answers(labels[[0, 0]], {"probabilities": p}))
    with pytest.raises(RunStopped, match=r"at most 1\.1e-05 apart"):
        compare_answers(answers, Answers(labels, {"probabilities": p + 1.1e-5}))
    nan = np.array([np.nan, 1.0])
    first_answers, other = (Answers(None, {"prediction": values}) for values in (nan, nan[::-1]))
    with pytest.raises(RunStopped):
        compare_answers(first_answers, other)
