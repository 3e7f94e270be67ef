"""Process groups on a Dask cluster: ranks bound to workers, ended together when one is lost."""

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

# What programs of one's own use; the rest is ours.
__all__ = ["rendezvous", "run_process_group"]

Message = Mapping[str, Any]
# work(shared, argument, group, tell): the same on each rank; tell sends a dict to the client.
Work = Callable[[Any, Any, ProcessGroup, Callable[[Message], None]], Any]

SECONDS_TO_ANSWER = 3.0  # of a worker that is to join
SECONDS_TO_FETCH = 10.0  # what a rank gave, where the scheduler says that it has ended
SECONDS_TO_STOP = 3.0  # of a rank that was told to
SECONDS_TO_LOOK = 0.2
SECONDS_TO_LOOK_AGAIN = 0.2
SECONDS_FOR_A_REPLACEMENT = 5.0

# In a worker's process: the group of each of its ranks.
_joined: dict[str, ProcessGroup] = {}
_stopped: set[str] = set()


@dataclass(frozen=True)
class GroupEnd:
    """The end of a process group: the ranks' results, or why there are none.

    Attributes
    ----------
    result : what the work gave on rank 0; None where the process group broke
    lost : why it broke, or None
    detected : when that was seen, in Unix seconds
    kept : what ranks that are left remember of a process group that broke
    members : addresses of the workers, by rank
    """

    result: Any
    lost: str | None
    members: list[str]
    detected: float = field(default_factory=time.time)
    kept: list[Any] = field(default_factory=list)


class Meeting(NamedTuple):
    """What all ranks of a process group are told.

    token : names the group on the scheduler
    secret : by which ranks know each other
    device, threads : torch's name of the device; of each rank
    """

    token: str
    secret: bytes
    on_one_host: bool
    n_ranks: int
    device: str
    threads: int


def rendezvous(client: Client) -> list[str]:
    """Return the addresses of the workers that answer now."""
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
    """Wait until that many workers answer; or fewer, after a time in which no more came.

    Where the group is to be ``whole``, jobs that wait in a queue are waited for, however long.
    Where none is left, as after the death of all, the time begins with the first: the others are
    seldom far behind, and a process group of one would stay one.

    Raises
    ------
    RunStopped
        No worker is left and none came.
    """
    from pipelines.run.tasks import SECONDS_FOR_A_WORKER

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

    All ranks begin or none does. Where a worker dies, or a rank loses the others, all ranks are
    stopped, and this returns when they have ended or some seconds have passed.

    Parameters
    ----------
    client : of the cluster
    members : workers by rank, of ``rendezvous``
    work : module-level function, see ``Work``
    shared : scattered; large and the same for all process groups of a run
    argument : the same for all ranks of this process group; scattered too
    on_message : called in this thread with what rank 0 tells
    device, threads : torch's name of the device; of each rank

    Raises
    ------
    Exception
        What ``work`` raised on a rank, other than for the loss of another.
    """
    token, on_one_host = uuid.uuid4().hex[:12], len(hosts_of(members)) == 1
    secret = secrets.token_bytes(32)
    meeting = Meeting(token, secret, on_one_host, len(members), device, threads)
    futures: list[Future] = []
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()  # by way of the scheduler, in order
    client.subscribe_topic(_topic(token), lambda event: messages.put(event[1]))

    def deliver() -> None:
        while not messages.empty():
            on_message(messages.get())

    try:
        values = [SharedData(shared), SharedData(argument)]
        try:
            first = members[:1]
            shared_data, argument_data = scatter(client, values, workers=first, timeout=SECONDS)
        except (OSError, RuntimeError) as error:  # the worker died meanwhile
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
                if loss_reason is not None:  # the others have a bounded time from now on
                    detected, deadline = time.time(), time.monotonic() + SECONDS_TO_STOP
                    _abort(client, members, token)
            if len(ends) + len(lost_members) >= len(members) or time.monotonic() > deadline:
                break
            time.sleep(SECONDS_TO_LOOK if loss_reason is None else 0.02)
        for end in ends.values():
            if "error" in end:
                raise end["error"]
        deliver()  # what a rank told comes before what it gave
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
    """Return the hosts of workers, from their addresses."""
    return {urlsplit(address).hostname or LOOPBACK for address in members}


def _end_of(future: Future) -> Any:
    """Return a rank's result, or why there is none; an error of the work is kept apart."""
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
    """Return the members whose workers are gone, in two looks one after the other.

    What a client knows of its workers it also asks for in the background, and an answer from
    before a worker came may arrive after one that has it.
    """
    lost_members = list(members)
    for pause in (0.0, SECONDS_TO_LOOK_AGAIN):
        if lost_members:
            time.sleep(pause)
            workers = client.scheduler_info(n_workers=-1)["workers"]
            lost_members = [member for member in lost_members if member not in workers]
    return lost_members


def _abort(client: Client, members: list[str], token: str) -> None:
    """Tell the ranks that are left to stop; those that do not answer are not waited for."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    remaining = [member for member in members if member in workers]
    asyncio.run_coroutine_threadsafe(
        client._run(_stop, token, workers=remaining, on_error="ignore"), client.loop.asyncio_loop
    )


def _scheduler_store(worker: Any, token: str) -> Any:
    """Return a store of torch's whose keys are metadata of the scheduler.

    What ranks tell each other to connect travels by Dask's connections, which are TLS where the
    cluster is; torch's own ``TCPStore`` answers whoever reaches its port.
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
            _joined[token].abort()  # the others notice now, not when they run out of time
        return {"broken": str(error), "kept": error.kept}
    finally:
        torch.set_num_threads(threads_before)
        _joined.pop(token, None)
        _stopped.discard(token)


def _stop(token: str) -> None:
    """Stop the rank; runs beside it, in the worker's event loop."""
    _stopped.add(token)
    if token in _joined:
        _joined[token].abort()
