"""Loaded by every Python of a disturbed run: SIGUSR1 makes a process take memory until it dies.

Nothing else differs from an undisturbed run. The process stops at a limit, so that a nanny
that does not end it costs a failed test and not the machine.
"""

import os
import signal
import time

LIMIT = "PLEASINGLY_CHAOS_BYTES"
SECONDS_TO_BE_ENDED = 30


def take_memory(number, frame):
    """Take and touch memory, 16 MiB at a time."""
    taken = []
    for _ in range(int(os.environ[LIMIT]) >> 24):
        taken.append(b"\1" * (1 << 24))
    until = time.monotonic() + SECONDS_TO_BE_ENDED
    while time.monotonic() < until:
        time.sleep(0.1)


if LIMIT in os.environ:
    signal.signal(signal.SIGUSR1, take_memory)
