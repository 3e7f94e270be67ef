"""A script that was killed, started again, makes no finished fit again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from pipelines.errors import InputError
from pipelines.search.acceleration import Acceleration
from pipelines.search.joblib_backend import SearchBackend
from pipelines.search.kept_fits import JOURNAL, KeptFits

X, y = load_iris(return_X_y=True)
TREES = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 4]}, cv=3)


def searched(folder, search=TREES, X=X, y=y, **params):
    """A search with its fits kept in a folder, and how many were asked for and made."""
    acceleration, search = Acceleration(kept=KeptFits(folder)), clone(search)
    try:
        with parallel_config(SearchBackend(acceleration)):
            search.fit(X, y, **params)
    finally:
        acceleration.close()
    return search, acceleration.log.entries[0]


def test_a_second_run_makes_none(tmp_path):
    first, entry = searched(tmp_path)
    assert (entry.n_asked, entry.n_kept, entry.n_made) == (9, 0, 9)
    second, entry = searched(tmp_path)
    assert (entry.n_asked, entry.n_kept, entry.n_made) == (9, 9, 0)
    assert entry.reason == "all its fits are kept from before"
    for name, values in first.cv_results_.items():
        assert np.array_equal(values, second.cv_results_[name]), name


def test_more_candidates_are_made_alone(tmp_path):
    searched(tmp_path)
    larger_grid = clone(TREES).set_params(param_grid={"max_depth": [8, 2, 4]})
    search, entry = searched(tmp_path, larger_grid)
    assert (entry.n_kept, entry.n_made) == (6, 3)
    plain = larger_grid.fit(X, y)
    assert_allclose(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], rtol=0
    )


def test_what_shares_is_kept_and_a_part_of_it_taken(tmp_path):
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, cv=3)
    searched(tmp_path, search)
    search.set_params(param_grid={"n_neighbors": [1, 3, 5, 7]})
    result, entry = searched(tmp_path, search)
    assert (entry.n_kept, entry.n_made) == (6, 3)
    assert_allclose(
        result.cv_results_["mean_test_score"],
        search.fit(X, y).cv_results_["mean_test_score"],
    )


CHANGED: dict[str, dict[str, Any]] = {
    "rows": {"X": X + 1e-9},
    "targets": {"y": np.where(np.arange(len(y)) == 3, 1, y)},
    "splits": {"search": clone(TREES).set_params(cv=4)},
    "estimator": {"search": clone(TREES).set_params(estimator__criterion="entropy")},
    "seed": {"search": clone(TREES).set_params(estimator__random_state=1)},
    "scorer": {"search": clone(TREES).set_params(scoring="f1_macro")},
    "train scores": {"search": clone(TREES).set_params(return_train_score=True)},
    "error score": {"search": clone(TREES).set_params(error_score=0.0)},
    "weights": {"sample_weight": np.ones(len(y))},
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_has_changed_is_made_again(tmp_path, name):
    searched(tmp_path)
    _, entry = searched(tmp_path, **CHANGED[name])
    assert entry.n_kept == 0
    assert entry.n_made == entry.n_asked


def test_a_failed_fit_is_made_again(tmp_path):
    search = clone(TREES).set_params(param_grid={"max_depth": [2, 0]})
    for n_made in (6, 3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result, entry = searched(tmp_path, search)
        assert any(
            "3 fits failed out of a total of 6" in str(warning.message) for warning in caught
        )
        assert entry.n_made == n_made
        assert np.isnan(result.cv_results_["mean_test_score"][1])


def test_what_cannot_be_told_from_others_is_said(tmp_path):
    scorer = make_scorer(lambda truth, predicted: np.mean(truth == predicted))
    for _ in range(2):
        search, entry = searched(tmp_path, clone(TREES).set_params(scoring=scorer))
        assert entry.n_made == 9
        assert entry.note.startswith("its fits are not kept: ")
        assert entry.note in str(entry)
        assert search.best_score_ > 0.9


def test_one_process_at_a_time_writes(tmp_path):
    kept = KeptFits(tmp_path)
    with pytest.raises(InputError, match="in use by another process"):
        KeptFits(tmp_path)
    kept.close()
    KeptFits(tmp_path).close()


def test_a_damaged_line_costs_its_own_fits(tmp_path):
    searched(tmp_path)
    path = tmp_path / JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0].replace(b"fit", b"fat", 1), *lines[1:]]))
    _, entry = searched(tmp_path)
    assert 0 < entry.n_made <= 9
    assert entry.n_made + entry.n_kept == 9


SCRIPT = """
import time
import numpy as np
from pathlib import Path
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

class Slow(ClassifierMixin, BaseEstimator):
    def __init__(self, level=0):
        self.level = level
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        time.sleep(0.1)
        return self
    def predict(self, X):
        with open("fits", "a") as file:
            file.write(f"{self.level}\\n")
        return np.full(len(X), self.classes_[self.level % 3])

X, y = load_iris(return_X_y=True)
grid = {"level": list(range(8))}
search = GridSearchCV(Slow(), grid, cv=3, refit=False, n_jobs=JOBS).fit(X, y)
print(search.cv_results_["mean_test_score"].tolist())
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_script_that_is_killed(tmp_path, n_jobs):
    (tmp_path / "script.py").write_text(SCRIPT.replace("JOBS", str(n_jobs)))
    command = [sys.executable, "-m", "pipelines.accelerate", "--results", "kept", "script.py"]
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    options = {
        "cwd": tmp_path,
        "env": os.environ | {"PYTHONPATH": path},
        "text": True,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    fits, journal = tmp_path / "fits", tmp_path / "kept" / JOURNAL

    def n_in_journal():
        lines = journal.read_text().split() if journal.exists() else []
        return sum(line.count('\\"fit_time\\"') for line in lines)

    with subprocess.Popen(command, start_new_session=True, **options) as process:
        while process.poll() is None and n_in_journal() < 4:
            time.sleep(0.01)
        assert process.poll() is None, process.communicate()
        os.killpg(process.pid, signal.SIGKILL)
    n_kept = n_in_journal()
    n_before = len(fits.read_text().split())
    assert 4 <= n_kept <= n_before
    done = subprocess.run(command, check=True, **options)
    assert len(fits.read_text().split()) - n_before == 24 - n_kept
    assert f"24 fits asked, {n_kept} kept from before, {24 - n_kept} made" in done.stderr
    again = subprocess.run(command, check=True, **options)
    assert "24 kept from before, 0 made" in again.stderr
    assert again.stdout == done.stdout
    # Another class of that name is another estimator.
    script = tmp_path / "script.py"
    script.write_text(script.read_text().replace("self.level % 3", "(self.level + 1) % 3"))
    changed = subprocess.run(command, check=True, **options)
    assert "24 fits asked, 24 made" in changed.stderr


def test_the_estimators_of_a_validation_are_not_kept(tmp_path):
    acceleration = Acceleration(kept=KeptFits(tmp_path))
    with parallel_config(SearchBackend(acceleration)):
        for _ in range(2):
            result = cross_validate(DecisionTreeClassifier(), X, y, return_estimator=True, cv=3)
            assert all(hasattr(estimator, "tree_") for estimator in result["estimator"])
    acceleration.close()
    assert [entry.n_made for entry in acceleration.log.entries] == [3, 3]
    assert "wants every fitted estimator" in acceleration.log.entries[0].note


def test_rows_that_a_script_changes_in_place_are_other_rows(tmp_path):
    rows, acceleration = X.copy(), Acceleration(kept=KeptFits(tmp_path))
    with parallel_config(SearchBackend(acceleration)):
        clone(TREES).fit(rows, y)
        rows[:, 2:] = 0
        changed = clone(TREES).fit(rows, y)
    acceleration.close()
    assert [entry.n_made for entry in acceleration.log.entries] == [9, 9]
    plain = clone(TREES).fit(rows, y)
    assert_allclose(
        changed.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], rtol=0
    )


WEIGHTED = """
import sys
import numpy as np
import beside
from sklearn.datasets import load_iris
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier

X, y = load_iris(return_X_y=True)
WEIGHT = float(sys.argv[1])
beside.FACTOR = float(sys.argv[2])

def weight():
    return WEIGHT * beside.FACTOR

def cost(truth, predicted):
    return -weight() * np.mean(truth != predicted)

tree = DecisionTreeClassifier(max_depth=1, random_state=0)
print(cross_val_score(tree, X, y, scoring=make_scorer(cost)).mean().round(6))
"""


def test_values_that_a_scorer_reads_tell_fits_apart(tmp_path):
    (tmp_path / "script.py").write_text(WEIGHTED)
    (tmp_path / "beside.py").write_text("FACTOR = 1\n")
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    outputs = []
    for values in (("1", "1"), ("5", "1"), ("1", "1"), ("1", "3")):
        command = ["-m", "pipelines.accelerate", "--results", "kept", "script.py", *values]
        process = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        n_made = process.stderr.split(" made")[0].split()[-1]
        outputs.append((float(process.stdout), int(n_made)))
    loss = outputs[0][0]
    expected = [(loss, 5), (5 * loss, 5), (loss, 0), (3 * loss, 5)]
    assert_allclose(outputs, expected, atol=1e-5)


def test_a_score_of_another_kind_is_not_kept(tmp_path):
    search = clone(TREES).set_params(scoring=as_fraction, refit=False)
    for _ in range(2):
        result, entry = searched(tmp_path, search)
        assert entry.n_made == 9
        assert result.cv_results_["mean_test_score"].max() > 0.9


def as_fraction(estimator, X, y):
    return Fraction(int((estimator.predict(X) == y).sum()), len(y))


def test_the_configuration_of_scikit_learn_tells_fits_apart(tmp_path):
    searched(tmp_path)
    with config_context(transform_output="pandas"):
        _, entry = searched(tmp_path)
    assert entry.n_made == 9
    with config_context(working_memory=17):
        _, entry = searched(tmp_path)
    assert entry.n_made == 0
