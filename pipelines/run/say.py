"""Lines on the terminal, or none with ``--quiet``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

Say = Callable[[str], None]


def silent(line: str) -> None:
    """Say nothing."""


def aloud(line: str) -> None:
    """Say a line on stdout; a run goes on when nobody listens any more."""
    with suppress(OSError):
        print(line, flush=True)
