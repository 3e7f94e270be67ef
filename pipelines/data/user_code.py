"""User code that an option names: where it is, and digests of its content."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import re
import site
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

from pipelines.data.user_files import USER_ERRORS

# Packages whose classes have short names: a value that names one of these names no user code.
KNOWN = ("sklearn.", "pipelines.svm.", "pipelines.nn.", "xgboost.")
FILES = (".yaml", ".yml")  # files that may name code
OWN = tuple(Path(__file__).parents[2] / name for name in ("pipelines", "cluster_setup"))
OBJECT = re.compile(r".*\.py:\w+|[\w.]+:\w+", re.DOTALL)  # how an option names an object


def named_code(value: str | None) -> list[str]:
    """The value in a list if it names an object, ``FILE.py:NAME`` or ``package.module:NAME``."""
    return [value] if value is not None and ":" in value else []


def named_codes(values: Iterable[str]) -> list[str]:
    """Those of the values that name objects; see ``named_code``."""
    return [value for value in values if named_code(value)]


def absolute_name(value: str) -> str:
    """``FILE.py:NAME`` with an absolute path, so that workers and a resumed run find it."""
    path, _, name = value.rpartition(":")
    return f"{expanded(path).absolute()}:{name}" if path.endswith(".py") else value


def expanded(path: str) -> Path:
    """The path with ``~`` replaced by a home folder; unchanged for an unknown user."""
    return Path(os.path.expanduser(path))


def is_known_class(name: str) -> bool:
    """Whether a name is the import path of a class in a package that this program knows."""
    return name.startswith(KNOWN) and not name.endswith(FILES) and not {":", "/"} & set(name)


def code_in(value: Any) -> Iterator[str]:
    """The texts within a parameter's value that may name code, or a file that names code.

    An example is the parameter ``network`` of an ensemble.
    """
    if isinstance(value, str):
        if OBJECT.fullmatch(value) or value.endswith(FILES):
            yield value
    elif isinstance(value, dict):
        yield from code_in(list(value.values()))
    elif isinstance(value, list | tuple | set):
        for part in value:
            yield from code_in(part)


def content_of(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Digests and versions of the code that defines a named object.

    Parameters
    ----------
    name : str
        ``FILE.py:NAME``, ``package.module:NAME``, ``package.module.NAME`` or ``FILE.yaml``.

    Returns
    -------
    sources : dict of str to str
        SHA-256, in hex, of its module's file and of those files beside it that it imports.
    versions : dict of str to str
        Version of the distribution that it comes from, if that is installed.
    """
    module, colon, _ = name.rpartition(":")
    if not colon:
        module = name.rpartition(".")[0]
    if module.endswith(".py"):
        path = expanded(module)
        return _sources(path, path.parent), {}
    if name.endswith(FILES):
        return {Path(name).name: digest_of(expanded(name)) or ""}, {}
    top = module.partition(".")[0]
    # A network: its results depend on the versions of torch and torchvision.
    if top == "pipelines" and not name.startswith("pipelines.svm."):
        return {}, _versions("torch", "torchvision")
    if top == "sklearn" or name.startswith(KNOWN):
        return {}, {}  # these versions are compared for every run
    origin: str | None = None
    with suppress(*USER_ERRORS):  # a module that cannot be imported is refused where it is used
        spec = importlib.util.find_spec(module)
        origin = spec.origin if spec is not None else None
    if origin is None or not Path(origin).is_file():
        return {}, {}
    path = Path(origin)
    folders = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    if any(map(path.is_relative_to, folders)):
        return {}, _versions(*packages_distributions().get(top, ()))
    # The folder that holds the top package, from which the module is imported.
    root = path.parents[module.count(".") + (path.name == "__init__.py")]
    packages = [root.joinpath(*module.split(".")[:n]) for n in range(1, module.count(".") + 1)]
    return _sources(path, root, *(package / "__init__.py" for package in packages)), {}


def digest_of(path: Path) -> str | None:
    """SHA-256, in hex, of a file; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None


def _versions(*distributions: str) -> dict[str, str]:
    """Versions of those distributions that are installed, without local parts."""
    versions = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            versions[name] = version(name).partition("+")[0]
    return versions


def _sources(path: Path, root: Path, *other_paths: Path) -> dict[str, str]:
    """Digests of files and of all files below ``root`` that they import, by path."""
    digests, todo = dict[str, str](), [path, *other_paths]
    while todo:
        source = todo.pop()
        label = source.relative_to(root).as_posix()
        digest = None if label in digests else digest_of(source)
        if digest is not None:
            digests[label] = digest
            todo += _imported(source, root)
    return digests


def _imported(source: Path, root: Path) -> Iterator[Path]:
    """The files below ``root`` that a source may import by its import statements."""
    try:
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):  # importing it will report the error
        return
    for node in ast.walk(tree):
        paths = list[Path]()
        if isinstance(node, ast.Import):
            paths = [root / alias.name.replace(".", "/") for alias in node.names]
            paths += [source.parent / alias.name.replace(".", "/") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").replace(".", "/")
            folders = [root, source.parent]
            if node.level:
                folders = [source.parents[min(node.level, len(source.parents)) - 1]]
            paths = [folder / module for folder in folders]
            paths += [path / alias.name for path in paths for alias in node.names]
        for path in paths:
            if any(path.is_relative_to(folder) for folder in OWN):
                continue  # this program's files are compared as a whole
            # Importing a.b also runs the package a.
            for ancestor in (path, *path.parents):
                files = ancestor.parent / f"{ancestor.name}.py", ancestor / "__init__.py"
                yield from (file for file in files if file.is_relative_to(root) and file.is_file())
                if ancestor == root:
                    break
