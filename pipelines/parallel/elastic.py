"""A training that survives the loss of workers: a new process group follows one that broke."""

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
from pipelines.parallel.process_group.group import ProcessGroup, ProcessGroupError
from pipelines.parallel.process_group.worker_group import (
    SECONDS_FOR_A_REPLACEMENT,
    GroupEnd,
    hosts_of,
    run_process_group,
    wait_for_members,
)
from pipelines.parallel.rank import Rank, Send, TrainingPlan
from pipelines.parallel.training_problem import TrainingProblem
from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client

MOST_FAILURES = 10  # in a row, without a step gained between them
SECONDS_TO_BEGIN = 60.0  # after this it begins on fewer workers, unless more are on their way


def train_rank(
    problem: TrainingProblem, plan: TrainingPlan, group: ProcessGroup, send: Send
) -> bytes:
    """Train one rank to the end; each rank of the group makes this call.

    Parameters
    ----------
    problem : TrainingProblem
        The rows, the network and the loss.
    plan : TrainingPlan
        The same for all ranks.
    group : ProcessGroup
        This rank's handle of the process group.
    send : function
        Sends a message to the client; those of rank 0 arrive.

    Returns
    -------
    bytes
        The last checkpoint.

    Raises
    ------
    ProcessGroupError
        Another rank was lost. Its ``kept`` is a checkpoint of the last step at which all ranks
        were equal, or None in a pipeline, whose ranks have checkpoints on disk.
    """
    import torch

    rank_class = Rank
    if plan.options.stages != 1:
        from pipelines.parallel.staged_rank import StagedRank as rank_class
    rank = rank_class(problem, plan, group, send)
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
    except InputError:  # in rows that only this rank has read: the others would wait for it
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
    """Train on workers of a cluster; if one dies, continue with those that remain.

    A new process group begins at the last step at which all ranks were equal: from the memory of a
    surviving rank, or else from the last checkpoint on disk. The first one also begins with a
    checkpoint if it finds one.

    Parameters
    ----------
    client : distributed.Client
    problem : TrainingProblem
        Scattered to the workers.
    plan : TrainingPlan
        ``start`` is replaced in each new process group.
    n_ranks : int
        The most workers that train.
    on_message : function
        Called with what rank 0 sends, and with a message for each restart: the reason, the number
        of ranks before and after, the step it began from, the steps that are done again as far as
        they were reported, and the seconds from noticing the loss until the new ranks begin.
    device : str
        torch's name of the device.
    threads : int
        Threads of each rank.
    open_ranks : bool
        Whether ranks on several hosts may communicate, unencrypted.

    Returns
    -------
    progress : TrainingProgress
    members : list of str
        Addresses of the workers of the last process group, by rank.
    seconds : float
        Wall time of all process groups.

    Raises
    ------
    RunStopped
        The workers are on several hosts without ``open_ranks``; they died again and again without
        a step gained; or none is left.
    """
    began, path = time.perf_counter(), Path(plan.checkpoint)
    newest = plan.start or read(path)
    patience, wait_for_queued, failures, members = SECONDS_TO_BEGIN, True, 0, list[str]()
    # The first process group that was lost since one last trained, and the last step it reported.
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
            except InputError as error:  # a replacement has joined from another host
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
    """Raise InputError for ranks on several hosts: torch's wheels have no TLS for gloo."""
    hosts = sorted(hosts_of(members))
    if len(hosts) > 1:
        raise InputError(
            "--cluster must have the ranks on one host, as torch does not encrypt what they say to "
            f"each other, got {len(hosts)} ({', '.join(hosts[:3])}); add --open-ranks where nobody "
            "else is on the network"
        )


def _step_of(content: bytes | None) -> int:
    """The step of a checkpoint; -1 if there is none."""
    return -1 if content is None else progress_of(content).step
