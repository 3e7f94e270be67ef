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
from pipelines.__main__ import COMMANDS, main
from pipelines.errors import as_typed, program

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in COMMANDS)


def test_the_script_finds_modules_beside_which_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from sklearn.dummy import DummyClassifier\nclass Mine(DummyClassifier): pass\n"
    )
    program = "import sys; from pipelines.__main__ import main; sys.exit(main())"
    asked = ["cross-validate", "--estimator", "mine.Mine", "--dry-run"]
    # -P: as of an installed script, the current folder is not on the path.
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *asked], cwd=tmp_path, capture_output=True,
        text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Mine" in done.stdout


def test_every_command_of_the_package_has_a_name_here() -> None:
    files = {path.stem.replace("_", "-") for path in (ROOT / "pipelines").glob("[a-z]*.py")}
    assert files - {"errors", "console"} | {"report"} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_name_with_either_sign_leads_to_its_command(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    help_text = shown(capsys, name, "--help")
    assert shown(capsys, name.replace("-", "_"), "--help") == help_text
    assert help_text.startswith(f"usage: pleasingly {name} ")


def test_a_command_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pagerang"]) == 2
    error = capsys.readouterr().err
    assert error.splitlines() == ["pleasingly: unknown command 'pagerang'; did you mean pagerank?"]


def test_the_script_is_this(capsys: pytest.CaptureFixture[str]) -> None:
    module, function = PROJECT["scripts"]["pleasingly"].split(":")
    assert getattr(import_module(module), function) is main
    text = shown(capsys, "svm-grid", "--help")
    assert text.startswith("usage: pleasingly svm-grid [options]")
    assert "\n  pleasingly svm-grid --n-c 24 --n-gamma 24" in text


def test_who_starts_a_module_is_told_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = ["python", "-m", "pipelines.svm_grid", "--n-c", "3"]
    assert as_typed(recorded) == ["pleasingly", "svm-grid", "--n-c", "3"]
    spec = SimpleNamespace(name="pipelines.svm_grid")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    assert program("nn_bagging") == "python -m pipelines.nn_bagging"
    assert as_typed(recorded) == recorded


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_cut_between_words(
    name: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    words = re.sub(r"[\\\s]+", " ", shown(capsys, name, "--help"))
    monkeypatch.setenv("COLUMNS", str(width))
    narrow = shown(capsys, name, "--help")
    assert re.sub(r"[\\\s]+", " ", narrow) == words
    assert max(map(len, narrow.splitlines())) <= width


def test_help_has_its_groups_in_order_and_three_examples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(capsys, "svm-grid", "--help")
    headings = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert headings == ["data", "grid", "validation", "model", "cluster", "run", "examples"]
    assert text[text.index("examples:") :].count("pleasingly svm-grid") == 3
    assert "2 threads" in text[text.index("--workers") : text.index("--adaptive")]


def test_the_version_is_the_same_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pleasingly {pipelines.__version__}\n"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert PROJECT["version"] == citation["version"] == pipelines.__version__
    assert f"\n## {PROJECT['version']}\n" in (ROOT / "CHANGELOG.md").read_text()
