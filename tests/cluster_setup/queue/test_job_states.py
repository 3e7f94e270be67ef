from __future__ import annotations

import asyncio
import dataclasses
import sys

import pytest

from cluster_setup.kinds import pbs, sge, slurm
from cluster_setup.kinds.slurm import QUEUE
from cluster_setup.queue.jobs import JobState, Queue

SQUEUE = """\
7|RUNNING|None
8|PENDING|Resources
9|COMPLETING|None
10|PENDING|Priority
"""
PBS = """\
Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
101.head          pleasingly       ada               00:01:02 R gpu
102.head          pleasingly       ada                      0 Q gpu
103.head          pleasingly       ada               00:00:01 C gpu
"""
SGE = """\
job-ID  prior   name       user         state submit/start at     queue        slots ja-task-ID
-----------------------------------------------------------------------------------------------
    201 0.50500 pleasingly ada          r     11/20/2026 10:00:00 all.q@node1      8
    202 0.50500 pleasingly ada          qw    11/20/2026 10:00:00                  8
    203 0.50500 pleasingly ada          Eqw   11/20/2026 10:00:00                  8
"""


@pytest.mark.parametrize(
    ("queue", "said", "states"),
    [
        (
            slurm.QUEUE,
            SQUEUE,
            {"7": (False, ""), "8": (True, "Resources"), "10": (True, "Priority")},
        ),
        (pbs.QUEUE, PBS, {"101": (False, "state R"), "102": (True, "state Q")}),
        (sge.QUEUE, SGE, {"201": (False, "state r"), "202": (True, "state qw")}),
    ],
)
def test_the_words_of_a_queue_are_understood(
    queue: Queue, said: str, states: dict[str, tuple[bool, str]]
) -> None:
    assert queue.parse_states(said) == {job: JobState(*state) for job, state in states.items()}


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
