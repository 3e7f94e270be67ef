"""Clusters that tests share: opened once, as the program opens them; and how workers begin."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from functools import cache
from pathlib import Path

import dask
import hypothesis
import pytest
from distributed.utils import get_mp_context

from cluster_setup import open_cluster
from tests.command_runs import ON_THREADS, finished_run, undisturbed_run
from tests.dealing import Dealing, position_of

# The same examples each time: what passes here passes everywhere.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile(
    "few", hypothesis.settings.get_profile("repeatable"), max_examples=20
)

# Workers of this process are forked from one that has imported this, which takes milliseconds in
# place of seconds. What a command starts that tests start is spawned, as for who types it.
METHOD = "distributed.worker.multiprocessing-method"
IMPORTED = [
    "distributed",
    "dask.dataframe",
    "pyarrow.parquet",
    "sklearn.ensemble",
    "torch",
    "sklearn.svm",
    "pipelines.svm.backends.path",
    "pipelines.svm.backends.sklearn",
    "pipelines.bagging.work",
    "pipelines.nn.train",
    "pipelines.search.tasks",
    "pipelines.parallel.elastic",
    "pipelines.graph.partitions",
]

# What each server of Dask does many times a second though nothing runs, and no test looks at: for
# the clusters that stay open it took a third of a core.
QUIET = {"distributed.admin.tick.interval": "1s", "distributed.worker.profile.enabled": False}

# Marks of whole folders and files, by the start of their path; that of one test stands at it.
MARKS = {
    "tests/chaos/": ("slow",),
    "tests/cross_validate/test_as_scikit_learn.py": ("slow",),
    "tests/integration/": ("slow",),
    "tests/integration/test_jupyterlab.py": ("browser",),
    "tests/integration/test_job_script.py": ("slurm",),
    "tests/integration/test_slurm": ("slurm",),
    "tests/report/": ("figures",),
    "tests/report/test_report_in_browser.py": ("browser",),
    "tests/run_folder/test_kept_runs.py": ("figures",),
    "tests/simulator/": ("simulator", "slow"),
}


def pytest_configure(config):
    """Before any cluster is opened: Dask's own list of what to import stands from the first on."""
    os.environ.setdefault("PLEASINGLY_COMPILE", "now")  # no process outlives a test
    fast = config.getoption("markexpr") == "not slow"
    hypothesis.settings.load_profile("few" if fast else "repeatable")
    dask.config.set({METHOD: "forkserver", **QUIET})
    get_mp_context().set_forkserver_preload(IMPORTED)


def pytest_collection_modifyitems(items):
    """Marks by path; long files first, the rest in the order in which they were found."""
    for item in items:
        for start, names in MARKS.items():
            for name in names if item.nodeid.startswith(start) else ():
                item.add_marker(name)
    items.sort(key=lambda item: position_of(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays: to look through it for garbage took a sixth of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist deals them
def pytest_xdist_make_scheduler(config, log):
    """Of ``--dist loadfile``, as ``make test`` has it."""
    return Dealing(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture
def spawned_workers():
    """Workers begin as they do for who types a command: for tests of just that."""
    with dask.config.set({METHOD: "spawn"}):
        yield


@pytest.fixture(scope="session")
def one_worker():
    with open_cluster("local", 1) as client:
        yield client


@pytest.fixture(scope="session")
def four_workers():
    with open_cluster("local", 4) as client:
        yield client


@pytest.fixture(scope="session")
def finished_of(tmp_path_factory):
    """A small run of a command, made once, and what it said.

    With figures, even where it is first asked for by a test that goes without: others look.
    """
    from pipelines.report.page import draw_figures

    def run_of(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pipelines.report.page.draw_figures", draw_figures)
            return finished_run(name, tmp_path_factory.mktemp("runs") / name, *ON_THREADS)

    return cache(run_of)


@pytest.fixture(scope="session")
def undisturbed_of(tmp_path_factory):
    """A longer run of a command, made once."""
    longer = tmp_path_factory.mktemp("longer")
    return cache(lambda name: undisturbed_run(name, longer / name, *ON_THREADS))


@pytest.fixture
def gpu_stand_in(tmp_path, monkeypatch):
    """The packages of ``tests/gpu_stand_in``; what gives the process, kind and bytes of touches.

    For clusters that the test opens: their processes have it, too.
    """
    noted = tmp_path / "touches"
    noted.touch()
    monkeypatch.setenv("GPU_STAND_IN", str(noted))
    environ = dask.config.get("distributed.nanny.environ")  # workers do not have this process's
    monkeypatch.setitem(environ, "GPU_STAND_IN", str(noted))
    folder = Path(__file__).with_name("gpu_stand_in")
    monkeypatch.syspath_prepend(folder)

    def touches():
        lines = map(str.split, noted.read_text().splitlines())
        return [(int(process), what, int(nbytes)) for process, what, nbytes in lines]

    yield touches
    packages = {path.stem for path in folder.iterdir()}
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def drawn_figures(request, monkeypatch):
    """Pages of a test's own runs in this process have figures only where it is marked so.

    They take longer to draw than most of these runs. Runs that tests share have them.
    """
    if request.node.get_closest_marker("figures") is None:
        monkeypatch.setattr("pipelines.report.page.draw_figures", lambda run, figures: {})


# While Playwright drives it, an event loop runs in the thread of the tests: not for those of
# other files.
@pytest.fixture(scope="module")
def browser():
    """A Chromium without a window, driven by Playwright."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright, which drives it, comes with the extra dev"
    )
    # Without these a browser asks the network for its own affairs.
    quiet = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
        "--disable-background-networking",
        "--disable-component-update",
    ]
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=quiet)
        yield opened
        opened.close()
