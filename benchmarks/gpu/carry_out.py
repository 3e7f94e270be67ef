"""Carry out checks one by one, each in a process of its own that is ended in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.checks import GPU, Check, missing
from benchmarks.gpu.child import Report
from benchmarks.keep import slug

ROOT = Path(__file__).resolve().parents[2]
PASSED, FAILED, NOT_RUN, BEGUN = "passed", "failed", "not run", "begun"


@dataclass(frozen=True)
class Outcome:
    """What became of a check.

    Attributes
    ----------
    check : Check
    status : {"passed", "failed", "not run", "begun"}
    seconds : float
        All of it, the start of its process too.
    compiled : float
        Seconds of these that went into compiling and warming up.
    figure : str
        What the check found worth showing.
    reason : str
        Why it failed or was not run; may have many lines. Where its tests are told, if begun.
    """

    check: Check
    status: str
    seconds: float = 0.0
    compiled: float = 0.0
    figure: str = ""
    reason: str = ""


def carry_out(
    checks: Sequence[Check], seconds: float, folder: Path, echo: Callable[[str], None] = print
) -> Iterator[Outcome]:
    """Run ``checks`` in turn with this Python; all of them end within ``seconds``.

    Yields what became of each, and before that of one that runs that it has begun: what it
    leaves where the machine is taken away. A report of it, by test, is in the folder until it
    is done: called again, it goes on with the tests that are left.
    """
    end = time.monotonic() + seconds
    for check in checks:
        reason = missing(check.needs)
        seconds_left = end - time.monotonic()
        if reason is None and seconds_left < 1:
            reason = f"its turn did not come within {seconds:.0f} s"
        if reason is not None:
            outcome = Outcome(check, NOT_RUN, reason=reason)
        else:
            needs = ", ".join((GPU, *check.needs))
            echo(f"begins   {check.planned:4} s planned  {check.name}: needs {needs}")
            report = folder / f"{slug(check.name)}.json"
            yield Outcome(check, BEGUN, reason=f"its tests so far are in {report}")
            outcome = _run(check, end, report)
        echo(
            f"{outcome.status:8} {outcome.seconds:6.1f} s, {outcome.compiled:.1f} of them compiling"
            f"  {check.name}{_ending(outcome)}"
        )
        yield outcome


def _ending(outcome: Outcome) -> str:
    text = outcome.reason if outcome.status == NOT_RUN else outcome.figure
    return f": {text}" if text else ""


def _run(check: Check, end: float, path: Path) -> Outcome:
    """Run a check in a process, and what is left of it in the next after a test that failed.

    A test that takes its process along, or does not end in time, is one that failed.
    """
    started = time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.gpu.child", check.target, str(path)]
    report = Report()
    while not report.finished and (seconds_left := end - time.monotonic()) > 0:
        n_done = len(report.done)
        ending = _run_process(command, min(check.limit, seconds_left))
        report = Report.load(path)
        if report.running:
            report.failed[report.running] = ending
            report.save()
        if not report.finished and len(report.done) == n_done:  # it did not come to a test
            report.failed[check.target] = ending
            break
    if not report.finished and not report.failed:
        report.failed[check.target] = "not all of its tests had their turn"
    path.unlink(missing_ok=True)
    return judge(check, time.monotonic() - started, asdict(report))


def _run_process(command: list[str], limit: float) -> str:
    """Run a command, end it and all it started after ``limit`` seconds; how it ended."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
        ending = f"ended with status {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        ending = f"not done within {limit:.0f} s"
    except BaseException:  # Ctrl-C: its session is not ours, so it would live on
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return f"{ending}\n{output}"


def judge(check: Check, seconds: float, report: dict[str, Any]) -> Outcome:
    """The outcome that a child's report amounts to."""
    figure = "; ".join(report["figures"])
    outcome = partial(Outcome, check, seconds=seconds, compiled=report["compiled"], figure=figure)
    skipped = "; ".join(f"{name}: {reason}" for name, reason in report["skipped"].items())
    if report["failed"]:
        reason = "\n".join(f"{name}: {text}" for name, text in report["failed"].items())
        return outcome(status=FAILED, reason=reason)
    if not report["passed"]:
        return outcome(status=NOT_RUN, reason=skipped or "no test in it")
    return outcome(status=PASSED, reason=skipped)
