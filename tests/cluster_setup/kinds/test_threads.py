from __future__ import annotations

import os
import threading
from urllib.request import urlopen

import psutil
import pytest

from cluster_setup import open_cluster
from cluster_setup.shutdown import threads_left


def test_tasks_run_in_this_process_and_no_port_is_opened():
    before = _ports()
    with open_cluster("threads", 2) as client:
        assert client.scheduler.address.startswith("inproc://")
        assert client.submit(os.getpid, pure=False).result() == os.getpid()
        assert len(client.scheduler_info()["workers"]) == 2
        assert _ports() == before


def test_it_shows_its_dashboard_where_that_is_asked_for():
    with open_cluster("threads", 1, dashboard="0") as client:
        page = urlopen(client.dashboard_link).read().decode()
    assert "Dask" in page


def _ports():
    here = psutil.Process().net_connections("inet")
    return {connection.laddr.port for connection in here if connection.status == psutil.CONN_LISTEN}


BEGUN, GOES_ON = threading.Event(), threading.Event()


def compute():
    BEGUN.set()
    GOES_ON.wait()


def test_who_leaves_early_does_not_wait_for_what_computes():
    def interrupted():
        with open_cluster("threads", 1) as client:
            future = client.submit(compute)
            BEGUN.wait()
            future.cancel()
            raise KeyboardInterrupt

    with open_cluster("threads", 1) as other:
        other.submit(os.getpid).result()  # its threads wait for more, and are not left
        try:
            with pytest.raises(KeyboardInterrupt):
                interrupted()
            assert threads_left()
        finally:
            GOES_ON.set()
        while threads_left():
            pass
