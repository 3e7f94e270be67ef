from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import get_worker
from numba.core.event import Event, EventStatus

from pipelines.run.outcomes import describe, report_compilation, run_measured, without_compilation

UNIT: Any = SimpleNamespace(name="a", cost=1.0)


def test_what_numba_compiles_in_a_task_is_timed():
    from numba import njit

    @njit
    def doubled(x):
        return 2 * x

    first, second = (run_measured(lambda x, task: doubled(x), 3, UNIT) for _ in range(2))
    assert first["result"] == second["result"] == 6
    assert first["compile_seconds"] > 0
    assert second["compile_seconds"] == 0


def test_a_task_that_has_compiled_is_no_longer_said_to():
    def event(kind):
        function = SimpleNamespace(py_func=SimpleNamespace(__module__="pipelines.svm.cpu.path"))
        return Event("numba:compile", kind, {"dispatcher": function})

    counts = list[int]()
    with report_compilation(counts.append) as compilation:
        for kind in "START", "START", "END", "END", "START", "END":  # one within another
            compilation.notify(event(EventStatus[kind]))
    assert counts == [1, 2, 0, 3, 0]


def test_a_task_says_how_much_memory_its_worker_had_meanwhile(one_worker):
    def sample():  # as Dask's monitor does on its own twice a second
        get_worker().monitor.update()

    def works(size):
        def work(shared, task):
            held = b"1" * size
            sample()
            return len(held)

        sample()  # the last of a task is the next one's first
        return run_measured(work, None, SimpleNamespace(name="a"))

    small, large, later = (one_worker.submit(works, n, pure=False).result() for n in (1, 2**28, 2))
    assert large["memory"]["peak_memory"] - small["memory"]["peak_memory"] > 2**27
    assert large["memory"]["peak_memory"] - later["memory"]["peak_memory"] > 2**27
    assert run_measured(lambda shared, task: 1, None, UNIT)["memory"] == {}


def test_code_that_ends_python_ends_its_task_alone():
    def work(shared, task):
        sys.exit(3)

    with pytest.raises(RuntimeError, match=r"ended Python with SystemExit\(3\)"):
        run_measured(work, None, SimpleNamespace(name="a"))


def test_times_of_fits_are_without_what_was_compiled():
    rows = [{"fit_seconds": 8.0, "score_seconds": None}, {"fit_seconds": 2.0}]
    fair = without_compilation(rows, 10.0, 7.5)
    assert [row["fit_seconds"] for row in fair] == pytest.approx([2.0, 0.5])
    assert without_compilation(rows, 10.0, 0.0) is rows


def test_functions_of_ours_are_told_of_while_numba_compiles_them_and_no_more():
    from numba import njit

    @njit
    def ours(x):
        return x + 1

    @njit
    def theirs(x):
        return x + 1

    ours.py_func.__module__ = "pipelines.svm.made_up"
    counts = []
    with report_compilation(counts.append):
        theirs(1), ours(1), ours(1), ours(1.0)
    ours(1j)
    assert counts == [1, 0, 2, 0]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError(), "out of memory"),
        (MemoryError("Out of memory allocating 12,345 bytes"), "allocating 12,345 bytes"),
    ],
)
def test_what_has_no_memory_says_so_and_how_much_it_asked_for(error, status):
    assert describe(error).startswith("out of memory")
    assert describe(error).endswith(status)
