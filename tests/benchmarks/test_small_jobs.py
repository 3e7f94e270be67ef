"""The benchmark of small jobs, on the first of them."""

import json

from benchmarks.small_jobs import JOBS, main


def test_both_are_timed_and_score_alike(tmp_path, capsys):
    assert main(["--jobs", "2", "--repeat", "1", "--results", str(tmp_path)]) == 0
    (kept,) = tmp_path.glob("*.json")
    lines = json.loads(kept.read_text())["lines"]
    assert [line["rows"] for line in lines] == [50, 100]
    for line in lines:
        assert all(seconds > 0 for turns in line["seconds"].values() for seconds in turns)
        assert line["rows_apart"] <= 1
    assert "| rbf    | 50   | 10       | 2       | 4 × 4 × 4 " in capsys.readouterr().out


def test_there_are_thirty_shapes_of_every_kernel():
    assert len(set(JOBS)) == 30
    assert {job.kernel for job in JOBS} == {"rbf", "linear", "poly", "sigmoid"}
