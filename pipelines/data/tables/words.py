"""Words for tables: those that mean a missing cell, names and values in one line, common errors."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pipelines.errors import InputError, opt

# These mean missing only in a column of numbers, in upper or lower case: in offices, statistics and
# spreadsheets.
SIGNS = {"-", "--", "---", "\u2013", "\u2014", ".", "..", "...", ":", "*", "none", "missing"}
SIGNS |= {"unknown", "na", "n.a.", "n/a", "n.d.", "nd", "tbd", "n.v.", "k.a.", "not available"}
SIGNS |= {"null", "nan", "<na>", "\\n"}  # in databases
SIGNS |= {"#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"}


def short(value: object) -> str:
    """A value in one line of about thirty characters at most."""
    return " ".join(reprlib.repr(value.item() if isinstance(value, np.generic) else value).split())


def list_names(names: Iterable[object], most: int = 10) -> str:
    """The names in one line, at most ``most`` of them."""
    names = list(names)
    suffix = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(short(name) for name in names[:most]) or "nothing") + suffix


def counted(n: int, word: str, words: str | None = None) -> str:
    """A number with its noun: ``1 row``, ``1,200 rows``."""
    return f"{n:,} {word if n == 1 else words or word + 's'}"


def reason_of(error: object) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def unreadable(path: str | Path, why: object, parameter: str = "dataset") -> InputError:
    """The error for a file that no reader takes."""
    return InputError(
        f"{opt(parameter)} cannot be read: '{path}' is no valid {Path(path).suffix.lower()} file "
        f"({reason_of(why)}); repair it or write it again"
    )


def refuse_no_file(path: Path, suffixes: Iterable[str], parameter: str = "dataset") -> None:
    """Raise InputError if a file has no known suffix, or does not exist.

    Parquet written in parts, as by Dask or Spark, is a folder.
    """
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise InputError(
            f"{opt(parameter)} can read {', '.join(suffixes)} files, got '{path}'; convert it to "
            "one of these"
        )
    if not (os.path.isfile(path) or (os.path.isdir(path) and suffix == ".parquet")):
        raise InputError(
            f"{opt(parameter)} must be an existing file, but '{path}' does not exist; check the "
            "path"
        )
