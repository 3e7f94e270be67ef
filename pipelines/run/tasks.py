"""Run tasks and yield their outcomes, on a Dask cluster or on threads of this process."""

from __future__ import annotations

import math
import time
import uuid
import warnings
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from concurrent.futures import Future as ThreadFuture
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster_setup.workers import Presence, forecast_workers, slot_left, workers_present
from pipelines.data.generators import generators_kept
from pipelines.data.placement import SharedData, place, scatter
from pipelines.run.errors import RunStopped, stop_if_lost
from pipelines.run.events import Line, Message, ProgressEvent, to_scheduler
from pipelines.run.outcomes import (
    AnyTask,
    Outcome,
    Work,
    describe,
    is_urgent,
    run_measured,
)
from pipelines.run.recycling import NEVER, Recycler, Recycling

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["RETRIES", "InProcess", "OnCluster", "Outcome", "Runner"]

Batch = tuple[AnyTask, ...]  # the tasks that share one Dask task

RETRIES = 2  # of a task that raised
SECONDS_FOR_A_WORKER = 300  # to come back after the last has died
SECONDS_FOR_COPIES = 60  # of the shared data to one worker of each host, before others copy
SECONDS_BETWEEN_LOOKS = 5  # between two checks whether a worker may still come
SECONDS_BETWEEN_EVENTS = 0.1
# A Dask task costs client, scheduler and worker five milliseconds of a core, and some kilobytes, so
# that several short tasks share one. So that workers end together, a batch is at most a twentieth
# of what is left for a worker. Durations are only predicted: a batch that has taken so many seconds
# ends, so that no row waits for longer, and its further tasks are submitted anew.
BATCHES_PER_WORKER = 20
SECONDS_OF_A_BATCH = 0.2
RESULTS_AT_ONCE = 100  # gathered from workers, so that the first need not wait for all


# Called with the number of earlier tasks that are not done; returns further tasks to run.
FurtherTasks = Callable[[int], Sequence[Any]]


def no_further_tasks(n_left: int) -> Sequence[Any]:
    """No tasks, as all are known from the beginning."""
    return ()


class _Runner(ABC):
    """Runs the tasks of a work function; subclasses decide where."""

    def outcomes(
        self, work: Work, shared: Any, tasks: Sequence[AnyTask]
    ) -> Iterator[Outcome[AnyTask]]:
        """Run tasks, the most costly first, and yield their outcomes as they are done.

        Parameters
        ----------
        work : function of ``shared`` and a task
        shared : object
            What all tasks share; sent to each worker once.
        tasks : sequence of tasks

        Yields
        ------
        Outcome

        Raises
        ------
        RunStopped
            No worker is left and none came, or the scheduler ended.
        """
        with generators_kept():  # tasks that run in this process seed its random generators
            for event in self._run_tasks(work, shared, tasks, None):
                if isinstance(event, Outcome):
                    yield event

    def outcomes_and_events(
        self,
        work: Work,
        shared: Any,
        tasks: Sequence[AnyTask],
        further_tasks: FurtherTasks = no_further_tasks,
    ) -> Iterator[Outcome[AnyTask] | ProgressEvent]:
        """Run tasks as ``outcomes`` does, and yield progress events between the outcomes.

        Parameters
        ----------
        work : function of ``shared``, a task and ``report``, or a generator function
            See ``events`` on how it reports its progress.
        shared : object
            What all tasks share; sent to each worker once.
        tasks : sequence of tasks
        further_tasks : function of the number of tasks that are not done, optional
            Returns further tasks, which are begun in their order. It is asked after each outcome;
            the generator ends once no task is left and it returns none.

        Yields
        ------
        Outcome or ProgressEvent

        Raises
        ------
        RunStopped
            As for ``outcomes``.
        """
        with generators_kept():
            yield from self._run_tasks(work, shared, tasks, further_tasks)

    @abstractmethod
    def _run_tasks(
        self, work: Work, shared: Any, tasks: Sequence[AnyTask], further_tasks: FurtherTasks | None
    ) -> Iterator[Outcome[AnyTask] | ProgressEvent]:
        """The outcomes of tasks, and their progress events unless ``further_tasks`` is None."""

    @abstractmethod
    def close(self) -> None:
        """Free what tasks shared, which Python may do much later; further tasks may follow."""


class InProcess(_Runner):
    """Runs tasks on threads of this process; opens no port."""

    def __init__(self, n_threads: int) -> None:
        self.n_workers = n_threads

    def presence(self) -> Presence:
        """The workers that are there now: the threads."""
        return Presence(self.n_workers)

    def close(self) -> None:
        pass  # the caller has what tasks share

    def _run_tasks(
        self, work: Work, shared: Any, tasks: Sequence[AnyTask], further_tasks: FurtherTasks | None
    ) -> Iterator[Outcome[AnyTask] | ProgressEvent]:
        # To start a thread takes longer than a small task.
        if self.n_workers == 1 and further_tasks is None:
            yield from self._in_turn(work, shared, tasks)
            return
        inbox: deque[Message] = deque()
        line: Line | None = None if further_tasks is None else lambda: inbox.append
        waiting = sorted(tasks, key=lambda task: -task.cost)
        running: dict[ThreadFuture[Any], AnyTask] = {}
        patience = SECONDS_BETWEEN_EVENTS if line else None
        # All threads share Python's filters of warnings: tasks that set some, and restore those
        # before, would undo one another's.
        with warnings.catch_warnings(), ThreadPoolExecutor(self.n_workers) as pool:
            try:
                waiting += further_tasks(len(waiting)) if further_tasks else ()
                while waiting or running:
                    for task in waiting:
                        running[pool.submit(run_measured, work, shared, task, line)] = task
                    waiting = []
                    done, _ = wait(running, timeout=patience, return_when=FIRST_COMPLETED)
                    yield from _received_events(inbox)
                    for future in done:
                        task, error = running.pop(future), future.exception()
                        if error is not None:
                            outcome = Outcome(task, error=describe(error), exception=error)
                        else:
                            outcome = Outcome(task, **future.result())
                        yield outcome
                    if done and further_tasks:
                        waiting = list(further_tasks(len(running)))
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _in_turn(
        self, work: Work, shared: Any, tasks: Sequence[AnyTask]
    ) -> Iterator[Outcome[AnyTask]]:
        """The outcomes of tasks that run one after another on the caller's thread."""
        for task in sorted(tasks, key=lambda task: -task.cost):
            try:
                outcome = Outcome(task, **run_measured(work, shared, task))
            except Exception as error:
                outcome = Outcome(task, error=describe(error), exception=error)
            yield outcome


class OnCluster(_Runner):
    """Runs tasks on the workers of a Dask cluster.

    A task that raises is tried again; one whose worker dies is run by another worker. When the
    last worker dies, the scattered data are lost with it: they are scattered again, and tasks that
    were not done are submitted again. All tasks that are known at the beginning are one static
    graph. A task is submitted a second time only if data were lost, or if it failed in a Dask task
    that it shared with others.

    Parameters
    ----------
    client : distributed.Client
    recycling : Recycling, default never
        When worker processes are replaced.
    """

    def __init__(self, client: Client, recycling: Recycling = NEVER) -> None:
        self.client = client
        self.recycler = Recycler(client, recycling)
        self._scattered: tuple[Any, Future, Future | None] | None = None
        self._copies: list[Future] = []
        self._run = uuid.uuid4().hex[:8]
        self._round = self._n_submitted = 0
        self._line: Line | None = None
        self._inbox: deque[Message] = deque()

    @property
    def n_workers(self) -> int:
        """The number of workers the cluster has, or will have once its queue has started them."""
        present = len(self.client.scheduler_info(n_workers=-1)["workers"])
        return max(present, forecast_workers(self.client).wanted)

    def presence(self) -> Presence:
        """The workers that are there now, and those that wait in a queue."""
        return workers_present(self.client)

    def close(self) -> None:
        self._scattered, self._copies = None, []

    @property
    def scattered(self) -> Future | None:
        """The future of the last tasks' ``SharedData``; None before, and after it was lost."""
        return self._scattered[1] if self._scattered else None

    def _run_tasks(
        self, work: Work, shared: Any, tasks: Sequence[AnyTask], further_tasks: FurtherTasks | None
    ) -> Iterator[Outcome[AnyTask] | ProgressEvent]:
        address = self.client.scheduler.address
        try:
            with slot_left(self.client), self._listening() if further_tasks else nullcontext():
                yield from self._rounds(work, shared, tasks, further_tasks or no_further_tasks)
            self.recycler.settle()
        except Exception as error:
            stop_if_lost(self.client, address)
            if isinstance(error, OSError):
                raise RunStopped(f"the cluster no longer responds ({error})") from None
            raise

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Receive the progress events that workers send from inside their tasks."""
        topic = f"pleasingly-{self._run}"
        self._line = partial(to_scheduler, topic)
        self._inbox.clear()
        # Events arrive on a thread of the client, and are put off until the caller's thread reads.
        self.client.subscribe_topic(topic, lambda event: self._inbox.append(event[1]))
        try:
            yield
        finally:
            if self.client.status == "running":
                self.client.unsubscribe_topic(topic)
            self._line = None

    def _rounds(
        self, work: Work, shared: Any, tasks: Sequence[AnyTask], further_tasks: FurtherTasks
    ) -> Iterator[Outcome[AnyTask] | ProgressEvent]:
        """Submit tasks until each has an outcome; the class says why one round may not do."""
        import dask

        remaining = {task.name: task for task in tasks}
        deaths: Counter[str] = Counter()
        lone_names: set[str] = set()

        def take_up() -> Sequence[AnyTask]:
            """Further tasks, which from now on are among the remaining ones."""
            new_tasks = further_tasks(len(remaining))
            remaining.update((task.name, task) for task in new_tasks)
            return new_tasks

        while remaining or take_up():
            # A task that may have killed a worker goes last, so that it holds up no other.
            waiting = sorted(remaining.values(), key=lambda task: (deaths[task.name], -task.cost))
            lost_batches: list[Batch[AnyTask]] = []
            self._round += 1
            for event in self._one_round(work, shared, waiting, lone_names, take_up):
                if isinstance(event, ProgressEvent):
                    yield event
                    continue
                batch, outcomes = event
                if outcomes is None:
                    lost_batches.append(batch)
                final_outcomes = list[Outcome[AnyTask]]()
                for outcome in outcomes or ():
                    self.recycler.add(outcome)
                    if outcome.error is None or len(batch) == 1:
                        final_outcomes.append(outcome)
                    else:  # it was tried only once, and the error may be another task's
                        lone_names.add(outcome.task.name)
                for n, outcome in enumerate(final_outcomes, 1):
                    del remaining[outcome.task.name]
                    yield replace(outcome, has_next=n < len(final_outcomes))
            if lost_batches:
                self._scattered = None
                suspects = self.client.run_on_scheduler(_ran_on_dead_workers)
                keys = set(map(self._key, lost_batches))
                for batch in lost_batches:
                    names = [task.name for task in batch]
                    # No task is to blame if the data were lost with a worker between two tasks.
                    lone_names.update(names if keys & suspects else ())
                    deaths.update(names if self._key(batch) in suspects else ())
            # Dask's setting, which a kind of cluster may raise.
            allowed_deaths = int(dask.config.get("distributed.scheduler.allowed-failures"))
            for name in [name for name in remaining if deaths[name] > allowed_deaths]:
                yield Outcome(remaining.pop(name), error=f"its worker died {deaths[name]} times")

    def _one_round(
        self,
        work: Work,
        shared: Any,
        waiting: Sequence[AnyTask],
        lone_names: Collection[str],
        take_up: Callable[[], Sequence[AnyTask]],
    ) -> Iterator[tuple[Batch[AnyTask], list[Outcome[AnyTask]] | None] | ProgressEvent]:
        """Submit tasks, and further ones as some are done; yield batches with their outcomes.

        A batch whose data were lost has None. Progress events come in between.
        """
        from distributed import KilledWorker, as_completed

        futures = self._submit(work, shared, self._with_priorities(waiting, lone_names))
        is_lost = False
        try:
            done = as_completed(list(futures), loop=self.client.loop)
            while not done.is_empty():
                with done.thread_condition:
                    if done.queue.empty():
                        done.thread_condition.wait(SECONDS_BETWEEN_EVENTS)
                yield from _received_events(self._inbox)
                ended_futures = done.next_batch(block=False)
                new_batches = list[tuple[Batch[AnyTask], int]]()
                for start in range(0, len(ended_futures), RESULTS_AT_ONCE):
                    chunk = ended_futures[start : start + RESULTS_AT_ONCE]
                    # One request gathers all of them: one for each would take longer than a short
                    # task. Results that were lost with their worker are skipped.
                    finished = {
                        ended_future.key: ended_future
                        for ended_future in chunk
                        if ended_future.status == "finished"
                    }
                    results_by_key = self.client.gather(finished, errors="skip") if finished else {}
                    for future in chunk:
                        (batch, priority), outcomes = futures.pop(future), None
                        if future.status == "error":
                            exception = future.exception()
                            error = describe(exception)
                            exception = None if isinstance(exception, KilledWorker) else exception
                            outcomes = [
                                Outcome(task, error=error, exception=exception) for task in batch
                            ]
                        elif (results := results_by_key.get(future.key)) is not None:
                            results = results if len(batch) > 1 else [results]
                            done_by_now = zip(batch, results, strict=False)
                            outcomes = [Outcome(task, **result) for task, result in done_by_now]
                            if unfinished := batch[len(results) :]:
                                size = max(len(results), len(unfinished) // max(1, self.n_workers))
                                new_batches += [
                                    (part, priority) for part in in_parts(unfinished, size)
                                ]
                        is_lost = is_lost or outcomes is None
                        yield batch, outcomes
                        future.release()
                if ended_futures and not is_lost:
                    new_batches += self._with_priorities(take_up(), lone_names)
                    new_futures = self._submit(work, shared, new_batches)
                    futures |= new_futures
                    done.update(new_futures)
        finally:
            if futures and self.client.status == "running":
                self.client.cancel(list(futures), force=True)

    def _with_priorities(
        self, tasks: Sequence[AnyTask], lone_names: Collection[str]
    ) -> list[tuple[Batch[AnyTask], int]]:
        """Batches of tasks, each with its priority: below those of earlier calls."""
        if not tasks:
            return []
        if self.recycler.rule.n_tasks is not None:  # a process ends between two Dask tasks
            lone_names = {task.name for task in tasks}
        first = -self._n_submitted
        batches = batch_tasks(tasks, self.n_workers, lone_names)
        self._n_submitted += len(batches)
        return [
            (batch, 1 if is_urgent(batch[0]) else first - rank)
            for rank, batch in enumerate(batches)
        ]

    def _submit(
        self, work: Work, shared: Any, batches: Sequence[tuple[Batch[AnyTask], int]]
    ) -> dict[Future, tuple[Batch[AnyTask], int]]:
        import dask

        if not batches:
            return {}
        (data, placed), delayed_tasks = self._scatter(shared), []
        for batch, priority in batches:
            run: Any = partial(run_batch, tasks=batch)
            if len(batch) == 1:
                run = partial(run_measured, task=batch[0])
            # Dask searches all arguments of a function for its own objects, but not those that a
            # partial function has already.
            run = partial(run, work, line=self._line, memory_held=self.recycler.rule.memory)
            with dask.annotate(priority=priority, retries=RETRIES):
                delayed_task = dask.delayed(run, pure=False)(
                    data, placed=placed, dask_key_name=self._key(batch)
                )
            # So that the scheduler queues the task for whichever worker is free first. By default
            # it queues only tasks of a group of more than twice the cluster's threads with few
            # dependencies. Others it assigns at once, and each then waits for its own worker.
            delayed_task.dask[delayed_task.key]._data_producer = True
            delayed_tasks.append(delayed_task)
        return dict(zip(self.client.compute(delayed_tasks), batches, strict=True))

    def _key(self, batch: Batch[Any]) -> str:
        others_note = f" and {len(batch) - 1} more" if len(batch) > 1 else ""
        # A scheduler may serve several runs, and keys of a round that was left must not be reused.
        return f"{batch[0].name}{others_note} {self._run}-{self._round}"

    def _scatter(self, shared: Any) -> tuple[Future, Future | None]:
        """Scatter the data once a worker is there, and have them placed on GPUs if need be."""
        if self._scattered is not None and self._scattered[0] is shared:
            return self._scattered[1:]
        deadline = time.monotonic() + SECONDS_FOR_A_WORKER
        while True:
            try:
                seconds_left = deadline - time.monotonic()
                self.client.wait_for_workers(
                    1, timeout=min(max(1.0, seconds_left), SECONDS_BETWEEN_LOOKS)
                )
                shared_data = SharedData(shared)
                data, placed = scatter(self.client, shared_data), None
                if shared_data.data is not None and shared_data.data.place is not None:
                    key, submit_options = (
                        f"place-{data.key}",
                        {"retries": RETRIES, "priority": 1000},
                    )
                    placed = self.client.submit(place, data, key=key, pure=False, **submit_options)
                self._copies = self._copy_to_every_worker(data, placed)
                self._scattered = shared, data, placed
                return data, placed
            except (TimeoutError, OSError, RuntimeError, KeyError) as error:
                forecast = forecast_workers(self.client)
                if forecast.reason:
                    raise RunStopped(forecast.reason) from None
                if forecast.coming:  # jobs wait in a queue, for hours if need be
                    deadline = time.monotonic() + SECONDS_FOR_A_WORKER
                # A worker may end between the two calls, or while it is sent the data, where Dask
                # raises a KeyError. It is worth waiting for its successor.
                if time.monotonic() > deadline or self.client.status != "running":
                    raise RunStopped(f"the cluster has no workers left ({error})") from None
                time.sleep(0.2)

    def _copy_to_every_worker(self, data: Future, placed: Future | None) -> list[Future]:
        """Have each worker fetch the data before its first task, and each host only once.

        Further workers of a host copy the data from the first. ``scatter(broadcast=True)`` is no
        alternative: its scheduler waits for ever for a copy on a worker that died meanwhile.
        """
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        one_a_host = {worker["host"]: address for address, worker in workers.items()}

        def fetch(address: str) -> Future:
            return self.client.submit(
                _fetched,
                data,
                placed,
                key=f"fetch-{data.key}-{address}",
                workers=[address],
                allow_other_workers=True,
                priority=1000,
                pure=False,
            )

        first_copies = [fetch(address) for address in one_a_host.values()]
        if len(first_copies) > 1:
            from distributed import as_completed

            with suppress(TimeoutError):  # then some workers copy from another host
                done = as_completed(first_copies, loop=self.client.loop, timeout=SECONDS_FOR_COPIES)
                deque(done, maxlen=0)
        return first_copies + [
            fetch(address) for address in workers if address not in one_a_host.values()
        ]


def batch_tasks(
    tasks: Sequence[AnyTask], n_workers: int, lone_names: Collection[str]
) -> list[tuple[AnyTask, ...]]:
    """Batches of tasks, in their order; the last tasks, and all if there are few, are alone.

    Parameters
    ----------
    tasks : sequence of tasks
        In the order in which they are handed out.
    n_workers : int
    lone_names : collection of str
        Names of tasks that share a batch with no other. Nor do urgent tasks.
    """
    n_parts = BATCHES_PER_WORKER * max(1, n_workers)  # 0 if the only one is being replaced
    is_predicted = any(task.cost for task in tasks)
    costs = [task.cost if is_predicted else 1.0 for task in tasks]
    cost_left, room = sum(costs), 0.0
    batches: list[tuple[AnyTask, ...]] = []
    for task, cost in zip(tasks, costs, strict=True):
        may_share = not is_urgent(task) and task.name not in lone_names
        if may_share and cost < room:
            batches[-1] += (task,)
        else:
            batches.append((task,))
            room = cost_left / n_parts if may_share else -math.inf
        cost_left -= cost
        room -= cost
    return batches


def in_parts(batch: Batch[AnyTask], size: int) -> list[Batch[AnyTask]]:
    """A batch in parts of ``size`` tasks; the last may have fewer."""
    return [batch[start : start + size] for start in range(0, len(batch), size)]


def run_batch(
    work: Work,
    shared: Any,
    tasks: Sequence[AnyTask],
    line: Line | None = None,
    memory_held: Callable[[], int | None] | None = None,
    placed: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Run the tasks of a batch one after another; the parameters are those of ``run_measured``.

    No further task is begun after ``SECONDS_OF_A_BATCH``.

    Returns
    -------
    list of dict
        Of each task that was run, the keywords of its ``Outcome``, or its ``error`` alone.
    """
    results, deadline = list[dict[str, Any]](), time.monotonic() + SECONDS_OF_A_BATCH
    for task in tasks:
        if results and time.monotonic() > deadline:
            break
        try:
            results.append(run_measured(work, shared, task, line, memory_held, placed))
        except Exception as error:
            results.append({"error": describe(error)})
    return results


def _fetched(data: Any, placed: Any) -> None:
    """Nothing to do: the task can begin only once its worker has the data."""


Runner = InProcess | OnCluster


def _received_events(inbox: deque[Message]) -> Iterator[ProgressEvent]:
    """Empty the inbox: the progress events that had arrived."""
    while inbox:
        yield ProgressEvent(**inbox.popleft())


def _ran_on_dead_workers(dask_scheduler: Any) -> set[str]:
    """The keys of tasks that workers had when they died; runs on the scheduler."""
    events = (event for _, event in dask_scheduler.get_events("all"))
    deaths = (
        entry
        for entry in events
        if isinstance(entry, dict) and entry.get("action") == "remove-worker"
    )
    return {key for death in deaths for key in death["processing-tasks"]}
