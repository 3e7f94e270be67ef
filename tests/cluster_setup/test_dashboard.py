"""What a browser, and whoever else reaches the scheduler's port for pages, is shown."""

from __future__ import annotations

import asyncio
import http.client
import socket
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from cluster_setup import ClusterError, open_cluster, pages


def address_of(client):
    link = urlsplit(client.dashboard_link)
    assert link.hostname
    assert link.port
    return link.hostname, link.port


def status_of(client, page, **headers):
    connection = http.client.HTTPConnection(*address_of(client))
    try:
        connection.request("GET", page, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_dashboard_listens_where_it_is_told():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open_cluster("local", 1, dashboard=str(port)) as client:
        assert client.dashboard_link == f"http://127.0.0.1:{port}/status"
        assert urlopen(client.dashboard_link).status == 200


def test_no_dashboard_is_no_port():
    with open_cluster("local", 1, dashboard="off") as client:
        assert client.submit(sum, (1, 2)).result() == 3
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address_of(client))


def test_a_dashboard_that_is_no_port_is_refused():
    with (
        pytest.raises(ClusterError, match="--dashboard must be a port, host:port or off, got"),
        open_cluster("local", dashboard="on"),
    ):
        pass


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:9999", 200),  # the other end of a tunnel has a port of its own
        ("127.0.0.1:8787", 200),
        ("[::1]:8787", 200),
        ("evil.example", 403),
        ("localhost.evil.example:8787", 403),
        ("[", 403),
    ],
)
def test_a_name_that_is_not_ours_is_refused(one_worker, host, status):
    """A page of another site may make its own name ours, and would then read what we show."""
    for page in ("/status", "/json/counts.json", "/health"):
        assert status_of(one_worker, page, Host=host) == status


@pytest.mark.parametrize(
    ("origin", "works"),
    [
        ("http://localhost:9999", True),
        ("http://127.0.0.1:8888", True),
        ("http://evil.example", False),
        ("http://localhost.evil.example", False),
        ("null", False),
    ],
)
def test_a_page_of_another_site_cannot_look(one_worker, origin, works):
    host, port = address_of(one_worker)

    async def connect():
        url = f"ws://{host}:{port}/status/ws"
        request = HTTPRequest(url, headers={"Origin": origin})
        (await websocket_connect(request, subprotocols=["bokeh"])).close()

    if works:
        asyncio.run(connect())
    else:
        with pytest.raises(HTTPClientError, match="HTTP 403"):
            asyncio.run(connect())
    assert status_of(one_worker, "/status", Origin=origin) == (200 if works else 403)


@pytest.mark.parametrize("page", ["/eventstream", "/proxy/1/127.0.0.1/x", "/api/v1"])
def test_no_page_changes_the_scheduler_or_reaches_out(one_worker, page):
    plugins = set(one_worker.cluster.scheduler.plugins)
    assert status_of(one_worker, page) == 404
    assert set(one_worker.cluster.scheduler.plugins) == plugins


def test_a_dashboard_for_others_goes_by_the_names_of_its_host():
    everywhere = pages.host_names("0.0.0.0")
    assert {socket.gethostname().lower(), "localhost", "127.0.0.1"} <= everywhere
    assert pages.host_names("127.0.0.1") == {"localhost", "127.0.0.1", "::1"}
