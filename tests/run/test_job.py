"""A command from Python: keywords for flags, the folder for an answer, errors that are raised."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines import svm_grid
from pipelines.errors import InputError
from pipelines.run.function import words_of
from pipelines.run_folder import names
from pipelines.run_folder.record import read_record
from pipelines.svm_grid import Options
from pipelines.svm_search.record import SvmRecord


def test_options_are_written_as_they_are_typed():
    words = words_of(
        Options, {"n_c": 12, "log_c": (-3, 6.5), "quiet": True, "dry_run": False, "limit": None}
    )
    assert words == ["--n-c", "12", "--log-c", "-3", "6.5", "--quiet"]
    with pytest.raises(InputError, match="n_d is not a parameter"):
        words_of(Options, {"n_d": 1})


def test_the_folder_of_the_run_comes_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Another session's, which ends later.
    other = Path("results", "svm_grid-other", names.RECORD)
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    os.utime(other, (2**32, 2**32))
    small = {"limit": 200, "n_c": 2, "n_gamma": 2, "folds": 2, "cluster": "threads"}
    folder = svm_grid.run(**small, quiet=True).path
    assert folder.parent == Path("results")
    _, record = read_record(folder, SvmRecord)
    assert record.options.n_c == 2
    assert (folder / "report.html").is_file()
    assert svm_grid.run(resume=folder, quiet=True).path == folder
    assert svm_grid.run(results="mine", dry_run=True).path == Path("mine")


def test_bad_input_is_raised_in_pythons_words():
    with pytest.raises(InputError, match=r"^n_c must be at least 1") as caught:
        svm_grid.run(n_c=0)
    assert "--" not in str(caught.value)
    with pytest.raises(InputError, match="dataset must be"):
        svm_grid.run(dataset="none.csv")
