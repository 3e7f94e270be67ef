"""``--scoring FILE.py:NAME``: scorers of the user's own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines import InputError, cross_validate, svm_grid
from pipelines.__main__ import main

SOURCE = """
import numpy as np
from sklearn.metrics import make_scorer


def profit(estimator, X, y):
    assert set(np.unique(y)) <= {"ash", "elm", "oak"}
    right = np.mean(estimator.predict(X) == y)
    X[:] = 0.0
    return right


def agreement(truth, predicted):
    return (truth == predicted).mean()


def accuracy(estimator, X, y):
    return 0.25


def broken(estimator, X, y):
    raise KeyError("no such column")


def several(estimator, X, y):
    return np.ones(2)


agreed = make_scorer(agreement)
number = 3
"""
QUICK = {"folds": 2, "cluster": "threads", "workers": 1, "quiet": True}


@pytest.fixture
def table(tmp_path):
    random = np.random.default_rng(0)
    kinds = random.integers(3, size=90)
    frame = pd.DataFrame(random.normal(size=(90, 2)) + 3 * kinds[:, None], columns=["long", "wide"])
    frame["species"] = np.array(["ash", "elm", "oak"])[kinds]
    frame.to_csv(tmp_path / "trees.csv", index=False)
    (tmp_path / "mine.py").write_text(SOURCE)
    return tmp_path / "trees.csv"


def search(table, *scoring, folder="run"):
    texts = [f"{table.parent / 'mine.py'}:{name}" if name.isalpha() else name for name in scoring]
    options = {"dataset": table, "estimator": ["knn", "ridge"], "scoring": texts}
    run = cross_validate.run(**options, **QUICK, results=table.parent / folder)
    return run


def test_it_sees_labels_and_rows_of_its_own(table):
    run = search(table, "agreed", "profit", "balanced_accuracy", "accuracy")
    assert run.record["scoring"] == ["agreed", "profit", "balanced_accuracy", "mine.accuracy"]
    scores = run.record["test_scores"]
    assert scores["agreed"] == pytest.approx(1 - (run.test_error or 0))
    assert scores["mine.accuracy"] == 0.25
    assert 0.5 < scores["profit"] <= 1
    cells = run.cv_results
    np.testing.assert_allclose(cells["score"], cells["score_profit"])
    assert cells["score_profit"].between(0.5, 1).all()
    assert run.record["baseline"]["scoring"] == "agreed"
    assert run.metrics["baseline_cv_agreed"] == pytest.approx(1 / 3, abs=0.1)
    assert "cv agreed" in repr(run)
    importances = pd.read_parquet(run / "importances.parquet")
    assert set(importances["scoring"]) == {"agreed"}
    assert importances["importance"].max() > 0.1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("agreement", r"takes \(truth, predicted\); .* make_scorer\(agreement\)$"),
        ("number", "which is a int; name a function"),
        ("nothing", "that can be imported, got .*AttributeError"),
    ],
)
def test_what_is_no_scorer_is_said_before_any_fit(table, name, message):
    with pytest.raises(InputError, match=rf"^scoring must be .*{message}"):
        search(table, name)


@pytest.mark.parametrize("name", ["broken", "several"])
def test_one_that_fails_is_the_status_of_the_fit(table, name):
    run = search(table, "agreed", name)
    assert run.cv_results[f"score_{name}"].isna().all()
    with pytest.raises(RuntimeError, match=rf"scoring {name}: (KeyError: 'no|TypeError: a score)"):
        search(table, name, folder="failed")


def test_a_changed_source_is_noticed_when_resumed(table, capsys):
    run = search(table, "profit")
    record = run / "run.json"
    record.write_text(record.read_text().replace('"status": "finished"', '"status": "stopped"'))
    words = ["cross-validate", "--resume", str(run)]
    assert main(words) == 2
    assert "--scoring of the run in" in capsys.readouterr().err
    words += ["--scoring", f"{table.parent / 'mine.py'}:profit"]
    (table.parent / "mine.py").write_text(SOURCE + "# changed\n")
    assert main(words) == 2
    assert "mine.py of --scoring was" in capsys.readouterr().err


def test_a_function_is_named_by_its_file(table):
    run = cross_validate.run(
        dataset=table, estimator="knn", scoring=certainty, **QUICK, results=table.parent / "run"
    )
    assert run.record["scoring"] == ["certainty"]
    assert 0 < run.record["test_scores"]["certainty"] <= 1
    with pytest.raises(InputError, match=r"^scoring must be a function that workers can import"):
        cross_validate.run(dataset=table, scoring=lambda estimator, X, y: 1.0)


def certainty(estimator, X, y):
    """The mean probability of the predicted class."""
    return float(estimator.predict_proba(X).max(axis=1).mean())


def test_a_grid_of_svms_names_the_command_that_takes_one(table):
    with pytest.raises(InputError, match=r"^scoring of svm-grid must be .* cross-validate"):
        svm_grid.run(dataset=table, scoring=f"{table.parent / 'mine.py'}:profit", **QUICK)
