"""Guards of a scheduler's ports: host names, handshakes, numbers of connections.

Dask imports this file by its name, which ``settings`` gives it: ``routes`` take the place
of ``distributed.http.scheduler.info``, ``dask_setup`` runs when a scheduler starts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
import socket
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

import dask
import psutil
from distributed.http.scheduler import info
from tornado.web import ErrorHandler

# Its GET puts a plugin into the scheduler, and Dask's own pages do without it.
routes = [route for route in info.routes if route[0] != "eventstream"]

MOST_CONNECTIONS = 128  # a browser takes six for a page, and one for each picture that moves
SECONDS_OF_SILENCE = 60  # of a connection before its next request
LOOPBACK_NAMES = {"localhost", "127.0.0.1", "::1"}

log = logging.getLogger("cluster_setup.pages")


def dask_setup(scheduler: Any) -> None:
    """Guard the ports of a scheduler; close that of its pages where there are none."""
    for listener in scheduler.listeners:
        if getattr(listener, "encrypted", False):  # one within a process is no port
            port = listener.tcp_server
            port.handle_stream = partial(_serve_after_handshake, port.handle_stream, [])
    server = scheduler.http_server
    if not dask.config.get("distributed.scheduler.http.routes"):
        server.stop()
        return
    application = scheduler.http_application
    application.find_handler = partial(_find_handler, application, host_names(server.address))
    server.handle_stream = partial(_serve_limited, server.handle_stream, [])
    server.conn_params.header_timeout = SECONDS_OF_SILENCE
    # What has no dashboard must not wait for bokeh.
    if any(hasattr(one, "app_paths") for one in application.applications):
        from cluster_setup import running_tasks_page

        running_tasks_page.setup(scheduler)


def host_names(address: str) -> set[str]:
    """Return the host names by which a server that listens at ``address`` may be reached.

    They include those that Dask's configuration allows (``allow_websocket_origin``).
    """
    asked = dask.config.get("distributed.scheduler.dashboard.bokeh-application")
    names = {_name(entry) for entry in asked["allow_websocket_origin"] if entry != "*"}
    if not ipaddress.ip_address(address).is_loopback:
        names |= {socket.gethostname(), socket.getfqdn(), address}
        cards = psutil.net_if_addrs().values()
        names |= {entry.address.partition("%")[0] for card in cards for entry in card}
    return {name.lower() for name in names} | LOOPBACK_NAMES


def _name(host: str) -> str:
    """Return the name alone of ``name``, ``name:port`` or ``[address]:port``."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _find_handler(application: Any, names: set[str], request: Any, **how: Any) -> Any:
    """Refuse what a page of another site asks: by its Origin, or by a name that it made ours."""
    origin = request.headers.get("Origin")
    if _name(request.host) in names and (
        origin is None or _name(origin.partition("://")[2]) in names
    ):
        return type(application).find_handler(application, request, **how)
    return application.get_handler_delegate(request, ErrorHandler, {"status_code": 403})


def _serve_limited(serve: Any, streams: list[Any], stream: Any, address: Any) -> Any:
    """Serve no more pages than there is room for: a run needs files, too."""
    streams[:] = [one for one in streams if not one.closed()]
    if len(streams) < _room():
        streams.append(stream)
        return serve(stream, address)
    stream.close()
    _warn_once(f"the dashboard has {len(streams)} connections, more are refused")
    return None


async def _serve_after_handshake(serve: Any, silent: list[Any], stream: Any, address: Any) -> None:
    """Serve a stream that has shown the certificate; of silent ones, wait for the last only.

    Who has the certificate shows it at once, and so is not dropped.
    """
    if len(silent) >= _room():
        silent.pop(0).close()
        _warn_once("the scheduler has many idle connections; the oldest are closed")
    silent.append(stream)
    try:
        await asyncio.wait_for(stream.wait_for_handshake(), SECONDS_OF_SILENCE)
    except (OSError, TimeoutError):
        stream.close()
        return
    finally:
        if stream in silent:
            silent.remove(stream)
    await serve(stream, address)


def _room() -> int:
    return min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)


@cache
def _warn_once(what: str) -> None:
    log.warning("warning    %s", what)
