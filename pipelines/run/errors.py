"""The exception of a run that cannot go on, and errors that mean a lack of memory."""

from __future__ import annotations

import errno
import time
from typing import Any

# Messages of loaders where a library does not fit into memory, and of Python where the stack of a
# new thread does not.
NO_ROOM = ("failed to map segment", "cannot allocate memory", "libllvmlite", "start new thread")
OUT_OF_MEMORY = "out of memory"
NO_MEMORY = f"{OUT_OF_MEMORY}: a limit of this process (ulimit -v, a job's) leaves too little"


class RunStopped(RuntimeError):
    """A run ends before its last task; what was computed is on disk.

    Commands print the one-line message on stderr and end with exit status 1.
    """


def stop_if_lost(client: Any, address: str) -> None:
    """Wait while a client that lost its scheduler tries to reach it again.

    Raises
    ------
    RunStopped
        The client has given up, or its scheduler does not answer.
    """
    from cluster_setup.waits import SECONDS_TO_ANSWER

    answers = True
    if client.status == "running":  # another connection may break before the client notices
        try:
            client.sync(client.scheduler.identity, callback_timeout=SECONDS_TO_ANSWER)
        except (OSError, TimeoutError):
            answers = False
    while client.status == "connecting":
        answers = True  # once it has reached the scheduler again
        time.sleep(0.1)
    if client.status != "running" or not answers:
        raise RunStopped(f"the scheduler at {address} no longer responds") from None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means, in the words of its library, that memory is used up."""
    text = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or "OutOfMemory" in type(error).__name__
        or getattr(error, "errno", None) == errno.ENOMEM
        or any(words in text for words in NO_ROOM)
    )
