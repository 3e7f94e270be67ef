"""What numba keeps on disk is used again, and not after a source beside it has changed."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from numba.core.event import end_event, start_event

import pipelines.svm.compiled as compiled_module
from pipelines.run.outcomes import report_compilation

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
def folder(tmp_path):
    """A package with our compiler in it."""
    package = tmp_path / "kernels"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(compiled_module.__file__, package)
    return package


def ran(folder, program):
    environment = os.environ | {"PYTHONPATH": str(folder.parent), "NUMBA_CACHE_DIR": ""}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=True,
    )


def output_of(folder, program="import kernels.outer"):
    return ran(folder, program).stdout.split()


@pytest.mark.slow
def test_a_change_beside_the_function_is_seen(folder):
    (folder / "outer.py").write_text(OUTER)
    (folder / "inner.py").write_text(INNER.format(1))
    assert output_of(folder) == ["2.0", "0"]
    assert output_of(folder) == ["2.0", "1"]  # from the disk
    (folder / "inner.py").write_text(INNER.format(2))
    assert output_of(folder) == ["3.0", "0"]


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


@pytest.mark.slow
def test_a_type_that_has_another_name_now_is_no_hindrance(folder):
    for name in ("Before", "After"):
        (folder / "state.py").write_text(STATE.format(name, name))
        assert output_of(folder, "import kernels.state") == ["3.0"]


@pytest.mark.slow
def test_options_of_the_compiler_have_files_of_their_own(folder):
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
    assert output_of(folder, numpys) == ["inf", "0", "True"]
    assert output_of(folder, pythons) == ["refused", "0", "True"]
    assert output_of(folder, numpys) == ["inf", "1", "True"]
    assert output_of(folder, pythons) == ["refused", "1", "True"]


FULL = """
import logging, resource
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
import kernels.outer
"""


def test_a_folder_in_which_nothing_can_be_kept_stops_no_fit(folder):
    (folder / "outer.py").write_text(OUTER)
    (folder / "inner.py").write_text(INNER.format(1))
    full = ran(folder, FULL.format(0))
    assert full.stdout.split() == ["2.0", "0"]
    (line,) = full.stderr.splitlines()
    assert line.startswith("the compiled solver cannot be kept on disk ([Errno 27] File too large)")
    assert output_of(folder) == ["2.0", "0"]
    for index in (folder / "__pycache__").glob("*.nbi"):
        index.write_bytes(b"")
    damaged = ran(folder, FULL.format(-1))
    assert damaged.stdout.split() == ["2.0", "0"]
    assert "Ran out of input" in damaged.stderr


SLOW = """
from .compiled import compiled
@compiled()
def slow(x):
    return x + 1
"""
TOGETHER = """
import sys, time
from pathlib import Path
from numba.core.event import Listener, register
from kernels.slow import slow
class Compiling(Listener):
    def on_start(self, event):
        print("compiles", flush=True)
        Path("compiling").touch()
        while Path("slow").exists():
            time.sleep(0.01)
    def on_end(self, event):
        pass
register("numba:compile", Compiling())
print("ready", flush=True)
sys.stdin.readline()
print(slow(1.0))
"""


@pytest.fixture
def start(folder):
    """A function that starts a process which compiles when told to, until ``slow`` is no more."""
    (folder / "slow.py").write_text(SLOW)
    (folder.parent / "slow").touch()
    processes = list[subprocess.Popen[str]]()

    def started():
        process = subprocess.Popen(
            [sys.executable, "-c", TOGETHER],
            env=os.environ | {"PYTHONPATH": str(folder.parent), "NUMBA_CACHE_DIR": ""},
            cwd=folder.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def tell(process):
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def wait_for(path):
    while not path.exists():
        time.sleep(0.01)


def test_of_processes_that_begin_together_one_compiles(folder, start):
    processes = [start() for _ in range(3)]
    for process in processes:
        tell(process)
    wait_for(folder.parent / "compiling")
    time.sleep(0.5)  # for the others to come as far; where they do not, they find it kept
    (folder.parent / "slow").unlink()
    outputs = sorted(process.communicate()[0] for process in processes)
    assert outputs == ["2.0\n", "2.0\n", "compiles\n2.0\n"]


def test_a_process_that_dies_while_it_compiles_holds_up_no_other(folder, start):
    first, second = start(), start()
    tell(first)
    wait_for(folder.parent / "compiling")
    tell(second)
    time.sleep(0.2)
    first.kill()
    (folder.parent / "slow").unlink()
    assert second.communicate()[0] == "compiles\n2.0\n"


def test_a_file_system_without_locks_and_a_process_that_stands_still_stop_no_fit(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(compiled_module, "SECONDS_TO_WAIT", 0.1)
    path = tmp_path / "a.lock"
    held = compiled_module._locked(path)
    assert held is not None
    assert compiled_module._locked(path) is None
    compiled_module._unlock(held)
    again = compiled_module._locked(path)
    assert again is not None
    compiled_module._unlock(again)

    def flock(file, what):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(compiled_module.fcntl, "flock", flock)
    assert compiled_module._locked(path) is None
    compiled_module._unlock(path.open("ab"))
    assert compiled_module._locked(path / "no folder") is None


FIT = """
import numpy as np
from pipelines import PathSVC
X = np.random.default_rng(0).normal(size=(60, 2))
for _ in range(2):
    PathSVC().fit(X, X[:, 0] > 0)
"""


@pytest.mark.slow
def test_a_first_fit_says_that_it_compiles_and_a_second_process_has_nothing_to_say(
    tmp_path,
):
    """It takes seconds on any machine of today."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for expected in (["compiling code for this problem, kept for later runs"], []):
        done = subprocess.run(
            [sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stderr.splitlines() == expected


def compiling(heard, longest):
    """As numba says that it compiles, until it is heard of or for some seconds."""
    function = SimpleNamespace(__module__="pipelines.svm.cpu.walk")
    data = {"dispatcher": SimpleNamespace(py_func=function)}
    start_event("numba:compile", data)
    heard.wait(longest)
    end_event("numba:compile", data)


@pytest.fixture
def heard(monkeypatch):
    """Set when the announcement is logged, whatever earlier tests left of it and of its logger."""
    event, handler = threading.Event(), logging.Handler()
    logger = logging.getLogger(compiled_module.__name__)
    for name, value in (("handlers", [handler]), ("filters", []), ("disabled", False)):
        monkeypatch.setattr(logger, name, value)
    monkeypatch.setattr(handler, "emit", lambda record: event.set())
    monkeypatch.setattr(logging.root.manager, "disable", logging.NOTSET)
    # numba does not tell the end of a compilation that an earlier test interrupted.
    for name, value in (("_is_announced", False), ("_depth", 0), ("_timer", None)):
        monkeypatch.setattr(compiled_module.announcement, name, value)
    logger.setLevel(logging.WARNING)
    yield event
    logger.setLevel(logging.NOTSET)


def test_compiling_is_said_once_and_only_where_it_takes_long(heard, monkeypatch):
    compiling(heard, 0.0)
    monkeypatch.setattr(compiled_module, "SECONDS_OF_SILENCE", 0.01)
    assert not heard.is_set()
    compiling(heard, 60.0)
    assert heard.is_set()
    heard.clear()
    compiling(heard, 0.2)
    assert not heard.is_set()


def test_what_shows_its_progress_says_it_itself(heard, monkeypatch):
    monkeypatch.setattr(compiled_module, "SECONDS_OF_SILENCE", 0.01)
    reported = []
    with report_compilation(reported.append):
        compiling(heard, 0.2)
    assert reported == [1, 0]  # and that it has ended
    assert not heard.is_set()
