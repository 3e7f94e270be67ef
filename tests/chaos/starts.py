"""A second start on the folder of a run that is under way."""

from __future__ import annotations

import time

from tests.chaos.checks import must_be_one_line, must_equal
from tests.chaos.program import Broken, Program


def disturb(
    workload,
    truth,
    folder,
    rng,
    number,
    seconds,
):
    """Start a run, and the same on its folder once or more before it ends, also as ``--resume``.

    Raises
    ------
    Broken
        A second start was not refused in one line, or the run does not end as the other.
    """
    first, done = Program(workload.begin(folder), folder), []
    for _ in range(int(rng.integers(1, 4))):
        after = float(rng.uniform(0, seconds / 4))
        time.sleep(after)
        if not first.wait_until((folder / "journal.jsonl").exists):
            break
        resumes = bool(rng.integers(2))
        second = Program(workload.resume(folder) if resumes else workload.begin(folder), folder)
        status = second.wait()
        second.must_vanish()
        if first.ended:  # the first may have been over when the second looked
            break
        if status != 2:
            raise Broken(f"a second start gave exit status {status}: {second.complained}")
        must_be_one_line(second.complained, f"{workload.command}: ", str(folder))
        done.append(f"{'resumed' if resumes else 'started'} again after {after:.1f} s")
    first.must_end_well()
    must_equal(workload, folder, truth)
    return done or ["over before it could be started again"]
