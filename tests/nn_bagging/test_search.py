"""The search of the members: by other scores, and from another run's fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines.bagging.members import MemberFiles
from pipelines.bagging.reductions import reduce_members
from pipelines.data.load import load_dataset
from pipelines.nn.member import Ensemble
from pipelines.nn_bagging import main
from pipelines.search.splits import splits_of
from tests.command_runs import cells, record, said_by, tasks_of

from .conftest import said_by_members

TINY = [
    "--limit",
    "150",
    "--space",
    "small",
    "--folds",
    "2",
    "--max-epochs",
    "2",
    "--cluster",
    "threads",
]


def test_more_members_and_candidates_take_the_fits_of_a_run(tmp_path):
    first, larger_run, fresh = tmp_path / "first", tmp_path / "more", tmp_path / "fresh"
    said_by("nn_bagging", *TINY, "--n-bootstrap", "2", "--n-tuning", "2", "--results", str(first))
    options = [*TINY, "--n-bootstrap", "3", "--n-tuning", "3"]
    output = said_by("nn_bagging", *options, "--extend", str(first), "--results", str(larger_run))
    assert f"extended   8 fits are those of {first}" in output
    assert "resumed    8 fits and 0 refits were already finished, 8 tasks remain" in output
    taken = [task for task in tasks_of(larger_run) if task["task"].startswith("of ")]
    assert [len(task["rows"]) for task in taken] == [8]
    said_by("nn_bagging", *options, "--results", str(fresh))
    times = ["worker", "fit_seconds", "score_seconds"]
    pd.testing.assert_frame_equal(
        *(cells(folder).drop(columns=times, errors="ignore") for folder in (larger_run, fresh))
    )
    np.testing.assert_array_equal(said_by_members(larger_run), said_by_members(fresh))


def test_candidates_are_chosen_by_the_score_that_is_named(tmp_path):
    folder = tmp_path / "run"
    scoring = ["balanced_accuracy", "neg_log_loss"]
    counts = ["--n-bootstrap", "2", "--n-tuning", "4"]
    said_by("nn_bagging", *TINY, *counts, "--scoring", *scoring, "--results", str(folder))
    assert record(folder)["scoring"] == scoring
    table, candidates = cells(folder), pd.read_parquet(folder / "candidates.parquet")
    np.testing.assert_allclose(table["score_neg_log_loss"], -table["loss"], rtol=1e-5)
    means = table.groupby(["member", "candidate"])[["score", "loss"]].mean().round(12)
    best = candidates[candidates["is_best"]].set_index("member")["candidate"]
    for member, candidate in best.items():
        assert candidate == means.loc[member]["score"].idxmax()


def test_ensembles_on_outer_folds_are_tested_on_rows_they_have_not_seen(tmp_path):
    folder, plain = tmp_path / "run", tmp_path / "plain"
    options = [*TINY, "--max-epochs", "6", "--n-bootstrap", "2", "--n-tuning", "2"]
    output = said_by("nn_bagging", *options, "--nested", "2", "--results", str(folder))
    assert "; and as much in each of 2 outer folds" in output
    said_by("nn_bagging", *options, "--results", str(plain))
    # All else is as without.
    np.testing.assert_array_equal(said_by_members(folder), said_by_members(plain))
    assert cells(folder)["loss"].tolist() == cells(plain)["loss"].tolist()
    nested, data = record(folder)["nested"], load_dataset("digits", limit=150)
    outer = splits_of("auto", 2, 1, 1, data.X_train, data.y_train, None, data.task, data.classes)
    scores = []
    for number, (train, test) in enumerate(outer):
        files = MemberFiles(folder, f"nested-outer={number}")
        members = [Ensemble.load(files.weights(member)).members[0] for member in files.numbers()]
        assert len(members) == 2
        left_out = files.predictions(0)[1].rows
        assert np.isin(left_out, train).all()
        probabilities = np.stack([member.predict_proba(data.X_train[test]) for member in members])
        np.testing.assert_allclose(probabilities[0], files.predictions(0)[0].outputs, atol=1e-6)
        scores.append(np.mean(reduce_members(probabilities).vote == data.y_train[test]))
    assert nested["n_outer"] == 2
    assert nested["score_mean"] == pytest.approx(np.mean(scores))
    assert nested["score_std"] == pytest.approx(np.std(scores))
    assert f"nested     error {(1 - np.mean(scores)) * 100:.2f} %" in said_again(folder)
    assert "nested error of the vote" in (folder / "report.html").read_text()


def said_again(folder):
    """With a member of an outer fold trained again, which is gone."""
    n_tasks, before = len(tasks_of(folder)), record(folder)["nested"]
    MemberFiles(folder, "nested-outer=1").weights(1).unlink()
    output = said_by("nn_bagging", "--resume", str(folder))
    assert [task["task"] for task in tasks_of(folder)[n_tasks:]] == ["refit-outer=1 member=1"]
    assert record(folder)["nested"] == before
    return output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--n-tuning 0 --scoring accuracy", "--scoring is of a search, and --n-tuning 0 makes"),
        ("--n-tuning 0 --extend a", "--extend is of a search, and --n-tuning 0 makes none, got "),
        (
            "--scoring accurate",
            "--scoring must be a scorer that scikit-learn knows, got 'accurate'",
        ),
        ("--scoring r2", "--scoring must be one for classification, got r2"),
    ],
)
def test_what_cannot_be_is_refused(options, message, capsys, tmp_path):
    assert main([*TINY, *options.split(), "--results", str(tmp_path / "run")]) == 2
    error_text = capsys.readouterr().err
    assert message in error_text
    assert len(error_text.splitlines()) == 1


def test_a_run_of_other_folds_is_not_extended(tmp_path, capsys):
    first, options = tmp_path / "first", ["--n-bootstrap", "1", "--n-tuning", "1", "--quiet"]
    assert main([*TINY, *options, "--results", str(first)]) == 0
    other = [*TINY, *options, "--folds", "3", "--extend", str(first)]
    assert main([*other, "--results", str(tmp_path / "other")]) == 2
    assert "--extend must be a run with the same --folds" in capsys.readouterr().err
