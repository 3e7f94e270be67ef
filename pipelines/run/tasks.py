"""Units of work -> futures -> outcomes, on a Dask cluster or in this process.

A unit is anything with a ``name`` and a ``cost``; the work is a plain function
``work(shared, unit)``. ``shared`` is scattered once and stays on the workers.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client, Future

RETRIES = 2  # of a unit that raised
SECONDS_FOR_A_WORKER = 300  # to come back, when the last has died
DEATHS_ALLOWED = 3  # of workers under one unit, as Dask's own allowed-failures


class Unit(Protocol):
    """What one task does; hashable."""

    @property
    def name(self) -> str:
        """Shown on the dashboard; no two units of a run share it."""

    @property
    def cost(self) -> float:
        """Predicted, in any unit of time."""


AnyUnit = TypeVar("AnyUnit", bound=Unit)
Work = Callable[[Any, AnyUnit], Any]


@dataclass(frozen=True)
class Outcome(Generic[AnyUnit]):
    """What became of a unit: a result, or the error that ended its last try."""

    unit: AnyUnit
    result: Any = None
    error: str | None = None
    worker: str = ""
    started: float = 0.0  # seconds since the epoch
    seconds: float = 0.0


class InProcess:
    """Runs units on threads of this process; opens no port."""

    def __init__(self, n_threads: int) -> None:
        self.n_workers = n_threads

    def outcomes(
        self, work: Work[AnyUnit], shared: Any, units: Sequence[AnyUnit]
    ) -> Iterator[Outcome[AnyUnit]]:
        """Outcomes of ``units`` as they are done, the most costly begun first."""
        with ThreadPoolExecutor(self.n_workers) as pool:
            futures = {
                pool.submit(_measured, work, shared, unit): unit
                for unit in sorted(units, key=lambda unit: -unit.cost)
            }
            try:
                for future in as_completed(futures):
                    unit = futures.pop(future)
                    error = future.exception()
                    if error is not None:
                        yield Outcome(unit, error=describe(error))
                    else:
                        yield Outcome(unit, **future.result())
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


class OnCluster:
    """Runs units on the workers of a Dask cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._scattered: tuple[Any, Future] | None = None
        self._run = uuid.uuid4().hex[:8]
        self._round = 0

    @property
    def n_workers(self) -> int:
        """Workers the cluster has now."""
        return len(self._client.scheduler_info(n_workers=-1)["workers"])

    def outcomes(
        self, work: Work[AnyUnit], shared: Any, units: Sequence[AnyUnit]
    ) -> Iterator[Outcome[AnyUnit]]:
        """Outcomes of ``units`` as they are done, the most costly begun first.

        A unit that raises is tried again; one whose worker dies is run by
        another worker. When the last worker dies, the scattered data die with
        it: they are scattered again, and what was not done is submitted again.

        Raises
        ------
        RunStopped
            No worker is left and none came.
        """
        try:
            yield from self._rounds(work, shared, units)
        except OSError as error:
            raise RunStopped(f"the cluster cannot be reached any more ({error})") from None

    def _rounds(
        self, work: Work[AnyUnit], shared: Any, units: Sequence[AnyUnit]
    ) -> Iterator[Outcome[AnyUnit]]:
        """Submit until every unit has an outcome; one round is enough unless data are lost."""
        waiting = list(units)
        deaths: Counter[str] = Counter()
        while waiting:
            # What may have killed a worker goes last, so that it holds up nothing else.
            waiting.sort(key=lambda unit: (deaths[unit.name], -unit.cost))
            lost = set()
            for unit, outcome in self._one_round(work, shared, waiting):
                if outcome is None:
                    lost.add(unit)
                else:
                    yield outcome
            waiting = [unit for unit in waiting if unit in lost]
            if lost:
                self._scattered = None
                suspects = self._client.run_on_scheduler(_ran_on_dead_workers)
                deaths.update(unit.name for unit in waiting if self._key(unit) in suspects)
            for unit in [unit for unit in waiting if deaths[unit.name] > DEATHS_ALLOWED]:
                waiting.remove(unit)
                yield Outcome(unit, error=f"its worker died {deaths[unit.name]} times")

    def _one_round(
        self, work: Work[AnyUnit], shared: Any, units: Sequence[AnyUnit]
    ) -> Iterator[tuple[AnyUnit, Outcome[AnyUnit] | None]]:
        """Submit units; give each with its outcome, or with None where its data were lost."""
        from distributed import as_completed

        futures = self._submit(work, shared, units)
        try:
            for future in as_completed(list(futures), loop=self._client.loop):
                unit = futures.pop(future)
                yield unit, _outcome(future, unit)
                future.release()
        finally:
            if futures and self._client.status == "running":
                self._client.cancel(list(futures), force=True)

    def _submit(
        self, work: Work[AnyUnit], shared: Any, units: Sequence[AnyUnit]
    ) -> dict[Future, AnyUnit]:
        import dask

        self._round += 1
        data = self._scatter(shared)
        tasks = []
        for rank, unit in enumerate(units):
            with dask.annotate(priority=-rank, retries=RETRIES):
                tasks.append(
                    dask.delayed(_measured, pure=False)(
                        work, data, unit, dask_key_name=self._key(unit)
                    )
                )
        return dict(zip(self._client.compute(tasks), units, strict=True))

    def _key(self, unit: AnyUnit) -> str:
        # A scheduler may serve several runs, and a round that was left must not meet the next.
        return f"{unit.name} {self._run}-{self._round}"

    def _scatter(self, shared: Any) -> Future:
        if self._scattered is None or self._scattered[0] is not shared:
            self._scattered = (shared, self._scatter_when_a_worker_is_there(shared))
        return self._scattered[1]

    def _scatter_when_a_worker_is_there(self, shared: Any) -> Future:
        until = time.monotonic() + SECONDS_FOR_A_WORKER
        while True:
            try:
                self._client.wait_for_workers(1, timeout=max(1.0, until - time.monotonic()))
                return self._client.scatter(shared, broadcast=True, hash=False)
            except (TimeoutError, OSError, RuntimeError) as error:
                # A worker may die between the two calls; its successor is worth waiting for.
                if time.monotonic() > until or self._client.status != "running":
                    raise RunStopped(f"the cluster has no worker left ({error})") from None
                time.sleep(0.2)


Runner = InProcess | OnCluster


def _ran_on_dead_workers(dask_scheduler: Any) -> set[str]:
    """Runs on the scheduler: keys that were given to workers which have died since."""
    events = (event for _, event in dask_scheduler.get_events("all"))
    deaths = (e for e in events if isinstance(e, dict) and e.get("action") == "remove-worker")
    return {key for death in deaths for key in death["processing-tasks"]}


def _outcome(future: Future, unit: AnyUnit) -> Outcome[AnyUnit] | None:
    """The outcome a future stands for; None where it, or the data it needs, were lost."""
    if future.status not in ("finished", "error"):
        return None
    try:
        error = future.exception()
        return Outcome(unit, error=describe(error)) if error else Outcome(unit, **future.result())
    except CancelledError:  # the last worker died between the end of the task and now
        return None


def _measured(work: Work[AnyUnit], shared: Any, unit: AnyUnit) -> dict[str, Any]:
    """The task: the unit's result, with where and when it was computed."""
    started, clock = time.time(), time.perf_counter()
    result = work(shared, unit)
    seconds = time.perf_counter() - clock
    return {"result": result, "worker": _here(), "started": started, "seconds": seconds}


def _here() -> str:
    """Address of the worker this runs on."""
    from distributed import get_worker

    try:
        return get_worker().address
    except ValueError:
        return "in process"


def describe(error: BaseException) -> str:
    """An exception as one short line for a row's status."""
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__:
        return "out of memory"
    if type(error).__name__ == "KilledWorker":
        return f"its worker died {DEATHS_ALLOWED + 1} times"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
