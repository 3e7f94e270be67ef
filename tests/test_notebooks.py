"""The notebooks run, and are kept as they should be."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from cluster_setup.dask_settings import scheduler_dashboard

PAGES = Path(__file__).parents[1] / "docs" / "notebooks"
RENDERED = sorted(PAGES.glob("*.md"))
NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


# What takes long is told to do less of the same.
LESS = {
    "n_bootstrap=6, n_tuning=6": "n_bootstrap=3, n_tuning=2",
    '"limit": 600': '"limit": 200',
    "limit=400": "limit=150",
    "epochs=10": "epochs=3",
    "target[:600]": "target[:200]",
    "STEPS, RATE = 600": "STEPS, RATE = 60",
}


# Workers of a notebook import together what each of them would.
FORKED = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver"}


# The first is run by ``make test``, too.
@pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(path, id=path.stem, marks=pytest.mark.slow if i else ())
        for i, path in enumerate(NOTEBOOKS)
    ],
)
def test_a_notebook_runs(notebook, tmp_path):
    """Cell by cell, in a Jupyter kernel beside the notebook.

    nbconvert and nbmake wait for each reply by pyzmq's asyncio sockets, which on a busy machine
    can miss that it has come, and then wait for ever; the blocking ones look again.
    """
    jupyter_client = pytest.importorskip(
        "jupyter_client.manager", reason="it comes with the extra notebooks"
    )
    (tmp_path / "images").symlink_to(notebook.parent / "images")
    kernel, client = jupyter_client.start_new_kernel(
        startup_timeout=600, cwd=str(tmp_path), env={**os.environ, **FORKED}
    )
    try:
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code":
                code = "".join(cell["source"])
                for words, less in LESS.items():
                    code = code.replace(words, less)
                reply = client.execute(code, reply=True)["content"]
                assert reply["status"] == "ok", "\n".join(reply["traceback"])
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def test_what_is_told_less_is_there():
    cells = [cell for path in NOTEBOOKS for cell in json.loads(path.read_text())["cells"]]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    assert [words for words in LESS if words not in text] == []


def test_all_eight_are_here():
    assert [path.stem for path in NOTEBOOKS] == [
        "01_svm_grid",
        "02_nn_bagging",
        "03_clusters",
        "04_reading_a_run",
        "05_pagerank",
        "06_cross_validate",
        "07_data_parallel",
        "08_image_features",
    ]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_kept_without_outputs(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    assert len(cells) < 15
    for cell in cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_how_long_it_takes_and_calls_python(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    assert "*Two cores: about" in "".join(cells[0]["source"])
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    # Only what a person would type after predict is no run.
    assert ".main([" not in code.replace('.main(["predict"', "")


def test_there_are_pages_and_each_is_of_a_notebook():
    assert [page.stem for page in RENDERED] == [path.stem for path in NOTEBOOKS]


@pytest.mark.parametrize("page", RENDERED, ids=lambda page: page.stem)
def test_a_page_has_the_cells_of_its_notebook_and_figures_that_are_there(page):
    """``python docs/render_notebooks.py NAME`` makes a page anew."""
    notebook = NOTEBOOKS[0].parent / f"{page.stem}.ipynb"
    text = page.read_text()
    position = 0
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "\n".join(line.rstrip() for line in "".join(cell["source"]).splitlines())
        start = text.find(source, position)
        assert start >= 0, f"{page.name} lacks, or has at another place: {source[:60]}"
        position = start + len(source)
    figures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    drawn = [figure for figure in figures if not figure.startswith("attachment:")]
    assert drawn
    assert all((page.parent / figure).is_file() for figure in drawn)
    assert "Traceback" not in text
    assert not re.search(r"/(tmp|home|root|work)/", text)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_logic_of_its_own(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    words = code.split()
    # What ranks say to each other by torch alone is the reader's own function.
    functions = {"def"} if notebook.stem != "07_data_parallel" else set()
    assert not ({"class", "lambda"} | functions) & set(words)
    assert "from pipelines" in code or "from cluster_setup" in code


@pytest.mark.slow
def test_make_notebooks_takes_another_port_for_dashboards_where_the_usual_is_taken(
    tmp_path,
):
    """The panel's address is read from the JupyterLab that runs."""
    pytest.importorskip("jupyterlab", reason="it comes with the extra notebooks")
    start = NOTEBOOKS[0].parent / "settings" / "start.py"
    folders = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("RUNTIME", "CONFIG")}
    options = ["--no-browser", "--ip=127.0.0.1", "--port=0", "--ServerApp.token=only-a-test"]
    with socket.socket() as taken, open(tmp_path / "log", "w") as log:
        with contextlib.suppress(OSError):  # another program has it
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        server = subprocess.Popen(
            [sys.executable, "-u", str(start), *options],
            env=os.environ | folders,
            stdout=log,
            stderr=log,
        )
        try:
            while not (runtime_files := list((tmp_path / "RUNTIME").glob("jpserver-*.json"))):
                assert server.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.1)
            while True:
                try:
                    address = json.loads(runtime_files[0].read_text())["url"]
                    settings = "lab/api/settings/dask-labextension:plugin?token=only-a-test"
                    with urllib.request.urlopen(address + settings) as reply:
                        panel = json.load(reply)["schema"]["properties"]["defaultURL"]["default"]
                    break
                except (urllib.error.URLError, json.JSONDecodeError):
                    assert server.poll() is None, (tmp_path / "log").read_text()
                    time.sleep(0.1)
        finally:
            server.terminate()
            server.wait()
    port = re.fullmatch(r"http://127.0.0.1:(\d+)", panel)
    assert port is not None
    assert int(port[1]) != 8787
    assert (
        f"Port 8787 is taken: dashboards of the notebooks' runs are on port {port[1]}"
        in (tmp_path / "log").read_text()
    )


def test_a_run_of_that_jupyterlab_has_its_dashboard_there(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # bound, and nobody listens
        monkeypatch.setenv("PLEASINGLY_DASHBOARD", str(port))
        assert scheduler_dashboard(None) == {"dashboard_address": f"127.0.0.1:{port}"}
