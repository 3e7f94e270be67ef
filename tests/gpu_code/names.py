"""Every name that the sources take from a GPU package is there in the package itself.

The names are read from the sources: what is imported, what is looked up on it, dot by dot,
and the keywords of calls. ``xp`` is cupy: the CPU has numpy in its place. What a call gives is
followed where it is a class's own object; what a function gives is not known here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("pipelines", "cluster_setup", "benchmarks", "tests")
PACKAGES = {
    "numba",
    "cuda",
    "cupy",
    "cuml",
    "cudf",
    "cugraph",
    "dask_cuda",
    "dask_cudf",
    "raft_dask",
    "rmm",
    "torch",
}
CALL = "()"
_AS_CUPY = {"xp", "_xp"}


def sources():
    """All Python files of the program, its benchmarks and its tests."""
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in paths if "gpu_stand_in" not in path.parts)


class _Names(ast.NodeVisitor):
    """Paths that a file looks up: a package's name and what follows, and calls' keywords."""

    def __init__(self):
        self.path_by_name: dict[str, tuple[str, ...]] = {}
        self.uses: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name.split(".")[0] in PACKAGES:
                whole = tuple(alias.name.split("."))
                name = alias.asname or whole[0]
                self.path_by_name[name] = whole if alias.asname else whole[:1]
                self.uses.add((whole, ()))

    def visit_ImportFrom(self, node):
        module = tuple((node.module or "").split("."))
        if node.level == 0 and module[0] in PACKAGES:
            for alias in node.names:
                self.path_by_name[alias.asname or alias.name] = (*module, alias.name)
                self.uses.add(((*module, alias.name), ()))

    def path_of(self, node):
        """The path of an expression that begins at a package, or None."""
        match node:
            case ast.Name(id=name):
                return ("cupy",) if name in _AS_CUPY else self.path_by_name.get(name)
            case ast.Attribute(attr=name) if name in _AS_CUPY:
                return ("cupy",)
            case ast.Attribute(value=value, attr=name):
                start = self.path_of(value)
                return None if start is None else (*start, name)
            case ast.Call(func=function):
                start = self.path_of(function)
                return None if start is None else (*start, CALL)
        return None

    def visit_Attribute(self, node):
        path = self.path_of(node)
        if path is not None:
            self.uses.add((path, ()))
        self.generic_visit(node)

    def visit_Call(self, node):
        path = self.path_of(node.func)
        if path is not None:
            keywords = tuple(keyword.arg for keyword in node.keywords if keyword.arg is not None)
            self.uses.add((path, keywords))
        self.generic_visit(node)


def names_in(source):
    """(path, keywords of a call) of every name a source takes from the packages."""
    tree, names = ast.parse(source), _Names()
    # Imports first: a function may stand above the import that it uses.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.visit(node)
    names.visit(tree)
    return names.uses


def resolve(path):
    """What a path stands for in the installed packages, or None beyond a function's call.

    Raises
    ------
    AttributeError, ImportError
        It is not there.
    """
    target = importlib.import_module(path[0])
    module = path[0]
    for name in path[1:]:
        if name == CALL:
            if not inspect.isclass(target):
                return None  # what a function gives is not known
            module = None
        elif module is not None and not hasattr(target, name):
            try:
                target = importlib.import_module(f"{module}.{name}")
            except ModuleNotFoundError:
                raise AttributeError(f"{module} has no {name}") from None
            module = f"{module}.{name}"
        elif inspect.isclass(target) and hasattr(target, "__getattr__"):
            return None  # it makes its attributes up
        else:
            target = getattr(target, name)
            module = f"{module}.{name}" if module and inspect.ismodule(target) else None
    return target


def refused(path, keywords):
    """Why the packages do not give a path, or do not take keywords there; None if they do."""
    shown = ".".join(path).replace("." + CALL, CALL)
    try:
        target = resolve(path)
    except (AttributeError, ImportError) as error:
        return f"{shown}: {error}"
    if keywords and callable(target):
        try:
            takes = inspect.signature(target).parameters.values()
        except (TypeError, ValueError):
            return None  # a function of C has none
        unknown = set(keywords) - {parameter.name for parameter in takes}
        if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes):
            return f"{shown} takes no {', '.join(sorted(unknown))}"
    return None


def missing():
    """A line for each name that is not there: its file, the name, and why."""
    for source in sources():
        for path, keywords in sorted(names_in(source.read_text())):
            why = refused(path, keywords)
            if why is not None:
                yield f"{source.relative_to(ROOT)}: {why}"


def count():
    """How many different names are looked up."""
    return len({path for source in sources() for path, _ in names_in(source.read_text())})
