"""``pleasingly runs``: as text that fits its window, as CSV, as a page; and what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.runs import main
from tests.report.conftest import KEPT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("svm_grid-finished", "svm_grid-interrupted", "nn_bagging-finished"):
        shutil.copytree(KEPT / name, tmp_path / "results" / name)
    return tmp_path / "results"


def lines_of(capsys, *argv):
    assert main(argv) == 0
    out, err = capsys.readouterr()
    return out.splitlines(), err.splitlines()


def test_a_wide_window_has_every_column(folder, capsys):
    lines, complaints = lines_of(capsys)
    heads = "name started (UTC) command data best cv error test error status time"
    assert " ".join(lines[0].split()) == heads
    (svm,) = [line for line in lines if line.startswith("svm_grid-finished")]
    assert " ".join(svm.split()) == (
        "svm_grid-finished 2026-11-22 05:58 svm-grid digits C 31.6, gamma 0.01 13.01 % 8.33 % "
        "finished 14.2 s"
    )
    assert lines[-1] == "3 runs"
    assert complaints == []


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_no_line_is_wider_than_the_window(folder, capsys, monkeypatch, width):
    record = json.loads((folder / "svm_grid-finished" / "run.json").read_text())
    record["dataset"]["name"] = "measurements of the second campaign.csv"
    (folder / "svm_grid-finished" / "run.json").write_text(json.dumps(record))
    monkeypatch.setenv("COLUMNS", str(width))
    lines, _ = lines_of(capsys)
    table = [line for line in lines if not line.startswith("(no room")]
    assert max(map(len, table)) <= width
    names = {line[: len("nn_bagging-finish")] for line in lines}
    assert any(name.startswith("nn_bagging-fin") for name in names)
    heads = " ".join(line for line in lines[:2])
    left_out = lines[-2].partition("letters for ")[2].partition(":")[0].split(", ")
    for head in ("time", "command", "status"):
        assert (head in heads) != (head in left_out), "what is left out is said"


def test_rows_are_chosen_and_sorted(folder, capsys):
    lines, complaints = lines_of(
        capsys, "results", "--sort", "test_error", "--where", "test_error<9%"
    )
    assert [line.split()[0] for line in lines[1:]] == [
        "svm_grid-finished",
        "nn_bagging-finished",
        "2",
    ]
    assert lines[-1] == "2 of 3 runs"
    assert complaints == ["runs: left out: 1 run without a test_error"]
    lines, _ = lines_of(
        capsys, "--where", "status == finished", "data == digits", "--where", "n_train>100"
    )
    assert [line.split()[0] for line in lines[1:-1]] == ["nn_bagging-finished"]
    lines, _ = lines_of(capsys, "--where", "data == mnist")
    assert lines == ["0 of 3 runs"]


def test_csv_has_all_digits_and_every_column(folder, capsys):
    (folder / "svm_grid-finished").rename(folder / "a, b\x1b[31m")
    assert main(["--format", "csv", "--sort", "cv_error"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows[0]["name"] == "a, b\\x1b[31m"
    assert float(rows[0]["cv_error"]) == 0.13012477718360071
    assert rows[0]["folder"] == "results/a, b\\x1b[31m"
    assert rows[1]["cv_error"] == ""


def test_damaged_runs_are_named_in_a_line_and_no_more_than_a_few(folder, capsys):
    for i in range(13):
        (folder / f"damaged-{i:02d}").mkdir()
        (folder / f"damaged-{i:02d}" / "run.json").write_text("{")
    lines, complaints = lines_of(capsys)
    assert lines[-1] == "3 runs"
    assert len(complaints) == 11
    assert complaints[0].startswith(
        "runs: left out: 'results/damaged-00/run.json', which is damaged"
    )
    assert complaints[-1] == "runs: left out: 3 more"


def test_a_folder_without_runs_is_said_to_have_none(folder, capsys):
    (folder / "empty").mkdir()
    lines, complaints = lines_of(capsys, "results/empty")
    assert lines == ["0 runs"]
    assert complaints == [
        "runs: there is no run in results/empty; a command writes one with --results"
    ]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["absent"], "DIR must be a folder that exists, got 'absent'"),
        (["--where", "test_eror < 1"], "--where must name a column of runs, got 'test_eror'; did"),
        (["--sort", "test_erro"], "--sort must name a column of runs, got 'test_erro'; did you"),
        (["--where"], "--where: expected at least one argument"),
        (["--wher", "a"], "--wher is not an option of this command; did you mean --where?"),
        (["--where", "status == finished", "results"], "got 'results'; put DIR first"),
        (["--page", "a.html", "--format", "csv"], "--page must stand without --format, got both"),
        (["--page", "absent/a.html"], "--page must be a file that can be written, got 'absent/a"),
        (["--format", "json"], "--format: invalid choice: 'json'"),
        (["results", "other"], "other is not an option of this command"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(folder, capsys, argv, words):
    assert main(argv) == 2
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert line.startswith("runs: ")
    assert words in line
    assert out == ""


def test_a_page_is_written_in_place_of_the_table(folder, capsys):
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{")
    (folder / "svm_grid-finished" / "report.html").write_text("")
    lines, _ = lines_of(capsys, "--page", "results/runs.html", "--where", "status == finished")
    assert lines == ["results/runs.html"]
    text = (folder / "runs.html").read_text()
    assert "<h1>2 of 3 runs</h1>" in text
    assert "where status == finished" in text
    assert "Left out: &#39;results/broken/run.json&#39;, which is damaged" in text
    assert '<a href="svm_grid-finished/report.html">svm_grid-finished</a>' in text
    assert ">nn_bagging-finished</td>" in text, "which has no page"


def test_nothing_heavy_is_imported_for_a_table(folder):
    heavy = ["pandas", "matplotlib", "sklearn", "dask", "distributed", "torch", "scipy"]
    code = (
        "import sys; sys.argv[0] = '-m'; from pipelines.runs import main; main([]); "
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert shown.stdout.splitlines()[-1] == "[]"
