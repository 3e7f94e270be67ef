"""One check in a process of its own: ``python -m benchmarks.gpu.child TARGET REPORT``.

Tests run through pytest where it is installed. They take no fixtures, so that
where it is not, their functions are simply called.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
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
    """What became of the tests, or the one benchmark, of a check; ``compiled`` in seconds."""

    passed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    figures: list[str] = field(default_factory=list)
    compiled: float = 0.0


def run_target(target: str) -> Report:
    """Run a file of tests, or the function of a benchmark, and watch what it compiles."""
    report = Report()
    watch_numba()
    if not target.endswith(".py"):
        module, function = target.split(":")
        _call(report, function, getattr(importlib.import_module(module), function))
    elif importlib.util.find_spec("pytest") is not None:
        _run_pytest(report, target)
    else:
        call_tests(report, Path(target))
    report.figures, report.compiled = list(FIGURES), CLOCK.seconds
    return report


def call_tests(report: Report, path: Path) -> None:
    """Call every test function of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in vars(module).items():
        if name.startswith("test_") and callable(value):
            _call(report, name, value)


def _call(report: Report, name: str, function: Callable[[], Any]) -> None:
    try:
        function()
    except SkipTest as reason:
        report.skipped[name] = str(reason)
    except Exception:
        report.failed[name] = traceback.format_exc()
    else:
        report.passed.append(name)


def _run_pytest(report: Report, target: str) -> None:
    import pytest

    class Recorder:
        def pytest_runtest_logreport(self, report: Any) -> None:
            record(report)

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                record(report)

    def record(one: Any) -> None:
        name = one.nodeid.rpartition("::")[2]
        if one.failed:
            report.failed[name] = one.longreprtext
        elif one.skipped:
            report.skipped[name] = str(one.longrepr[2]).removeprefix("Skipped: ")
        elif one.when == "call":
            report.passed.append(name)

    # A library's deprecation is no verdict on this GPU: here warnings are no errors.
    options = ["-q", "--tb=short", "-W", "default", "-p", "no:cacheprovider"]
    status = pytest.main([*options, target], plugins=[Recorder()])
    if status != 0 and not report.failed:
        report.failed[target] = f"pytest ended with status {int(status)}"


def main() -> int:
    """Run the check that the command line names, and write its report."""
    target, path = sys.argv[1:]
    report = run_target(target)
    Path(path).write_text(json.dumps(asdict(report)))
    for name, reason in report.failed.items():
        print(f"{name}\n{reason}", file=sys.stderr)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
