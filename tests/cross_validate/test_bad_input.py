"""What the command refuses, in one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.cross_validate import main

ROWS = "\n".join(f"{i % 7},{i % 3},{i * 0.37},{'red' if i % 2 else 'blue'}" for i in range(40))


def csv(folder: Path, text: str = "a,b,x,colour\n" + ROWS) -> str:
    path = folder / "table.csv"
    path.write_text(text + "\n")
    return str(path)


def file(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def numbers(folder: Path) -> list[str]:
    return ["--dataset", csv(folder), "--target", "x", "--task", "regression"]


BAD = {
    "no such name": (lambda t: ["--estimator", "forrest"], r"--estimator .*did you mean forest\?"),
    "no such module": (
        lambda t: ["--estimator", "sklearn.forests.Forest"], "--estimator must be a class that can"
    ),
    "no such class": (
        lambda t: ["--estimator", "sklearn.ensemble.RandomForest"],
        r"has no RandomForest; did you mean sklearn.ensemble.RandomForest\w+",
    ),
    "no fit": (
        lambda t: ["--estimator", "collections.OrderedDict"], "must be a class with fit and get_pa"
    ),
    "no predictions": (
        lambda t: ["--estimator", "sklearn.decomposition.PCA"], "must be one for classification"
    ),
    "of the other task": (
        lambda t: ["--estimator", "lasso"], "lasso, which is none; .*--task regression"
    ),
    "a regressor by its path": (
        lambda t: ["--estimator", "sklearn.linear_model.Ridge"], "one for classification"
    ),
    "no such parameter": (
        lambda t: ["--estimator", "knn", "--param", "neighbors=3"],
        "--param must name a parameter of knn, got 'neighbors'; did you mean n_neighbors",
    ),
    "a parameter before any estimator": (
        lambda t: ["--param", "n_neighbors=3"], "--param must follow the --estimator it is of"
    ),
    "a parameter of another": (
        lambda t: ["--estimator", "knn", "--param", "tree:max_depth=3"], "there are knn"
    ),
    "no value": (lambda t: ["--estimator", "knn", "--param", "p"], "--param must be NAME=VALUE"),
    "no such scorer": (lambda t: ["--scoring", "f1_marco"], r"did you mean f1_macro\?"),
    "a scorer of numbers": (lambda t: ["--scoring", "r2"], "--scoring must be one for classificat"),
    "a scorer of two classes": (lambda t: ["--scoring", "f1"], "--scoring f1 cannot score these"),
    "a scorer of clusters": (
        lambda t: ["--scoring", "rand_score"], "--scoring must be one for classification"
    ),
    "a scorer of classes": (
        lambda t: [*numbers(t), "--scoring", "accuracy"], "--scoring must be one for regression"
    ),
    "text for a regressor": (
        lambda t: ["--dataset", csv(t), "--target", "colour", "--task", "regression"], "colour"
    ),
    "stratified numbers": (
        lambda t: [*numbers(t), "--cv", "stratified"], "--cv must not be stratified"
    ),
    "few groups": (
        lambda t: [*numbers(t), "--cv", "group", "--groups", "b"],
        "--folds must not exceed the . groups, got 5",
    ),
    "no such group": (
        lambda t: [*numbers(t), "--cv", "group", "--groups", "c"], "--groups|--leave-out"
    ),
    "no groups": (lambda t: ["--cv", "group"], "--groups must name the column"),
    "groups for nothing": (lambda t: [*numbers(t), "--groups", "b"], "--groups is for --cv group"),
    "groups of images": (lambda t: ["--cv", "group", "--groups", "b"], "--groups is for a table"),
    "no such folds": (lambda t: ["--cv", "stratifeid"], "--cv must be one of auto, stratified"),
    "no such function": (
        lambda t: ["--cv", file(t, "mine.py", "") + ":folds"], "--cv must be package.module:NAME"
    ),
    "no such grid": (lambda t: ["--grid", "none.yaml"], "--grid must be a YAML file that can be"),
    "a grid of another form": (
        lambda t: ["--grid", file(t, "g.yaml", "- 1\n")], "--grid must hold estimator:"
    ),
    "a grid without values": (
        lambda t: ["--grid", file(t, "g.yaml", "knn: {n_neighbors: []}\n")], "--grid must give each"
    ),
    "no such steps": (lambda t: ["--preprocess", "autp"], "--preprocess must be auto, none or a"),
    "steps of another form": (
        lambda t: ["--preprocess", file(t, "p.yaml", "pca: 3\n")], "--preprocess must hold a list"
    ),
    "no such step": (
        lambda t: ["--preprocess", file(t, "p.yaml", "- pca: {class: sklearn.PCA}\n")],
        "classes are transformers that can be made",
    ),
    "text without steps": (
        lambda t: ["--dataset", csv(t), "--target", "b", "--preprocess", "none"],
        "--preprocess must not be none for a table with text",
    ),
    "one outer fold": (lambda t: ["--nested", "1"], "--nested must be at least 2, got 1"),
    "a rope below 0": (lambda t: ["--rope", "-1"], "--rope must be at least 0"),
    "xgboost that is not there": (lambda t: ["--estimator", "no.such.Package"], "--estimator"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, words = BAD[case]
    (tmp_path / "data").mkdir()
    argv = arguments(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    assert main([*argv, "--cluster", "local"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cross_validate: ")
    assert re.search(words, line), line
    assert not list(tmp_path.glob("results/*")), "a folder was left behind"
