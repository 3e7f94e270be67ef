from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipelines.console import echo, phase, print_error, take_any_terminal, wrap_line


def test_an_error_is_one_line(capsys):
    print_error("svm_grid", "first\n  second")
    assert capsys.readouterr().err == "svm-grid: first second\n"


def test_no_control_character_reaches_the_terminal(capsys):
    echo("best of \x1b[31mred\x07")
    echo("image caf\udce9.png")
    print_error("svm_grid", "class '\x1b[2J' is rare")
    streams = capsys.readouterr()
    assert streams.out == "best of \\x1b[31mred\\x07\nimage caf\\xe9.png\n"
    assert streams.err == "svm-grid: class '\\x1b[2J' is rare\n"


def test_a_terminal_without_the_sign_shows_another(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    take_any_terminal()
    echo("cv error   1.39 % ± 0.22 %")
    assert written.getvalue() == b"cv error   1.39 % ? 0.22 %\n"


def test_a_closed_stdout_takes_what_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    take_any_terminal()
    echo("nobody hears this")
    assert not sys.stdout.isatty()
    sys.stdout.close()


def test_a_finished_program_is_not_interrupted_any_more():
    """Python frees what it holds after its last line, for a second where much was imported."""
    program = (
        "import atexit, os, signal; from pipelines.console import flush_and_exit;"
        "atexit.register(os.kill, os.getpid(), signal.SIGINT); flush_and_exit()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


PROGRAM = """
import atexit
import sys
from pipelines.console import end_process, flush_and_exit

class Held:
    def __del__(self):
        print("torn down")

atexit.register(print, "exit function")
held, log = Held(), open("log", "w")
held.itself = held
log.write("left open")
flush_and_exit()
end_process(3)
sys.exit(4)
"""


def test_a_command_ends_without_pythons_teardown(tmp_path):
    """There a daemon thread that is in C code may abort the process."""
    (tmp_path / "pleasingly").write_text(PROGRAM)
    ended = run_program("pleasingly", tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "exit function\n", "")
    assert (tmp_path / "log").read_text() == "left open"


def test_a_program_that_calls_a_command_ends_as_it_likes(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = run_program("program.py", tmp_path)
    assert (ended.returncode, ended.stderr) == (4, "")
    assert "exit function" in ended.stdout


def run_program(name, folder):
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, name],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("words", ["-m pipelines", "-m pipelines.svm_grid", "-m pipelines.report"])
def test_processes_that_are_commands_own(words, tmp_path):
    checked = "import sys; from pipelines.console import is_commands_own as own; "
    hook = f"{checked}import atexit; atexit.register(lambda: print(own(sys.modules['__main__'])))"
    (tmp_path / "sitecustomize.py").write_text(hook)
    path = f"{tmp_path}{os.pathsep}{Path(__file__).parents[1]}"
    ended = subprocess.run(
        [sys.executable, *words.split(), "--help"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert ended.stdout.endswith("True\n")


def test_a_narrow_terminal_cuts_lines_between_words(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    line = (
        "vote       test error 1.12 % (112 of 10,000) of a well-known set, in results/a-run/report"
    )
    assert wrap_line(line).splitlines() == [
        "vote       test error 1.12 % (112 of 10,000) of a well-known",
        "           set, in results/a-run/report",
    ]
    monkeypatch.setenv("COLUMNS", "100")
    assert wrap_line(line) == line


def test_an_answered_ctrl_c_within_an_import_is_not_how_the_program_ends(tmp_path):
    (tmp_path / "program.py").write_text(
        """
import sys
import threading
from pipelines.console import flush_and_exit
try:
    exec("raise KeyboardInterrupt")  # as in an import that makes a dataclass
except KeyboardInterrupt:
    pass
flush_and_exit()
sys.exit(1)
"""
    )
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[1]}"}
    ended = subprocess.run([sys.executable, "-m", "program"], env=environment, check=False)
    assert ended.returncode == 1


def test_what_a_terminal_obeys_is_written_out(capsys):
    echo("label \x1b[31mred\x9b2J \u202etxt.exe é %\ttab")
    print_error("svm_grid", "column '\x1b]0;title\x07'")
    shown = capsys.readouterr()
    assert shown.out == "label \\x1b[31mred\\x9b2J \\u202etxt.exe é %\ttab\n"
    assert shown.err == "svm-grid: column '\\x1b]0;title\\x07'\n"


@pytest.mark.parametrize(("seconds", "lines"), [(0.0, []), (60.0, ["refit"])])
def test_a_phase_is_named_once_it_lasts(seconds, lines, monkeypatch):
    monkeypatch.setattr("pipelines.console.SECONDS_OF_SILENCE", 0.001 if seconds else 60.0)
    echoed_lines = []
    named = threading.Event()

    def note(line):
        echoed_lines.append(line)
        named.set()

    with phase(note, "refit"):
        assert named.wait(seconds) == bool(lines)
    assert echoed_lines == lines
