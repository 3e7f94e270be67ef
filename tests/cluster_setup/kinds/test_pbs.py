from __future__ import annotations

from cluster_setup.kinds.pbs import QUEUE
from cluster_setup.queue.jobs import JobState

QSTAT = """\
Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
101.head          pleasingly       ada               00:01:02 R gpu
102.head          pleasingly       ada                      0 Q gpu
103.head          pleasingly       ada               00:00:01 C gpu
"""


def test_its_words_are_understood() -> None:
    assert QUEUE.parse_states(QSTAT) == {
        "101": JobState(waits=False, reason="state R"),
        "102": JobState(waits=True, reason="state Q"),
    }
