from __future__ import annotations

from cluster_setup.kinds.sge import QUEUE
from cluster_setup.queue.jobs import JobState

QSTAT = """\
job-ID  prior   name       user         state submit/start at     queue        slots ja-task-ID
-----------------------------------------------------------------------------------------------
    201 0.50500 pleasingly ada          r     11/20/2026 10:00:00 all.q@node1      8
    202 0.50500 pleasingly ada          qw    11/20/2026 10:00:00                  8
    203 0.50500 pleasingly ada          Eqw   11/20/2026 10:00:00                  8
"""


def test_its_words_are_understood() -> None:
    assert QUEUE.parse_states(QSTAT) == {
        "201": JobState(waits=False, reason="state r"),
        "202": JobState(waits=True, reason="state qw"),
    }
