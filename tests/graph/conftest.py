"""Workers that tests of graphs share."""

from __future__ import annotations

import pytest
from distributed import Client


@pytest.fixture(scope="package")
def in_process():
    """Two workers in threads of this process, which see what a test has patched."""
    with Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as client:
        yield client
