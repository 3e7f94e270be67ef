"""A training that outlives its workers: a process group that breaks is followed by another."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError
from pipelines.nn.settings import Training
from pipelines.nn.train import on_device
from pipelines.parallel.checkpoint import Progress, progress_of, read, remove_earlier_stages
from pipelines.parallel.options import Formation
from pipelines.parallel.problem import Problem
from pipelines.parallel.process_group.group import Group, ProcessGroupError
from pipelines.parallel.process_group.members import (
    SECONDS_FOR_A_REPLACEMENT,
    Ended,
    hosts_of,
    run_process_group,
    wait_for_members,
)
from pipelines.parallel.rank import Rank, Send, TrainingPlan
from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client

MOST_FAILURES = 10  # in a row, with no step gained between them
SECONDS_TO_BEGIN = 60.0  # after which fewer workers do, where no more are on their way


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
    import torch

    kind = Rank
    if order.options.stages != 1:
        from pipelines.parallel.staged_rank import StagedRank as kind
    rank = kind(problem, order, group, send)
    settings = Training(
        precision=order.options.precision,
        device="cpu" if group.device == "cpu" else "gpu",
        n_threads=torch.get_num_threads(),
    )
    try:
        with on_device(settings, inference=False):
            return rank.train()
    except ProcessGroupError as error:
        error.kept = rank.kept_bytes()
        raise
    except InputError:  # of rows that this rank alone has read: the others wait for it
        group.abort()
        raise
    finally:
        rank.close()


def train_on(
    client: Client,
    problem: Problem,
    order: TrainingPlan,
    n_ranks: int,
    on_message: Send,
    *,
    device: str,
    threads: int,
    open_ranks: bool,
) -> tuple[Progress, list[str], float]:
    """Train on so many workers of a cluster; where one dies, go on with those that are left.

    A new process group begins at the last point at which all ranks were equal, from the memory of
    a rank that is left, or else from the last checkpoint on disk; so does a first one that finds
    a checkpoint. ``on_message`` hears what rank 0 tells, and of each restart: the reason, the ranks
    before and after, the step that it began from, the steps done before and to be done again, as
    far as was told, and the seconds from the loss being noticed to the new ranks' beginning.

    Returns
    -------
    its progress, the workers of the last process group, and the seconds of all of them

    Raises
    ------
    RunStopped
        They came to be on several hosts, and ``open_ranks`` does not consent to that; workers died
        again and again and nothing was gained, or none is left.
    """
    began, path = time.perf_counter(), Path(order.checkpoint)
    newest = order.start or read(path)
    patience, whole, failures, members = SECONDS_TO_BEGIN, True, 0, list[str]()
    # The first process group that was lost since one trained, and the last step it told.
    lost: tuple[Ended, int] | None = None
    reached = 0

    def pass_on(message: Mapping[str, Any]) -> None:
        nonlocal lost, reached
        step = int(message.get("step", 0))
        if message["kind"] == "begun" and lost is not None:
            before, told = lost
            on_message(
                {
                    "kind": "restart",
                    "reason": before.lost,
                    "ranks_before": len(before.members),
                    "ranks_after": len(members),
                    "step": step,
                    "steps_lost": max(0, told - step),
                    "seconds": time.time() - before.detected,
                }
            )
            lost = None
        reached = max(reached, step)
        on_message(message)

    while True:
        members = wait_for_members(client, n_ranks, patience, whole)
        if not open_ranks:
            try:
                refuse_several_hosts(members)
            except InputError as error:  # a replacement that came from another host
                raise RunStopped(str(error)) from None
        members = members[: Formation.of(order.options, len(members)).n_ranks]
        n_on_host = -(-len(members) // len(hosts_of(members)))
        order = dataclasses.replace(order, start=newest, n_ranks_on_host=n_on_host)
        ended = run_process_group(
            client, members, train, problem, order, pass_on, device=device, threads=threads
        )
        if ended.lost is None:
            remove_earlier_stages(path)
            return progress_of(ended.result), members, time.perf_counter() - began
        held = _step_of(newest)
        newest = max([newest, read(path), *ended.kept], key=_step_of)
        failures = 0 if _step_of(newest) > held else failures + 1
        if failures >= MOST_FAILURES:
            raise RunStopped(f"the ranks were lost {failures} times at one step: {ended.lost}")
        lost, reached = lost or (ended, reached), 0
        patience, whole = SECONDS_FOR_A_REPLACEMENT, False


def refuse_several_hosts(members: Sequence[str]) -> None:
    """Raise InputError for ranks on several hosts: torch's wheels have no TLS."""
    hosts = sorted(hosts_of(members))
    if len(hosts) > 1:
        raise InputError(
            "--cluster must have the ranks on one host, as torch does not encrypt what they say to "
            f"each other, got {len(hosts)} ({', '.join(hosts[:3])}); add --open-ranks where nobody "
            "else is on the network"
        )


def _step_of(content: bytes | None) -> int:
    """Return the step of a checkpoint, -1 where there is none."""
    return -1 if content is None else progress_of(content).step
