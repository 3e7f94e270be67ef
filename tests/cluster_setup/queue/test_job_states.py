from __future__ import annotations

import asyncio
import dataclasses
import sys

from cluster_setup.kinds.slurm import QUEUE
from cluster_setup.queue.jobs import Queue


def saying(out: str, err: str, status: int) -> Queue:
    """A queue whose command says this."""
    program = (
        f"import sys; sys.stdout.write({out!r}); sys.stderr.write({err!r}); sys.exit({status})"
    )
    return dataclasses.replace(QUEUE, states_command=lambda jobs: [sys.executable, "-c", program])


def test_a_queue_that_does_not_answer_says_nothing() -> None:
    """Not that the jobs have ended."""
    down = saying("", "slurm_load_jobs error: Unable to contact slurm controller", 1)
    assert asyncio.run(down.states(["7"])) is None
    absent = dataclasses.replace(QUEUE, states_command=lambda jobs: ["no-such-command"])
    assert asyncio.run(absent.states(["7"])) is None
    assert asyncio.run(saying("gibberish", "", 0).states(["7"])) is None


def test_jobs_that_the_queue_has_forgotten_have_ended() -> None:
    gone = saying("", "slurm_load_jobs error: Invalid job id specified", 1)
    assert asyncio.run(gone.states(["7"])) == {}
