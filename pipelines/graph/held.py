"""Partitions in the memory of workers, and the iterations that run on them.

An iteration is a few tasks for each partition and one reduction; a batch of them, from one
checkpoint of the ranks to the next, is submitted at once, and its first tasks read the
checkpoint. A partition's tasks are bound to the worker that holds it, also while that worker is
paused for its memory: elsewhere they would bring the partition along, and memory for two of them
may be nowhere. When a worker is gone its partitions are loaded again where there is room, and the
batch begins again.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from concurrent.futures import CancelledError, wait
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from distributed import KilledWorker
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from pipelines.gang.members import gone_of
from pipelines.graph import tasks
from pipelines.graph.partition import Split
from pipelines.graph.tasks import Total
from pipelines.graph.walk import Walk
from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client, Future

# In a row, with nothing gained between them.
MOST_FAILURES = 10
SECONDS_FOR_A_WORKER = 300
SECONDS_FOR_A_REPLACEMENT = 10
# Between two looks at who is there.
SECONDS_TO_LOOK = 1
# Of a worker that holds too much to go on, after it has written to disk what it can.
SECONDS_PAUSED = 120
LOST = (KilledWorker, CancelledError, FutureCancelledError, CommClosedError, TimeoutError)


class Held:
    """Partitions in the memory of workers, and the batches of iterations that run on them."""

    def __init__(self, client: Client, split: Split, walk: Walk, weighted: bool):
        self._client, self._split, self._walk, self._weighted = client, split, walk, weighted
        self._partitions: list[Future] = []
        self._token = uuid.uuid4().hex
        self._n_workers = 0  # that held them last

    def batch(self, begun: int, count: int, tol: float | None, kind: type) -> Total:
        """Iterations from a checkpoint to the next; tried again where workers died too often.

        Raises
        ------
        RunStopped
            They died ``MOST_FAILURES`` times.
        """
        for _ in range(MOST_FAILURES):
            try:
                return self._submit_batch(self._place(), begun, count, tol, kind)
            except LOST as error:
                last = str(error)
        raise RunStopped(
            f"workers died {MOST_FAILURES} times since iteration {begun} ({last}); give each more "
            f"memory, or take more of them"
        )

    def close(self) -> None:
        """Give the partitions' memory back, on the workers that are left."""
        self._partitions = []
        with suppress(OSError):
            self._client.run(tasks.let_go, self._token, on_error="ignore")

    def _place(self) -> list[str]:
        """Load what is in no worker's memory; the workers, each partition's.

        One that died may be about to come back: two partitions may be too many for another.
        """
        before, split = self._partitions, self._split
        self._client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
        until = time.monotonic() + SECONDS_FOR_A_REPLACEMENT
        while len(self._there()) < self._n_workers and time.monotonic() < until:
            time.sleep(0.1)
        holders = self._client.who_has(before) if before else {}
        load = dict.fromkeys(sorted(self._there()), 0)
        homes: list[str | None] = [
            next(iter(holders.get(future.key) or ()), None) for future in before
        ] or [None] * split.n_partitions
        for home in homes:
            if home is not None:
                load[home] = load.get(home, 0) + 1
        futures, owners = [], []
        token = uuid.uuid4().hex
        for p, home in enumerate(homes):
            if home is None:
                owner = min(load, key=lambda one: (load[one], one))
                load[owner] += 1
                arguments = (self._token, split, self._walk, p, self._weighted)
                loaded = self._submit(token, f"load-{p}", owner, tasks.hold, *arguments)
                futures.append(loaded)
            else:
                owner = home
                futures.append(before[p])
            owners.append(owner)
        self._partitions, self._n_workers = futures, len(set(owners))
        return owners

    def _submit_batch(
        self, homes: list[str], begun: int, count: int, tol: float | None, kind: type
    ) -> Total:
        """Some iterations as one set of tasks."""
        submit = partial(self._submit, uuid.uuid4().hex)
        partitions, split = self._partitions, self._split
        everyone = range(split.n_partitions)
        states = [
            submit(f"begin-{p}", homes[p], tasks.with_held, tasks.begin_state, partitions[p],
                   split, p, begun)
            for p in everyone
        ]  # fmt: skip
        parts = [submit(f"sums-0-{p}", homes[p], tasks.sums, states[p]) for p in everyone]
        total = submit("total-0", None, tasks.add_up, None, tol, *parts)
        for i in range(1, count + 1):
            handed = [
                [
                    submit(f"hand-{i}-{q}-{p}", homes[q], tasks.with_held, tasks.hand_over,
                           partitions[q], states[q], total, p, kind)
                    for q in everyone
                    if q != p
                ]
                for p in everyone
            ]  # fmt: skip
            states = [
                submit(f"advance-{i}-{p}", homes[p], tasks.with_held, tasks.advance, partitions[p],
                       states[p], total, kind, *handed[p])
                for p in everyone
            ]  # fmt: skip
            parts = [submit(f"sums-{i}-{p}", homes[p], tasks.sums, states[p]) for p in everyone]
            total = submit(f"total-{i}", None, tasks.add_up, total, tol, *parts)
        saved = [
            submit(f"save-{p}", homes[p], tasks.save_state, split, p, states[p], total, begun)
            for p in everyone
        ]
        result: Total = self._gather([total, *saved], homes)[0]
        return result

    def _gather(self, futures: list[Future], homes: list[str]) -> list[Any]:
        """What all of them give.

        Raises
        ------
        TimeoutError
            A worker is gone that they are bound to.
        RunStopped
            Such a worker is paused, and memory that it could give back has not come.
        """
        ran = dict.fromkeys(homes, time.monotonic())
        loop = self._client.loop.asyncio_loop
        coming = asyncio.run_coroutine_threadsafe(self._client._gather(futures), loop)
        try:
            while not wait([coming], timeout=SECONDS_TO_LOOK).done:
                self._look(homes, ran)
            return list(coming.result())
        finally:
            coming.cancel()

    def _look(self, homes: list[str], ran: dict[str, float]) -> None:
        """Raise where a worker is gone, or has been paused for long; ``ran``: when it last ran."""
        if gone := gone_of(self._client, homes):
            raise TimeoutError(f"worker {gone[0]} is gone")
        there = self._there()
        now = time.monotonic()
        for home in ran:
            if home not in there or there[home]["status"] != "paused":
                ran[home] = now
                continue
            self._client.run(tasks.give_back_memory, workers=[home], on_error="ignore")
            if now - ran[home] > SECONDS_PAUSED:
                raise RunStopped(
                    f"worker {home} has been paused for {SECONDS_PAUSED} s, its memory of "
                    f"{there[home]['memory_limit'] / 2**20:,.0f} MiB nearly full; give each "
                    f"more memory, or take more of them"
                )

    def _there(self) -> dict[str, Any]:
        workers: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return workers

    def _submit(
        self, batch: str, name: str, home: str | None, function: Any, *arguments: Any
    ) -> Future:
        """A task of a name of its own, on a worker and nowhere else; or on any."""
        return self._client.submit(function, *arguments, key=f"{name}-{batch}", workers=home)
