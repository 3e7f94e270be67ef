"""Lines on the terminal, or none with ``--quiet``; a run goes on when nobody listens any more."""

from __future__ import annotations

import atexit
import gc
import io
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import wrap
from typing import Any

Echo = Callable[[str], None]


def quiet_echo(line: str) -> None:
    """Print nothing."""


SECONDS_OF_SILENCE = 1.0
BUFFERED = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
INDENT = " " * 11  # of what follows a line's first word


def echo(line: str) -> None:
    """Print a line on stdout, if there is one that takes it; on a terminal wrap it.

    Control characters are written out, in errors too.
    """
    line = printable(line)
    with suppress(OSError):
        print(wrap_line(line) if sys.stdout.isatty() else line, flush=True)


def printable(text: str) -> str:
    r"""Return text whose control characters are written out: ESC as ``\x1b``.

    Labels, column names and file names come from others, and a terminal obeys what it is sent.
    """
    return "".join(
        character if character.isprintable() or character in "\n\t" else _written_out(character)
        for character in text
    )


def _written_out(character: str) -> str:
    if 0xDC80 <= ord(character) <= 0xDCFF:  # how Python keeps a byte of a name that is no UTF-8
        return f"\\x{ord(character) - 0xDC00:x}"
    return character.encode("unicode_escape").decode()


@contextmanager
def phase(echo: Echo, line: str) -> Iterator[None]:
    """Print a line if what follows lasts longer than a second, so that nobody waits in silence."""
    timer = threading.Timer(SECONDS_OF_SILENCE, echo, [line])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def wrap_line(line: str) -> str:
    """Wrap a line between words for a terminal whose window is too narrow."""
    width = shutil.get_terminal_size().columns
    if len(line) <= width or "\n" in line:
        return line
    indent = INDENT if width > 2 * len(INDENT) else ""
    lines = wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def print_error(command: str, message: str) -> None:
    """Print a one-line error on stderr, in the format that every command uses."""
    # As it is typed: a command with its hyphens, a module as Python names it.
    name = command if "." in command else command.replace("_", "-")
    with suppress(OSError):
        print(f"{name}: {printable(' '.join(message.split()))}", file=sys.stderr, flush=True)


def take_any_terminal() -> None:
    """Make stdout and stderr take every character, and be silent where they are closed.

    An ASCII terminal shows ``?`` for the signs that it lacks.
    """
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:  # closed before the program began
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  open to the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def flush_and_exit() -> None:
    """Write what is still to be written; where nobody reads it, keep Python's exit from failing.

    The exit itself is then short, and no Ctrl-C makes a finished run look like a broken one.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    # CPython ends as if killed by SIGINT where a Ctrl-C came within an exec of text, as imports
    # of dataclasses do it, even if it was answered since; another exec of text clears that.
    exec("")
    atexit.unregister(_exit_at_once)
    atexit.register(_exit_at_once)


def is_commands_own(main: Any) -> bool:
    """Whether ``__main__`` is one of our commands, rather than a program that calls one."""
    name = getattr(getattr(main, "__spec__", None), "name", "")
    file = getattr(main, "__file__", None) or ""
    return name.startswith("pipelines.") or Path(file).stem == "pleasingly"


def end_process(status: int) -> None:
    """Let the process, if it is a command's own, end with ``status`` without Python's teardown.

    Functions of ``atexit`` are called, and open files are flushed. In the teardown daemon threads
    end wherever they are, Dask's loop for one, and C++ code drops Python objects when there is no
    Python any more; either may abort the process, and a run that was stopped in order then seems to
    have crashed.
    """
    if is_commands_own(sys.modules["__main__"]):
        atexit.register(_end_without_teardown, status)


def _end_without_teardown(status: int) -> None:
    atexit.unregister(_end_without_teardown)
    try:
        atexit._run_exitfuncs()
        gc.unfreeze()  # what ``_exit_at_once`` froze is not among the objects
        for stream in gc.get_objects():
            if type(stream) in BUFFERED and not stream.closed:
                with suppress(OSError, ValueError):
                    stream.flush()
    finally:
        os._exit(status)


def _exit_at_once() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Python seeks cycles among all objects several times, which takes a second; but triton, which
    # torch may bring, complains at length of what is not freed.
    if "triton" not in sys.modules:
        gc.freeze()
