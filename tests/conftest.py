"""Clusters that tests share: opened once, as the program opens them."""

from __future__ import annotations

from collections.abc import Iterator

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
