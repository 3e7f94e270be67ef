"""The commands by their names, and what the project says of itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import pipelines
from pipelines.__main__ import main
from pipelines.commands import typed_names
from pipelines.errors import as_typed, program

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def shown(capsys, *argv):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_without_a_command_all_are_listed(capsys):
    assert main([]) == 0
    output = capsys.readouterr().out
    assert all(f"\n  {name} " in output for name in typed_names())


def test_the_script_finds_modules_beside_which_it_is_started(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from sklearn.dummy import DummyClassifier\nclass Mine(DummyClassifier): pass\n"
    )
    program = "import sys; from pipelines.__main__ import main; sys.exit(main())"
    arguments = ["cross-validate", "--estimator", "mine.Mine", "--dry-run"]
    # -P: as of an installed script, the current folder is not on the path.
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "Mine" in done.stdout


def test_every_command_of_the_package_has_a_name_here():
    files = {path.stem.replace("_", "-") for path in (ROOT / "pipelines").glob("[a-z]*.py")}
    no_commands = {"commands", "console", "deprecation", "errors", "extensions", "sklearn-private"}
    assert files - no_commands | {"export", "report"} == {*typed_names()}


@pytest.mark.parametrize("name", typed_names())
def test_a_name_with_either_sign_leads_to_its_command(name, capsys):
    help_text = shown(capsys, name, "--help")
    assert shown(capsys, name.replace("-", "_"), "--help") == help_text
    assert help_text.startswith(f"usage: pleasingly {name} ")


def test_a_command_that_there_is_not(capsys):
    assert main(["pagerang"]) == 2
    error = capsys.readouterr().err
    assert error.splitlines() == ["pleasingly: unknown command 'pagerang'; did you mean pagerank?"]


def test_the_script_is_this(capsys):
    module, function = PROJECT["scripts"]["pleasingly"].split(":")
    assert getattr(import_module(module), function) is main
    text = shown(capsys, "svm-grid", "--help")
    assert text.startswith("usage: pleasingly svm-grid [options]")
    assert "\n  pleasingly svm-grid --n-c 24 --n-gamma 24" in text


def test_who_starts_a_module_is_told_modules(monkeypatch):
    recorded = ["python", "-m", "pipelines.svm_grid", "--n-c", "3"]
    assert as_typed(recorded) == ["pleasingly", "svm-grid", "--n-c", "3"]
    spec = SimpleNamespace(name="pipelines.svm_grid")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    assert program("nn_bagging") == "python -m pipelines.nn_bagging"
    assert as_typed(recorded) == recorded


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("name", typed_names())
def test_help_is_cut_between_words(name, width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    words = re.sub(r"[\\\s]+", " ", shown(capsys, name, "--help"))
    monkeypatch.setenv("COLUMNS", str(width))
    narrow = shown(capsys, name, "--help")
    assert re.sub(r"[\\\s]+", " ", narrow) == words
    # An example is one line, however long, so that it can be copied.
    prose = [line for line in narrow.splitlines() if not line.startswith("  pleasingly ")]
    assert max(map(len, prose)) <= width


def test_help_has_its_groups_in_order_and_three_examples(
    capsys,
):
    text = shown(capsys, "svm-grid", "--help")
    headings = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    headings_in_order = ["data", "grid", "validation", "strategy", "model", "cluster", "run"]
    assert headings == [*headings_in_order, "examples"]
    assert text[text.index("examples:") :].count("pleasingly svm-grid") == 3
    assert "2 threads" in " ".join(text[text.index("--workers") : text.index("--adaptive")].split())


def test_the_version_is_the_same_everywhere(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pleasingly {pipelines.__version__}\n"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert PROJECT["version"] == citation["version"] == pipelines.__version__
    assert f"\n## {PROJECT['version']}\n" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("command", sorted({*typed_names()} - {"export", "report"}))
def test_help_needs_no_heavy_import(command):
    heavy = ["sklearn", "dask", "distributed", "pandas", "matplotlib", "torch", "PIL", "numba"]
    predict = [["predict", "--help"]] if command == "nn-bagging" else []
    for words in [["--help"], *predict]:
        program = (
            f"import sys, pipelines.{command.replace('-', '_')} as c\n"
            f"try: c.main({words!r})\n"
            f"except SystemExit: print(*[one for one in {heavy!r} if one in sys.modules])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        )
        assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("svm-grid", "320 fits"),
        ("cross-validate", "candidates 5 of logistic, knn, forest, boosting, svm x 5"),
        ("nn-bagging", "12 members x 12 candidates x 5 folds = 720 fits"),
        ("pagerank --nodes 500 --degree 4", "500 nodes, 2,000 edges"),
        ("data-parallel --points 600", "540 training rows"),
    ],
)
def test_a_dry_run_runs_nothing(command, words, tmp_path, capsys):
    folder = tmp_path / "none"
    extra_words = ["--dry-run", "--results", str(folder), "--cluster", "local"]
    assert main([*command.split(), *extra_words]) == 0
    output = capsys.readouterr().out
    assert words in output
    assert "nothing was run" in output
    assert not folder.exists()
