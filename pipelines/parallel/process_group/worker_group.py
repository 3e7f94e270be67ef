"""Process groups on a Dask cluster: one rank on each worker, all ended when one is lost."""

from __future__ import annotations

import asyncio
import queue
import secrets
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from cluster_setup.workers import forecast_workers
from pipelines.data.placement import SharedData, scatter
from pipelines.parallel.process_group.group import (
    LOOPBACK,
    SECONDS,
    ProcessGroup,
    ProcessGroupError,
)
from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client, Future

# For users' programs; the other names are internal.
__all__ = ["rendezvous", "run_process_group"]

Message = Mapping[str, Any]
# work(shared, argument, group, send), called on each rank; what rank 0 sends reaches the client.
Work = Callable[[Any, Any, ProcessGroup, Callable[[Message], None]], Any]

SECONDS_TO_ANSWER = 3.0  # for a worker, before it is left out of the group
SECONDS_TO_FETCH = 10.0  # for the result of a rank that has ended by the scheduler's word
SECONDS_TO_STOP = 3.0  # for ranks that were told to stop, before the group counts as ended
SECONDS_TO_LOOK = 0.2  # between looks at the ranks of a running group
SECONDS_TO_LOOK_AGAIN = 0.2  # before the second look of ``lost_ranks``
SECONDS_FOR_A_REPLACEMENT = 5.0  # after a loss, for another worker to come

# In a worker's process: the group of its rank by token, and the tokens of groups told to stop.
_joined: dict[str, ProcessGroup] = {}
_stopped: set[str] = set()


@dataclass(frozen=True)
class GroupEnd:
    """The end of a process group: its result, or why it broke.

    Attributes
    ----------
    result : object
        What the work returned on rank 0; None if the process group broke.
    lost : str or None
        Why it broke.
    members : list of str
        Addresses of the workers, by rank.
    detected : float
        When the loss was noticed, in Unix seconds.
    kept : list
        What surviving ranks hand to the next process group: ``ProcessGroupError.kept`` of each.
    """

    result: Any
    lost: str | None
    members: list[str]
    detected: float = field(default_factory=time.time)
    kept: list[Any] = field(default_factory=list)


class Meeting(NamedTuple):
    """What every rank of a process group needs to know to join it.

    Attributes
    ----------
    token : str
        Identifies the group on the scheduler.
    secret : bytes
        By which ranks recognise each other.
    on_one_host : bool
        Whether they can communicate over the loopback interface.
    n_ranks : int
    device : str
        torch's name of the device.
    threads : int
        Threads of each rank.
    """

    token: str
    secret: bytes
    on_one_host: bool
    n_ranks: int
    device: str
    threads: int


def rendezvous(client: Client) -> list[str]:
    """The sorted addresses of the workers that answer within a few seconds.

    A worker that the scheduler knows may be dead or busy; it is asked by a task of high priority.
    """
    from distributed import wait

    addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
    token = uuid.uuid4().hex[:8]
    futures = [
        client.submit(
            bool, key=f"present-{i}-{token}", workers=[address], pure=False, priority=1000
        )
        for i, address in enumerate(addresses)
    ]
    with suppress(TimeoutError), client.as_current():
        wait(futures, timeout=SECONDS_TO_ANSWER)
    answered = [future.status == "finished" for future in futures]
    client.cancel(
        [
            future
            for future, has_answered in zip(futures, answered, strict=True)
            if not has_answered
        ],
        force=True,
    )
    return [
        address for address, has_answered in zip(addresses, answered, strict=True) if has_answered
    ]


def wait_for_members(
    client: Client, n_wanted: int, seconds: float, wait_for_queued: bool = False
) -> list[str]:
    """Wait until enough workers answer, or fewer after a time.

    If no worker is left, as after the death of all, the time begins when the first one answers: the
    others are seldom far behind, and a process group of one would stay one.

    Parameters
    ----------
    client : distributed.Client
    n_wanted : int
        How many workers are enough.
    seconds : float
        After this time fewer are enough.
    wait_for_queued : bool, default False
        Whether jobs that wait in a batch queue are waited for, however long.

    Returns
    -------
    list of str
        Addresses, at most ``n_wanted``.

    Raises
    ------
    RunStopped
        No worker is left and none came, or the cluster cannot be reached.
    """
    from pipelines.run.runners import SECONDS_FOR_A_WORKER

    began = first_came = time.monotonic()
    while True:
        members, ahead = rendezvous(client), forecast_workers(client)
        now = time.monotonic()
        if not members:
            first_came = now
        if len(members) >= n_wanted:
            return members[:n_wanted]
        if members and now - first_came > seconds and not (wait_for_queued and ahead.coming):
            return members
        if client.status != "running":
            raise RunStopped("the cluster cannot be reached any more")
        has_timed_out = now - began > SECONDS_FOR_A_WORKER and not ahead.coming
        if not members and (ahead.reason or has_timed_out):
            raise RunStopped(ahead.reason or "the cluster has no worker left")
        time.sleep(SECONDS_TO_LOOK)


def run_process_group(
    client: Client,
    members: list[str],
    work: Work,
    shared: Any,
    argument: Any,
    on_message: Callable[[Message], None],
    *,
    device: str = "cpu",
    threads: int = 1,
) -> GroupEnd:
    """Run ``work`` on each of these workers at once, as one process group.

    All ranks begin or none does. If a worker dies, or a rank loses the others, all ranks are
    stopped, and this returns when they have ended or some seconds have passed.

    Parameters
    ----------
    client : distributed.Client
    members : list of str
        Addresses of workers by rank, as ``rendezvous`` gives them.
    work : function
        At module level; see ``Work``.
    shared : object
        Scattered to the workers; large, and the same for all process groups of a run.
    argument : object
        The same for all ranks of this process group; also scattered.
    on_message : function
        Called in this thread with each message of rank 0.
    device : str, default "cpu"
        torch's name of the device.
    threads : int, default 1
        Threads of each rank.

    Returns
    -------
    GroupEnd

    Raises
    ------
    Exception
        What ``work`` raised on a rank, unless that was for the loss of another.
    """
    token, on_one_host = uuid.uuid4().hex[:12], len(hosts_of(members)) == 1
    secret = secrets.token_bytes(32)
    meeting = Meeting(token, secret, on_one_host, len(members), device, threads)
    futures: list[Future] = []
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()  # in order, by the scheduler
    client.subscribe_topic(_topic(token), lambda event: messages.put(event[1]))

    def deliver() -> None:
        while not messages.empty():
            on_message(messages.get())

    try:
        values = [SharedData(shared), SharedData(argument)]
        try:
            first = members[:1]
            shared_data, argument_data = scatter(client, values, workers=first, timeout=SECONDS)
        except (OSError, RuntimeError) as error:  # the first worker has died meanwhile
            return GroupEnd(None, f"the data did not arrive ({error})", members)
        submit = partial(client.submit, _rank, work, shared_data, argument_data, meeting)
        task_options = {"retries": 0, "priority": 100, "pure": False}
        futures = [
            submit(
                rank,
                key=f"rank-{rank}-of-{len(members)}-{token}",
                workers=[address],
                **task_options,
            )
            for rank, address in enumerate(members)
        ]
        loss_reason: str | None = None
        detected, deadline = 0.0, float("inf")
        ends: dict[int, dict[str, Any]] = {}
        while True:
            deliver()
            for rank, future in enumerate(futures):
                if rank not in ends and future.status != "pending":
                    ends[rank] = _end_of(future)
            lost_members = lost_ranks(
                client, [member for n, member in enumerate(members) if n not in ends]
            )
            if loss_reason is None:
                broken = [end["broken"] for end in ends.values() if end.get("broken")]
                loss_reason = (
                    f"worker {lost_members[0]} is gone"
                    if lost_members
                    else next(iter(broken), None)
                )
                if loss_reason is not None:  # from now on the others have a limited time
                    detected, deadline = time.time(), time.monotonic() + SECONDS_TO_STOP
                    _abort(client, members, token)
            if len(ends) + len(lost_members) >= len(members) or time.monotonic() > deadline:
                break
            time.sleep(SECONDS_TO_LOOK if loss_reason is None else 0.02)
        for end in ends.values():
            if "error" in end:
                raise end["error"]
        deliver()  # a rank's messages come before its result
        if loss_reason is None:
            return GroupEnd(ends[0]["result"], None, members)
        kept_states = [end["kept"] for end in ends.values() if end.get("kept") is not None]
        return GroupEnd(None, loss_reason, members, detected, kept_states)
    finally:
        if client.status == "running":
            client.unsubscribe_topic(_topic(token))
            if any(future.status == "pending" for future in futures):
                _abort(client, members, token)
            client.cancel(futures, force=True)


def _topic(token: str) -> str:
    return f"process-group-{token}"


def hosts_of(members: Sequence[str]) -> set[str]:
    """The hosts in the addresses of workers; loopback for workers in this process."""
    return {urlsplit(address).hostname or LOOPBACK for address in members}


def _end_of(future: Future) -> Any:
    """A rank's result, or why the group broke, or under ``error`` what the work raised."""
    try:
        error = future.exception(timeout=SECONDS_TO_FETCH) if future.status == "error" else None
        if error is None:
            return future.result(timeout=SECONDS_TO_FETCH)
    except (CancelledError, TimeoutError, OSError) as lost:
        return {"broken": f"what a rank gave is lost ({type(lost).__name__})"}
    except Exception as other:
        error = other
    if type(error).__module__.split(".")[0] == "distributed":
        return {"broken": f"a rank was lost ({type(error).__name__})"}
    return {"error": error}


def lost_ranks(client: Client, members: Sequence[str]) -> list[str]:
    """The members whose workers are lost, by two looks a moment apart.

    A client also asks for its workers in the background, and an answer from before a worker came
    may arrive after one that has it. One look could take a worker for lost that is well.
    """
    lost_members = list(members)
    for pause in (0.0, SECONDS_TO_LOOK_AGAIN):
        if lost_members:
            time.sleep(pause)
            workers = client.scheduler_info(n_workers=-1)["workers"]
            lost_members = [member for member in lost_members if member not in workers]
    return lost_members


def _abort(client: Client, members: list[str], token: str) -> None:
    """Tell the remaining ranks to stop, without waiting for their answers."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    remaining = [member for member in members if member in workers]
    asyncio.run_coroutine_threadsafe(
        client._run(_stop, token, workers=remaining, on_error="ignore"), client.loop.asyncio_loop
    )


def _scheduler_store(worker: Any, token: str) -> Any:
    """A store for torch whose keys are metadata of the scheduler.

    So what ranks exchange to connect travels over Dask's connections, which use TLS if the cluster
    does; torch's own ``TCPStore`` answers whoever reaches its port.
    """
    from distributed.utils import sync
    from torch._C._distributed_c10d import Store

    prefix = ["process-group", token]

    class SchedulerStore(Store):
        def set(self, key: str, value: bytes) -> None:  # type: ignore[override]  # a stub says str
            sync(worker.loop, worker.scheduler.set_metadata, keys=[*prefix, key], value=value)

        def check(self, keys: list[str]) -> bool:
            values = sync(worker.loop, worker.scheduler.get_metadata, keys=prefix, default={})
            return all(key in values for key in keys)

        def wait(self, keys: list[str], timeout: Any = None) -> None:
            deadline = time.monotonic() + SECONDS
            while not self.check(keys):
                if token in _stopped or time.monotonic() > deadline:
                    raise RuntimeError("a rank did not say where it listens")
                time.sleep(0.02)

        def get(self, key: str) -> bytes:
            self.wait([key])
            value = sync(worker.loop, worker.scheduler.get_metadata, keys=[*prefix, key])
            return bytes(value)

    return SchedulerStore()


def _rank(
    work: Work, shared: SharedData, argument: SharedData, meeting: Meeting, rank: int
) -> dict[str, Any]:
    import torch
    from distributed import get_worker

    worker, token = get_worker(), meeting.token

    def send(message: Message) -> None:
        if not rank:
            worker.log_event(_topic(token), dict(message))

    threads_before = torch.get_num_threads()
    torch.set_num_threads(meeting.threads)
    try:
        host = None if meeting.on_one_host else urlsplit(worker.address).hostname
        options: dict[str, Any] = {"secret": meeting.secret, "device": meeting.device}
        options |= {"host": host or LOOPBACK, "stopped": lambda: token in _stopped}
        group = ProcessGroup.join(_scheduler_store(worker, token), rank, meeting.n_ranks, **options)
        _joined[token] = group
        return {"result": work(shared.shared, argument.shared, group, send)}
    except ProcessGroupError as error:
        if token in _joined:
            _joined[token].abort()  # so that the others notice now, not at their time limit
        return {"broken": str(error), "kept": error.kept}
    finally:
        torch.set_num_threads(threads_before)
        _joined.pop(token, None)
        _stopped.discard(token)


def _stop(token: str) -> None:
    """Stop this worker's rank of a group; it runs in the worker's event loop, beside the rank."""
    _stopped.add(token)
    if token in _joined:
        _joined[token].abort()
