"""A command that the report does not know is drawn from its tables."""

import pandas as pd

from pipelines.report import write_report

from .page_reader import Page, figures_in


def test_an_unknown_command_is_its_tables_and_timeline(make_run, edit_run):
    folder = make_run()
    cells = pd.read_parquet(folder / "cv_results.parquet")
    names = ["C", "gamma", "fold", "n_train", "n_validation", "error", "fit_seconds",
             "score_seconds", "worker", "status"]  # fmt: skip
    cells = cells[names].rename(columns={"C": "depth", "gamma": "forest"})
    cells.loc[3, "status"] = "failed: out of memory"
    cells.to_parquet(folder / "cv_results.parquet")
    pd.DataFrame({"depth": [3.0], "score": [0.5], "name": ["a <b>"]}).to_parquet(
        folder / "candidates.parquet"
    )
    edit_run(folder, command="of_tomorrow", best={"error_mean": 0.25})
    page = Page(write_report(folder))
    assert "of_tomorrow on digits" in page.text
    assert "A run, 4-fold cross-validation on 800 training samples" in page.text
    assert "cv error 25.00 %" in page.text
    assert "The best candidate: 25.00 % cross-validated error, 33.33 % on the test set" in page.text
    assert "Candidates 1 row. Candidates depth score name 3 0.5 a <b>" in page.text
    assert "80 rows." in page.text
    assert "depth 0.1, forest 0.0001, fold 3" in page.text
    assert "Every gamma" not in page.text
    assert figures_in(folder) == {"confusion_matrix", "timeline"}


def test_a_record_and_a_journal_are_enough(make_unfinished, edit_run):
    folder = make_unfinished()
    edit_run(folder, command="of_tomorrow")
    page = Page(write_report(folder))
    assert "This run was stopped: 45 cells are here" in page.text
    assert "45 rows." in page.text
