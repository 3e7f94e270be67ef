"""What the batch systems' own words mean to us."""

from __future__ import annotations

import asyncio
import dataclasses
import sys

from cluster_setup.job_queue import JobState, Queue
from cluster_setup.queues import QUEUES
from cluster_setup.slurm import SLURM

SQUEUE = """\
7|RUNNING|None
8|PENDING|Resources
9|COMPLETING|None
10|PENDING|Priority
"""
QSTAT_PBS = """\
Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
101.head          pleasingly       ada               00:01:02 R gpu
102.head          pleasingly       ada                      0 Q gpu
103.head          pleasingly       ada               00:00:01 C gpu
"""
QSTAT_SGE = """\
job-ID  prior   name       user         state submit/start at     queue        slots ja-task-ID
-----------------------------------------------------------------------------------------------
    201 0.50500 pleasingly ada          r     11/20/2026 10:00:00 all.q@node1      8
    202 0.50500 pleasingly ada          qw    11/20/2026 10:00:00                  8
    203 0.50500 pleasingly ada          Eqw   11/20/2026 10:00:00                  8
"""


def test_slurm() -> None:
    assert SLURM.read(SQUEUE) == {
        "7": JobState(waits=False),
        "8": JobState(waits=True, reason="Resources"),
        "10": JobState(waits=True, reason="Priority"),
    }


def test_pbs() -> None:
    assert QUEUES["pbs"].read(QSTAT_PBS) == {
        "101": JobState(waits=False, reason="state R"),
        "102": JobState(waits=True, reason="state Q"),
    }


def test_grid_engine() -> None:
    assert QUEUES["sge"].read(QSTAT_SGE) == {
        "201": JobState(waits=False, reason="state r"),
        "202": JobState(waits=True, reason="state qw"),
    }


def saying(out: str, err: str, status: int) -> Queue:
    """A queue whose command says this."""
    program = (
        f"import sys; sys.stdout.write({out!r}); sys.stderr.write({err!r}); sys.exit({status})"
    )
    return dataclasses.replace(SLURM, ask=lambda jobs: [sys.executable, "-c", program])


def test_a_queue_that_does_not_answer_says_nothing() -> None:
    """Not that the jobs have ended."""
    down = saying("", "slurm_load_jobs error: Unable to contact slurm controller", 1)
    assert asyncio.run(down.states(["7"])) is None
    absent = dataclasses.replace(SLURM, ask=lambda jobs: ["no-such-command"])
    assert asyncio.run(absent.states(["7"])) is None
    assert asyncio.run(saying("gibberish", "", 0).states(["7"])) is None


def test_jobs_that_the_queue_has_forgotten_have_ended() -> None:
    gone = saying("", "slurm_load_jobs error: Invalid job id specified", 1)
    assert asyncio.run(gone.states(["7"])) == {}
