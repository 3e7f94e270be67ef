"""The benchmark of the networks: both ways come to the same answer, and the page says so."""

from __future__ import annotations

import json

import pytest

from benchmarks import nn_bagging
from benchmarks.bagging.lines import Cells, compare, make_problem, train_plain
from benchmarks.bagging.lines import train_with_us as train
from pipelines.nn.settings import TrainingSettings
from pipelines.run.runners import InProcess


@pytest.fixture(scope="module")
def problem():
    training = TrainingSettings(max_epochs=3)
    return make_problem("digits", "small", 2, n_folds=2, limit=300, training=training)


@pytest.mark.slow
def test_both_ways_come_to_the_same_answer(problem):
    ours, plain = train(problem, InProcess(1)), train_plain(problem, 1)
    assert sorted(ours.n_errors) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert ours.n_epochs == plain.n_epochs
    for cell, count in ours.n_errors.items():
        assert count is not None
        other = plain.n_errors[cell]
        assert other is not None
        assert abs(count - other) <= 1
    assert sorted(ours.seconds) == sorted(plain.seconds) == [0, 1]


def test_candidates_are_compared_by_the_time_they_fill_the_machine():
    ours = Cells({(0, 0): 3, (1, 0): None}, {(0, 0): 4, (1, 0): 1}, {0: 2.0, 1: 1.0})
    plain = Cells({(0, 0): 5, (1, 0): None}, {(0, 0): 5, (1, 0): 1}, {0: 3.0, 1: 4.0})
    comparison = compare(ours, plain, n_workers=2)
    assert comparison["ratio_by_draw"] == [3.0, 8.0]
    assert comparison["ratio_median_draw"] == 5.5
    assert comparison["n_cells_that_differ"] == 1
    assert comparison["largest_difference_rows"] == 2
    assert comparison["n_cells_with_other_epochs"] == 1
    assert (comparison["epochs_ours"], comparison["epochs_plain"]) == (5, 6)


@pytest.mark.slow
def test_the_command_keeps_what_it_found(tmp_path, capsys):
    size = ["--draws", "2", "--limit", "200", "--folds", "2", "--max-epochs", "2"]
    assert nn_bagging.main([*size, "--results", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*-nn_bagging-digits-200-small.json")
    record = json.loads(path.read_text())
    lines = [line["name"] for line in record["lines"]]
    assert lines[0] == "ours"
    assert lines[-1] == "plain, 1 thread"
    assert len(record["problem"]["candidates"]) == 2
    for comparison in record["comparisons"]:
        assert comparison["epochs_ours"] == comparison["epochs_plain"]
        assert comparison["largest_difference_rows"] <= 1
    text = path.with_suffix(".md").read_text()
    assert f"{record['comparisons'][0]['ratio']:.2f} ×" in text
    assert text in capsys.readouterr().out


def test_bad_input_is_one_line(tmp_path, capsys):
    assert nn_bagging.main(["--space", "smal", "--results", str(tmp_path)]) == 2
    assert nn_bagging.main(["--limit", "5", "--results", str(tmp_path)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "did you mean 'small'" in first
    assert "--limit must be at least 10" in second
    assert not list(tmp_path.iterdir())


def test_a_gpu_is_asked_for_only_where_there_is_one(monkeypatch, capsys):
    monkeypatch.setattr(nn_bagging, "gpus", list)
    assert nn_bagging.main(["--device", "gpu"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--device gpu needs a GPU" in line
