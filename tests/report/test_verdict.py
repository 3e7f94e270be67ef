"""Which of several runs is better, and whether that is certain: each way by which it is said."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, ttest_rel

from pipelines.report.page import read_run
from pipelines.report.verdict import (
    DIFFERENT_DATA,
    NOTHING_IN_COMMON,
    by_folds,
    by_intervals,
    by_test_samples,
    scores_on_same_folds,
    verdict,
)
from pipelines.run_folder.statistics import holm
from tests.command_runs import ON_THREADS, said_by


def read(*folders):
    return {folder.name: read_run(folder) for folder in folders}


def more_errors(*numbers):
    """A change of a run's cells: more errors on each fold."""

    def change(cells):
        n_errors = cells["n_errors"] + cells["fold"].map(dict(enumerate(numbers)))
        error = n_errors / cells["n_validation"]
        return cells.assign(n_errors=n_errors, error=error, score=1 - error)

    return change


@pytest.fixture
def on_other_folds(edit_run):
    """A function that leaves a run no folds in common with others, and test samples of its own."""

    def edit(folder, seed, wrong=None, n_test=200):
        record = json.loads((folder / "run.json").read_text())
        edit_run(
            folder,
            options=record["options"] | {"seed": seed},
            dataset=record["dataset"] | {"n_test": n_test},
            n_test_errors=0 if wrong is None else int(np.sum(wrong)),
        )
        (folder / "test_predictions.parquet").unlink()
        if wrong is not None:
            true = np.arange(len(wrong)) % 3
            table = {"row": np.arange(len(wrong)), "true": true, "predicted": (true + wrong) % 3}
            pd.DataFrame(table).to_parquet(folder / "test_predictions.parquet")

    return edit


def test_equal_runs_are_equally_good(make_run):
    runs = read(make_run(name="one"), make_run(name="two"))
    assert verdict(runs) == (
        "one and two are equally good: their cross-validated error is 4.50 % on the same 4 folds."
    )


def test_a_difference_that_may_be_chance_is_said_to_be(make_run):
    runs = read(make_run(name="one", change=more_errors(9, 0, 0, 0)), make_run(name="two"))
    sentence = verdict(runs)
    assert sentence.startswith("It is not certain that two is better than one: its cross-validated")
    assert "differences this small may be chance (corrected resampled t-test, p = 0." in sentence


def test_of_more_than_two_the_best_is_held_against_each(make_run):
    runs = read(
        make_run(name="far", change=more_errors(20, 21, 22, 20)),
        make_run(name="near", change=more_errors(0, 0, 0, 3)),
        make_run(name="best"),
    )
    finding = by_folds(runs)
    assert list(finding.values) == ["best", "near", "far"]
    pairs = [by_folds({name: runs[name] for name in ("best", n)}) for n in ("near", "far")]
    assert list(finding.p_values) == pytest.approx(holm([pair.p_values[0] for pair in pairs]))
    sentence = verdict(runs)
    assert sentence.startswith(
        "best is significantly better than far, but it is not certain that it is better than near:"
    )
    assert "p after Holm is" in sentence
    assert " for near and " in sentence


def test_runs_of_two_commands_have_the_same_folds(tmp_path):
    """The same machine by either command has the same scores, fold by fold."""
    few = ["--limit", "100", "--folds", "3", *ON_THREADS]
    grid = ["--c", "1", "--gamma", "0.01", "--solver", "sklearn"]
    machine = ["--estimator", "sklearn.svm.SVC", "--param", "C=1", "gamma=0.01"]
    said_by("svm_grid", *few, *grid, "--results", str(tmp_path / "one"))
    said_by("cross_validate", *few, *machine, "--results", str(tmp_path / "two"))
    scores = scores_on_same_folds(read(tmp_path / "one", tmp_path / "two"))
    assert scores.shape == (3, 2)
    assert scores["one"].nunique() > 1
    assert scores["one"].tolist() == scores["two"].tolist()


def test_without_the_same_folds_predictions_decide(make_run, on_other_folds):
    few, many_wrong = np.zeros(200, int), np.zeros(200, int)
    few[:3] = 1
    many_wrong[2:22] = 1  # 2 are wrong in the first alone, 19 in the second alone
    folders = [make_run(name="few"), make_run(name="many")]
    for seed, (folder, wrong) in enumerate(zip(folders, (few, many_wrong), strict=True)):
        on_other_folds(folder, seed, wrong)
    finding = by_test_samples(read(*folders))
    assert finding.p_values[0] == pytest.approx(binomtest(2, 21).pvalue)
    assert verdict(read(*folders)) == (
        "few is significantly better than many: its test error is 1.50 %, against 10.00 %, on the "
        "same 200 test samples (McNemar's exact test, p < 0.001)."
    )


def test_numbers_are_compared_by_their_absolute_errors(make_run, edit_run, on_other_folds):
    folders = [make_run(name="near"), make_run(name="far")]
    rng = np.random.default_rng(0)
    true, off = rng.normal(size=50), {}
    for seed, folder in enumerate(folders):
        on_other_folds(folder, seed)
        off[folder.name] = rng.normal(scale=1 + seed, size=50)
        table = {"row": np.arange(50), "true": true, "predicted": true + off[folder.name]}
        pd.DataFrame(table).to_parquet(folder / "test_residuals.parquet")
    finding = by_test_samples(read(*folders))
    assert list(finding.values) == ["near", "far"]
    expected = ttest_rel(abs(off["near"]), abs(off["far"])).pvalue
    assert finding.p_values[0] == pytest.approx(expected)
    assert finding.what == "test mean absolute error"


@pytest.mark.parametrize(
    ("n_wrong", "beginning"),
    [(60, "one is significantly better than two"), (12, "It is not certain that one is better")],
)
def test_without_predictions_intervals_decide(
    make_run, edit_run, on_other_folds, n_wrong, beginning
):
    folders = [make_run(name="one"), make_run(name="two")]
    for seed, (folder, wrong) in enumerate(zip(folders, (10, n_wrong), strict=True)):
        on_other_folds(folder, seed)
        edit_run(folder, n_test_errors=wrong, test_error=wrong / 200)
    assert by_test_samples(read(*folders)) is None
    assert by_intervals(read(*folders)) is not None
    sentence = verdict(read(*folders))
    assert sentence.startswith(beginning)
    assert "(by whether 95 % intervals overlap)." in sentence
    assert "p =" not in sentence


def test_other_test_samples_are_not_paired(make_run, on_other_folds):
    folders = [make_run(name="one"), make_run(name="two")]
    for seed, folder in enumerate(folders):
        on_other_folds(folder, seed, np.zeros(200, int))
    path = folders[1] / "test_predictions.parquet"
    table = pd.read_parquet(path)
    table["true"] = table["predicted"] = table["true"].to_numpy()[::-1]
    table.to_parquet(path)
    assert by_test_samples(read(*folders)) is None


def test_different_data_cannot_be_judged(make_run, edit_run):
    folders = [make_run(name="one"), make_run(name="two")]
    edit_run(folders[1], dataset={"name": "mnist", "n_train": 800, "n_test": 6})
    assert verdict(read(*folders)) == DIFFERENT_DATA


def test_runs_with_nothing_in_common_are_said_to_have_nothing(make_run, edit_run, on_other_folds):
    folders = [make_run(name="one"), make_run(name="two")]
    for seed, folder in enumerate(folders):
        on_other_folds(folder, seed)
        edit_run(folder, n_test_errors=None)
    assert verdict(read(*folders)) == NOTHING_IN_COMMON


def test_many_runs_are_one_sentence_still(make_run):
    folders = [make_run(name=f"run{i}", change=more_errors(i, 0, 0, i)) for i in range(7)]
    sentence = verdict(read(*folders))
    assert "run1, run2, run3 and 3 others" in sentence
    assert "against 4.75 % of run1, the next, on the same 4 folds" in sentence
