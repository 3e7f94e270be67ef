"""Partitions in the memory of workers, and the iterations that run on them.

An iteration is a few tasks for each partition and one reduction; a batch of them, from one
checkpoint of the ranks to the next, is submitted at once, and its first tasks read the
checkpoint. A partition's tasks are bound to the worker that has it in memory, also while that
worker is paused: elsewhere the partition would be loaded a second time, and memory for two of
them may be nowhere. When a worker is gone its partitions go to others, and the batch begins again.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from concurrent.futures import CancelledError, wait
from typing import TYPE_CHECKING, Any

from distributed import KilledWorker
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from pipelines.graph import tasks
from pipelines.graph.iteration import RandomSurfer
from pipelines.graph.partitions import Partitioning
from pipelines.graph.tasks import Totals
from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client, Future

# In a row, with nothing gained between them.
MOST_FAILURES = 10
SECONDS_FOR_A_WORKER = 300
SECONDS_FOR_A_REPLACEMENT = 10
# Between two looks at who is there.
SECONDS_TO_LOOK = 1
# Of a worker that holds too much to go on.
SECONDS_PAUSED = 120
LOST = (KilledWorker, CancelledError, FutureCancelledError, CommClosedError, TimeoutError)


def workers_of(client: Client) -> dict[str, Any]:
    """Return the workers of a cluster by address, as the scheduler knows them now.

    Not by ``client.scheduler_info``: what that asks for may be overwritten by the client's own
    look in the background, which names no workers, before it is given.
    """
    identity: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)
    workers: dict[str, Any] = identity["workers"]
    return workers


class WorkerPartitions:
    """Partitions in the memory of workers, and the batches of iterations that run on them."""

    def __init__(self, client: Client, partitioning: Partitioning, surfer: RandomSurfer):
        self._client, self._partitioning, self._surfer = client, partitioning, surfer
        self._owners = [""] * partitioning.n_partitions
        self._loaded: list[Any] = [None] * partitioning.n_partitions  # futures

    def iterate(self, begun: int, count: int, tol: float | None, kind: type) -> Totals:
        """Iterate from one checkpoint to the next; tried again where workers died too often.

        Raises
        ------
        RunStopped
            They died ``MOST_FAILURES`` times, or one stays paused.
        """
        for _ in range(MOST_FAILURES):
            try:
                self._load()
                return self._submit(begun, count, tol, kind)
            except LOST as error:
                last = str(error)
        raise RunStopped(
            f"workers died {MOST_FAILURES} times since iteration {begun} ({last}); give each more "
            f"memory, or take more of them"
        )

    def _load(self) -> None:
        """Load each partition where it is not: by its last worker, or else the least loaded.

        One that died may be about to come back: two partitions may be too many for another.
        """
        self._client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
        until = time.monotonic() + SECONDS_FOR_A_REPLACEMENT
        n_before = len({*self._owners} - {""})
        while len(workers := workers_of(self._client)) < n_before and time.monotonic() < until:
            time.sleep(0.1)
        if not workers:
            raise TimeoutError("no worker is left")
        load = {one: self._owners.count(one) for one in sorted(workers)}
        for p, owner in enumerate(self._owners):
            if owner not in load:
                owner = min(load, key=lambda one: (load[one], one))
                load[owner] += 1
            elif self._loaded[p].status in ("pending", "finished"):
                continue
            self._owners[p] = owner
            self._loaded[p] = self._client.submit(
                tasks.load_partition, self._partitioning, self._surfer, p,
                key=f"load-{p}-{uuid.uuid4().hex}", workers=owner,
            )  # fmt: skip

    def _submit(self, begun: int, count: int, tol: float | None, kind: type) -> Totals:
        """Submit some iterations as one set of tasks."""
        batch = uuid.uuid4().hex
        loaded, owners, partitioning = self._loaded, self._owners, self._partitioning
        everyone = range(len(loaded))

        def submit(name: str, p: int | None, function: Any, *arguments: Any) -> Future:
            """Submit a named task to the worker of a partition, or to any."""
            worker = None if p is None else owners[p]
            return self._client.submit(function, *arguments, key=f"{name}-{batch}", workers=worker)

        states = [
            submit(f"begin-{p}", p, tasks.read_state, loaded[p], partitioning, p, begun)
            for p in everyone
        ]
        parts = [submit(f"sums-0-{p}", p, tasks.sums, states[p]) for p in everyone]
        totals = submit("totals-0", None, tasks.add_up, None, tol, *parts)
        for i in range(1, count + 1):
            received = [
                [
                    submit(f"contributions-{i}-{q}-{p}", q, tasks.contributions_to, loaded[q],
                           states[q], totals, p, kind)
                    for q in everyone
                    if q != p
                ]
                for p in everyone
            ]  # fmt: skip
            states = [
                submit(f"advance-{i}-{p}", p, tasks.advance, loaded[p], states[p], totals, kind,
                       *received[p])
                for p in everyone
            ]  # fmt: skip
            parts = [submit(f"sums-{i}-{p}", p, tasks.sums, states[p]) for p in everyone]
            totals = submit(f"totals-{i}", None, tasks.add_up, totals, tol, *parts)
        saved = [
            submit(f"save-{p}", p, tasks.save_state, partitioning, p, states[p], totals, begun)
            for p in everyone
        ]
        result: Totals = self._gather([totals, *saved])[0]
        return result

    def _gather(self, futures: list[Future]) -> list[Any]:
        """Wait for all futures and return their results.

        Raises
        ------
        TimeoutError
            A worker is gone that they are bound to.
        RunStopped
            Such a worker stays paused.
        """
        last_ran = dict.fromkeys(self._owners, time.monotonic())
        loop = self._client.loop.asyncio_loop
        gathered = asyncio.run_coroutine_threadsafe(self._client._gather(futures), loop)
        try:
            while not wait([gathered], timeout=SECONDS_TO_LOOK).done:
                self._check_owners(last_ran)
            return list(gathered.result())
        finally:
            gathered.cancel()

    def _check_owners(self, last_ran: dict[str, float]) -> None:
        """Raise where an owner is gone, or has been paused for long; note when each last ran."""
        workers, now = workers_of(self._client), time.monotonic()
        for owner in last_ran:
            if owner not in workers:
                raise TimeoutError(f"worker {owner} is gone")
            if workers[owner]["status"] != "paused":
                last_ran[owner] = now
                continue
            if now - last_ran[owner] > SECONDS_PAUSED:
                raise RunStopped(
                    f"worker {owner} has been paused for {SECONDS_PAUSED} s, its memory of "
                    f"{workers[owner]['memory_limit'] / 2**20:,.0f} MiB nearly full; give each "
                    f"more memory, or take more of them"
                )
