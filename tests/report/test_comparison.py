from __future__ import annotations

import json
import re

import numpy as np

from pipelines.report.__main__ import main
from pipelines.report.comparison import compare_table, differing_options

from .page_reader import Page


def compared(folders, tmp_path):
    page = tmp_path / "comparison.html"
    assert main([*map(str, folders), "--compare", str(page)]) == 0
    return Page(page).text


def test_the_table_has_the_figures_of_each_run(make_run, edit_run):
    folders = [make_run(name="one"), make_run(name="two")]
    edit_run(folders[1], test_error=0.25, wall_seconds=7.5)
    table = compare_table(folders)
    assert list(table.index) == ["one", "two"]
    assert table.loc["two", "test_error"] == 0.25
    assert table.loc["two", "wall_seconds"] == 7.5
    assert table.loc["one", "command"] == "svm_grid"
    assert 0 < table.loc["one", "cv_error_mean"] < 1


def test_only_options_that_differ_and_matter_are_named():
    first = {"seed": 0, "log_c": [-3, 6], "results": "a"}
    second = {"seed": 1, "log_c": [-3, 6], "results": "b", "limit": 5}
    assert differing_options([first, second]) == [("--seed", ["0", "1"]), ("--limit", ["–", "5"])]


def test_the_page_needs_nothing_else_and_changes_no_run(make_run, tmp_path, capsys):
    folders = [make_run(name="one"), make_run(name="two")]
    page = tmp_path / "comparison.html"
    before = (folders[0] / "run.json").read_bytes()
    assert main([*map(str, folders), "--compare", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    text = page.read_text()
    assert "2 runs compared" in text
    assert '<div class="plot" role="img"' in text
    assert not re.search(r"(src|href)=\"https?:", text)
    assert (tmp_path / "comparison.svg").is_file()
    assert (folders[0] / "run.json").read_bytes() == before
    assert not (folders[0] / "report.html").exists()


def test_a_run_without_an_answer_is_shown_as_far_as_it_got(make_run, edit_run, tmp_path):
    folders = [make_run(name="one"), make_run(name="two")]
    edit_run(
        folders[1],
        status="stopped",
        best=None,
        test_error=None,
        n_test_errors=None,
        wall_seconds=None,
    )
    text = compared(folders, tmp_path)
    assert "two svm-grid digits – – – – – stopped" in text
    assert "There are no two runs with a score to compare. two has no score." in text


def test_runs_with_the_same_folds_are_tested_fold_by_fold(make_run, edit_run, tmp_path):
    def worse(cells):
        n_errors = cells["n_errors"] + cells["fold"].map({0: 4, 1: 2, 2: 6, 3: 4})
        error = n_errors / cells["n_validation"]
        return cells.assign(n_errors=n_errors, error=error, score=1 - error)

    folders = [make_run(name="one"), make_run(name="two", change=worse)]
    differences = -np.array([4, 2, 6, 4]) / 200
    spread = differences.std(ddof=1) * np.sqrt(1 / 4 + 1 / 3)
    t = differences.mean() / spread
    text = compared(folders, tmp_path)
    assert f"one two 4 -2.00 % 0.71 % {t:.3f}" in text
    assert "difference in error (first − second)" in text
    assert (
        "one is significantly better than two: its cross-validated error is 4.50 %, against "
        "6.50 %, on the same 4 folds (corrected resampled t-test, p = 0.049)."
    ) in text
    options = json.loads((folders[1] / "run.json").read_text())["options"]
    edit_run(folders[1], options=options | {"seed": 9})
    assert "corrected resampled t-test" not in compared(folders, tmp_path), "other folds"


def test_runs_on_other_data_are_warned_of_and_not_tested(make_run, edit_run, tmp_path):
    folders = [make_run(name="one"), make_run(name="two")]
    assert "different data" not in compared(folders, tmp_path)
    record = json.loads((folders[1] / "run.json").read_text())
    edit_run(folders[1], dataset=record["dataset"] | {"fingerprint": "other"})
    text = compared(folders, tmp_path)
    assert "These runs have different data, so it cannot be said which is better." in text
    assert "corrected resampled t-test" not in text


def test_the_name_of_a_folder_stays_as_it_is(make_run, edit_run, tmp_path):
    folders = [make_run(name="svm_grid-20261129-083000"), make_run(name="my_other_run")]
    edit_run(folders[1], options={"seed": 1})
    heads = [
        words for words in compared(folders, tmp_path).split() if "svm" in words or "my" in words
    ]
    assert {"svm_grid-20261129-083000", "my_other_run"} <= {*heads}
    assert "svm grid" not in compared(folders, tmp_path)


def test_heads_are_words(make_run, tmp_path):
    text = compared([make_run(name="one"), make_run(name="two")], tmp_path)
    heads = "run command data cv error standard deviation of cv error test error 95 % interval"
    assert heads in text
    assert "cv error mean" not in text


def test_a_score_that_is_no_error_is_shown_as_it_is(make_run, edit_run, tmp_path):
    folders = [make_run(name="one"), make_run(name="two")]
    for folder in folders:
        record = json.loads((folder / "run.json").read_text())
        best = record["best"] | {"error_mean": None, "error_std": None, "score_mean": 0.75}
        edit_run(
            folder,
            options=record["options"] | {"scoring": "roc_auc_ovr"},
            best=best,
            test_scores={"roc_auc_ovr": 0.5},
        )
    table = compare_table(folders)
    assert table["measure"].tolist() == ["roc_auc_ovr"] * 2
    assert table["cv_score_mean"].tolist() == [0.75] * 2
    assert table["test_score"].tolist() == [0.5] * 2
    assert table["cv_error_mean"].isna().all()
    text = compared(folders, tmp_path)
    assert "cv roc auc ovr" in text
    assert "0.7500" in text
    assert "cv error" not in text
    assert "difference in roc auc ovr (first − second)" in text
