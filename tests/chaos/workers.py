"""Faults of workers: killed, stopped for a while, out of memory; one of them or all."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from tests.chaos.checks import must_equal, n_done
from tests.chaos.inside.sitecustomize import LIMIT
from tests.chaos.program import Program

KINDS = ("killed", "stopped", "out of memory")
BYTES_OF_A_WORKER = 1 << 30
BYTES_TAKEN = 5 << 28  # 1.25 GiB
LONGEST_STOP = 8.0
SECONDS_TO_GIVE_UP = 20  # a silent worker; on a busy machine one that only starts is silent, too
INSIDE = Path(__file__).parent / "inside"


@dataclass(frozen=True)
class Fault:
    """What happens to workers, and when.

    Attributes
    ----------
    kind : str
        One of ``KINDS``.
    after : int
        Tasks that are done by then; 0 for a worker that only starts.
    pause : float
        Seconds from then.
    which : float
        Place in the list of workers, from 0 to 1; 1 for all of them.
    seconds : float
        How long a worker is stopped.
    """

    kind: str
    after: int
    pause: float
    which: float
    seconds: float

    def __str__(self):
        whom = "all workers" if self.which == 1 else "a worker"
        how_long = f" for {self.seconds:.1f} s" if self.kind == "stopped" else ""
        return f"{whom} {self.kind}{how_long} after {self.after} tasks and {self.pause:.2f} s"

    def longer(self, seconds):
        """The same fault, in which a worker is stopped for so many seconds more."""
        return replace(self, seconds=self.seconds + seconds)

    def strike(self, program):
        """Do it."""
        workers = program.workers()
        if self.which < 1 and workers:
            workers = [workers[int(self.which * len(workers))]]
        with suppress(psutil.NoSuchProcess):  # it may have ended by itself
            for worker in workers:
                worker.send_signal(SIGNALS[self.kind])
        if self.kind == "stopped":
            time.sleep(self.seconds)
            for worker in workers:
                with suppress(psutil.NoSuchProcess):
                    worker.resume()


SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "out of memory": signal.SIGUSR1}


def draw(rng, number, n_tasks):
    """The faults of one run, in order; the first goes round the kinds."""
    kinds = [KINDS[number % len(KINDS)], *rng.choice(KINDS, rng.integers(0, 4))]
    faults = [
        Fault(
            str(kind),
            int(rng.integers(0, n_tasks)),
            float(rng.uniform(0, 0.5)),
            1.0 if rng.random() < 0.25 else float(rng.random()),
            float(rng.uniform(0.5, LONGEST_STOP)),
        )
        for kind in kinds
    ]
    return sorted(faults, key=lambda fault: fault.after)


def disturb(workload, truth, folder, rng, number):
    """Carry out a run whose workers come to harm; give what was done to it.

    Raises
    ------
    Broken
        It does not end as the one that nobody disturbed.
    """
    faults = draw(rng, number, workload.n_tasks)
    environment = {"PYTHONPATH": str(INSIDE), LIMIT: str(BYTES_TAKEN)}
    done = []
    if number % 3 == 1:  # else Dask's five minutes: a stopped worker comes back in time
        environment["DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL"] = f"{SECONDS_TO_GIVE_UP}s"
        faults = [fault.longer(SECONDS_TO_GIVE_UP) for fault in faults]
    memory = BYTES_OF_A_WORKER * (psutil.cpu_count() or 1)  # a worker of one thread has its share
    program = Program(workload.begin(folder), folder, environment, memory)
    for fault in faults:
        # Under a fault at once the workers only start: Python has begun, no more.
        if not program.wait_until(
            lambda after=fault.after: n_done(folder) >= after and program.workers()
        ):
            break
        time.sleep(fault.pause)
        fault.strike(program)
        done.append(str(fault))
    program.must_end_well()
    must_equal(workload, folder, truth)
    return done
