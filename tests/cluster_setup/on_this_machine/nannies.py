"""What is done to the workers of nannies in tests."""

from __future__ import annotations

import asyncio
import os
import signal


async def next_is_killed(nanny):
    """Kill the worker that a nanny has or is about to have; wait until it is gone."""
    while (pid := nanny.pid) is None:
        await asyncio.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    while nanny.pid == pid:
        await asyncio.sleep(0.001)
