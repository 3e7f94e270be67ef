"""The start of the path solver: what is known of compiled code without numba, and what is begun."""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import time
from signal import SIGTERM

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.svm import SVC

from pipelines.svm import compiled
from pipelines.svm.cpu import first_use
from pipelines.svm.cpu.fit import fit_path
from pipelines.svm.cpu.newton import _steps
from pipelines.svm.cpu.small_pairs import _walk_pairs
from pipelines.svm.cpu.walk import walk_easily

TAG = f"py{sys.version_info[0]}{sys.version_info[1]}"
BOTH = {"two": load_breast_cancer, "three": load_wine}


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty folder of numba's, and background processes where they are wanted."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(first_use.SWITCH, "background")
    first_use.kept_in().mkdir()
    return first_use.kept_in()


@pytest.fixture
def begun(cache, monkeypatch, tmp_path):
    """Background processes, which in place of compiling write their niceness, and wait."""
    written, go_on = tmp_path / "niceness", tmp_path / "go-on"
    program = (
        f"import os, pathlib, time; os.nice(19)\n"
        f"pathlib.Path({str(written)!r}).write_text(str(os.nice(0)))\n"
        f"while not os.path.exists({str(go_on)!r}): time.sleep(0.01)\n"
    )
    monkeypatch.setattr(first_use, "PROGRAM", program)
    monkeypatch.setattr(first_use, "_processes", [])
    first_use.compile_meanwhile.cache_clear()
    yield {"written": written, "go_on": go_on}
    go_on.touch()
    for process in first_use._processes:
        assert process.wait(60) in (0, -SIGTERM)
    first_use.compile_meanwhile.cache_clear()
    first_use.compile_here.cache_clear()


def index_of(name, stamp):
    return f"numba 0.65 {stamp}".encode()


def test_compiled_code_is_that_of_these_sources(cache):
    current = "".join(compiled._digest(folder) for folder in first_use.SOURCES)
    for name in first_use.ENTRIES:
        assert not first_use.is_compiled()
        (cache / f"{name}-1.{TAG}.nbi").write_bytes(index_of(name, current))
    assert first_use.is_compiled()
    (cache / f"{name}-1.{TAG}.nbi").write_bytes(index_of(name, "of an older version"))
    assert not first_use.is_compiled()


def test_the_entries_are_functions_of_ours_and_kept_where_numba_keeps_them():
    names = []
    for function in (walk_easily, _walk_pairs, _steps):
        implementation = function._cache._impl
        assert implementation.locator.get_cache_path() == str(first_use.kept_in())
        assert implementation.filename_base.endswith(f".{TAG}")
        names.append(implementation.filename_base.rsplit("-", 1)[0])
    assert tuple(names) == first_use.ENTRIES


def test_without_a_folder_of_ones_own_code_is_kept_beside_the_sources_or_at_home(
    monkeypatch, tmp_path
):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert first_use.kept_in() == first_use.FOLDER / "__pycache__"
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert first_use.kept_in().parent == tmp_path / "numba"


@pytest.fixture
def messages(monkeypatch):
    """What is logged; taken at the logger, as Dask's clusters silence the handlers of a process."""
    messages = list[str]()
    monkeypatch.setattr(logging.getLogger(first_use.__name__), "warning", messages.append)
    return messages


def test_one_process_of_low_priority_compiles_and_it_is_said_once(begun, messages):
    first_use.compile_meanwhile()
    first_use.compile_meanwhile()
    first_use.compile_meanwhile.cache_clear()  # as another process would
    first_use.compile_meanwhile()
    assert len(first_use._processes) == 1
    assert [message.count("background") for message in messages] == [1, 1]
    deadline = time.monotonic() + 60
    while not (begun["written"].exists() and begun["written"].read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert begun["written"].read_text() == "19"


def test_the_next_begins_when_the_last_has_ended(begun):
    begun["go_on"].touch()
    first_use.compile_meanwhile()
    assert first_use._processes[0].wait(60) == 0
    first_use.compile_meanwhile.cache_clear()
    first_use.compile_meanwhile()
    assert len(first_use._processes) == 2


@pytest.mark.parametrize("why", ["switched off", "no folder", "no interpreter"])
def test_where_none_can_be_begun_nothing_is_said(
    begun,
    why,
    monkeypatch,
    messages,
):
    if why == "switched off":
        monkeypatch.setenv(first_use.SWITCH, "now")
    elif why == "no folder":
        monkeypatch.setenv("NUMBA_CACHE_DIR", "/dev/null/none")
    else:
        monkeypatch.setattr(sys, "executable", "/dev/null/python")
    first_use.compile_meanwhile()
    assert not first_use._processes
    assert not messages


def test_a_lock_that_another_has_is_left_alone(begun, cache):
    with (cache / first_use.LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first_use.compile_meanwhile()
    assert not first_use._processes


@pytest.mark.parametrize("host", ["this", "another"])
def test_who_needs_the_path_solver_ends_what_compiles_it_slowly_on_this_host(
    host, begun, monkeypatch
):
    first_use.compile_meanwhile()
    (process,) = first_use._processes
    if host == "another":  # that shares the folder: there the number is another process's
        monkeypatch.setattr(first_use, "gethostname", lambda: "elsewhere")
    first_use.compile_here.cache_clear()
    first_use.compile_here()
    if host == "this":
        assert process.wait(60) == -SIGTERM
    else:
        assert process.poll() is None


def test_a_process_that_has_ended_is_left_alone(begun, monkeypatch):
    begun["go_on"].touch()
    first_use.compile_meanwhile()
    assert first_use._processes[0].wait(60) == 0
    monkeypatch.setattr(os, "kill", None)
    first_use.compile_here.cache_clear()
    first_use.compile_here()


def fit_both(monkeypatch, name, start=10.0, **options):
    """The same model, where the path solver has begun and where it would take so long to."""
    X, y = BOTH[name](return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    by_path = fit_path(X, y, 1.0, 0.1, tol=1e-6, **options)
    monkeypatch.setenv(first_use.SWITCH, "background")
    monkeypatch.setattr(first_use, "seconds_to_start", lambda: start)
    monkeypatch.setattr(first_use, "compile_meanwhile", lambda: None)
    return by_path, fit_path(X, y, 1.0, 0.1, tol=1e-6, **options)


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_fit_by_svc_is_the_same_model(name, class_weight, monkeypatch):
    by_path, by_svc = fit_both(monkeypatch, name, class_weight=class_weight)
    assert np.isnan(by_svc.objective).all()  # that of the path solver is known
    assert not np.isnan(by_path.objective).any()
    np.testing.assert_array_equal(by_svc.support, by_path.support)
    np.testing.assert_array_equal(by_svc.n_support, by_path.n_support)
    np.testing.assert_allclose(by_svc.dual_coef, by_path.dual_coef, atol=1e-4)
    np.testing.assert_allclose(by_svc.intercept, by_path.intercept, atol=1e-4)
    assert by_svc.n_iterations.shape == by_svc.status.shape == by_path.status.shape


@pytest.mark.parametrize(
    ("start", "options"),
    [
        (0.0, {}),
        (6e-3, {}),  # less than a fit takes, or than its iterations do
        (10.0, {"max_iter": 10_000}),
        (10.0, {"decision": "ovr"}),
        (10.0, {"class_weight": {0: 2.0}}),
    ],
)
def test_what_svc_is_told_otherwise_or_takes_long_over_the_path_solver_fits(
    start, options, monkeypatch
):
    monkeypatch.setattr(first_use, "svc_seconds", lambda *_: 5e-3)
    monkeypatch.setattr(first_use, "ITERATION_SECONDS", 1e-3 if start == 6e-3 else 4e-7)
    _, second = fit_both(monkeypatch, "three", start, **options)
    assert not np.isnan(second.objective).any()


def test_iterations_are_of_libsvm(monkeypatch):
    X, y = BOTH["two"](return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    _, by_svc = fit_both(monkeypatch, "two")
    assert by_svc.n_iterations.sum() == SVC(C=1.0, gamma=0.1, tol=1e-6).fit(X, y).n_iter_.sum()
