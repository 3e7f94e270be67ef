"""Clusters that tests share: opened once, as the program opens them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from distributed import Client

from cluster_setup import open_cluster

# The same examples each time: what passes here passes everywhere.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def one_worker() -> Iterator[Client]:
    with open_cluster("local", 1) as client:
        yield client


@pytest.fixture(scope="session")
def four_workers() -> Iterator[Client]:
    with open_cluster("local", 4) as client:
        yield client


# While Playwright drives it, an event loop runs in the thread of the tests: not for those of
# other files.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium without a window, driven by Playwright."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright, which drives it, comes with the extra dev"
    )
    # Without these a browser asks the network for its own affairs.
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
             "--disable-background-networking", "--disable-component-update"]  # fmt: skip
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=quiet)
        yield opened
        opened.close()
