"""The benchmark of rows on disk: what it makes, samples and says."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch", reason="batches are torch's")

from benchmarks.input_pipeline import anonymous, main, make_images, page, rate
from benchmarks.keep import stamped

RECORD = {
    "rows": 10,
    "side": 16,
    "gib": 0.1,
    "loader_workers": 2,
    "limit_mib": 100,
    "rows_per_second": {"peer": [100.0], "first": [150.0, 50.0, 120.0], "second": [600.0]},
    "training": {"seconds_of_epochs": [4.0, 1.0], "n_train": 8, "largest_mib": 101.0},
}


def test_images_are_as_many_as_were_asked_for(tmp_path):
    n_rows = make_images(tmp_path, 2**20 / 2**30, 32)
    assert n_rows == 341
    assert len(list(tmp_path.glob("class-*/*.jpg"))) == n_rows


def test_the_page_compares_medians_and_says_what_is_above_the_limit():
    text = page(stamped("input_pipeline", **RECORD))
    assert "1.20 of the peer" in text
    assert "5.00 of the first epoch" in text
    assert "101 MiB of memory that no file backs, ABOVE the limit of 100" in text


def test_memory_is_that_of_a_process_that_is_there():
    assert anonymous(os.getpid()) > 2**20
    assert anonymous(2**22 + 1) == 0
    assert rate(iter([5, 5, 5])) > 0


@pytest.mark.slow
def test_a_small_form_runs(tmp_path, capsys):
    small = ["--gib", "0.005", "--side", "32", "--repeat", "1", "--loader-workers", "1"]
    assert main([*small, "--folder", str(tmp_path), "--results", str(tmp_path / "results")]) == 0
    assert "within the limit of 2,048" in capsys.readouterr().out
    assert [path.suffix for path in sorted((tmp_path / "results").iterdir())] == [".json", ".md"]
