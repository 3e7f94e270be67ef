from __future__ import annotations

import builtins
import errno
import io
import sys
from typing import Any

import pytest

from pipelines.run import progress
from pipelines.run.progress import clock, show_progress


def test_lines_count_units_failures_workers_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with show_progress(3, cost=10.0, quiet=False, n_workers=lambda: 1) as shown:
        now[0] += 5
        shown.advance(1.0, failed=False)  # nothing yet: ten seconds between lines
        assert capsys.readouterr().out == ""
        now[0] += 15
        shown.advance(4.0, failed=True)  # half of the cost in 20 s
        line = capsys.readouterr().out
        assert line == "progress   2 of 3 units, 1 failed, 1 worker, about 20 s left\n"
        shown.advance(5.0, failed=False)
        assert capsys.readouterr().out == "progress   3 of 3 units, 1 failed, 1 worker\n"


def test_no_time_is_told_from_first_units_that_may_be_compilation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with show_progress(40, cost=40.0, quiet=False, n_workers=lambda: 2) as shown:
        for seconds in (20, 20, 20):
            now[0] += seconds
            shown.advance(1.0, failed=False)
    assert capsys.readouterr().out == (
        "progress   1 of 40 units, 2 workers\n"
        "progress   2 of 40 units, 2 workers\n"
        "progress   3 of 40 units, 2 workers, about 12:20 min left\n"
    )


def test_a_scheduler_that_does_not_answer_stops_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def ask() -> int:
        raise TimeoutError

    with show_progress(1, cost=1.0, quiet=False, n_workers=ask) as shown:
        shown.advance(1.0, failed=False)
    assert capsys.readouterr().out == "progress   1 of 1 units, 0 workers\n"


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "100")
    with show_progress(2, cost=4.0, quiet=False) as shown:
        shown.advance(1.0, failed=False)
        shown.advance(3.0, failed=False)
    assert "100 %  2 of 2 units" in terminal.getvalue()


def test_a_terminal_that_goes_away_ends_the_bar_not_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")

    def hang_up(text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")

    done = []
    with show_progress(3, cost=3.0, quiet=False) as shown:
        shown.advance(1.0, failed=False)
        monkeypatch.setattr(terminal, "write", hang_up)
        for unit in range(2):
            shown.advance(1.0, failed=False)
            done.append(unit)
    assert done == [0, 1]


def test_a_notebook_gets_a_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    ipywidgets = pytest.importorskip(
        "ipywidgets", reason="ipywidgets comes with the extra notebooks"
    )
    import ipykernel  # noqa: F401  its presence tells a notebook's kernel
    import IPython.display

    shell = type("ZMQInteractiveShell", (), {})()
    shown: list[Any] = []
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setattr(IPython.display, "display", lambda one, **how: shown.append(one))
    with show_progress(2, cost=4.0, quiet=False) as progress:
        progress.advance(1.0, failed=True)
    assert isinstance(shown[0], ipywidgets.Output)
    texts = [one._repr_mimebundle_([], [])["text/plain"] for one in shown[1:]]
    assert any("25 %  1 of 2 units, 1 failed" in text for text in texts)


@pytest.mark.parametrize(("quiet", "n_units"), [(True, 3), (False, 0)])
def test_quiet_and_empty_runs_say_nothing(
    quiet: bool, n_units: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with show_progress(n_units, cost=1.0, quiet=quiet) as shown:
        shown.advance(1.0, failed=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.4 s"), (42.4, "42 s"), (185.0, "3:05 min"), (7800.0, "2:10 h"), (59.6, "1:00 min")],
)
def test_a_clock_is_read_by_people(seconds: float, text: str) -> None:
    assert clock(seconds) == text
