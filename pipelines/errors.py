"""The one exception for input a user can put right, and the commands that messages advise."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Self

# Private characters, which no message has otherwise: they enclose a name and, perhaps, a value.
_BEGIN, _IS, _END = "\ue000", "\ue001", "\ue002"
_TRACEBACK = "Traceback (most recent call last):\n"
_LONGEST = 1000  # letters of an error; some hold an array
_NAMED = re.compile(f"{_BEGIN}([^{_IS}{_END}]*)(?:{_IS}([^{_END}]*))?{_END}")


def opt(name: str, value: Any = None) -> str:
    """Mark a parameter in the message of an ``InputError``, perhaps with a suggested value.

    >>> str(InputError(f"{opt('n_c')} must be at least 1, got 0; use {opt('device', 'cpu')}"))
    "n_c must be at least 1, got 0; use device='cpu'"
    """
    return f"{_BEGIN}{name}{_END}" if value is None else f"{_BEGIN}{name}{_IS}{value}{_END}"


class InputError(ValueError):
    """A parameter, or an input file, breaks a rule.

    The message is one line that names the parameter, the rule, the value and the way
    out. Commands print ``flagged()`` on stderr and end with exit status 2.

    Parameters
    ----------
    message : str
        Parameters are written with ``opt``: from Python they read as they are
        (``n_c``, ``device='cpu'``), on a command line as flags (``--n-c``,
        ``--device cpu``).
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._message = message

    def __str__(self) -> str:
        return _NAMED.sub(_as_parameter, self._message)

    def flagged(self) -> str:
        """Return the message as a command line says it."""
        return _NAMED.sub(_as_flag, self._message)

    def renamed(self, **names: str) -> Self:
        """Return the same error from a caller whose parameters are called otherwise.

        >>> str(InputError(f"{opt('folds')} must be at least 2").renamed(folds="cv"))
        'cv must be at least 2'
        """
        message = self._message
        for name, new_name in names.items():
            message = re.sub(f"{_BEGIN}{name}(?=[{_IS}{_END}])", _BEGIN + new_name, message)
        return type(self)(message)


def error_line(error: BaseException | str) -> str:
    """Return an error as one line that every file can hold: its type, and what it says first.

    Parameters
    ----------
    error : an exception, or its traceback as text; text without one is cut to its first line
    """
    if isinstance(error, BaseException):
        prefix, text = f"{type(error).__name__}: ", _text_of(error)
    else:
        prefix, text = "", error.rpartition(_TRACEBACK)[2] if _TRACEBACK in error else error
        if text is not error:  # the frames are indented, and the type follows
            text = "".join(re.split(r"(?m)^(?=\S)", text, maxsplit=1)[1:]) or text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = prefix + lines[0] if lines else prefix.rstrip(": ")
    if not prefix and line.endswith(":") and len(lines) > 1:  # what it says begins below its type
        line += f" {lines[1]}"
    line = line.encode(errors="backslashreplace").decode()  # half of a surrogate pair
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second_error:
        return f"its text cannot be had ({type(second_error).__name__})"


def program(command: str) -> str:
    """Return what the user types for a command: ``pleasingly svm-grid``.

    A process that was started as ``python -m pipelines.svm_grid`` advises that, since the
    script may not be on the path.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name.partition(".")[0] == "pipelines":
        return f"python -m pipelines.{command}"
    return f"pleasingly {command.replace('_', '-')}"


def as_typed(argv: Sequence[str]) -> list[str]:
    """Return the recorded words of a run, ``python -m pipelines.COMMAND ...``, as ``program``."""
    if list(argv[:2]) != ["python", "-m"]:
        return list(argv)
    return [*program(argv[2].removeprefix("pipelines.")).split(), *argv[3:]]


def flag_of(name: str) -> str:
    """Return the command-line flag of a parameter: ``n_c`` -> ``--n-c``."""
    return "--" + name.replace("_", "-")


def nearest(name: str, known_names: Iterable[str], otherwise: str) -> str:
    """Return the way out of a misspelt name: the nearest one, or what to do if none is near."""
    from difflib import get_close_matches

    close_names = get_close_matches(name, known_names, n=1)
    return f"did you mean {close_names[0]}?" if close_names else otherwise


def _as_parameter(match: re.Match[str]) -> str:
    name, value = match.groups()
    if value is None:
        return name
    try:
        float(value)
    except ValueError:
        return f"{name}={value!r}"
    return f"{name}={value}"


def _as_flag(match: re.Match[str]) -> str:
    name, value = match.groups()
    return flag_of(name) if value is None else f"{flag_of(name)} {value}"
