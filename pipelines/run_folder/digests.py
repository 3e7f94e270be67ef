"""Size and SHA-256 of a run's files, kept in ``run.json``, so that damage is detected before use.

A Parquet table or a model with a flipped bit can often be read, and then gives wrong results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from pipelines.run_folder.names import READ_AGAIN
from pipelines.run_folder.schema import DRAW_OR_RESUME, Count, RecordPart, damaged

# In the folder or one below it, never outside: a file that has changed is removed.
FileName = Annotated[str, Field(pattern=r"^\w[^/]*(/\w[^/]*)?$")]


class FileDigest(RecordPart):
    """A file as the run left it."""

    bytes: Count
    sha256: str


def digests_read_again(folder: Path, files: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Digests of all files that are read again, including files that match ``files``."""
    patterns = (*READ_AGAIN, *files)
    return digests_of(folder, sorted(path for name in patterns for path in folder.glob(name)))


def digests_of(folder: Path, paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of files in a run folder, by their paths in it.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in paths
    }


def changes_of(folder: Path, recorded: Mapping[str, FileDigest]) -> dict[str, str]:
    """How files differ from what the run left, in words; unchanged files are left out."""
    changes = {}
    for name, digest in recorded.items():
        path = folder / name
        try:
            size = path.stat().st_size
            if size != digest.bytes:  # reported without reading a possibly huge file
                changes[name] = f"it has {size:,} bytes, the run left {digest.bytes:,}"
            elif _sha256(path) != digest.sha256:
                changes[name] = "its SHA-256 is not that of the file the run left"
        except FileNotFoundError:
            changes[name] = "it is gone"
        except OSError as error:
            changes[name] = f"{error.strerror}"
    return changes


def refuse_changed(
    folder: Path, recorded: Mapping[str, FileDigest], *patterns: str, may_be_gone: bool = False
) -> None:
    """Raise InputError if a file that is about to be read is not as the run left it.

    A run that was killed, or is older than these digests, has no digests to check.

    Parameters
    ----------
    folder : Path
    recorded : mapping of str to FileDigest
        ``files`` of the run's record.
    *patterns : str
        Patterns of the files that are read, such as ``members/*.npz``.
    may_be_gone : bool
        Whether the reader can do without a missing file.
    """
    digests = {
        name: digest
        for name, digest in recorded.items()
        if any(
            name.count("/") == pattern.count("/") and fnmatch(name, pattern) for pattern in patterns
        )
        and (not may_be_gone or (folder / name).exists())
    }
    for name, change in changes_of(folder, digests).items():
        way_out = DRAW_OR_RESUME if may_be_gone else "resume the run to write it again"
        raise damaged(folder / name, "what the run left there", change, way_out)


def _sha256(path: Path) -> str:
    """SHA-256, in hex, of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
