from __future__ import annotations

from cluster_setup.kinds.slurm import QUEUE
from cluster_setup.queue.jobs import JobState

SQUEUE = """\
7|RUNNING|None
8|PENDING|Resources
9|COMPLETING|None
10|PENDING|Priority
"""


def test_its_words_are_understood() -> None:
    assert QUEUE.parse_states(SQUEUE) == {
        "7": JobState(waits=False),
        "8": JobState(waits=True, reason="Resources"),
        "10": JobState(waits=True, reason="Priority"),
    }
