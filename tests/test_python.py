"""What users of Python see: names, signatures, docstrings, and the ``Run`` of a command."""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args, get_origin

import pandas as pd
import pytest

import pipelines
from cluster_setup.errors import ClusterError
from pipelines import InputError, Run, svm_grid
from pipelines.bagging.estimator import BaggedNets

ROOT = Path(__file__).parents[1]
COMMANDS = ["svm_grid", "nn_bagging", "cross_validate", "pagerank", "data_parallel"]
PROGRAMS = [
    ROOT / "README.md",
    *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "notebooks"),
    *(ROOT / "notebooks").glob("*.ipynb"),
]


def code_of(path):
    if path.suffix == ".md":
        return "\n".join(re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S))
    cells = json.loads(path.read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return re.sub(r"^%.*$", "", code, flags=re.MULTILINE)


def test_the_package_shows_its_public_names():
    assert set(dir(pipelines)) == {*pipelines.__all__, "__version__"}
    assert all(hasattr(pipelines, name) for name in pipelines.__all__)


def test_no_two_things_have_one_name():
    for name in pipelines.__all__:
        member = getattr(pipelines, name)
        places = {
            id(getattr(import_module(f"pipelines.{package}"), name, member))
            for package in ("graph", "report", "search", "bagging", "data", "run")
        }
        assert places == {id(member)}, name
    assert isinstance(pipelines.pagerank, ModuleType)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_what_is_shown_is_public(path):
    for node in ast.walk(ast.parse(code_of(path))):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in (
            "pipelines",
            "cluster_setup",
        ):
            public = import_module(str(node.module)).__all__
            assert {alias.name for alias in node.names} <= set(public), node.module


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_signature_of_its_options(name):
    command = getattr(pipelines, name)
    options = {field.name: field for field in fields(command.Options)}
    parameters = inspect.signature(command.run).parameters
    assert set(options) - set(parameters) <= {"estimators", "config"}
    for parameter in parameters.values():
        assert parameter.default == options[parameter.name].default
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if choices := options[parameter.name].metadata["choices"]:
            assert get_origin(parameter.annotation) is Literal
            assert get_args(parameter.annotation) == tuple(choices)
        else:
            assert not isinstance(parameter.annotation, str)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_shows_what_is_called(name):
    module = getattr(pipelines, name)
    assert dir(module) == ["main", "run"]
    assert module.Options is module.JOB.options_class


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_documents_every_option(name):
    run = getattr(pipelines, name).run
    described = parameters_of(run)
    assert set(described) == set(inspect.signature(run).parameters)
    assert not re.search(r"--[a-z]", run.__doc__)
    for option, (kind, text) in described.items():
        default = inspect.signature(run).parameters[option].default
        expected = "optional" if default in (None, ()) else f"default {default!r}"
        assert kind.endswith(expected)
        assert text.endswith(".")
    assert described["seed"][1].endswith("at least 0 and at most 4,294,967,295.")


def parameters_of(documented):
    """The type line and the text of every parameter in a docstring of numpy's form."""
    text = inspect.cleandoc(documented.__doc__)
    (section,) = re.findall(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+$|\Z)", text, re.M | re.S)
    matches = re.findall(r"^(\w+) : (.*)\n((?:^ .*\n?|^\n)*)", section, re.MULTILINE)
    return {name: (kind, " ".join(about.split())) for name, kind, about in matches}


@pytest.mark.parametrize(
    "name",
    [
        "BaggedNets",
        "GridSearch",
        "PathSVC",
        "PathSVR",
        "RaceSearch",
        "SVMGridSearch",
        "compute_pagerank",
        "RandomGraph",
    ],
)
def test_a_docstring_says_the_meaning_and_default_of_every_parameter(name):
    member = getattr(pipelines, name)
    described = parameters_of(member)
    parameters = inspect.signature(member).parameters
    assert set(described) == set(parameters)
    for parameter in parameters.values():
        kind = described[parameter.name][0]
        if parameter.default is not inspect.Parameter.empty:
            assert "optional" in kind or "default" in kind, parameter.name


def test_parameters_have_scikit_learns_names():
    searches = ("SVMGridSearch", "GridSearch", "RaceSearch")
    for name in ("PathSVC", "PathSVR", *searches, "compute_pagerank"):
        assert "n_jobs" in inspect.signature(getattr(pipelines, name)).parameters
    names = inspect.signature(BaggedNets).parameters
    assert {"n_estimators", "n_iter", "standardize"} <= set(names)


def test_a_mistyped_parameter_is_named_with_the_nearest():
    with pytest.raises(InputError, match=r"^n_gama is not a parameter .* did you mean n_gamma\?"):
        svm_grid.run(n_gama=3)
    with pytest.raises(InputError, match=r"help\(run\) lists them"):
        svm_grid.run(xyzzy=3)
    with pytest.raises(TypeError):
        svm_grid.run("digits")


def test_an_error_of_the_cluster_names_the_parameter():
    with pytest.raises(ClusterError, match=r"^cluster must be .*, got 'srun'"):
        svm_grid.run(cluster="srun")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python") / "run"
    options = {"limit": 200, "n_c": 2, "n_gamma": 2, "folds": 2, "cluster": "threads"}
    result = svm_grid.run(**options, results=folder, quiet=True)
    assert result.path == folder
    return result


def test_a_run_has_the_answer_its_tables_and_its_figures(run):
    assert run.best is not None
    assert {"C", "gamma", "error_mean"} <= set(run.best)
    assert 0 <= (run.test_error or 0) < 0.5
    assert isinstance(run.cv_results, pd.DataFrame)
    assert len(run.cv_results) == 2 * 2 * 2
    assert "<svg" in run.figures["heat_map"]._repr_svg_()
    assert run.record["options"]["n_c"] == 2
    assert run / "run.json" == run.path / "run.json"
    assert repr(Run(run.path)).startswith(f"Run({str(run.path)!r})\n")


def test_a_runs_model_predicts(run):
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    assert (run.model.predict(X[:200]) == y[:200]).mean() > 0.8


def test_a_notebook_shows_the_cards_and_a_link(run):
    html = run._repr_html_()
    assert "cv error" in html
    assert "test error" in html
    assert 'report.html">' in html


def test_a_run_opens_its_page(run, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    assert run.open()
    assert opened == [run.page.resolve().as_uri()]


def test_where_there_is_no_run_it_is_said(tmp_path):
    nothing = svm_grid.run(results=tmp_path / "none", dry_run=True, quiet=True)
    assert nothing.figures == {}
    assert "none" in nothing._repr_html_()
    with pytest.raises(InputError):
        _ = nothing.best
    with pytest.raises(InputError):
        nothing.open()


def test_lists_are_taken_where_the_command_line_has_commas():
    from pipelines.parallel.options import TrainingOptions
    from pipelines.run.function import words_of

    assert words_of(TrainingOptions, {"hidden": (64, 32), "epochs": 3}) == [
        "--hidden",
        "64,32",
        "--epochs",
        "3",
    ]
