"""Output on the terminal. A run goes on when the terminal is closed."""

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
    """Print nothing: the ``Echo`` of a quiet run."""


SECONDS_OF_SILENCE = 1.0  # before a line says what takes so long
BUFFERED = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
INDENT = " " * 11  # width of the first word of a line, which is a heading


def echo(line: str) -> None:
    """Print a line on stdout, wrapped on a terminal; nothing happens if stdout is closed.

    Control characters are written out, see ``printable``.
    """
    line = printable(line)
    with suppress(OSError):
        print(wrap_line(line) if sys.stdout.isatty() else line, flush=True)


def printable(text: str) -> str:
    r"""Text with its control characters written out: ESC as ``\x1b``.

    Labels, column names and file names may contain escape sequences, which a terminal would obey.
    """
    return "".join(
        character if character.isprintable() or character in "\n\t" else _written_out(character)
        for character in text
    )


def _written_out(character: str) -> str:
    if 0xDC80 <= ord(character) <= 0xDCFF:  # a byte that is not UTF-8 (surrogateescape)
        return f"\\x{ord(character) - 0xDC00:x}"
    return character.encode("unicode_escape").decode()


@contextmanager
def phase(echo: Echo, line: str) -> Iterator[None]:
    """Context that prints a line if its body takes more than ``SECONDS_OF_SILENCE``."""
    timer = threading.Timer(SECONDS_OF_SILENCE, echo, [line])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def wrap_line(line: str) -> str:
    """Wrap a line between words if it is wider than the terminal."""
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
    # A command as it is typed, with hyphens; a module by its Python name.
    name = command if "." in command else command.replace("_", "-")
    with suppress(OSError):
        print(f"{name}: {printable(' '.join(message.split()))}", file=sys.stderr, flush=True)


def take_any_terminal() -> None:
    """Let stdout and stderr take every character, and discard output if they are closed.

    A terminal with a small character set, such as ASCII, shows ``?`` for others.
    """
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:  # closed before the program began
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  open to the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def flush_and_exit() -> None:
    """Flush stdout and stderr, and prepare an exit that is quick and does not fail.

    If nobody reads a stream any more, it is replaced by ``os.devnull``: Python would otherwise end
    with an error. A Ctrl-C during the exit does not make a finished run look interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    # If a Ctrl-C came during an exec of text, as in the import of a dataclass, CPython ends as if
    # killed by SIGINT, even if the KeyboardInterrupt was caught. Another exec clears that state.
    exec("")
    atexit.unregister(_exit_at_once)
    atexit.register(_exit_at_once)


def is_commands_own(main: Any) -> bool:
    """Whether the main module is one of our commands, and not a program that calls one."""
    name = getattr(getattr(main, "__spec__", None), "name", "")
    file = getattr(main, "__file__", None) or ""
    return name.startswith("pipelines.") or Path(file).stem == "pleasingly"


def end_process(status: int) -> None:
    """End the process at its exit with a status, without the teardown of the interpreter.

    This is for processes of our commands only. Functions of ``atexit`` are called and open files
    are flushed. During the teardown, daemon threads such as Dask's event loop end wherever they
    are, and C++ code releases Python objects after the interpreter is gone. Either may abort the
    process, so that a run that was stopped in order would seem to have crashed.

    Parameters
    ----------
    status : int
        Exit status.
    """
    if is_commands_own(sys.modules["__main__"]):
        atexit.register(_end_without_teardown, status)


def _end_without_teardown(status: int) -> None:
    atexit.unregister(_end_without_teardown)
    try:
        atexit._run_exitfuncs()
        gc.unfreeze()  # ``get_objects`` does not list what ``_exit_at_once`` froze
        for stream in gc.get_objects():
            if type(stream) in BUFFERED and not stream.closed:
                with suppress(OSError, ValueError):
                    stream.flush()
    finally:
        os._exit(status)


def _exit_at_once() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    # At its exit, Python collects cycles among all objects several times, which takes a second.
    # Frozen objects are skipped. Not with triton, which torch may import: it prints long complaints
    # about objects that were not freed.
    if "triton" not in sys.modules:
        gc.freeze()
