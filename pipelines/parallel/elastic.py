"""A training that outlives its workers: a process group that breaks is followed by another."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError
from pipelines.parallel.checkpoint import Progress, progress_of, read
from pipelines.parallel.problem import Problem
from pipelines.parallel.rank import Rank, Send, TrainingPlan
from pipelines.process_group.group import Group, ProcessGroupError
from pipelines.process_group.members import (
    SECONDS_FOR_A_REPLACEMENT,
    Ended,
    hosts_of,
    load_on_workers,
    run_process_group,
    wait_for_members,
)
from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client

MOST_FAILURES = 10  # in a row, with no step gained between them
SECONDS_TO_BEGIN = 60.0  # after which fewer workers do, where no more are on their way


@dataclass(frozen=True)
class Trained:
    """The result of a training, with its test scores.

    ``members`` are the workers of the last process group, ``seconds`` those of all process groups.
    """

    progress: Progress
    tested: Mapping[str, float]
    members: list[str]
    seconds: float


def train(problem: Problem, order: TrainingPlan, group: Group, send: Send) -> bytes:
    """Train until the end; the same call on each rank.

    Returns
    -------
    The last checkpoint.

    Raises
    ------
    ProcessGroupError
        Its ``kept`` is the checkpoint of the last point at which all ranks were equal.
    """
    rank = Rank(problem, order, group, send)
    try:
        return rank.train()
    except ProcessGroupError as error:
        error.kept = rank.kept_bytes()
        raise


def train_on(
    client: Client, problem: Problem, order: TrainingPlan, n_ranks: int, on_message: Send, *,
    device: str, threads: int, open_ranks: bool,
) -> Trained:  # fmt: skip
    """Train on so many workers of a cluster; where one dies, go on with those that are left.

    A new process group begins at the last point at which all ranks were equal, from the memory of
    a rank that is left, or else from the last checkpoint on disk; so does a first one that finds
    a checkpoint. ``on_message`` hears what rank 0 tells, and of each restart: the reason, the ranks
    before and after, the step that it began from, the steps done before and to be done again, as
    far as was told, and the seconds from the loss being noticed to the new ranks' beginning.

    Raises
    ------
    RunStopped
        They came to be on several hosts, and ``open_ranks`` does not consent to that; workers died
        again and again and nothing was gained, or none is left.
    """
    began, path = time.perf_counter(), Path(order.checkpoint)
    newest = order.start or read(path)
    load_on_workers(client, ["torch"])
    listener, failures = _Listener(on_message), 0
    patience, whole = SECONDS_TO_BEGIN, True
    while True:
        members = wait_for_members(client, n_ranks, patience, whole)
        if not open_ranks:
            try:
                refuse_several_hosts(members)
            except InputError as error:  # a replacement that came from another host
                raise RunStopped(str(error)) from None
        listener.n_ranks = len(members)
        ended = run_process_group(
            client, members, train, problem, dataclasses.replace(order, start=newest),
            listener.on_message,
            device=device, threads=threads,
        )  # fmt: skip
        if ended.lost is None:
            seconds = time.perf_counter() - began
            return Trained(progress_of(ended.result), listener.tested, members, seconds)
        before = _step_of(newest)
        newest = max([newest, read(path), *ended.kept], key=_step_of)
        failures = 0 if _step_of(newest) > before else failures + 1
        if failures >= MOST_FAILURES:
            raise RunStopped(f"the ranks were lost {failures} times at one step: {ended.lost}")
        listener.lose(ended)
        patience, whole = SECONDS_FOR_A_REPLACEMENT, False


def refuse_several_hosts(members: Sequence[str]) -> None:
    """Refuse ranks whose tensors would cross a network in clear: torch's wheels have no TLS.

    Raises
    ------
    InputError
    """
    hosts = sorted(hosts_of(members))
    if len(hosts) > 1:
        raise InputError(
            "--cluster must have the ranks on one host, as torch does not encrypt what they say to "
            f"each other, got {len(hosts)} ({', '.join(hosts[:3])}); add --open-ranks where nobody "
            "else is on the network"
        )


class _Listener:
    """Passes on rank 0's messages of each process group, and adds a message of each restart."""

    def __init__(self, on_message: Send) -> None:
        self.n_ranks = 0
        self.tested: dict[str, float] = {}
        self._told, self._step = on_message, 0
        # The first process group that was lost since one trained, and the last step it told.
        self._lost: tuple[Ended, int] | None = None

    def on_message(self, message: Mapping[str, Any]) -> None:
        step = int(message.get("step", 0))
        if message["kind"] == "begun" and self._lost is not None:
            ended, reached = self._lost
            self._told({
                "kind": "restart",
                "reason": ended.lost,
                "ranks_before": len(ended.members),
                "ranks_after": self.n_ranks,
                "step": step,
                "steps_lost": max(0, reached - step),
                "seconds": time.time() - ended.detected,
            })  # fmt: skip
            self._lost = None
        if message["kind"] == "tested":
            self.tested = {"loss": message["loss"], "metric": message["metric"]}
        self._step = max(self._step, step)
        self._told(message)

    def lose(self, ended: Ended) -> None:
        """Report a process group that broke."""
        if self._lost is None:
            self._lost = ended, self._step
        self._step = 0


def _step_of(content: bytes | None) -> int:
    """Return the step of a checkpoint, -1 where there is none."""
    return -1 if content is None else progress_of(content).step
