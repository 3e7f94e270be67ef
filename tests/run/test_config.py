"""``--config``: a run from one file, of YAML or the record of another run."""

from __future__ import annotations

import dataclasses
import json
from importlib import import_module

import pytest

from pipelines import InputError, Run
from pipelines.__main__ import main
from pipelines.run.config import with_config

COMMANDS = ["svm_grid", "nn_bagging", "cross_validate", "pagerank", "data_parallel"]


def words_of(folder, text, *typed, command="cross_validate"):
    """The command line that a file with this text makes of what is typed after it."""
    (folder / "run.yaml").write_text(text)
    kind = import_module(f"pipelines.{command}").Options
    return with_config(kind, command, ["--config", str(folder / "run.yaml"), *typed])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_a_file(command, tmp_path):
    text = f"command: {command.replace('_', '-')}\nseed: 3\nquiet: true\n"
    assert words_of(tmp_path, text, command=command) == ["--seed=3", "--quiet"]


def test_values_are_written_as_yaml_has_them(tmp_path):
    text = """
        dataset: mine.csv
        leave-out: [id, "2"]
        missing_values: none
        estimator: [knn, forest]
        param: "knn:n_neighbors=1,3"
        rope: 1e-2
        gray: true
        header: false
        limit:
    """
    assert words_of(tmp_path, text) == [
        *("--dataset=mine.csv", "--leave-out", "id", "2", "--missing-values", "none"),
        *("--estimator", "knn", "forest", "--param", "knn:n_neighbors=1,3"),
        *("--rope=0.01", "--gray"),
    ]
    pair = words_of(tmp_path, "log-c: [-3, 1e-3]", command="svm_grid")
    assert pair == ["--log-c", "-3", "0.001"]
    assert words_of(tmp_path, "c: [0.1, 1]", command="svm_grid") == ["--c=0.1,1"]


def test_what_is_typed_wins(tmp_path):
    text = "estimator: [knn, forest]\nseed: 3\nresults: there"
    typed = ("--estimator", "ridge", "--seed=4")
    assert words_of(tmp_path, text, *typed) == ["--results=there", *typed]
    assert words_of(tmp_path, text, "--resume", "here", *typed) == ["--resume", "here", *typed]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("estimatr: knn", r"got estimatr in .*run.yaml; did you mean estimator\?"),
        ("xyzzy: 1", "got xyzzy in .*; cross-validate --help lists them"),
        ("config: more.yaml", "got config in "),
        ("estimators: true", r"did you mean estimator\?"),
        ("test-size: 0.1\ntest_size: 0.2", "must have an option once, got test_size twice"),
        ("folds: many", r"^--folds must be a whole number, got 'many' \(in .*run.yaml\)$"),
        ("folds: 2.5", "^--folds must be a whole number, got '2.5'"),
        ("folds: true", "^--folds must be text or a number, got True"),
        ("dataset: {csv: mine}", "^--dataset must be text or a number, got {'csv': 'mine'}"),
        ("estimator: [[knn]]", "^--estimator must be text, a number, or a list of them"),
        ("gray: please", "^--gray must be true or false, got 'please'"),
        ("task: guess", "^--task: invalid choice: 'guess'"),
        ("command: svm-grid", "must be of cross-validate, got .* which is of svm-grid; call that"),
        ("[1, 2]", "must be a file of option: value, got .*, which holds a list"),
        ("", "which holds nothing"),
        ("a: [", r"must be a YAML file that can be read, got .* \(line 1: "),
        ("gray: yes", "write true or false"),
    ],
)
def test_what_is_no_option_is_named(text, message, tmp_path):
    with pytest.raises(InputError, match=message) as error:
        words_of(tmp_path, text)
    assert "\n" not in error.value.flagged()


def test_a_file_that_is_not_there(capsys):
    for name in ("none.yaml", "none.json"):
        assert main(["svm-grid", "--config", name]) == 2
        assert "--config must be a" in (message := capsys.readouterr().err)
        assert f"got {name} (No such file or directory)" in message
    assert main(["svm-grid", "--config"]) == 2
    assert "--config: expected one argument" in capsys.readouterr().err


def test_a_list_of_a_pair_has_two(tmp_path):
    with pytest.raises(InputError, match=r"^--log-c must be a list of 2, got 3"):
        words_of(tmp_path, "log-c: 3", command="svm_grid")


def run_json(folder, **options):
    (folder / "run.json").write_text(json.dumps({"command": "cross_validate", "options": options}))
    return ["--config", str(folder)]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_record_of_every_command_is_a_file(command, tmp_path):
    options = dataclasses.asdict(import_module(f"pipelines.{command}").Options()) | {"seed": 3}
    record = {"command": command, "options": options}
    words = words_of(tmp_path, json.dumps(record), command=command)
    assert "--seed=3" in words
    assert not any(word.startswith(("--config", "--estimators", "--results")) for word in words)


def test_a_record_names_no_code_by_itself(tmp_path):
    kind = import_module("pipelines.cross_validate").Options
    words = run_json(tmp_path, estimator=["mine.Mean"], results="old", resume="older", seed=0)
    with pytest.raises(InputError, match=r"^--estimator of .* names code, .* add --estimator mine"):
        with_config(kind, "cross_validate", words)
    typed = ["--estimator", "mine.Mean"]
    assert with_config(kind, "cross_validate", [*words, *typed]) == ["--seed=0", *typed]


def test_a_run_from_a_file_is_as_if_typed(tmp_path, capsys):
    text = f"""
        limit: 150
        n-c: 2
        n_gamma: 2
        folds: 3
        cluster: threads
        quiet: true
        results: {tmp_path / "first"}
    """
    (tmp_path / "run.yaml").write_text(text)
    assert main(["svm-grid", "--config", str(tmp_path / "run.yaml"), "--folds", "2"]) == 0
    first = Run(tmp_path / "first")
    assert first.record["options"]["folds"] == 2
    assert first.record["options"]["limit"] == 150
    assert not any("config" in word for word in first.record["argv"])

    # Resumed without the file, nothing is left to do.
    (tmp_path / "run.yaml").unlink()
    journal = (first / "journal.jsonl").read_bytes()
    assert main(["svm-grid", "--resume", str(first), "--quiet"]) == 0
    assert (first / "journal.jsonl").read_bytes() == journal

    # Its record starts the same run anew.
    again = tmp_path / "again"
    words = ["--config", str(first / "run.json"), "--results", str(again), "--quiet"]
    assert main(["svm-grid", *words]) == 0
    assert Run(again).best == first.best
    assert Run(again).options == first.options

    # That of another command is refused.
    capsys.readouterr()
    assert main(["cross-validate", "--config", str(first)]) == 2
    assert "is of svm-grid; call that command" in capsys.readouterr().err
