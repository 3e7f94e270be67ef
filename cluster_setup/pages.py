"""Guard the web pages of a scheduler: which there are, and who may look at them.

Dask imports this file by its name, which ``dask_settings`` gives: ``routes`` take the place
of ``distributed.http.scheduler.info``, ``dask_setup`` runs when a scheduler starts.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

import dask
import psutil
from distributed.http.scheduler import info
from tornado.web import ErrorHandler

# A GET of this page adds a plugin to the scheduler, and Dask's own pages do not need it.
routes = [route for route in info.routes if route[0] != "eventstream"]

LOOPBACK_NAMES = {"localhost", "127.0.0.1", "::1"}


def dask_setup(scheduler: Any) -> None:
    """Guard the pages of a scheduler, or close their port if there are none."""
    server = scheduler.http_server
    if not dask.config.get("distributed.scheduler.http.routes"):
        server.stop()
        return
    application = scheduler.http_application
    names, find_original = host_names(server.address), application.find_handler

    def find_handler(request: Any, **keywords: Any) -> Any:
        # Requests from the page of another site are refused, by their Origin; and those under a
        # host name that is not ours, which another site may have let point here.
        origin = request.headers.get("Origin")
        if _name(request.host) in names and (
            origin is None or _name(origin.partition("://")[2]) in names
        ):
            return find_original(request, **keywords)
        return application.get_handler_delegate(request, ErrorHandler, {"status_code": 403})

    application.find_handler = find_handler


def host_names(address: str) -> set[str]:
    """The host names by which a server that listens at ``address`` may be reached.

    They include those that Dask's configuration allows (``allow_websocket_origin``).
    """
    bokeh_options = dask.config.get("distributed.scheduler.dashboard.bokeh-application")
    names = {_name(entry) for entry in bokeh_options["allow_websocket_origin"] if entry != "*"}
    if not ipaddress.ip_address(address).is_loopback:
        names |= {socket.gethostname(), socket.getfqdn(), address}
        cards = psutil.net_if_addrs().values()
        names |= {entry.address.partition("%")[0] for card in cards for entry in card}
    return {name.lower() for name in names} | LOOPBACK_NAMES


def _name(host: str) -> str:
    """The host of ``name``, ``name:port`` or ``[address]:port``; empty if it is invalid."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
