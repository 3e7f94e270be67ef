"""No module imports, for types alone either, one that imports it."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """The modules of ours that a file imports; of a package, what is taken of it."""
    imported = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= parts if parts <= modules else {str(node.module)}
    return imported & modules


def test_imports_have_no_circle() -> None:
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in ("pipelines", "cluster_setup")
        for path in ROOT.joinpath(package).rglob("*.py")
    }
    assert "pipelines.svm.cells" in files
    graph = {name: imports_of(path, {*files}) - {name} for name, path in files.items()}
    assert "pipelines.svm.search" in graph["pipelines.svm.cells"]
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("pipelines.svm.solutions") < order.index("pipelines.svm.cells")
    graph["pipelines.svm.solutions"].add("pipelines.svm.cells")
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()
