"""What a browser, and whoever else reaches the scheduler's port for pages, is shown."""

from __future__ import annotations

import socket
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from cluster_setup import ClusterError, open_cluster


def test_the_dashboard_listens_where_it_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open_cluster("local", 1, dashboard=str(port)) as client:
        assert client.dashboard_link == f"http://127.0.0.1:{port}/status"
        assert urlopen(client.dashboard_link).status == 200


def test_no_dashboard_is_none() -> None:
    with open_cluster("local", 1, dashboard="off") as client:
        for page in ("status", "info/main/workers.html", "json/counts.json"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(client.dashboard_link.replace("status", page))


def test_a_dashboard_that_is_no_port_is_refused() -> None:
    with (
        pytest.raises(ClusterError, match="--dashboard must be a port, host:port or off, got"),
        open_cluster("local", dashboard="on"),
    ):
        pass
