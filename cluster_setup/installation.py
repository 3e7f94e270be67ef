"""The command line that installs an extra, by the way in which this program was installed."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from shlex import join
from urllib.parse import unquote, urlsplit

NAME = "pleasingly"
FOLDER = Path(__file__).resolve().parents[1]  # a checkout of the sources, or site-packages


def install_line(extra: str, anew: bool = False) -> str:
    """The command that installs an extra of this program.

    It never installs by the name of the program alone, as an index may have another package of
    that name. It takes the source that this program came from, and if that is not known, the
    packages of the extra.

    Parameters
    ----------
    extra : str
        A name in ``pyproject.toml``.
    anew : bool, default False
        Whether the command is for a new environment, without the pinned versions.
    """
    try:
        installed: Distribution | None = distribution(NAME)
    except PackageNotFoundError:  # it runs from its sources, which are on the path
        installed = None
    program = ["pip", "install"] if anew else _installer(installed)
    if (FOLDER / "pyproject.toml").is_file():
        pins = FOLDER / "constraints.txt"
        pinned = ["-c", str(pins)] if pins.is_file() and not anew else []
        return join([*program, *pinned, "-e", f"{FOLDER}[{extra}]"])
    if installed is None:
        return f"pip install of the packages that the extra {extra} of this program asks for"
    source = _source(installed)
    return join([*program, *([f"{NAME}[{extra}] @ {source}"] if source else _packages(extra))])


def _installer(installed: Distribution | None) -> list[str]:
    """The command that installs packages into this environment: uv if uv installed this program."""
    if installed is None or (installed.read_text("INSTALLER") or "").strip() != "uv":
        return [sys.executable, "-m", "pip", "install"]
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    return [uv, "pip", "install", "-p", sys.prefix]


def _source(installed: Distribution) -> str | None:
    """The URL of the installation (PEP 610); None for an index, or a file that is gone."""
    recorded = json.loads(installed.read_text("direct_url.json") or "{}")
    url: str | None = recorded.get("url")
    if url is None or (url.startswith("file:") and not Path(unquote(urlsplit(url).path)).exists()):
        return None
    if version_control := recorded.get("vcs_info"):
        url = f"{version_control['vcs']}+{url}@{version_control['commit_id']}"
    within = recorded.get("subdirectory")
    return f"{url}#subdirectory={within}" if within else url


def _packages(extra: str) -> list[str]:
    """The requirements of an extra, from the metadata of this program."""
    from packaging.requirements import Requirement

    requirements = [
        need
        for need in map(Requirement, distribution(NAME).requires or ())
        if need.marker and need.marker.evaluate({"extra": extra})
    ]
    return [f"{need.name}{need.specifier}" for need in requirements]
