"""Where a scheduler's dashboard listens."""

from __future__ import annotations

import socket
from typing import Any

LOOPBACK = "127.0.0.1"
USUAL_PORT = 8787


def scheduler_dashboard(asked: str | None) -> dict[str, Any]:
    """Where a scheduler's dashboard listens, as options of ``Scheduler``.

    By default loopback on Dask's usual port, or on any free one when that is taken.
    """
    if asked == "off":  # a scheduler opens a port for pages anyway; dask_setup closes it
        return {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
    if asked is None:
        with socket.socket() as probe:
            taken = probe.connect_ex((LOOPBACK, USUAL_PORT)) == 0
        asked = "0" if taken else str(USUAL_PORT)
    return {"dashboard_address": asked if ":" in asked else f"{LOOPBACK}:{asked}"}
