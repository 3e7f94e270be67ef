"""One check in a process of its own: ``python -m benchmarks.gpu.child TARGET REPORT``.

Tests run through pytest where it is installed. They take no fixtures, so that
where it is not, their functions are simply called. The report is written before and after each
test, and what it holds already is not run again: a test that takes its process along costs no
other. After a test that failed the process ends, as an error of CUDA may stay with it.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import SkipTest

from benchmarks.gpu.compiling import CLOCK, watch_numba
from benchmarks.gpu.figures import FIGURES


@dataclass
class Report:
    """What became of the tests, or the one benchmark, of a check.

    Attributes
    ----------
    compiled : seconds, of all processes
    running : the test that has begun and not ended, or ""
    finished : whether all have been run
    """

    passed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    figures: list[str] = field(default_factory=list)
    compiled: float = 0.0
    running: str = ""
    finished: bool = False
    path: str = ""

    @classmethod
    def load(cls, path: Path) -> Report:
        """Return the report of an earlier process, or a new one."""
        fields = json.loads(path.read_text()) if path.exists() else {}
        return cls(**(fields | {"path": str(path)}))

    @property
    def done(self) -> list[str]:
        """The names of what has been run."""
        return [*self.passed, *self.skipped, *self.failed]

    def save(self, running: str = "") -> None:
        """Write it, whole or not at all."""
        self.running = running
        if self.path:
            unfinished = Path(f"{self.path}.unfinished")
            unfinished.write_text(json.dumps(asdict(self)))
            os.replace(unfinished, self.path)


def run_target(target: str, report: Report) -> None:
    """Run what is left of a file of tests, or of a benchmark, and watch what it compiles."""
    watch_numba()
    before, noted = report.compiled, list(report.figures)

    def count() -> None:
        report.figures, report.compiled = [*noted, *FIGURES], before + CLOCK.seconds

    if not target.endswith(".py"):
        module, function = target.split(":")
        if function not in report.done:
            _call(report, function, getattr(importlib.import_module(module), function), count)
        report.finished = True
    elif importlib.util.find_spec("pytest") is not None:
        _run_pytest(report, target, count)
    else:
        call_tests(report, Path(target), count)
    count()
    report.save()


def call_tests(report: Report, path: Path, count: Callable[[], None] = lambda: None) -> None:
    """Call the test functions of a file that have not been run, up to one that fails."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in vars(module).items():
        if name.startswith("test_") and callable(value) and name not in report.done:
            _call(report, name, value, count)
            if name in report.failed:
                return
    report.finished = True


def _call(
    report: Report, name: str, function: Callable[[], Any], count: Callable[[], None]
) -> None:
    report.save(running=name)
    try:
        function()
    except SkipTest as reason:
        report.skipped[name] = str(reason)
    except Exception:
        report.failed[name] = traceback.format_exc()
    else:
        report.passed.append(name)
    count()
    report.save()


def _run_pytest(report: Report, target: str, count: Callable[[], None]) -> None:
    import pytest

    class Recorder:
        def pytest_runtest_logstart(self, nodeid: str) -> None:
            report.save(running=nodeid.rpartition("::")[2])

        def pytest_runtest_logfinish(self) -> None:
            count()
            report.save()

        def pytest_runtest_logreport(self, report: Any) -> None:
            record(report)

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                record(report)

    def record(test_report: Any) -> None:
        name = test_report.nodeid.rpartition("::")[2]
        if test_report.failed:
            report.failed[name] = test_report.longreprtext
        elif test_report.skipped:
            report.skipped[name] = str(test_report.longrepr[2]).removeprefix("Skipped: ")
        elif test_report.when == "call":
            report.passed.append(name)

    # A library's deprecation is no verdict on this GPU: here warnings are no errors. The conftest
    # of all tests imports what these do without, and a machine with a GPU may lack.
    options = ["-q", "-x", "--tb=short", "-W", "default", "-p", "no:cacheprovider"]
    options.append(f"--confcutdir={Path(target).parent}")
    # Deselected by name, as the start of a test's id depends on where pytest was started.
    n_failed = len(report.failed)

    class Left:
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            items[:] = [test for test in items if test.name not in report.done]

    status = pytest.main([*options, target], plugins=[Recorder(), Left()])
    # Whatever else keeps pytest from the tests it has printed, which the other process reads.
    ended_well = status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    report.finished = ended_well and len(report.failed) == n_failed


def main() -> int:
    """Run the check that the command line names, and write its report."""
    target, path = sys.argv[1:]
    report = Report.load(Path(path))
    run_target(target, report)
    for name, reason in report.failed.items():
        print(f"{name}\n{reason}", file=sys.stderr)
    return 0 if report.finished and not report.failed else 1


if __name__ == "__main__":
    sys.exit(main())
