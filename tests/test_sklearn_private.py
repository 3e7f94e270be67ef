"""Private names of scikit-learn: all in one file, there, and of the versions that are allowed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn
from packaging.version import Version

from pipelines import sklearn_private
from pipelines.sklearn_private import LOCATIONS, TRIED

ROOT = Path(__file__).parents[1]


def private_imports(source):
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names += [of + alias.name for alias in node.names]
    return [name for name in names if re.match(r"sklearn\b.*\._(?!_)", name)]


def versions_in(file, pin):
    return [Version(text) for text in re.findall(f"{pin}([0-9.]+)", (ROOT / file).read_text())]


def test_the_installed_version_has_every_name():
    assert all(callable(getattr(sklearn_private, name)) for name in LOCATIONS)


@pytest.mark.parametrize("names", [("sklearn.base", "_gone"), ("sklearn._gone", "_fit_context")])
def test_a_name_that_is_gone_is_told_in_one_line(names, monkeypatch):
    monkeypatch.setitem(LOCATIONS, "fit_context", names)
    with pytest.raises(ImportError) as error:
        from pipelines.sklearn_private import fit_context  # noqa: F401
    assert str(error.value) == (
        f"scikit-learn {sklearn.__version__} has no {'.'.join(names)}; install a version that this "
        f"program was tried with: {' or '.join(TRIED)}"
    )


def test_a_name_that_is_none_of_these_is_no_attribute():
    assert not hasattr(sklearn_private, "clone")


def test_no_other_file_imports_a_private_name():
    assert private_imports(
        "import sklearn.utils._mask\n"
        "from sklearn import __version__, _config\n"
        "from sklearn.base import _fit_context, clone\n"
        "from sklearn.utils._param_validation import Interval\n"
    ) == [
        "sklearn.utils._mask",
        "sklearn._config",
        "sklearn.base._fit_context",
        "sklearn.utils._param_validation.Interval",
    ]
    folders = ("pipelines", "cluster_setup", "benchmarks")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert {path: names for path in files if (names := private_imports(path.read_text()))} == {}


def test_only_what_is_used_is_imported():
    program = """
import sys
import pipelines.sklearn_private
assert "sklearn" not in sys.modules
from pipelines.sklearn_private import StrOptions
assert not {"sklearn.metrics", "sklearn.model_selection"} & {*sys.modules}
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_the_versions_tried_are_the_lowest_allowed_and_the_pinned():
    assert [Version(TRIED[0])] == versions_in("pyproject.toml", '"scikit-learn>=')
    assert Version(TRIED[-1]) == max(versions_in("constraints.txt", r"(?m)^scikit-learn=="))
