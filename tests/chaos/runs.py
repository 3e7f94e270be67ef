"""Kinds of chaos in one table, and one run of a kind by its number."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tests.chaos import disk, journal, launcher, queue, starts, workers
from tests.chaos.program import Broken
from tests.chaos.workloads import BAGGING, SVM, Workload, pick, undisturbed

WORKLOADS = (SVM, BAGGING)


@dataclass(frozen=True)
class Kind:
    """A kind of chaos.

    Attributes
    ----------
    about : str
    n_runs : int
        In the full form.
    missing : function
        Why it cannot be tried on this machine; empty where it can.
    """

    about: str
    n_runs: int
    missing: Callable[[], str] = lambda: ""


KINDS = {
    "workers": Kind("workers killed, stopped for a while, out of memory", 20),
    "launcher": Kind("the launcher ended by SIGKILL, SIGTERM, SIGINT, SIGHUP, then `--resume`", 10),
    "disk": Kind("a full disk, then a larger one and `--resume`", 4, disk.missing),
    "journal": Kind("a journal cut within a record, or with foreign ones, then `--resume`", 6),
    "starts": Kind("a second start on the folder of a run under way", 6),
    "queue": Kind(
        "on a real Slurm: jobs cancelled, workers killed, the launcher ended, then `--resume`",
        8,
        queue.missing,
    ),
}


@dataclass(frozen=True)
class Truth:
    """How a workload ends when nobody disturbs it."""

    folder: Path
    seconds: float


@dataclass(frozen=True)
class Result:
    """What became of one disturbed run."""

    kind: str
    number: int
    command: str
    done: list[str]  # to it
    broken: str  # what it did not hold; empty where it held everything
    seconds: float


class Chaos:
    """Disturbs runs in a folder of its own.

    Parameters
    ----------
    folder : Path
    seed : int
    """

    def __init__(self, folder, seed=0):
        self._folder, self._seed = folder, seed
        self._truths: dict[Workload, Truth] = {}

    def prepare(self, numbers):
        """Carry out the undisturbed runs that the runs of these numbers are held to."""
        for number in numbers:
            self.truth(pick(WORKLOADS, number))

    def truth(self, workload):
        """The undisturbed run of a workload; carried out when first asked for."""
        if workload not in self._truths:
            folder = self._folder / f"undisturbed-{len(self._truths)}-{workload.command}"
            self._truths[workload] = Truth(folder, undisturbed(workload, folder))
        return self._truths[workload]

    def disturb(self, name, number, workload=None):
        """Run number ``number`` of a kind: the same faults each time."""
        workload = workload or pick(WORKLOADS, number)
        truth = self.truth(workload)
        rng = np.random.default_rng([self._seed, list(KINDS).index(name), number])
        disturb = {
            "workers": workers.disturb,
            "launcher": partial(launcher.disturb, seconds=truth.seconds),
            "disk": disk.disturb,
            "journal": journal.disturb,
            "starts": partial(starts.disturb, seconds=truth.seconds),
            "queue": queue.disturb,
        }[name]
        folder = self._folder / f"{name}-{number}"
        done, broken, began = [], "", time.monotonic()
        try:
            done = disturb(workload, truth.folder, folder, rng, number)
        except Broken as error:
            broken = str(error)
        seconds = time.monotonic() - began
        return Result(name, number, workload.command, done, broken, seconds)
