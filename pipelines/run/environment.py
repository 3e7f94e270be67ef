"""The environment of a run, for its record: versions, commit, machine."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "pleasingly",
    "dask",
    "distributed",
    "dask-cuda",
    "dask-jobqueue",
    "numpy",
    "scipy",
    "scikit-learn",
    "scikit-learn-intelex",
    "cuml-cu13",
    "cuml-cu12",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "torch",
    "pandas",
)


def versions() -> dict[str, str]:
    """The versions of Python and of the installed packages that a result depends on."""
    package_versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            package_versions[package] = version(package)
    return package_versions


def commit() -> str | None:
    """The git commit of this program, with ``+changes`` if tracked files differ from it.

    None outside a git repository.
    """
    here = Path(__file__).resolve().parent
    try:
        head = _git(here, "rev-parse", "HEAD")
        return head + ("+changes" if _git(here, "status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def machine() -> dict[str, str | int | None]:
    """The host name, operating system and number of cores of this machine."""
    return {"host": platform.node(), "system": platform.platform(), "cores": os.cpu_count()}
