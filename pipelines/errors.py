"""``InputError``, the exception for input that a user can correct, and helpers for messages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Self

# Private-use characters that no message contains: they enclose a name and, optionally, a value.
_BEGIN, _IS, _END = "\ue000", "\ue001", "\ue002"
_TRACEBACK = "Traceback (most recent call last):\n"
_LONGEST = 1000  # characters of an error; some messages contain an array
_NAMED = re.compile(f"{_BEGIN}([^{_IS}{_END}]*)(?:{_IS}([^{_END}]*))?{_END}")


def opt(name: str, value: Any = None) -> str:
    """Mark a parameter in the message of an ``InputError``, optionally with a suggested value.

    >>> str(InputError(f"{opt('n_c')} must be at least 1, got 0; use {opt('device', 'cpu')}"))
    "n_c must be at least 1, got 0; use device='cpu'"
    """
    return f"{_BEGIN}{name}{_END}" if value is None else f"{_BEGIN}{name}{_IS}{value}{_END}"


class InputError(ValueError):
    """A parameter or an input file breaks a rule.

    The message is one line that names the parameter, the rule, the value and a remedy. Commands
    print ``flagged()`` on stderr and end with exit status 2.

    Parameters
    ----------
    message : str
        Parameters in it are written with ``opt``. From Python they read as they are (``n_c``,
        ``device='cpu'``), on a command line as flags (``--n-c``, ``--device cpu``).

    Examples
    --------
    >>> from pipelines import InputError, svm_grid
    >>> try:
    ...     svm_grid.run(n_c=0)
    ... except InputError as error:
    ...     print(error)
    n_c must be at least 1, got 0
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._message = message

    def __str__(self) -> str:
        return _NAMED.sub(_as_parameter, self._message)

    def flagged(self) -> str:
        """The message with flags in place of parameters, for a command line."""
        return _NAMED.sub(_as_flag, self._message)

    def renamed(self, **names: str) -> Self:
        """The same error with other names of parameters, for a caller that has others.

        >>> str(InputError(f"{opt('folds')} must be at least 2").renamed(folds="cv"))
        'cv must be at least 2'
        """
        message = self._message
        for name, new_name in names.items():
            message = re.sub(f"{_BEGIN}{name}(?=[{_IS}{_END}])", _BEGIN + new_name, message)
        return type(self)(message)


def error_line(error: BaseException | str) -> str:
    """An error as one line of text: its type and the first line of its message.

    Parameters
    ----------
    error : exception or str
        Text may be a traceback; of other text the line is the first one.

    Returns
    -------
    str
        At most 1,003 characters, all of which can be encoded as UTF-8.
    """
    if isinstance(error, BaseException):
        prefix, text = f"{type(error).__name__}: ", _text_of(error)
    else:
        prefix, text = "", error.rpartition(_TRACEBACK)[2] if _TRACEBACK in error else error
        if text is not error:  # frames are indented; the type of the error follows them
            text = "".join(re.split(r"(?m)^(?=\S)", text, maxsplit=1)[1:]) or text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = prefix + lines[0] if lines else prefix.rstrip(": ")
    if not prefix and line.endswith(":") and len(lines) > 1:  # the message begins on the next line
        line += f" {lines[1]}"
    line = line.encode(errors="backslashreplace").decode()  # half of a surrogate pair
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second_error:
        return f"its text cannot be had ({type(second_error).__name__})"


def program(command: str) -> str:
    """What a user types for a command: ``pleasingly svm-grid``.

    In a process that was started as ``python -m pipelines.svm_grid`` it has that form, since the
    ``pleasingly`` script may not be on the path.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name.partition(".")[0] == "pipelines":
        return f"python -m pipelines.{command}"
    return f"pleasingly {command.replace('_', '-')}"


def as_typed(argv: Sequence[str]) -> list[str]:
    """The recorded command line of a run with its command as ``program`` writes it."""
    if list(argv[:2]) != ["python", "-m"]:
        return list(argv)
    return [*program(argv[2].removeprefix("pipelines.")).split(), *argv[3:]]


def flag_of(name: str) -> str:
    """The command-line flag of a parameter: ``--n-c`` for ``n_c``."""
    return "--" + name.replace("_", "-")


def nearest(name: str, known_names: Iterable[str], otherwise: str) -> str:
    """Advice on an unknown name: the most similar known name, or ``otherwise``."""
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
