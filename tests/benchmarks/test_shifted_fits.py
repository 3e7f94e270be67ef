"""The benchmark of shifted data, on the first of its fits."""

import json

from benchmarks.shifted_fits import fits, main


def test_rows_that_differ_are_counted(tmp_path, capsys):
    assert main(["--fits", "2", "--results", str(tmp_path)]) == 0
    (kept,) = tmp_path.glob("*.json")
    lines = json.loads(kept.read_text())["lines"]
    assert [line["seed"] for line in lines] == [0, 1]
    for line in lines:
        assert line["search_refit"] == line["search_libsvm"] == line["refit_libsvm"] == [0, 0]
    assert "| shifted and scaled as a whole      | the search and" in capsys.readouterr().out


def test_there_are_a_hundred_each_with_a_seed_of_its_own():
    assert len({fit.seed for fit in fits()}) == 100
    assert {fit.kind for fit in fits()} == {"two", "ovo", "ovr", "regression"}
