"""The benchmark of ensembles on tables, on two that come with scikit-learn."""

import json

import pytest

from benchmarks.bagging_tables import main


@pytest.mark.slow
def test_ensembles_meet_on_the_same_folds(tmp_path, capsys):
    few = ["--only", "iris", "wine", "--folds", "2", "--repeat", "1", "--results", str(tmp_path)]
    assert main(few) == 0
    (kept,) = tmp_path.glob("*-bagging-tables.json")
    lines = json.loads(kept.read_text())["lines"]
    assert [line["table"] for line in lines] == ["iris", "wine"]
    for line in lines:
        ours, mlps, forest = line["ensembles"].values()
        for one in (ours, mlps, forest):
            assert len(one["accuracy"]) == len(one["seconds"]) == 2
            assert min(one["accuracy"]) > 0.85
        assert max(ours["referred"]) < 0.3
    said = capsys.readouterr().out
    assert said.count("Mean over the tables: BaggedNets") == 2
    assert "± " in said


@pytest.mark.parametrize(
    ("argv", "says"), [(["--only", "iri"], "--only takes iris"), ([], "DIR must hold Pima.te.csv")]
)
def test_what_is_not_there_is_one_line(argv, says, capsys):
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
