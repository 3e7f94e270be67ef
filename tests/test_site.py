"""The documentation is built as ``make docs`` does it: a warning is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pipelines

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_every_public_name_has_its_reference(site: Path) -> None:
    page = "".join(
        (site / "reference" / f"{name}.html").read_text() for name in ("estimators", "commands")
    )
    for name in pipelines.__all__:
        assert name in page, name
    assert "array-like of shape (n_samples, n_features)" in page
    assert "ArrayLike" in page


@pytest.mark.slow
def test_every_page_is_reached_and_its_figures_are_there(site: Path) -> None:
    start = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        built = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / built).is_file()
        assert f'href="{built.as_posix()}"' in start, built
    assert (site / "images" / "bagging_flower.png").is_file()
    assert "fonts.googleapis.com" not in start
