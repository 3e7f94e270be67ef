"""Recycling: replace the process of a worker between tasks, which frees the memory it has kept."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pipelines.run.outcomes import Outcome, describe

if TYPE_CHECKING:
    from distributed import Client

SETTLED = 10  # tasks after which a process holds what its tasks need
GROWTH = 0.2  # of that: more is taken for a leak
LEAST_GROWTH = 0.02  # of a GPU's memory: less endangers no fit, and a new process starts slowly
SECONDS_FOR_FURTHER_TASKS = 1  # a strategy may need a while to choose the next task
SECONDS_FOR_RESULTS = 10  # until the client has gathered them
SECONDS_FOR_A_SUCCESSOR = 60
SECONDS_BETWEEN_LOOKS = 0.02
STIMULUS = "recycle"  # what Dask's log of events calls it


@dataclass(frozen=True)
class Recycling:
    """When the process of a worker is replaced; by default never.

    Attributes
    ----------
    n_tasks : int, optional
        Number of tasks after which a process is replaced.
    memory : function without arguments, optional
        Called by a worker after each task; the bytes that its process holds, or None if unknown.
        A process is replaced once they exceed those after its tenth task by more than 20 % and by
        more than ``least_growth``.
    least_growth : int
        Bytes.
    """

    n_tasks: int | None = None
    memory: Callable[[], int | None] | None = None
    least_growth: int = 0

    @property
    def is_on(self) -> bool:
        """Whether any process may have to be replaced."""
        return self.n_tasks is not None or self.memory is not None


NEVER = Recycling()


@dataclass
class ProcessHistory:
    """What one worker process has done, and whether it is to be replaced.

    Attributes
    ----------
    rule : Recycling
    n_tasks : int
        Number of tasks that it has finished.
    settled : int, optional
        Bytes held after the tenth task; None before, or if unknown.
    memory : int, optional
        Bytes held after the last task.
    """

    rule: Recycling
    n_tasks: int = field(default=0, init=False)
    settled: int | None = field(default=None, init=False)
    memory: int | None = field(default=None, init=False)

    def add(self, memory: int | None) -> None:
        """Count a finished task, after which the process holds ``memory`` bytes."""
        self.n_tasks, self.memory = self.n_tasks + 1, memory
        if self.n_tasks >= SETTLED and self.settled is None:
            self.settled = memory

    @property
    def has_grown(self) -> bool:
        """Whether the process holds more memory than its tasks account for."""
        if self.settled is None or self.memory is None:
            return False
        return self.memory - self.settled > max(GROWTH * self.settled, self.rule.least_growth)

    @property
    def is_due(self) -> bool:
        """Whether the task that the process has begun meanwhile is to be its last."""
        limit = self.rule.n_tasks
        return self.has_grown or (limit is not None and self.n_tasks >= max(1, limit - 1))


class Recycler:
    """Replaces the processes of workers that are due, at most half of them at a time.

    Nor more than half of each host: a successor copies the shared data from a neighbour.

    Attributes
    ----------
    recycled : list of dict
        The fields of ``RecycledMetadata`` for each process that was replaced, for ``run.json``.
    """

    def __init__(self, client: Client, rule: Recycling) -> None:
        self.rule, self.recycled = rule, list[dict[str, Any]]()
        self._client = client
        self._histories: dict[str, ProcessHistory] = {}  # by the worker's address
        self._leaving: set[str] = set()

    def add(self, outcome: Outcome[Any]) -> None:
        """Count a task, and begin to replace its worker's process if that is due."""
        if not self.rule.is_on or not (worker := outcome.worker):
            return
        history = self._histories.setdefault(worker, ProcessHistory(self.rule))
        history.add(outcome.memory_after)
        if history.is_due and worker not in self._leaving and self._may_leave(worker):
            self._leaving.add(worker)
            threading.Thread(target=self._replace, args=(worker, history), daemon=True).start()

    def settle(self) -> None:
        """Wait until no worker is being replaced: to close one that starts may take for ever.

        The wait is limited, as a worker may have tasks of other clients to end first.
        """
        end = time.monotonic() + SECONDS_FOR_A_SUCCESSOR
        while self._leaving and time.monotonic() < end:
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _may_leave(self, worker: str) -> bool:
        addresses, host = list(self._histories), urlsplit(worker).hostname
        on_host = [address for address in addresses if urlsplit(address).hostname == host]
        return all(
            len(self._leaving.intersection(workers)) < max(1, len(workers) // 2)
            for workers in (addresses, on_host)
        )

    def _replace(self, worker: str, history: ProcessHistory) -> None:
        began, is_replaced = time.time(), False
        try:
            is_replaced = self._client.run_on_scheduler(replace_process, worker, self._client.id)
        except OSError:  # the scheduler is gone, which the wait for tasks will raise
            pass
        except Exception as error:  # whatever Dask raises there; the worker goes on as it is
            logging.getLogger(__name__).warning(f"{worker} was not replaced: {describe(error)}")
        if is_replaced:
            growth = [history.settled, history.memory] if history.has_grown else None
            entry = {"worker": worker, "time": began, "seconds": time.time() - began}
            self.recycled.append(entry | {"n_tasks": history.n_tasks, "memory": growth})
            self._histories.pop(worker, None)
        self._leaving.discard(worker)


async def replace_process(address: str, client: str, dask_scheduler: Any) -> bool:
    """Let a worker end its tasks, and its nanny start another process; runs on the scheduler.

    Data that only this worker holds are copied to others. If there are no others, the client that
    asks for the replacement sends the shared data again.

    Parameters
    ----------
    address : str
        Of the worker.
    client : str
        Id of the client that asks.
    dask_scheduler : distributed.Scheduler
        Passed by ``run_on_scheduler``, which goes by this name.

    Returns
    -------
    bool
        Whether the process was replaced. It is not if no task waits, if the worker has no nanny or
        died meanwhile, or if data of another client would be lost.
    """
    scheduler = dask_scheduler
    worker = scheduler.workers.get(address)
    if worker is None or not worker.nanny:
        return False
    last_tasks = set(worker.processing)

    def is_gone() -> bool:
        return scheduler.workers.get(address) is not worker

    # From here on it is given no task.
    scheduler.handle_worker_status_change("closing_gracefully", worker, STIMULUS)
    try:
        await _until(lambda: is_gone() or not worker.processing)
        await _until(lambda: is_gone() or not last_tasks & worker.has_what, SECONDS_FOR_RESULTS)
        await _until(lambda: scheduler.queued or scheduler.unrunnable, SECONDS_FOR_FURTHER_TASKS)
        if is_gone() or not (scheduler.queued or scheduler.unrunnable):
            return False
        if scheduler.running:
            await scheduler.retire_workers([address], remove=False)
        elif {owner.client_key for task in worker.has_what for owner in task.who_wants or ()} - {
            client
        }:
            return False
        other_workers = scheduler.workers.keys() - {address}
        await scheduler.restart_workers(
            [address], wait_for_workers=False, on_error="return", stimulus_id=STIMULUS
        )
        await _until(
            lambda: is_gone() and scheduler.workers.keys() - other_workers, SECONDS_FOR_A_SUCCESSOR
        )
        return is_gone()
    finally:
        if not is_gone():
            message = {"op": "worker-status-change", "status": "running", "stimulus_id": STIMULUS}
            scheduler.stream_comms[address].send(message)


async def _until(holds: Callable[[], Any], seconds: float = math.inf) -> None:
    """Wait until ``holds()`` is true, for at most ``seconds``."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
