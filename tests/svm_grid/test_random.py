"""``--strategy random``: candidates that are drawn before the first is tried."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from tests.command_runs import cells, record, said_by

HERE = ["--dataset", "digits", "--limit", "150", "--folds", "2", "--cluster", "threads"]
RANDOM = ["--strategy", "random", "--n-iter", "12"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("random") / "run"
    return folder, said_by("svm_grid", *HERE, *RANDOM, "--results", str(folder))


def test_gammas_are_few_and_share_their_path(drawn):
    folder, output = drawn
    assert "random     12 candidates of 8 gamma x 2 folds = 24 fits" in output
    assert "8 of 8 tasks" in output
    assert cells(folder).groupby("gamma")["C"].nunique().max() == 2
    assert "optimum may lie outside" not in output
    assert record(folder)["options"]["n_c"] is None
    assert len(pd.read_parquet(folder / "candidates.parquet")) == 12


def test_a_stopped_run_draws_the_same(drawn, tmp_path):
    whole, _ = drawn
    folder = tmp_path / "stopped"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(record(whole) | {"status": "stopped", "files": {}}))
    lines = (whole / "journal.jsonl").read_text().splitlines(keepends=True)
    (folder / "journal.jsonl").write_text(lines[0])
    said_by("svm_grid", "--resume", str(folder))
    pd.testing.assert_frame_equal(cells(folder), cells(whole))


def test_plain_draws_are_extended(tmp_path):
    plain = [*HERE, "--strategy", "random", "--sampler", "plain", "--n-iter"]
    said_by("svm_grid", *plain, "3", "--results", str(tmp_path / "few"))
    options = ["--extend", str(tmp_path / "few"), "--results", str(tmp_path / "more")]
    assert "extended   6 fits are those of" in said_by("svm_grid", *plain, "5", *options)
