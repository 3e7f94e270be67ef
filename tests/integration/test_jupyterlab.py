"""JupyterLab in a real browser: notebook 01 runs, shows its heat map, and Dask has its panel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MINUTES = 60_000  # in the milliseconds of Playwright

pytest.importorskip("jupyterlab", reason="JupyterLab comes with the extra notebooks")


@pytest.fixture
def jupyterlab(tmp_path: Path) -> Iterator[str]:
    """The address of a JupyterLab on a copy of the notebooks, with the token that opens it."""
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    runtime = tmp_path / "runtime"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0",
               "--ServerApp.token=only-a-test", "--allow-root"]  # fmt: skip
    folders = {"JUPYTER_RUNTIME_DIR": str(runtime), "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen(
            command, cwd=tmp_path / "notebooks", env=os.environ | folders, stderr=log, stdout=log
        )
        try:
            yield address_of(server, runtime)
        finally:
            server.terminate()
            server.wait()


def address_of(server: subprocess.Popen[bytes], runtime: Path) -> str:
    while True:
        assert server.poll() is None, "JupyterLab did not start"
        for path in runtime.glob("jpserver-*.json"):
            address = str(json.loads(path.read_text())["url"])
            try:
                urllib.request.urlopen(f"{address}api").close()
                return address
            except OSError:
                pass
        time.sleep(0.1)


def test_notebook_01_runs_in_a_browser(browser: Any, jupyterlab: str, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(f"{jupyterlab}lab/tree/01_svm_grid.ipynb?token=only-a-test")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=2 * MINUTES)
    # JupyterLab may ask which kernel to take, with the right one chosen.
    page.add_locator_handler(
        page.locator(".jp-Dialog"), lambda dialog: dialog.locator(".jp-mod-accept").click()
    )
    page.locator("text=Python 3 (ipykernel) | Idle").wait_for(timeout=2 * MINUTES)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    heat_map = page.locator(".jp-Notebook .jp-RenderedSVG").first
    heat_map.wait_for(state="attached", timeout=4 * MINUTES)  # what is not in view is hidden
    heat_map.scroll_into_view_if_needed()
    box = heat_map.bounding_box()
    assert box is not None
    assert box["width"] > 300
    assert box["height"] > 200
    # Its progress was a widget, with what is done in words.
    assert page.locator(".jp-OutputArea-output", has_text="9 of 9 units").count() >= 1

    page.locator('.jp-SideBar [data-id="dask-dashboard-launcher"]').click()
    panel = page.locator("#dask-dashboard-launcher")
    panel.get_by_text("paste a dashboard URL").wait_for(timeout=MINUTES)
    panel.get_by_text("Clusters").wait_for(timeout=MINUTES)
    picture = Path(os.environ.get("PLEASINGLY_SCREENSHOTS", tmp_path)) / "jupyterlab.png"
    page.screenshot(path=picture)
    assert picture.stat().st_size > 10_000
    page.close()
