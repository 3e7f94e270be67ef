"""Values of a profile: their rules, variables in them, and quotes for the shell of a node.

A function that checks a value raises a ValueError with the rule and, after "; ", the way out.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, ValidationInfo

DIRECTIVES = {"slurm": "#SBATCH", "pbs": "#PBS", "sge": "#$"}  # the beginning of header lines
SHORTEST = 30  # seconds of walltime: a worker leaves 10 to 15 before its end
WALLTIME = re.compile(r"\d{1,4}-\d{1,5}(:[0-5]?\d){0,2}|\d{1,5}(:[0-5]?\d){2}", re.ASCII)
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP])(?:i?B)?", re.ASCII | re.IGNORECASE)
_NAME = r"([A-Za-z_]\w*)"
_DEFAULT = r"([^~${}`'\"\\]*)"  # without characters that a shell expands or takes as quotes
VARIABLE = re.compile(rf"\$(?:{_NAME}|\{{{_NAME}(?::-{_DEFAULT})?\}})", re.ASCII)


def _one_line(text: str) -> str:
    if not text.replace("\t", " ").isprintable():
        raise ValueError("must be one line of text")
    return text


def _without_shell(text: str) -> str:
    if re.search(r"\$[({]|`", VARIABLE.sub("", text)):
        raise ValueError(
            "must hold no shell but $NAME, ${NAME} and ${NAME:-DEFAULT}; write what it stands for"
        )
    return text


def fill_in(text: str) -> str:
    """Replace variables by their values on this machine, or by their defaults.

    A variable that is empty or not set and has no default is refused.
    """

    def value(variable: re.Match[str]) -> str:
        name = variable[1] or variable[2]
        filled = os.environ.get(name) or variable[3]
        if filled is None:
            raise ValueError(
                f"must name variables that are set here, {name} is not; set it, or write its value"
            )
        return filled

    return VARIABLE.sub(value, _without_shell(text))


def path_here(text: str) -> Path:
    """An absolute path on this machine, with ``~`` and variables filled in."""
    path = os.path.expanduser(fill_in(text))
    if path.startswith("~"):
        raise ValueError("must be in the home of a user who exists; write the whole path")
    return Path(path).absolute()


def for_node(path: str, key: str) -> str:
    """Quote a path for the shell of a node, which fills in ``~`` and variables.

    A variable that is not set there ends the job; the job's log names it and the profile's key.
    """
    home = re.match(r"(?:~[\w.-]*(?:/|$))?", path)[0]  # type: ignore[index]
    remainder = path.removeprefix(home)
    if not VARIABLE.search(remainder):
        return home + (shlex.quote(remainder) if remainder else "")

    def part(match: re.Match[str]) -> str:
        name, default = match[1] or match[2], match[3]
        if name is None:
            return "\\" + match[0]
        unset = f"?is not set on the node; correct {key} in the profile"
        return f"${{{name}:" + (unset if default is None else f"-{default}") + "}"

    return f'{home}"' + re.sub(rf'{VARIABLE.pattern}|["$\\]', part, remainder, flags=re.ASCII) + '"'


def _folder(text: str, info: ValidationInfo) -> str:
    """Refuse a folder whose path the queue does not accept for its logs."""
    path = _one_line(str(path_here(text)))
    if info.data.get("queue") == "slurm":
        if "\\" in path:
            raise ValueError("must hold no \\, which Slurm drops; name another folder")
    elif not re.fullmatch(r"[\w/.+=@~-]*", path, re.ASCII):
        raise ValueError(
            "must hold letters, digits and / . _ + = @ ~ - alone, as PBS and Grid Engine take them "
            "in the path of a log; name another folder"
        )
    return text


def _directive(text: str, info: ValidationInfo) -> str:
    """A line of the header without its ``#SBATCH``; one that the queue would refuse is refused."""
    queue = info.data.get("queue", "")
    mark = next((mark for mark in DIRECTIVES.values() if text.startswith(mark)), "")
    if mark not in ("", DIRECTIVES.get(queue)):
        raise ValueError(f"must be of {queue}; leave out what begins with {mark}")
    text = text.removeprefix(mark).strip()
    if not text.startswith("-"):
        raise ValueError("must begin with -; write for instance '--qos=long'")
    with suppress(ValueError):
        # An option of Grid Engine may have two values.
        if queue == "sge" or all(
            word.startswith("-") or (previous.startswith("-") and "=" not in previous)
            for previous, word in pairwise(shlex.split(text, comments=True))
        ):
            return text
    raise ValueError("must have quotes about a value with blanks; write '--comment=\"a b\"'")


def _line_of_shell(text: str) -> str:
    """Refuse a line of the header among lines of shell, where it would be a comment."""
    if text.startswith(tuple(DIRECTIVES.values())):
        raise ValueError("must be shell; move lines of the header to directives")
    return text


def _name(text: str) -> str:
    if text.startswith("-") or re.search(r"[\s'\"#\\]", text):
        raise ValueError(
            "must be one word, without blanks, quotes, # or \\; take the name that the queue knows"
        )
    return text


def _size(value: Any) -> Any:
    """A size such as ``16G`` as pydantic reads it, in powers of 1024 as queues count."""
    parts = SIZE.fullmatch(str(value).strip())
    if parts:
        return f"{parts[1]}{parts[2]}iB"
    if not isinstance(value, int | float) or value < 2**20:
        raise ValueError("must be a size such as 16G; name its unit")
    return value


def _walltime(value: Any) -> Any:
    """Refuse times that queues read differently, or too short for a worker to leave before."""
    text, form = str(value), "must be HH:MM:SS or D-HH:MM:SS"
    if re.fullmatch(r"[0-9]{1,7}", text):
        raise ValueError(
            f"{form}; a number is minutes to Slurm, for which write "
            f"{walltime_text(int(text) * 60)}, and seconds to others, {walltime_text(int(text))}"
        )
    if not WALLTIME.fullmatch(text):
        raise ValueError(f"{form}; write 01:30:00 for an hour and a half")
    if seconds_of(text) < SHORTEST:
        raise ValueError(f"must be {walltime_text(SHORTEST)} or more; write 01:00:00 for an hour")
    return value


def seconds_of(walltime: str) -> int:
    """The seconds of ``HH:MM:SS`` or ``D-HH[:MM[:SS]]``."""
    days, _, time_of_day = walltime.rpartition("-")
    hours, minutes, seconds = (*map(int, time_of_day.split(":")), 0, 0)[:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def walltime_text(seconds: int) -> str:
    """Seconds as ``HH:MM:SS``, also beyond 24 hours, which every queue reads."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _command(value: Any) -> Any:
    """The words of a command; text that is no list is the path of a program."""
    if not isinstance(value, str):
        return value
    if re.search(r"\s", value) and not path_here(value).is_file():
        raise ValueError(
            "must be a file that is here, if there is a blank in its path; write a list "
            "for a command, [srun, python], and for a path of the nodes, ['/a b/python']"
        )
    return (value,)


Line = Annotated[str, AfterValidator(_one_line)]
Word = Annotated[str, Field(min_length=1), AfterValidator(_one_line)]
Name = Annotated[Word, AfterValidator(fill_in), AfterValidator(_name)]
OnNode = Annotated[Word, AfterValidator(_without_shell)]
Command = Annotated[tuple[OnNode, ...], BeforeValidator(_command)]
Directive = Annotated[Line, AfterValidator(_directive)]
LineOfShell = Annotated[Line, AfterValidator(_line_of_shell)]
SharedFolder = Annotated[Word, AfterValidator(_folder), Field(validate_default=True)]
Size = Annotated[ByteSize, BeforeValidator(_size), Field(ge=2**20, le=2**50)]
Walltime = Annotated[str, BeforeValidator(_walltime)]
