"""No module imports, for types alone either, one that imports it; and none a command."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from pipelines.commands import COMMANDS

ROOT = Path(__file__).parents[1]


def imports_of(path, modules):
    """The modules of ours that a file imports; of a package, what is taken of it."""
    imported = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= parts if parts <= modules else {str(node.module)}
    return imported & modules


def graph_of_imports():
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in ("pipelines", "cluster_setup")
        for path in ROOT.joinpath(package).rglob("*.py")
    }
    return {name: imports_of(path, {*files}) - {name} for name, path in files.items()}


def test_a_command_is_imported_by_its_name_in_the_list_alone():
    commands, graph = {command.module for command in COMMANDS.values()}, graph_of_imports()
    assert commands <= graph.keys()
    assert {
        name: imported_commands
        for name, imports in graph.items()
        if (imported_commands := imports & commands)
    } == {}


def test_imports_have_no_circle():
    graph = graph_of_imports()
    assert "pipelines.svm.search" in graph["pipelines.svm.grid_cells"]
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("pipelines.svm.solutions") < order.index("pipelines.svm.grid_cells")
    graph["pipelines.svm.solutions"].add("pipelines.svm.grid_cells")
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()
