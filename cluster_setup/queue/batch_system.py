"""What a batch system is to us: a command that submits, one that tells, one that cancels."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster_setup.profiles import Profile

SECONDS_TO_ANSWER = 60


@dataclass(frozen=True)
class JobState:
    """Where a job in the queue stands."""

    waits: bool
    reason: str = ""


@dataclass(frozen=True)
class Queue:
    """One batch system.

    Attributes
    ----------
    kind : str
        As in ``KINDS``.
    cluster_class : str
        Its class in ``dask_jobqueue``.
    submit, cancel : str
        Commands.
    ask : function of job ids
        The command that tells where jobs stand.
    read : function of the command's output
        Job id -> state, of the jobs that have not ended.
    arguments : function of profile, whether with a GPU, and the folder for logs
        What this queue's job class in dask-jobqueue is told beside what all are.
    """

    kind: str
    cluster_class: str
    submit: str
    cancel: str
    ask: Callable[[Sequence[str]], list[str]]
    read: Callable[[str], dict[str, JobState]]
    arguments: Callable[[Profile, bool, Path], Mapping[str, Any]]

    async def states(self, jobs: Sequence[str]) -> dict[str, JobState] | None:
        """Where ``jobs`` stand; one that is missing has ended. None when the queue is silent."""
        if not jobs:
            return {}
        with suppress(OSError, TimeoutError, ValueError, IndexError):
            asked = await asyncio.create_subprocess_exec(
                *self.ask(jobs), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            try:
                out, err = await asyncio.wait_for(asked.communicate(), SECONDS_TO_ANSWER)
            except TimeoutError:
                asked.kill()
                raise
            # qstat and squeue fail, too, when none of the jobs is known any more.
            if asked.returncode == 0 or _none_is_known(err.decode(errors="replace")):
                return self.read(out.decode(errors="replace"))
        return None

    def cancel_all(self, jobs: Sequence[str]) -> None:
        """Cancel jobs at once; those that have ended do not matter."""
        if jobs:
            with suppress(OSError, subprocess.SubprocessError):
                subprocess.run([self.cancel, *jobs], capture_output=True, timeout=SECONDS_TO_ANSWER)


def _none_is_known(said: str) -> bool:
    said = said.lower()
    return "invalid job id" in said or "unknown job" in said or "has finished" in said
