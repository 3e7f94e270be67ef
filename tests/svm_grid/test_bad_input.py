"""What the command refuses, in one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.svm_grid import main

from .conftest import SMALL


def idx_folder(tmp_path: Path, content: bytes) -> str:
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            (tmp_path / f"{part}-{kind}-ubyte").write_bytes(content)
    return str(tmp_path)


def csv(tmp_path: Path, text: str) -> str:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return str(path)


BAD = {
    "unknown data set": (lambda t: ["--dataset", "minst"], "--dataset .*mnist"),
    "missing file": (lambda t: ["--dataset", f"{t}/none.csv", "--target", "y"], "none.csv"),
    "truncated file": (
        lambda t: ["--dataset", "mnist", "--data-dir", idx_folder(t, b"\0\0\x08\x03\0\0\0\x09")],
        "ubyte",
    ),
    "no IDX file": (
        lambda t: ["--dataset", "mnist", "--data-dir", idx_folder(t, b"<html>")],
        "IDX",
    ),
    "no such column": (
        lambda t: ["--dataset", csv(t, "a,label\n1,2\n"), "--target", "lable"],
        "--target .*label",
    ),
    "NaN": (
        lambda t: ["--dataset", csv(t, "a,y\n1,0\n,1\n"), "--target", "y", "--missing", "refuse"],
        "--missing refuse must have a value in every cell, column 'a'",
    ),
    "infinity": (
        lambda t: ["--dataset", csv(t, "a,y\n1,0\n-inf,1\n"), "--target", "y"],
        "single precision.*-inf",
    ),
    "duplicated target": (
        lambda t: ["--dataset", csv(t, "y,a,y\n1,2,1\n0,3,0\n"), "--target", "y"],
        "two columns are called 'y'",
    ),
    "rare classes": (
        lambda t: ["--dataset", csv(t, "a,y\n" + "1,3\n" * 20 + "2,4\n" * 20 + "3,26\n4,29\n")],
        r"every class.* '26' \(1\), '29' \(1\); .*--rare drop, .*--rare merge",
    ),
    "many levels": (
        lambda t: [
            "--dataset", csv(t, "a,y\n" + "".join(f"w{i % 60},{i % 2}\n" for i in range(120)))
        ],
        r"50 levels .*'a' \(60\).*--leave-out a.*--category a",
    ),
    "no such category": (
        lambda t: ["--dataset", csv(t, "a,y\n1,x\n2,y\n"), "--category", "b"],
        "--category must name feature columns .*'b'",
    ),
    "one class": (
        lambda t: ["--dataset", csv(t, "a,y\n1,0\n2,0\n3,0\n"), "--target", "y"],
        "at least two classes",
    ),
    "few rows": (
        lambda t: [
            "--dataset", csv(t, "a,y\n" + "1,0\n" * 20 + "2,1\n" * 4), "--target", "y"
        ],
        "--folds",
    ),
    "folds": (lambda t: ["--folds", "1"], "--folds must be at least 2, got 1"),
    "empty grid": (lambda t: ["--n-c", "0"], "--n-c must be at least 1, got 0"),
    "negative grid": (lambda t: ["--n-gamma", "-2"], "--n-gamma must be at least 1, got -2"),
    "one gamma twice": (
        lambda t: ["--log-gamma", "-2", "-2"],
        "--n-gamma must be 1 where --log-gamma is one value, got 8",
    ),
    "dry run of a wrong port": (
        lambda t: ["--dry-run", "--dashboard", "99999"],
        "--dashboard must be a port, host:port or off, got '99999'",
    ),
    "dry run into a folder in use": (
        lambda t: ["--dry-run", "--cluster", "local", "--results", str(t.parent)],
        "--results must be a new or empty folder, got .*, which holds data",
    ),
    "dry run into a file": (
        lambda t: ["--dry-run", "--cluster", "local", "--results", csv(t, "")],
        "--results must be a folder that can be written, got .*table.csv: Not a directory",
    ),
    "dry run without the GPU": (
        lambda t: ["--dry-run", "--cluster", "local", "--device", "gpu"],
        "--device gpu needs a GPU, and this machine has none",
    ),
    "workers": (lambda t: ["--workers", "0"], "--workers must be at least 1, got 0"),
    "no scheduler": (lambda t: ["--cluster", "tcp://127.0.0.1:1"], "--cluster .*tcp://127.0.0.1:1"),
    "no GPU": (
        lambda t: ["--cluster", "local", "--workers", "1", "--device", "gpu"],
        "--device gpu needs workers with a GPU",
    ),
    "unwritable results": (lambda t: ["--results", "/dev/null/run"], "--results .*/dev/null/run"),
    "unknown solver": (
        lambda t: ["--cluster", "local", "--workers", "1", "--solver", "svm"],
        "--solver must be auto or one of",
    ),
    "unknown scoring": (
        lambda t: ["--scoring", "f1_marco"], r"--scoring .* got 'f1_marco'; did you mean f1_macro\?"
    ),
    "scoring of probabilities": (
        lambda t: ["--scoring", "neg_log_loss"],
        "--scoring must work with predictions or decision values, but neg_log_loss needs",
    ),
    "scoring of two classes": (
        lambda t: ["--scoring", "roc_auc"], "--scoring roc_auc cannot score these 10 classes"
    ),
    "no run to resume": (lambda t: ["--resume", str(t)], "--resume must be the folder of a run"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, words = BAD[case]
    (tmp_path / "data").mkdir()
    argv = arguments(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("svm_grid: ")
    assert re.search(words, line), line
    assert not list(tmp_path.glob("results/*")), "a folder was left behind"


def test_a_folder_that_holds_another_run_is_refused(
    finished: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = finished
    assert main([*SMALL, "--results", str(folder)]) == 2
    assert f"but {folder} already holds a run; continue it with --resume" in capsys.readouterr().err
    assert main(["--resume", str(folder), "--n-c", "4"]) == 2
    assert f"--n-c must stay 3 when resuming {folder}, got 4" in capsys.readouterr().err


def test_changed_data_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{i % 7},{i % 3},{i % 2}" for i in range(60)]
    path.write_text("a,b,y\n" + "\n".join(rows))
    folder = str(tmp_path / "run")
    grid = ["--n-c", "1", "--n-gamma", "1", "--folds", "2", "--workers", "1", "--cluster", "local"]
    assert main(["--dataset", str(path), "--target", "y", *grid, "--results", folder]) == 0
    path.write_text("a,b,y\n" + "\n".join(["9,9,0", *rows[1:]]))
    assert main(["--resume", folder]) == 2
    assert "needs the data of the original run, but t.csv has changed;" in capsys.readouterr().err
