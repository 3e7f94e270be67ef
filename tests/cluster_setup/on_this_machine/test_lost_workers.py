"""A cluster of this machine gets back the workers that Dask gives up."""

from __future__ import annotations

import asyncio
import os
import signal

import dask
import pytest
from distributed.core import Status

from cluster_setup import open_cluster

from .nannies import next_is_killed

pytestmark = pytest.mark.usefixtures("spawned_workers")


@pytest.mark.slow
def test_a_worker_whose_nanny_is_dropped_comes_back():
    # So short that Dask drops the nanny before the successor of its worker has registered.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}),
        open_cluster("local", 2) as client,
    ):
        before = client.run(os.getpid)
        os.kill(min(before.values()), signal.SIGKILL)
        client.sync(_one_is_dropped, client.cluster)
        client.wait_for_workers(2, timeout=600)
        after = client.run(os.getpid)
    assert len(after) == 2
    assert len(set(before.values()) & set(after.values())) == 1


async def _one_is_dropped(cluster):
    while len(cluster.scheduler_info["workers"]) == 2:
        await asyncio.sleep(0.01)


@pytest.mark.slow
def test_a_worker_killed_again_and_again_while_it_starts_can_be_closed():
    # What each of them leaves behind takes what the nanny should hear of the next.
    with open_cluster("local", 1) as client:
        (nanny,) = client.cluster.workers.values()
        for _ in range(6):
            client.sync(next_is_killed, nanny)
        client.wait_for_workers(1, timeout=600)
        client.sync(_nanny_knows, nanny)


async def _nanny_knows(nanny):
    while nanny.process is None or nanny.process.status is not Status.running:
        await asyncio.sleep(0.05)
