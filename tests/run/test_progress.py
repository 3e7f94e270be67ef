from __future__ import annotations

import builtins
import errno
import io
import sys
import threading
from types import SimpleNamespace

import pytest

from cluster_setup.workers import Presence
from pipelines.run import progress
from pipelines.run.progress import RunProgress, show_progress, task_label, time_text


def task(name, cost=1.0):
    return SimpleNamespace(name=name, cost=cost)


@pytest.fixture
def now(monkeypatch):
    """What the clock shows, in seconds; nobody looks every second."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 3600)
    return now


def test_lines_count_tasks_failures_workers_and_the_time_left(now, capsys):
    with show_progress(3, cost=10.0, quiet=False, presence=lambda: Presence(1)) as shown:
        now[0] += 5
        shown.advance(task("a", 1.0), failed=False)  # nothing yet: ten seconds between lines
        assert capsys.readouterr().out == ""
        now[0] += 15
        shown.advance(task("b", 4.0), failed=True)  # half of the cost in 20 s
        line = capsys.readouterr().out
        assert line == "progress   50 %, 2 of 3 tasks, 1 failed, 1 worker, 20 s, about 20 s left\n"
        shown.best("best so far 3 % error")
        shown.advance(task("c", 5.0), failed=False)
        assert capsys.readouterr().out == (
            "progress   100 %, 3 of 3 tasks, 1 failed, 1 worker, 20 s, best so far 3 % error\n"
        )


def test_no_time_is_told_from_first_tasks_that_may_be_compilation(now, capsys):
    with show_progress(40, cost=40.0, quiet=False, presence=lambda: Presence(2)) as shown:
        for name in "abc":
            now[0] += 20
            shown.advance(task(name), failed=False)
    assert capsys.readouterr().out == (
        "progress   2 %, 1 of 40 tasks, 2 workers, 20 s\n"
        "progress   5 %, 2 of 40 tasks, 2 workers, 40 s\n"
        "progress   7 %, 3 of 40 tasks, 2 workers, 1:00 min, about 12:20 min left\n"
    )


def test_what_the_first_tasks_tell_of_themselves_is_no_time_yet(now):
    # Twelve tasks of networks on two workers: each tells of the most epochs, and ends long before.
    counts = RunProgress(12, 12.0, lambda: Presence(2))
    now[0] += 10
    counts.update(task("a"), 0.02)
    counts.update(task("b"), 0.02)
    assert counts.times == "10 s"
    now[0] += 90
    counts.advance(task("a"), failed=False)
    assert counts.times == "1:40 min"
    counts.update(task("b"), 0.5)
    assert counts.times == "1:40 min, about 11:40 min left"  # an eighth is done
    now[0] += 20
    counts.advance(task("b"), failed=False)
    counts.advance(task("c"), failed=False)
    assert counts.times == "2:00 min, about 6:00 min left"


def test_a_task_that_tells_of_itself_counts_by_its_share(now):
    counts = RunProgress(2, 10.0)
    now[0] += 15
    assert (counts.percent, counts.times, counts.at_work) == (0, "15 s", "")
    counts.update(task("slow", 8.0), 0.25)
    counts.update(task("quick", 2.0), 0.5)
    counts.update(task("slow", 8.0), 0.5)
    assert (counts.percent, counts.times) == (50, "15 s, about 15 s left")
    assert counts.at_work == "slow: 50 %, 1 more"
    counts.advance(task("slow", 8.0), failed=False)
    assert (counts.percent, counts.at_work) == (90, "quick: 50 %")
    counts.advance(task("quick", 2.0), failed=False)
    assert (counts.percent, counts.times, counts.at_work) == (100, "15 s", "")


def test_where_tasks_may_follow_that_are_not_known_the_time_left_is_the_least(
    now,
):
    counts = RunProgress()
    counts.expect(4, 4.0, at_least=True)
    for name in "ab":
        counts.advance(task(name), failed=False)
    now[0] += 20
    assert counts.times == "20 s, at least 20 s left"
    counts.expect(4, 4.0, 15.0, at_least=True)  # the time ends before
    assert counts.times == "20 s, about 15 s left"
    counts.expect(6, 6.0)
    assert counts.times == "20 s, about 40 s left"


def test_no_time_is_told_while_nobody_works_and_that_time_does_not_count(now):
    present = [Presence(2, 2)]
    counts = RunProgress(4, 4.0, lambda: present[0])

    def look(seconds):
        now[0] += seconds
        counts.look_for_workers()
        return counts.tasks, counts.times

    for name in "abc":
        counts.advance(task(name), failed=False)
    assert look(30) == ("3 of 4 tasks, 2 workers", "30 s, about 10 s left")
    present[0] = Presence(0, 2, "2 jobs waiting (PartitionDown)")
    deserted = "3 of 4 tasks, 0 of 2 workers, 2 jobs waiting (PartitionDown)"
    assert [look(1), look(100)] == [(deserted, "31 s"), (deserted, "2:11 min")]
    present[0] = Presence(1, 2)
    assert look(1) == ("3 of 4 tasks, 1 of 2 workers", "2:12 min, about 10 s left")


def test_rounding_does_not_make_a_run_look_finished(now):
    counts = RunProgress(1, 1.0)
    counts.update(task("a"), 1.0)
    assert counts.percent == 99


@pytest.mark.parametrize("is_terminal", [False, True])
def test_it_is_shown_by_the_clock_where_no_task_ends(is_terminal, monkeypatch):
    shown_again = threading.Event()

    class Output(io.StringIO):
        def isatty(self):
            return is_terminal

        def write(self, text):
            if threading.current_thread() is not threading.main_thread() and "0 of 1" in text:
                shown_again.set()
            return super().write(text)

    monkeypatch.setattr(sys, "stdout", Output())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 0.01)
    monkeypatch.setattr(progress, "SECONDS_OF_SILENCE", 0.02)

    def ask():
        raise RuntimeError("the client is closed")

    with show_progress(1, cost=1.0, quiet=False, presence=ask):
        shown_again.wait()


def test_a_scheduler_that_does_not_answer_stops_nothing(now, capsys):
    def ask():
        raise TimeoutError

    with show_progress(1, cost=1.0, quiet=False, presence=ask) as shown:
        shown.advance(task("a"), failed=False)
    assert capsys.readouterr().out == "progress   100 %, 1 of 1 tasks, 0 workers, 0.0 s\n"


def terminal_of(monkeypatch, columns):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    return terminal


@pytest.mark.parametrize("columns", [60, 100])
def test_a_terminal_gets_a_bar_of_whole_lines(columns, now, monkeypatch):
    terminal = terminal_of(monkeypatch, columns)
    with show_progress(2, cost=4.0, quiet=False, presence=lambda: Presence(12)) as shown:
        now[0] += 3725
        shown.update(task("svm-gamma=0.000123457 5 folds 24 C", 3.0), 0.5)
        shown.best("best so far 12.34 % error on 5 folds, C = 2.68e+03, gamma = 0.000123")
        shown.advance(task("b", 1.0), failed=False)
        drawn = terminal.getvalue().rsplit("progress", 1)[1].splitlines()
    assert "62 %  1:02 h, about 37:15 min left" in drawn[0]
    assert "1 of 2 tasks, 12 workers" in drawn[1]
    assert "svm-gamma=0.000123457 5 folds 24 C: 50 %" in drawn[2]
    assert "best so far 12.34 % error on 5 folds" in drawn[3]
    assert all(len(line) <= columns for line in drawn[1:4])
    assert "100 %" not in terminal.getvalue()


def test_compiling_has_a_line_of_its_own_until_the_fits_begin(now, monkeypatch):
    terminal = terminal_of(monkeypatch, 100)
    with show_progress(2, cost=4.0, quiet=False, presence=lambda: Presence(1)) as shown:
        shown.update(task("a", 3.0), 0.0, compiled=12)
        assert "compiling (12 functions so far), kept for later runs" in terminal.getvalue()
        shown.update(task("a", 3.0), 0.0, compiled=0)
        now[0] += 1
        shown.show()
        drawn = terminal.getvalue().rsplit("progress", 1)[1]
        assert "compiling" not in drawn
        assert "a: 0 %" in drawn  # it solves, and tells nothing until its first rows
        shown.update(task("a", 3.0), 0.0, compiled=13)
        assert "compiling (13" in terminal.getvalue().rsplit("progress", 1)[1]
        shown.advance(task("b", 1.0), failed=False)
        assert "compiling" not in terminal.getvalue().rsplit("progress", 1)[1]


def test_without_a_terminal_compiling_is_said_once(now, capsys):
    with show_progress(2, cost=4.0, quiet=False) as shown:
        for compiled in (1, 7, 0, 3):
            shown.update(task("a", 3.0), 0.0, compiled=compiled)
    line = "compiling  code for this problem (kept on this machine for later runs)\n"
    assert capsys.readouterr().out.count(line) == 1


def test_a_terminal_that_goes_away_ends_the_bar_not_the_run(
    monkeypatch,
):
    terminal = terminal_of(monkeypatch, 100)

    def hang_up(text):
        raise OSError(errno.EIO, "Input/output error")

    done = []
    with show_progress(3, cost=3.0, quiet=False) as shown:
        shown.advance(task("a"), failed=False)
        monkeypatch.setattr(terminal, "write", hang_up)
        for name in "bc":
            shown.advance(task(name), failed=False)
            done.append(name)
    assert done == ["b", "c"]


def test_a_notebook_gets_a_widget(monkeypatch):
    ipywidgets = pytest.importorskip(
        "ipywidgets", reason="ipywidgets comes with the extra notebooks"
    )
    import ipykernel  # noqa: F401  its presence tells a notebook's kernel
    import IPython.display

    shell = type("ZMQInteractiveShell", (), {})()
    shown = []
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setattr(IPython.display, "display", lambda widget, **how: shown.append(widget))
    with show_progress(2, cost=4.0, quiet=False) as shown_there:
        shown_there.advance(task("a"), failed=True)
    assert isinstance(shown[0], ipywidgets.Output)
    texts = [widget._repr_mimebundle_([], [])["text/plain"] for widget in shown[1:]]
    assert any("25 %" in text and "1 of 2 tasks, 1 failed" in text for text in texts)


@pytest.mark.parametrize(("quiet", "n_tasks"), [(True, 3), (False, 0)])
def test_quiet_and_empty_runs_say_nothing(quiet, n_tasks, capsys):
    with show_progress(n_tasks, cost=1.0, quiet=quiet) as shown:
        shown.advance(task("a"), failed=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.4 s"), (42.4, "42 s"), (185.0, "3:05 min"), (7800.0, "2:10 h"), (59.6, "1:00 min")],
)
def test_a_clock_is_read_by_people(seconds, text):
    assert time_text(seconds) == text


def test_by_the_clock_nothing_is_shown_before_the_silence_was_long(now, capsys):
    lines = progress._Lines(1, 1.0, lambda: Presence(1))
    now[0] += progress.SECONDS_OF_SILENCE - 1
    lines.show()
    assert capsys.readouterr().out == ""
    now[0] += 1
    lines.show()
    assert capsys.readouterr().out.startswith("progress   0 %")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nn-member=1 candidate=5 5 folds", "member 1, candidate 5, 5 folds"),
        ("conv-outer=0 member=1 candidate=5 fold=2", "outer 0, member 1, candidate 5, fold 2"),
        ("refit-member=0 to 1", "member 0, to 1"),
        ("svm-gamma=0.000123457 5 folds", "svm-gamma=0.000123457 5 folds"),
        ("a", "a"),
    ],
)
def test_a_task_has_a_name_in_words(name, words):
    assert task_label(name) == words


def test_an_import_on_a_worker_is_told_until_the_task_tells_of_its_fits(now, monkeypatch):
    terminal = terminal_of(monkeypatch, 100)
    with show_progress(2, cost=4.0, quiet=False, presence=lambda: Presence(2)) as shown:
        for name in "ab":
            shown.update(task(name), 0.0, note="importing torch")
        drawn = terminal.getvalue().rsplit("progress", 1)[1]
        assert drawn.count("importing torch") == 1
        shown.update(task("a"), 0.5)
        shown.advance(task("b"), failed=False)
        assert "importing torch" not in terminal.getvalue().rsplit("progress", 1)[1]


def test_without_a_terminal_an_import_is_said_once(now, capsys):
    with show_progress(2, cost=4.0, quiet=False) as shown:
        for name in "ab":
            shown.update(task(name), 0.0, note="importing torch")
    assert capsys.readouterr().out == "importing  torch\n"
