"""What the value of each key of a profile must be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cluster_setup.options import MOST_WORKERS, QUEUES

MOST = 10**6  # of cores, and of seconds that are waited for
WALLTIME = re.compile(r"(\d{1,4}-)?\d{1,5}:[0-5]?\d:[0-5]?\d")


def is_one_line(value: Any) -> bool:
    """Whether a value is text without a line's end, or anything else that no one would see."""
    return isinstance(value, str) and value.replace("\t", " ").isprintable()


def broken_rule(key: str, kind: str, value: Any) -> str | None:
    """The rule that a value breaks, or None.

    Parameters
    ----------
    key : str
    kind : str
        The type of the profile's attribute, as it is written there.
    value : what YAML gave
    """
    if value is None and "None" in kind:
        return None
    if kind.startswith("tuple"):
        lines = isinstance(value, (list, tuple)) and all(map(is_one_line, value))
        return None if lines else "a list of lines of text"
    if kind in ("int", "float"):
        most = MOST_WORKERS if key == "workers" else MOST
        number = isinstance(value, (int, float) if kind == "float" else int)
        good = number and not isinstance(value, bool) and 0 < value <= most
        what = "a number above 0, at most" if kind == "float" else "a whole number from 1 to"
        return None if good else f"{what} {most}"
    if not is_one_line(value) or not value:
        return "one line of text"
    if key == "queue" and value not in QUEUES:
        return f"one of {', '.join(QUEUES)}"
    if key == "walltime" and not (WALLTIME.fullmatch(value) and re.search("[1-9]", value)):
        return "HH:MM:SS or D-HH:MM:SS"
    if key == "shared_folder":
        return _broken_folder(value)
    return _broken_memory(value) if key == "memory" else None


def _broken_folder(value: str) -> str | None:
    try:
        Path(value).expanduser()
    except RuntimeError:
        return "a folder, with ~USER of a user who is known here"
    return None


def _broken_memory(value: str) -> str | None:
    from dask.utils import parse_bytes

    try:
        return None if 2**20 <= parse_bytes(value) <= 2**50 else "from 1 MiB to 1 PiB"
    except (ValueError, OverflowError):
        return "a size such as 32 GiB"
