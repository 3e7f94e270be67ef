"""Wording for messages on tables: names and values cut to one line, and common errors."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import psutil

from pipelines.errors import InputError, opt


def short(value: object) -> str:
    """Shorten a value to one line of about thirty characters at most."""
    return " ".join(reprlib.repr(value.item() if isinstance(value, np.generic) else value).split())


def listed(names: Iterable[object], most: int = 10) -> str:
    """Return some names in one line."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(short(name) for name in names[:most]) or "nothing") + more


def counted(n: int, word: str, words: str | None = None) -> str:
    """Return a number with its noun: ``1 row``, ``1,200 rows``."""
    return f"{n:,} {word if n == 1 else words or word + 's'}"


def empty(path: Path) -> InputError:
    """Return a file without a row."""
    return InputError(
        f"{opt('dataset')} must hold at least one row of data, but '{path}' has none; check that "
        "it "
        f"was written in full"
    )


def unreadable(path: Path, why: object) -> InputError:
    """Return a file that no reader takes."""
    reason = " ".join(str(why).split()) or type(why).__name__
    return InputError(
        f"{opt('dataset')} cannot be read: '{path}' is no valid {path.suffix.lower()} file "
        f"({reason}); repair it or write it again"
    )


def refuse_beyond_memory(path: Path, n_bytes: int) -> None:
    """Raise InputError where so many bytes, unpacked, are more than this machine's memory."""
    most = psutil.virtual_memory().total
    if n_bytes > most:
        raise InputError(
            f"{opt('dataset')} must fit in memory, '{path}' unpacks to {n_bytes / 2**30:,.0f} GiB "
            f"of {most / 2**30:,.0f}; take fewer rows or columns"
        )
