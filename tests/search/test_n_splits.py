"""What is said of a run goes by the splits that its candidates had, not by ``--folds``."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace

import pandas as pd
import pytest

from pipelines.report import write_report
from pipelines.run_folder.statistics import standard_error, within_one_standard_error
from pipelines.search.budget import Budget
from pipelines.svm_search.boundary import on_grid_boundary
from tests.command_runs import ON_THREADS, record, said_by

GRID = ["--limit", "150", "--n-c", "2", "--log-c", "0", "1", "--n-gamma", "2"]
GRID += ["--log-gamma", "-6", "-3"]
SEVEN = """
from sklearn.model_selection import ShuffleSplit
def folds(X, y, groups):
    return ShuffleSplit(7, random_state=0, test_size=0.3)
"""


def run(folder, *options):
    output = said_by("svm_grid", *GRID, *ON_THREADS, *options, "--results", str(folder))
    return record(folder), output


@pytest.fixture(scope="module")
def repeated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("splits") / "repeated"
    options = ["--cv", "repeated", "--folds", "5", "--repeats", "3", "--nested", "2"]
    return folder, *run(folder, *options)


def test_terminal_and_page_count_splits(repeated):
    folder, about, output = repeated
    assert about["n_splits"] == 15
    assert "(standard deviation of 15 splits)" in output
    page = (folder / "report.html").read_text()
    assert "standard deviation of 15 splits" in page
    assert "cross-validation on 15 splits" in page
    assert "of 5 folds" not in page + output


def test_the_standard_error_is_that_of_all_splits(repeated):
    folder, _, output = repeated
    candidates = pd.read_parquet(folder / "candidates.parquet")
    mean, std = candidates["score_mean"], candidates["score_std"].iloc[0]
    near = int((mean > mean.iloc[0] - standard_error(std, 15)).sum())
    marks = within_one_standard_error(candidates, 15, ("C", "gamma")) or []
    assert sum(map(bool, marks)) == near
    other_counts = re.findall(
        r"(\d+) other candidates? (?:is|are) within one standard error", output
    )
    assert other_counts == ([str(near - 1)] if near > 1 else [])


def test_widening_counts_every_fit_of_the_wider_grid(repeated):
    """A candidate more is fitted on each split, and on as many within each outer fold."""
    folder, about, output = repeated
    assert on_grid_boundary(pd.read_parquet(folder / "candidates.parquet"), about["n_splits"])
    advised = re.findall(r"To widen it by ([\d,]+) fits:\n +pleasingly svm-grid (.*)", output)
    (n_fits, words), *_ = advised
    sizes = dict(re.findall(r"--n-(c|gamma) (\d+)", words))
    n_candidates = int(sizes.get("c", 2)) * int(sizes.get("gamma", 2))
    assert int(n_fits.replace(",", "")) == (n_candidates - 4) * 45


def test_a_candidate_with_a_third_of_its_splits_is_not_complete(repeated, tmp_path):
    """The page of a run that was stopped: no candidate is ranked by 5 of 15 splits."""
    folder, about, _ = repeated
    keep = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    rows = [row for entry in keep for row in entry["rows"] if row["stage"] == "search"]
    line = {name: value for name, value in keep[0].items() if name != "crc32"}
    line["rows"] = [row for row in rows if row["split"] < 5 or row["candidate"] == 1]
    (tmp_path / "journal.jsonl").write_text(json.dumps(line) + "\n")
    stopped = {name: entry for name, entry in about.items() if name not in ("best", "files")}
    (tmp_path / "run.json").write_text(json.dumps(stopped | {"status": "stopped"}))
    from pipelines.report.page import read_run

    assert read_run(tmp_path).candidates["n_ok"].tolist() == [15]
    write_report(tmp_path)


def test_runs_whose_own_splits_have_changed_are_not_compared(
    repeated,
):
    from pipelines.report.page import read_run
    from pipelines.report.verdict import paired_table
    from pipelines.run_folder.record import IdentityMetadata

    run = read_run(repeated[0])

    def with_code(digest):
        identity = IdentityMetadata(inputs={"cv": {"mine.py": digest}}, versions={})
        return replace(run, record=run.record.model_copy(update={"identity": identity}))

    assert len(paired_table({"a": with_code("1"), "b": with_code("1")})) == 1
    assert len(paired_table({"a": with_code("1"), "b": with_code("2")})) == 0


@pytest.mark.parametrize("command", ["svm_grid", "cross_validate"])
def test_a_function_of_ones_own_may_give_any_number(command, tmp_path):
    (tmp_path / "mine.py").write_text(SEVEN)
    options = ["--cv", f"{tmp_path}/mine.py:folds", *ON_THREADS, "--results", str(tmp_path / "run")]
    small = GRID if command == "svm_grid" else ["--limit", "150", "--estimator", "bayes"]
    output = said_by(command, *small, *options)
    assert record(tmp_path / "run")["n_splits"] == 7
    assert record(tmp_path / "run")["ratio"] == pytest.approx(0.3 / 0.7, abs=0.02)
    assert "7 splits" in output
    assert "5 folds" not in output


def test_a_run_from_before_they_were_counted_counts_repeats(
    repeated,
):
    from pipelines.run_folder.record import n_splits_of

    _, about, _ = repeated
    without = {name: value for name, value in about.items() if name != "n_splits"}
    assert n_splits_of(without) == 15
    assert n_splits_of(without | {"options": about["options"] | {"cv": "group"}}) == 5


def test_an_ensemble_without_a_search_has_no_folds(tmp_path):
    pytest.importorskip("torch", reason="networks need torch, which comes with the extra nn")
    importlib.import_module("pipelines.nn_bagging")
    options = ["--limit", "120", "--n-bootstrap", "1", "--n-tuning", "0", "--max-epochs", "1"]
    said_by("nn_bagging", *options, *ON_THREADS, "--results", str(tmp_path / "run"))
    assert record(tmp_path / "run")["n_splits"] == 0
    assert "cross-validation" not in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("command", ["svm_grid", "cross_validate"])
def test_a_score_of_one_fold_has_no_deviation(command, tmp_path, monkeypatch):
    monkeypatch.setattr(
        Budget, "seconds_left", property(lambda budget: 0.0)
    )  # ends with the first task
    options = GRID if command == "svm_grid" else ["--limit", "150", "--estimator", "tree"]
    folder = tmp_path / "run"
    output = said_by(
        command, *options, *ON_THREADS, "--time-budget", "9s", "--results", str(folder)
    )
    assert re.search(r"cv error   [\d.]+ % \(1 of 5 folds\)", output)
    best = record(folder)["best"]
    assert (best["n_splits"], best.get("score_std")) == (1, None)
    page = (folder / "report.html").read_text()
    assert "mean of 1 of 5 folds" in page
    assert "standard deviation of 1" not in page + output
    assert "± 0.00" not in page + output
