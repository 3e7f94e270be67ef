"""A training that outlives its workers: a process group that breaks is followed by another."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.train import on_device
from pipelines.parallel.checkpoint import TrainingProgress, progress_of, read, remove_earlier_stages
from pipelines.parallel.options import Formation
from pipelines.parallel.problem import TrainingProblem
from pipelines.parallel.process_group.group import ProcessGroup, ProcessGroupError
from pipelines.parallel.process_group.members import (
    SECONDS_FOR_A_REPLACEMENT,
    GroupEnd,
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


def train_rank(
    problem: TrainingProblem, plan: TrainingPlan, group: ProcessGroup, send: Send
) -> bytes:
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
    if plan.options.stages != 1:
        from pipelines.parallel.staged_rank import StagedRank as kind
    rank = kind(problem, plan, group, send)
    settings = TrainingSettings(
        precision=plan.options.precision,
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
    problem: TrainingProblem,
    plan: TrainingPlan,
    n_ranks: int,
    on_message: Send,
    *,
    device: str,
    threads: int,
    open_ranks: bool,
) -> tuple[TrainingProgress, list[str], float]:
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
    began, path = time.perf_counter(), Path(plan.checkpoint)
    newest = plan.start or read(path)
    patience, wait_for_queued, failures, members = SECONDS_TO_BEGIN, True, 0, list[str]()
    # The first process group that was lost since one trained, and the last step it told.
    lost_group: tuple[GroupEnd, int] | None = None
    step_reached = 0

    def pass_on(message: Mapping[str, Any]) -> None:
        nonlocal lost_group, step_reached
        step = int(message.get("step", 0))
        if message["kind"] == "begun" and lost_group is not None:
            ended_group, last_step = lost_group
            on_message(
                {
                    "kind": "restart",
                    "reason": ended_group.lost,
                    "ranks_before": len(ended_group.members),
                    "ranks_after": len(members),
                    "step": step,
                    "steps_lost": max(0, last_step - step),
                    "seconds": time.time() - ended_group.detected,
                }
            )
            lost_group = None
        step_reached = max(step_reached, step)
        on_message(message)

    while True:
        members = wait_for_members(client, n_ranks, patience, wait_for_queued)
        if not open_ranks:
            try:
                refuse_several_hosts(members)
            except InputError as error:  # a replacement that came from another host
                raise RunStopped(str(error)) from None
        members = members[: Formation.of(plan.options, len(members)).n_ranks]
        n_on_host = -(-len(members) // len(hosts_of(members)))
        plan = dataclasses.replace(plan, start=newest, n_ranks_on_host=n_on_host)
        outcome = run_process_group(
            client, members, train_rank, problem, plan, pass_on, device=device, threads=threads
        )
        if outcome.lost is None:
            remove_earlier_stages(path)
            return progress_of(outcome.result), members, time.perf_counter() - began
        newest_step = _step_of(newest)
        newest = max([newest, read(path), *outcome.kept], key=_step_of)
        failures = 0 if _step_of(newest) > newest_step else failures + 1
        if failures >= MOST_FAILURES:
            raise RunStopped(f"the ranks were lost {failures} times at one step: {outcome.lost}")
        lost_group, step_reached = lost_group or (outcome, step_reached), 0
        patience, wait_for_queued = SECONDS_FOR_A_REPLACEMENT, False


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
