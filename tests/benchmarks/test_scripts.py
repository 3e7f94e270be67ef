"""The benchmark of public scripts, on scripts and a notebook written here."""

from __future__ import annotations

import json

import pytest

from benchmarks.scripts import __main__ as command
from benchmarks.scripts.comparison import compare, searches_in_words
from benchmarks.scripts.notebooks import code_of
from benchmarks.scripts.runs import PLAIN, run_script
from benchmarks.scripts.sources import SCRIPTS, Repository, Script

HERE = Repository("somebody/examples", "v1")
SEARCHING = Script(HERE, "searches.py")
SEARCHES = """
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

X, y = load_iris(return_X_y=True)
search = GridSearchCV(SVC(), {"C": [0.001, 1]}).fit(X, y)
cross_val_score(GridSearchCV(SVC(), {"C": [0.01, 1]}), X, y)
learning_curve(make_pipeline(StandardScaler(), SVC()), X, y, train_sizes=[60])
"""
AS_IT_IS = "import runpy, sys\nrunpy.run_path(sys.argv[1], run_name='__main__')\n"
ANOTHER_DEFAULT = "import sklearn.svm\nsklearn.svm.SVC.__init__.__kwdefaults__['gamma'] = 40\n"


def search(**changes):
    entry = {"search": "GridSearchCV(SVC)", "seconds": 1.0, "error": None, "best": "{'C': 1}"}
    entry["best_score"] = 0.5
    return entry | {"scores": {"mean_test_score": [0.5, float("nan")]}} | changes


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder of checkouts with one script, which is the only one of the benchmark."""
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "searches.py").write_text(SEARCHES)
    monkeypatch.setattr(command, "SCRIPTS", (SEARCHING,))
    return tmp_path


def run(checkout, monkeypatch, runner):
    """Run the benchmark with a program of our own in the place of the accelerator."""
    program = checkout / "runner.py"
    program.write_text(runner)
    monkeypatch.setattr(command, "ACCELERATED", (str(program),))
    results = str(checkout / "results")
    return command.main(["--from", str(checkout), "--repeat", "1", "--results", results])


def test_outermost_searches_are_recorded_with_what_they_found(checkout):
    process = run_script(SEARCHING, checkout, PLAIN)
    assert process.status == 0, process.says
    assert [record["search"] for record in process.searches] == [
        "GridSearchCV(SVC)",
        "cross_val_score(GridSearchCV)",
        "learning_curve(StandardScaler, SVC)",
    ]
    grid, nested, curve = process.searches
    assert grid["best"] == "{'C': 1}"
    assert len(grid["scores"]["mean_test_score"]) == 2
    assert len(nested["scores"]["0"]) == 5
    assert curve["scores"]["0"] == [60]
    assert 0 < process.search_seconds < process.seconds


def test_equal_results_are_kept_on_a_page(checkout, monkeypatch, capsys):
    assert run(checkout, monkeypatch, AS_IT_IS) == 0
    (path,) = (checkout / "results").glob("*-scripts.json")
    (line,) = json.loads(path.read_text())["lines"]
    assert line["results"] == "equal"
    assert line["plain"]["whole"][0] / line["accelerated"]["whole"][0] == pytest.approx(
        line["whole"], rel=0.1
    )
    assert "| examples/searches.py | " in capsys.readouterr().out


def test_another_result_ends_with_status_1(checkout, monkeypatch, capsys):
    changed = ANOTHER_DEFAULT + AS_IT_IS
    assert run(checkout, monkeypatch, changed) == 1
    assert "examples/searches.py: " in capsys.readouterr().err


def test_a_script_that_fails_is_named_with_its_error(checkout, monkeypatch, capsys):
    assert run(checkout, monkeypatch, "raise SystemExit('it is not to be had')") == 1
    assert "examples/searches.py: failed it is not to be had" in capsys.readouterr().err


def test_a_missing_checkout_is_named(checkout, monkeypatch, capsys):
    monkeypatch.setattr(command, "SCRIPTS", (Script(HERE, "another.py"),))
    assert command.main(["--from", str(checkout)]) == 2
    assert "another.py is missing; --list says what to clone" in capsys.readouterr().err
    assert command.main(["--list"]) == 0
    assert "git clone https://github.com/somebody/examples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seconds": 2.0}, "equal"),
        ({"scores": {"mean_test_score": [0.5 + 1e-12, float("nan")]}}, "equal"),
        (
            {"scores": {"mean_test_score": [0.75, float("nan")]}},
            "50.0% of scores differ, by 2.5e-01 at most",
        ),
        ({"scores": {"mean_test_score": [0.5, 0.5]}}, "50.0% of scores differ, by inf at most"),
        ({"best": "{'C': 2}"}, "equal scores; another best candidate of the same score"),
        ({"scores": {"mean_test_score": [0.5]}}, "other searches"),
        ({"error": "ValueError"}, "other searches"),
    ],
)
def test_what_differs_is_said(changes, words):
    assert compare([search()], [search(**changes)]).in_words() == words


def test_the_costliest_kinds_of_searches_come_first():
    searches = [search(), search(), search(search="learning_curve(SVC)", seconds=5.0)]
    assert searches_in_words(searches) == "learning_curve(SVC), 2 x GridSearchCV(SVC)"
    assert searches_in_words(searches, 1) == "learning_curve(SVC) and 2 more"


def test_cells_of_a_notebook_keep_all_but_its_magics(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# title"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "a = 1"]},
        {"cell_type": "code", "source": ["a = 2"]},
        {"cell_type": "code", "source": ["!ls\n", "for i in range(3):\n", "    a += i"]},
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    names = {}
    exec(code_of(path, (0, 2)), names)
    assert names["a"] == 4
    exec(code_of(path), names)
    assert names["a"] == 5


def test_a_table_at_an_address_is_read_from_its_copy(checkout):
    (checkout / "copy.csv").write_text("a,b\n1,2\n")
    reads = "import pandas as pd\nassert pd.read_csv('https://a.b/c.csv', dtype=int).b[0] == 2\n"
    (checkout / "examples" / "reads.py").write_text(reads)
    script = Script(HERE, "reads.py", addresses={"https://a.b/c.csv": "copy.csv"})
    assert run_script(script, checkout, PLAIN).status == 0


def test_there_are_twenty_scripts_of_different_names():
    assert len({script.name for script in SCRIPTS}) == len(SCRIPTS) >= 20
