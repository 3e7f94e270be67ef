"""Where a scheduler's dashboard listens."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

LOOPBACK = "127.0.0.1"
USUAL_PORT = 8787
TOPIC = "pleasingly-"  # how the topics begin whose events the page of units shows


def scheduler_dashboard(asked: str | None) -> dict[str, Any]:
    """Where a scheduler's dashboard listens, as options of ``Scheduler``.

    By default loopback on Dask's usual port, or on any free one when that is taken. Where it
    listens, it has a page of the units at work.
    """
    if asked == "off":  # a scheduler opens a port for pages anyway; dask_setup closes it
        return {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
    with suppress(ImportError):  # no bokeh, no dashboard
        from cluster_setup import units_page

        units_page.register()
    if asked is None:
        with socket.socket() as probe:
            taken = probe.connect_ex((LOOPBACK, USUAL_PORT)) == 0
        asked = "0" if taken else str(USUAL_PORT)
    return {"dashboard_address": asked if ":" in asked else f"{LOOPBACK}:{asked}"}
