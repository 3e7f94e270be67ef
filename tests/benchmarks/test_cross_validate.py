"""The benchmark of grids on few rows: what it records, and its page."""

from __future__ import annotations

import json

import pytest

from benchmarks import cross_validate


@pytest.mark.slow
def test_the_comparison_keeps_a_page(tmp_path):
    options = ["--limit", "120", "--folds", "2", "--repeat", "1", "--grids", "knn", "ridge"]
    assert cross_validate.main([*options, "--results", str(tmp_path)]) == 0
    (kept,) = tmp_path.glob("*.json")
    record = json.loads(kept.read_text())
    assert [grid["grid"] for grid in record["grids"]] == ["knn", "ridge"]
    for grid in record["grids"]:
        lines = {line["line"]: line for line in grid["lines"]}
        assert len(lines) == 5 - len(record["missing"])
        assert lines["GridSearch(n_jobs=-1)"]["n_fits_made"] == 2
        assert lines["GridSearch(client=...)"]["n_fits_made"] == 2
        assert all(line["cells_apart"] == 0 for line in grid["lines"]), grid
    assert "times as fast as GridSearchCV" in kept.with_suffix(".md").read_text()


def test_a_mistake_is_one_line(capsys):
    assert cross_validate.main(["--grids", "svm"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("benchmarks.cross_validate: --grids: invalid choice: 'svm'")
