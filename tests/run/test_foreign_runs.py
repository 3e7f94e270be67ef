"""A run folder from somewhere else runs no code: what it names must be named by the user, too."""

from __future__ import annotations

import importlib
import json
import shlex
from dataclasses import asdict

import pytest

from pipelines.run.groups import resume_words

# Of each command the options by which a folder may name code, with a value that does.
NAMED = {
    "svm_grid": {"cv": "{folder}/evil.py:drop", "cluster": "tcp://127.0.0.1:1"},
    "cross_validate": {
        "cv": "{folder}/evil.py:drop",
        "estimator": ["knn", "evil.Drop"],
        "grid": "{folder}/grid.yaml",
        "param": ["knn:n_neighbors=1,3", "knn:metric=evil.py:Drop"],
        "preprocess": "{folder}/steps.yaml",
        "profile": "{folder}/profile.yaml",
        "cluster": "tls://127.0.0.1:1",
    },
    "nn_bagging": {
        "network": "{folder}/evil.py:Drop",
        "augment": "evil:drop",
        "space": "{folder}/space.yaml",
        "profile": "{folder}/profile.yaml",
    },
    "data_parallel": {"network": "evil:Drop", "augment": "{folder}/evil.py:drop"},
    "pagerank": {"profile": "{folder}/profile.yaml", "cluster": "tcp://127.0.0.1:1"},
}
CASES = [(command, name) for command, options in NAMED.items() for name in options]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with code that leaves a mark where it is imported, on the path as Python has it."""
    (tmp_path / "evil.py").write_text(
        f"open({str(tmp_path / 'mark')!r}, 'w').close()\nDrop = drop = 1"
    )
    (tmp_path / "grid.yaml").write_text("evil.Drop: {a: [1]}\n")
    (tmp_path / "steps.yaml").write_text("- evil: {class: evil.Drop}\n")
    (tmp_path / "space.yaml").write_text("network: evil:Drop\nlearning_rate: 0.1\nmomentum: 0.9\n")
    (tmp_path / "profile.yaml").write_text(f"queue: slurm\nprologue: [touch {tmp_path}/mark]\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def stopped_run(command, path, **changes):
    """A folder as a stopped run leaves it, with these options."""
    module = importlib.import_module(f"pipelines.{command}")
    options = {**asdict(module.Options()), **changes}
    path.mkdir()
    about = {"command": command, "status": "stopped", "options": options}
    (path / "run.json").write_text(json.dumps(about))
    return path, module


@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["run", "dry run"])
@pytest.mark.parametrize(("command", "name"), CASES)
def test_what_a_run_names_is_not_imported(command, name, dry, folder, capsys):
    value = NAMED[command][name]
    values = [text.format(folder=folder) for text in ([value] if isinstance(value, str) else value)]
    option_value = values[0] if isinstance(value, str) else values
    run, module = stopped_run(command, folder / "run", **{name: option_value})
    assert module.main(["--resume", str(run), *dry]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert f"--{name} of the run in {run} names code" in message
    assert message.rstrip().endswith(f"resume with --{name} {shlex.join(values)}")
    assert not (folder / "mark").exists()


def test_a_space_in_run_json_names_no_network(folder):
    """A resumed ensemble takes its ranges from there, and its code never."""
    pytest.importorskip("torch", reason="networks need torch, which comes with the extra nn")
    run, module = stopped_run("nn_bagging", folder / "run", limit=100)
    about = json.loads((run / "run.json").read_text())
    about["space"] = {"network": "evil:Drop", "learning_rate": 0.1, "momentum": 0.9}
    (run / "run.json").write_text(json.dumps(about))
    assert module.main(["--resume", str(run), "--dry-run"]) == 0
    assert not (folder / "mark").exists()


@pytest.mark.parametrize(
    "steps",
    [
        "- shell: {{class: subprocess.Popen, args: [touch, {mark}]}}\n",
        "- make: {{class: builtins.open, file: {mark}, mode: w}}\n",
    ],
)
def test_a_step_is_a_transformer_before_it_is_made(steps, tmp_path, capsys):
    from pipelines.cross_validate import main

    mark = tmp_path / "mark"
    (tmp_path / "steps.yaml").write_text(steps.format(mark=mark))
    options = ["--estimator", "bayes", "--preprocess", str(tmp_path / "steps.yaml"), "--dry-run"]
    assert main(options) == 2
    assert "it is no class with fit and transform" in capsys.readouterr().err
    assert not mark.exists()


def test_steps_that_are_half_a_file_are_code_too(folder, capsys):
    (folder / "steps.yaml").write_text("- evil: {class: evil.Drop}\n- 5\n")
    run, module = stopped_run(
        "cross_validate", folder / "run", preprocess=str(folder / "steps.yaml")
    )
    assert module.main(["--resume", str(run)]) == 2
    assert "--preprocess of the run in" in capsys.readouterr().err
    assert not (folder / "mark").exists()


def test_estimators_of_known_packages_need_not_be_named_again(folder):
    estimators = ["knn", "sklearn.naive_bayes.GaussianNB"]
    run, module = stopped_run("cross_validate", folder / "run", estimator=estimators, limit=100)
    assert module.main(["--resume", str(run), "--dry-run"]) == 0


@pytest.mark.parametrize(
    "text",
    [
        "nets:network=/x/evil.py:Drop",
        "nets:space={'network': 'evil:Drop'}",
        "nets:space=/x/space.yaml",
        "nets:augment=light,evil:drop",
    ],
)
def test_parameters_may_name_code(text, tmp_path):
    from pipelines.data.user_code import is_known_class
    from pipelines.search.candidates import code_of_grid, code_of_params

    assert not all(map(is_known_class, code_of_params([text])))
    value = text.partition("=")[2].partition(",")[2] or text.partition("=")[2]
    (tmp_path / "grid.yaml").write_text(f"knn: {{a: [{json.dumps(value)}, 1]}}\n")
    assert "{" in value or not all(map(is_known_class, code_of_grid(str(tmp_path / "grid.yaml"))))
    assert code_of_params(["forest:class_weight={0: 1, 1: 2}", "knn:n_neighbors=1,3"]) == []


def test_an_ensemble_is_not_known_by_its_name():
    """Its parameters name networks."""
    from pipelines.data.user_code import is_known_class

    assert not is_known_class("pipelines.BaggedNets")
    assert not is_known_class("sklearn.py:Net")
    assert is_known_class("sklearn.naive_bayes.GaussianNB")


def test_the_advice_to_resume_names_what_must_be_named_again(folder):
    module = importlib.import_module("pipelines.cross_validate")
    options = module.Options(estimator=("knn", "evil.Drop"), cv=f"{folder}/my evil.py:drop")
    words = shlex.split(resume_words("cross_validate", folder / "run", options))
    assert words[:4] == ["pleasingly", "cross-validate", "--resume", str(folder / "run")]
    assert words[4:] == [
        *("--cv", f"{folder}/my evil.py:drop"),
        *("--estimator", "knn", "evil.Drop"),
    ] or words[4:] == [
        *("--estimator", "knn", "evil.Drop"),
        *("--cv", f"{folder}/my evil.py:drop"),
    ]
