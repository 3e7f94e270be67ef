"""JupyterLab in a real browser: notebook 01 runs, shows its heat map, and Dask has its panel.

The panel finds a cluster that a cell has left open, and shows a plot of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MINUTES = 60_000  # in the milliseconds of Playwright

KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
LEFT_OPEN = """
from contextlib import ExitStack
from cluster_setup import open_cluster

stay_open = ExitStack()
client = stay_open.enter_context(open_cluster("local", 1))
print("it is", "open")
"""

pytestmark = pytest.mark.skipif(  # without importing it, which takes seconds
    find_spec("jupyterlab") is None, reason="JupyterLab comes with the extra notebooks"
)


@pytest.fixture
def jupyterlab(tmp_path):
    """The address of a JupyterLab on a copy of the notebooks, with the token that opens it."""
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    cell = {"cell_type": "code", "id": "only", "metadata": {}, "outputs": [], "source": LEFT_OPEN}
    (tmp_path / "notebooks" / "open.ipynb").write_text(
        json.dumps(
            {
                "cells": [cell | {"execution_count": None}],
                "metadata": KERNEL,
                "nbformat": 4,
                "nbformat_minor": 5,
            }
        )
    )
    # A test beside this one may have its dashboard where the panel looks first.
    settings = tmp_path / "notebooks" / "settings" / "labconfig" / "default_setting_overrides.json"
    settings.write_text(settings.read_text().replace(":8787", ":9"))  # nobody listens there
    runtime = tmp_path / "runtime"
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--ip=127.0.0.1",
        "--port=0",
        "--ServerApp.token=only-a-test",
        "--allow-root",
    ]
    folders = {
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_CONFIG_PATH": str(tmp_path / "notebooks" / "settings"),  # as make notebooks
    }
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen(
            command, cwd=tmp_path / "notebooks", env=os.environ | folders, stderr=log, stdout=log
        )
        try:
            yield address_of(server, runtime)
        finally:
            server.terminate()
            server.wait()


def address_of(server, runtime):
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


def run_all_cells(browser, jupyterlab, notebook):
    """A page of the browser where every cell of a notebook is asked to run."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(f"{jupyterlab}lab/tree/{notebook}?token=only-a-test")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=2 * MINUTES)
    # JupyterLab may ask which kernel to take, with the right one chosen.
    page.add_locator_handler(
        page.locator(".jp-Dialog"), lambda dialog: dialog.locator(".jp-mod-accept").click()
    )
    page.locator("text=Python 3 (ipykernel) | Idle").wait_for(timeout=2 * MINUTES)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    return page


def test_notebook_01_runs_in_a_browser(browser, jupyterlab, tmp_path):
    page = run_all_cells(browser, jupyterlab, "01_svm_grid.ipynb")
    heat_map = page.locator(".jp-Notebook .jp-RenderedSVG").first
    heat_map.wait_for(state="attached", timeout=4 * MINUTES)  # what is not in view is hidden
    heat_map.scroll_into_view_if_needed()
    box = heat_map.bounding_box()
    assert box is not None
    assert box["width"] > 300
    assert box["height"] > 200
    # Its progress was a widget, with what is done in words.
    assert page.locator(".jp-OutputArea-output", has_text="9 of 9 tasks").count() >= 1

    page.locator('.jp-SideBar [data-id="dask-dashboard-launcher"]').click()
    panel = page.locator("#dask-dashboard-launcher")
    panel.get_by_text("paste a dashboard URL").wait_for(timeout=MINUTES)
    panel.get_by_text("Clusters").wait_for(timeout=MINUTES)
    picture = Path(os.environ.get("PLEASINGLY_SCREENSHOTS", tmp_path)) / "jupyterlab.png"
    page.screenshot(path=picture)
    assert picture.stat().st_size > 10_000
    page.close()


def test_the_panel_finds_an_open_cluster_and_shows_its_plots(browser, jupyterlab, tmp_path):
    page = run_all_cells(browser, jupyterlab, "open.ipynb")
    page.locator(".jp-OutputArea-output", has_text="it is open").wait_for(timeout=2 * MINUTES)
    page.locator('.jp-SideBar [data-id="dask-dashboard-launcher"]').click()
    panel = page.locator("#dask-dashboard-launcher")
    field = panel.get_by_placeholder("DASK DASHBOARD URL")
    field.fill("")
    panel.locator(".dask-URLInput .jp-ToolbarButtonComponent").click()
    panel.get_by_role("button", name="Task Stream", exact=True).click(timeout=2 * MINUTES)
    assert field.input_value().startswith("http://127.0.0.1:")
    dashboard = page.frame_locator(".dask-DaskDashboard-widget iframe")
    dashboard.locator("canvas").first.wait_for(timeout=2 * MINUTES)
    picture = Path(os.environ.get("PLEASINGLY_SCREENSHOTS", tmp_path)) / "jupyterlab_tasks.png"
    page.screenshot(path=picture)
    page.close()
