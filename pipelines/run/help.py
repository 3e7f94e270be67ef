"""Format ``--help``: options in groups, then examples, wrapped at words."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from inspect import get_annotations
from pathlib import Path
from typing import Any

SCRIPT = "pleasingly"  # as the package installs it
FIRST, LAST = ("data", "graph"), ("cluster", "run")  # the groups between are a command's own


def program(command: str) -> str:
    """Return how this command was called, for usage lines and advice."""
    if Path(sys.argv[0]).stem == SCRIPT:
        return f"{SCRIPT} {command.replace('_', '-')}"
    return f"python -m pipelines.{command}"


def group_of(kind: type[Any], name: str) -> str:
    """Return the group of an option: that of its dataclass, else that of the command."""
    owner = next(one for one in kind.__mro__ if name in get_annotations(one))
    return str(vars(owner).get("group") or vars(kind).get("group", "options"))


def in_order(groups: Sequence[str]) -> list[str]:
    """Return groups, each once: the task's, the command's own, where and how it is run."""
    once = list(dict.fromkeys(groups))
    own = [group for group in once if group not in FIRST + LAST]
    return [*(g for g in FIRST if g in once), *own, *(g for g in LAST if g in once)]


class Formatter(argparse.HelpFormatter):
    """Lines as wide as the terminal that break between words, and nowhere else."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            part for line in text.splitlines()
            for part in (_command(line, width) if line.startswith(" ") else _wrapped(line, width))
        )  # fmt: skip


def _command(line: str, width: int) -> list[str]:
    """Return indent a command, and break a long one after backslashes."""
    first, *more = _wrapped(line, width - 6)
    return ["  " + " \\\n      ".join([first, *more])]


def _wrapped(text: str, width: int) -> list[str]:
    text = " ".join(text.split())
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)


def examples(command: str, lines: Sequence[str]) -> str:
    """Return the end of ``--help``: what is typed for some uses of a command, one in a line."""
    called = program(command)
    return "\n".join(["examples:", *(f"  {called} {line}" for line in lines)]) if lines else ""
