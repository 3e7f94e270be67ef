"""Examples in docstrings run, and give what they say."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import pipelines
from pipelines.commands import COMMANDS

ROOT = Path(__file__).parents[1]
MODULES = [
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for room in ("pipelines", "cluster_setup")
    for path in sorted((ROOT / room).rglob("*.py"))
    if ">>>" in path.read_text()
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(import_module(name.removesuffix(".__init__")), optionflags=FLAGS)
    assert results.attempted > 0
    assert results.failed == 0


def test_every_public_name_has_an_example():
    commands = {module.rpartition(".")[2] for module, _ in COMMANDS.values()}
    names = [name for name in pipelines.__all__ if name not in commands]
    without = [name for name in names if ">>>" not in inspect.getdoc(getattr(pipelines, name))]
    assert names
    assert without == []
