"""What numba keeps on disk is used again, and not after a source beside it has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pipelines.svm.compiled as compiled_module

OUTER = """
from .compiled import compiled
from .inner import inner
@compiled()
def outer(x):
    return inner(x)
print(outer(1.0), sum(outer.stats.cache_hits.values()))
"""
INNER = """
from .compiled import compiled
@compiled()
def inner(x):
    return x + {}
"""
VARIANTS = """
from numba import njit
from .compiled import kept_by_arguments
@kept_by_arguments
def divider(error_model="python"):
    @njit(cache=True, error_model=error_model)
    def divide(x):
        return 1.0 / x
    return divide
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package with our compiler in it."""
    found = tmp_path / "kernels"
    found.mkdir()
    (found / "__init__.py").touch()
    shutil.copy(compiled_module.__file__, found)
    return found


def said(folder: Path, program: str = "import kernels.outer") -> list[str]:
    environment = os.environ | {"PYTHONPATH": str(folder.parent), "NUMBA_CACHE_DIR": ""}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment, cwd=folder.parent, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip


@pytest.mark.slow
def test_a_change_beside_the_function_is_seen(folder: Path) -> None:
    (folder / "outer.py").write_text(OUTER)
    (folder / "inner.py").write_text(INNER.format(1))
    assert said(folder) == ["2.0", "0"]
    assert said(folder) == ["2.0", "1"]  # from the disk
    (folder / "inner.py").write_text(INNER.format(2))
    assert said(folder) == ["3.0", "0"]


STATE = """
from typing import NamedTuple
from .compiled import compiled
class {}(NamedTuple):
    x: float
@compiled()
def doubled(state):
    return 2 * state.x
print(doubled({}(1.5)))
"""


def test_a_type_that_has_another_name_now_is_no_hindrance(folder: Path) -> None:
    for name in ("Before", "After"):
        (folder / "state.py").write_text(STATE.format(name, name))
        assert said(folder, "import kernels.state") == ["3.0"]


@pytest.mark.slow
def test_options_of_the_compiler_have_files_of_their_own(folder: Path) -> None:
    (folder / "variants.py").write_text(VARIANTS)
    begin = "from kernels.variants import divider\n"
    numpys = begin + (
        "divide = divider('numpy')\n"
        "print(divide(0.0), sum(divide.stats.cache_hits.values()), divider('numpy') is divide)"
    )
    pythons = begin + (
        "divide = divider()\n"
        "try:\n    print(divide(0.0))\nexcept ZeroDivisionError:\n    print('refused')\n"
        "print(sum(divide.stats.cache_hits.values()), divider(error_model='python') is divide)"
    )
    assert said(folder, numpys) == ["inf", "0", "True"]
    assert said(folder, pythons) == ["refused", "0", "True"]
    assert said(folder, numpys) == ["inf", "1", "True"]
    assert said(folder, pythons) == ["refused", "1", "True"]
