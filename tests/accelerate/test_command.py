"""``pleasingly accelerate script.py``: a script runs as it would, and its searches share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import pytest
from joblib import parallel_config
from joblib.parallel import get_active_backend
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import pipelines
from pipelines.accelerate import (
    load_ipython_extension,
    main,
    print_report,
    split_command_line,
    stop,
    unload_ipython_extension,
)
from pipelines.search.joblib_backend import SearchBackend

ROOT = Path(__file__).parents[2]
X, y = load_iris(return_X_y=True)
SCRIPT = """
import sys
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
import beside

class Mine(KNeighborsClassifier):
    pass

X, y = load_iris(return_X_y=True)
print(sys.argv, __name__, __file__, beside.NUMBER)
search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3, 5]}, cv=3).fit(X, y)
print(search.best_params_, search.best_score_)
print(cross_val_score(Mine(), X, y).tolist())
"""


@pytest.fixture
def script(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "beside.py").write_text("NUMBER = 7\n")
    path = folder / "script.py"
    path.write_text(SCRIPT)
    return path


def run(folder, *words):
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, *words]
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_script_prints_what_it_prints_without(script, tmp_path):
    words = [str(script.relative_to(tmp_path)), "--epochs", "3", "-m", "--help"]
    plain = run(tmp_path, *words)
    ours = run(tmp_path, "-m", "pipelines.accelerate", *words)
    assert ours.returncode == plain.returncode == 0, ours.stderr
    assert ours.stdout == plain.stdout
    first, second = ours.stderr.splitlines()
    assert first.startswith("GridSearchCV(KNeighborsClassifier): 9 fits asked, 3 made, ")
    assert second.startswith("cross_val_score(Mine): 5 fits asked, 5 made, ")


def test_a_module_and_a_table(script):
    plain = run(script.parent, "-m", "script", "3")
    ours = run(script.parent, "-m", "pipelines.accelerate", "--table", "-m", "script", "3")
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == plain.stdout
    heading, *rows = ours.stderr.splitlines()
    assert heading.startswith("search")
    assert "script.py:13" in rows[0]
    assert "one query of neighbors" in rows[0]
    quiet = run(script.parent, "-m", "pipelines.accelerate", "--quiet", "script.py")
    assert quiet.stderr == ""


def test_workers_of_a_cluster_make_the_fits(script):
    plain = run(script.parent, "script.py")
    where = ["--cluster", "local", "--workers", "2", "--dashboard", "off"]
    command = ["-m", "pipelines.accelerate", *where, "--results", "kept", "script.py"]
    ours = run(script.parent, *command)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == plain.stdout
    assert "9 fits asked, 3 made" in ours.stderr
    again = run(script.parent, "-m", "pipelines.accelerate", "--results", "kept", "script.py")
    assert again.stdout == plain.stdout
    assert "9 fits asked, 9 kept from before, 0 made" in again.stderr


@pytest.mark.parametrize(
    ("ending", "status"),
    [("raise ValueError('bad')", 1), ("sys.exit(5)", 5), ("sys.exit('gone')", 1), ("", 0)],
)
def test_the_status_is_the_scripts(script, ending, status):
    script.write_text(f"{SCRIPT}\n{ending}\n")
    plain = run(script.parent, "script.py")
    ours = run(script.parent, "-m", "pipelines.accelerate", "script.py")
    assert ours.returncode == plain.returncode == status
    errors = [line for line in ours.stderr.splitlines() if "fits asked" not in line]
    assert plain.stderr.splitlines() == errors
    assert "fits asked" in ours.stderr


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "SCRIPT must be a Python script, or -m and a module, got none"),
        (["-m"], "SCRIPT must be a Python script, or -m and a module, got none"),
        (["absent.py"], "SCRIPT must be a file, got 'absent.py'"),
        (["-m", "absent_module"], "SCRIPT must be a module, got -m absent_module"),
        (["--clutser", "local", "script.py"], "did you mean --cluster?"),
        (["--cluster", "sluurm", "script.py"], "did you mean slurm?"),
        (["--workers", "0", "script.py"], "--workers must be at least 1, got 0"),
        (["--workers", "3", "script.py"], "--workers is for a cluster; add --cluster"),
        (["--results", "script.py", "script.py"], "script.py"),
    ],
)
def test_bad_input_is_one_line(
    script,
    argv,
    message,
    capsys,
    monkeypatch,
):
    monkeypatch.chdir(script.parent)
    assert main(argv) == 2
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("accelerate: ")
    assert message in line


def test_our_words_end_where_the_script_begins():
    assert split_command_line(["--table", "--cluster", "local", "s.py", "--table"]) == (
        ["--table", "--cluster", "local"],
        ["s.py", "--table"],
    )
    assert split_command_line(["--adaptive", "1", "4", "-m", "package", "-x"]) == (
        ["--adaptive", "1", "4"],
        ["-m", "package", "-x"],
    )
    assert split_command_line(["--results=kept", "s.py"]) == (["--results=kept"], ["s.py"])


@pytest.fixture
def undone():
    yield
    stop()


def test_a_process_is_accelerated(undone, capsys):
    plain = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, cv=3).fit(X, y)
    acceleration = pipelines.accelerate(report=False)
    assert isinstance(get_active_backend()[0], SearchBackend)
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, cv=3).fit(X, y)
    assert search.best_score_ == plain.best_score_
    (entry,) = acceleration.log.entries
    assert (entry.n_asked, entry.n_made) == (6, 3)
    with parallel_config("pleasingly"):  # within, the same again
        cross_val_score(KNeighborsClassifier(), X, y, n_jobs=2)
    print_report(acceleration)
    assert capsys.readouterr().err.startswith("GridSearchCV(KNeighborsClassifier): 6 fits asked")
    stop()
    assert not isinstance(get_active_backend()[0], SearchBackend)
    joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(-i) for i in range(3))


def test_the_backend_goes_by_its_name():
    with parallel_config("pleasingly", n_jobs=2):
        backend, n_jobs = get_active_backend()
        assert isinstance(backend, SearchBackend)
        assert n_jobs == 2
        assert cross_val_score(KNeighborsClassifier(), X, y).mean() > 0.9


class Events:
    """Those of a notebook."""

    def __init__(self):
        self.functions: list[Any] = []

    def register(self, event, function):
        assert event == "post_run_cell"
        self.functions.append(function)

    def unregister(self, event, function):
        self.functions.remove(function)


def test_a_notebook_says_it_after_each_cell(undone, capsys):
    class Shell:
        events = Events()

    shell = Shell()
    load_ipython_extension(shell)
    for _ in range(2):
        GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, cv=3).fit(X, y)
        shell.events.functions[0](None)
        assert "6 fits asked, 3 made" in capsys.readouterr().err
    shell.events.functions[0](None)
    assert capsys.readouterr().err == ""
    unload_ipython_extension(shell)
    assert shell.events.functions == []
    assert not isinstance(get_active_backend()[0], SearchBackend)


def test_a_script_that_searches_nothing_waits_for_none_of_our_rooms(tmp_path):
    rooms = ["pipelines.data.tables", "pipelines.search.tasks", "pipelines.svm", "distributed"]
    script = f"import sys\nprint([room for room in {rooms} if room in sys.modules])\n"
    (tmp_path / "script.py").write_text(script)
    done = run(tmp_path, "-m", "pipelines.accelerate", "script.py")
    assert done.stdout.split("\n")[0] == "[]", done.stderr
