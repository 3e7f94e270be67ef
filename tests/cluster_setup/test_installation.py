"""Advice how to install an extra names the source that the program came from, and no index's."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, PathDistribution
from pathlib import Path

import pytest

from cluster_setup import installation
from cluster_setup.installation import install_line

ROOT = Path(__file__).parents[2]
METADATA = """Metadata-Version: 2.4
Name: pleasingly
Version: 0.1.0
Requires-Dist: numpy>=2.0
Requires-Dist: tomli>=2; python_version < "3"
Provides-Extra: nn
Requires-Dist: torch>=2.15; extra == "nn"
Requires-Dist: nothing>=1; sys_platform == "nowhere" and extra == "nn"
Requires-Dist: other>=1; extra == "gpu"
"""


def installed(monkeypatch, folder, source, tool):
    """Let the program be one in ``folder``, installed by ``tool``."""
    about = folder / "pleasingly-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(METADATA)
    (about / "INSTALLER").write_text(f"{tool}\n")
    if source is not None:
        (about / "direct_url.json").write_text(json.dumps(source))
    monkeypatch.setattr(installation, "FOLDER", folder)
    monkeypatch.setattr(installation, "distribution", lambda name: PathDistribution(about))


def test_from_a_checkout_it_is_the_same_folder_with_its_pinned_versions(monkeypatch, tmp_path):
    folder = tmp_path / "my sources"
    folder.mkdir()
    installed(monkeypatch, folder, {"url": f"file://{folder}", "dir_info": {}}, "pip")
    (folder / "pyproject.toml").touch()
    pip = [sys.executable, "-m", "pip", "install"]
    assert shlex.split(install_line("nn")) == [*pip, "-e", f"{folder}[nn]"]
    pins = folder / "constraints.txt"
    pins.touch()
    assert shlex.split(install_line("nn")) == [*pip, "-c", str(pins), "-e", f"{folder}[nn]"]
    anew = shlex.split(install_line("gpu-cu12", anew=True))
    assert anew == ["pip", "install", "-e", f"{folder}[gpu-cu12]"]


def test_sources_on_the_path_alone_are_a_checkout_too(monkeypatch, tmp_path):
    def missing(name):
        raise PackageNotFoundError(name)

    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(installation, "FOLDER", tmp_path)
    monkeypatch.setattr(installation, "distribution", missing)
    assert install_line("nn").endswith(f"-m pip install -e '{tmp_path}[nn]'")


@pytest.mark.parametrize(
    ("source", "url"),
    [
        (
            {
                "url": "https://example.org/p.git",
                "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": "abc"},
                "subdirectory": "python",
            },
            "git+https://example.org/p.git@abc#subdirectory=python",
        ),
        ({"url": "https://example.org/p.whl", "archive_info": {}}, "https://example.org/p.whl"),
        ({"url": Path(__file__).as_uri(), "archive_info": {}}, Path(__file__).as_uri()),
    ],
    ids=["git", "wheel of a server", "wheel that is here"],
)
def test_from_a_url_it_is_the_same_url(monkeypatch, tmp_path, source, url):
    installed(monkeypatch, tmp_path, source, "uv")
    words = shlex.split(install_line("nn"))
    assert words[1:] == ["pip", "install", "-p", sys.prefix, f"pleasingly[nn] @ {url}"]
    assert Path(words[0]).name == "uv"


@pytest.mark.parametrize("source", [None, {"url": "file:///gone.whl", "archive_info": {}}])
def test_where_its_source_is_not_known_the_packages_themselves_are_named(
    monkeypatch, tmp_path, source
):
    installed(monkeypatch, tmp_path, source, "pip")
    assert shlex.split(install_line("nn"))[1:] == ["-m", "pip", "install", "torch>=2.15"]


def test_this_installation_has_the_extras_that_messages_name():
    extras = set()
    for path in sources():
        extras |= set(re.findall(r"install_line\(['\"]([\w-]+)", path.read_text()))
    assert len(extras) > 3
    for extra in extras:
        assert installation._packages(extra)


def sources():
    files = [path for of in ("pipelines", "cluster_setup") for path in (ROOT / of).rglob("*.py")]
    return [path for path in files if path.name != "installation.py"]


def test_no_message_has_an_advice_of_its_own():
    written = []
    for path in sources():
        strings = [
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        written += [
            (path.name, text)
            for text in strings
            if re.search(
                r"(pip|conda|uv) (install|add)|pleasingly\[|install the (extra|\w+ extra)", text
            )
        ]
    assert written == []


def test_no_page_installs_the_program_by_its_name():
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "notebooks").glob("*.ipynb"),
        *(ROOT / "cluster_setup" / "containers").iterdir(),
        *(ROOT / "cluster_setup" / "profiles").glob("*.yaml"),
        ROOT / "environment.yml",
        ROOT / "Makefile",
    ]
    by_name = re.compile(
        r"(install|add)\b[^\n]*\s['\"]?pleasingly\b(?!\S*\s*@)|pleasingly\[\w+\](?! @)"
    )
    assert [str(page) for page in pages if by_name.search(page.read_text())] == []
    assert by_name.search("pip install -c constraints.txt 'pleasingly[nn]'")
    assert by_name.search("uv pip install -p .venv pleasingly")
