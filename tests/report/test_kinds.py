"""Pages of commands: of one that the report does not know, of each that has only begun."""

import pandas as pd
import pytest

from pipelines.report import write_report
from pipelines.report.page import read_run

from .page_reader import Page, figures_in


def test_an_unknown_command_is_its_tables_and_timeline(make_run, edit_run):
    folder = make_run()
    cells = pd.read_parquet(folder / "cv_results.parquet")
    names = [
        "C",
        "gamma",
        "fold",
        "n_train",
        "n_validation",
        "error",
        "fit_seconds",
        "score_seconds",
        "worker",
        "status",
    ]
    cells = cells[names].rename(columns={"C": "depth", "gamma": "forest"})
    cells.loc[3, "status"] = "failed: out of memory"
    cells.to_parquet(folder / "cv_results.parquet")
    pd.DataFrame({"depth": [3.0], "score": [0.5], "name": ["a <b>"]}).to_parquet(
        folder / "candidates.parquet"
    )
    edit_run(folder, command="of_tomorrow", best={"score_mean": 0.75})
    page = Page(write_report(folder))
    assert "of_tomorrow on digits" in page.text
    assert "A run, 4-fold cross-validation, 800 training samples" in page.text
    assert "cv error 25.00 %" in page.text
    assert "Candidates 1 row. Candidates depth score name 3 0.5 a <b>" in page.text
    assert "80 rows." in page.text
    assert "depth 0.1, forest 0.0001, fold 3" in page.text
    assert "Every gamma" not in page.text
    assert figures_in(folder) == {"confusion_matrix", "timeline"}


def test_a_record_and_a_journal_are_enough(make_unfinished, edit_run):
    folder = make_unfinished()
    edit_run(folder, command="of_tomorrow")
    page = Page(write_report(folder))
    assert "This run was stopped: 45 fits are here" in page.text
    assert "45 rows." in page.text


def test_a_cross_validation_says_whether_the_best_differs_from_the_second(make_run, edit_run):
    def of_two(cells):
        cells = cells[cells["gamma"] == 0.01].reset_index(drop=True)
        return cells.assign(algorithm=cells["C"].map(lambda C: "svm" if C < 50 else "knn"))

    folder = make_run(change=of_two)
    (folder / "candidates.parquet").unlink()
    best = {"algorithm": "svm", "candidate": 12, "parameters": {"C": 10.0}, "score_mean": 0.955}
    edit_run(
        folder,
        command="cross_validate",
        best=best,
        scoring=["accuracy"],
        test_scores={"accuracy": 4 / 6},
    )
    pair = {
        "first": "svm",
        "second": "knn",
        "mean": 0.011,
        "std": 0.02,
        "t": 1.5,
        "p": 0.07,
        "p_holm": 0.07,
        "effect": 0.5,
        "p_first": 0.5,
        "p_same": 0.3,
        "p_second": 0.2,
    }
    for p, verdict in (
        (0.07, "which may be chance (p = 0.07)"),
        (1e-4, "is significant (p < 0.001)"),
    ):
        pd.DataFrame([pair | {"p_holm": p}]).to_parquet(folder / "comparison.parquet")
        report = read_run(folder)
        assert report.conclusion().startswith(
            "The best is svm (C = 10.0). It is better than knn by 1.10 points"
        )
        assert verdict in report.conclusion()
    text = Page(write_report(folder)).text
    assert "svm knn -1.10 % 2.00 % -1.500" in text, "of errors, where less is better"
    assert {"algorithms", "validation_curves"} <= figures_in(folder)


@pytest.mark.parametrize(
    ("command", "phrase"),
    [
        ("svm_grid", "No candidate has a score yet."),
        ("pagerank", "There are no scores yet."),
        ("nn_bagging", "No member has been refitted"),
        ("data_parallel", "No epoch has ended yet"),
        ("cross_validate", "No candidate has all of its folds yet."),
    ],
)
def test_a_record_alone_has_a_page(tmp_path, command, phrase):
    (tmp_path / "run.json").write_text(f'{{"command": "{command}"}}')
    assert phrase in Page(write_report(tmp_path)).text
