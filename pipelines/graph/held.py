"""Partitions in the memory of workers, and the iterations that run on them.

An iteration is a few tasks for each partition and one reduction; a batch of them, from one
checkpoint of the ranks to the next, is submitted at once, and its first tasks read the
checkpoint. So a worker that dies takes nothing along that Dask cannot make again from there.
"""

from __future__ import annotations

import uuid
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any

from distributed import KilledWorker, wait
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from pipelines.graph import partition as tasks
from pipelines.graph.partition import Split, Total
from pipelines.graph.walk import Walk
from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client, Future

# In a row, with nothing gained between them.
MOST_FAILURES = 10
SECONDS_FOR_A_WORKER = 300
# Between two looks at who is there.
SECONDS_TO_LOOK = 5
LOST = (KilledWorker, CancelledError, FutureCancelledError, CommClosedError, TimeoutError)


class Held:
    """Partitions in the memory of workers, and the batches of iterations that run on them."""

    def __init__(self, client: Client, split: Split, walk: Walk, weighted: bool):
        self._client, self._split, self._walk, self._weighted = client, split, walk, weighted
        self._partitions: list[Future] = []

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
                self._partitions = []
                last = str(error)
        raise RunStopped(
            f"workers died {MOST_FAILURES} times since iteration {begun} ({last}); give each more "
            f"memory, or take more of them"
        )

    def _place(self) -> list[str]:
        """Load what is in no worker's memory; the workers, each partition's."""
        before, split = self._partitions, self._split
        self._client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
        holders = self._client.who_has(before) if before else {}
        load = dict.fromkeys(sorted(self._client.scheduler_info(n_workers=-1)["workers"]), 0)
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
                arguments = (split, self._walk, p, self._weighted)
                loaded = self._submit(token, f"load-{p}", owner, tasks.load_partition, *arguments)
                futures.append(loaded)
            else:
                owner = home
                futures.append(before[p])
            owners.append(owner)
        self._partitions = futures
        return owners

    def _submit_batch(
        self, homes: list[str], begun: int, count: int, tol: float | None, kind: type
    ) -> Total:
        """Some iterations as one set of tasks."""
        submit = partial(self._submit, uuid.uuid4().hex)
        partitions, split = self._partitions, self._split
        everyone = range(split.n_partitions)
        states = [
            submit(f"begin-{p}", homes[p], tasks.begin_state, partitions[p], split, p, begun)
            for p in everyone
        ]
        parts = [submit(f"sums-0-{p}", homes[p], tasks.sums, states[p]) for p in everyone]
        total = submit("total-0", None, tasks.add_up, None, tol, *parts)
        for i in range(1, count + 1):
            handed = [
                [
                    submit(f"hand-{i}-{q}-{p}", homes[q], tasks.hand_over, partitions[q],
                           states[q], total, p, kind)
                    for q in everyone
                    if q != p
                ]
                for p in everyone
            ]  # fmt: skip
            states = [
                submit(f"advance-{i}-{p}", homes[p], tasks.advance, partitions[p], states[p],
                       total, kind, *handed[p])
                for p in everyone
            ]  # fmt: skip
            parts = [submit(f"sums-{i}-{p}", homes[p], tasks.sums, states[p]) for p in everyone]
            total = submit(f"total-{i}", None, tasks.add_up, total, tol, *parts)
        saved = [
            submit(f"save-{p}", homes[p], tasks.save_state, split, p, states[p], total, begun)
            for p in everyone
        ]
        self._wait(saved, homes)
        self._client.gather(saved)
        result: Total = total.result()
        return result

    def _wait(self, futures: list[Future], homes: list[str]) -> None:
        """Until all have ended, or every worker is gone that they were submitted for.

        Tasks that were bound to a worker, however loosely, when there was none at all stay
        without one: Dask asks whoever joins later whether it is theirs.
        """
        while True:
            try:
                with self._client.as_current():
                    wait(futures, timeout=SECONDS_TO_LOOK)
                return
            except TimeoutError:
                there = self._client.scheduler_info(n_workers=-1)["workers"]
                if not set(homes) & set(there):
                    raise TimeoutError("all workers were replaced") from None

    def _submit(
        self, batch: str, name: str, home: str | None, function: Any, *arguments: Any
    ) -> Future:
        """A task of a name of its own, on a worker; elsewhere if that one is gone."""
        return self._client.submit(
            function,
            *arguments,
            key=f"{name}-{batch}",
            workers=home,
            allow_other_workers=home is not None,
        )
