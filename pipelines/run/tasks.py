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
DEATHS_ALLOWED = 3  # of workers under one unit, as Dask's own allowed-failures


class Unit(Protocol):
    """What one task does."""

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
                pool.submit(_measured, work, shared, unit, None): unit
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
        self._topic = f"pleasingly-{uuid.uuid4().hex[:8]}"

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
        waiting = list(units)
        deaths: Counter[str] = Counter()
        while waiting:
            # What may have killed a worker goes last, so that it holds up nothing else.
            waiting.sort(key=lambda unit: (deaths[unit.name], -unit.cost))
            lost: list[AnyUnit] = []
            for outcome in self._one_round(work, shared, waiting):
                if isinstance(outcome, Outcome):
                    yield outcome
                else:
                    lost.append(outcome)
            if lost:
                self._scattered = None
                deaths.update(self._begun() & {unit.name for unit in lost})
                self._topic = f"pleasingly-{uuid.uuid4().hex[:8]}"
            waiting = [unit for unit in lost if deaths[unit.name] <= DEATHS_ALLOWED]
            for unit in lost:
                if unit not in waiting:
                    yield Outcome(unit, error=f"its worker died {deaths[unit.name]} times")

    def _one_round(
        self, work: Work[AnyUnit], shared: Any, units: Sequence[AnyUnit]
    ) -> Iterator[Outcome[AnyUnit] | AnyUnit]:
        """Submit units; give the outcome of each, or the unit itself where its data were lost."""
        from distributed import as_completed

        futures = self._submit(work, shared, units)
        try:
            for future in as_completed(list(futures), loop=self._client.loop):
                unit = futures.pop(future)
                yield _outcome(future, unit) or unit
                future.release()
        finally:
            if futures and self._client.status == "running":
                self._client.cancel(list(futures), force=True)

    def _submit(
        self, work: Work[AnyUnit], shared: Any, units: Sequence[AnyUnit]
    ) -> dict[Future, AnyUnit]:
        import dask

        data = self._scatter(shared)
        tasks = []
        for rank, unit in enumerate(units):
            with dask.annotate(priority=-rank, retries=RETRIES):
                tasks.append(
                    dask.delayed(_measured, pure=False)(
                        work, data, unit, self._topic, dask_key_name=f"{unit.name} {self._topic}"
                    )
                )
        return dict(zip(self._client.compute(tasks), units, strict=True))

    def _scatter(self, shared: Any) -> Future:
        if self._scattered is None or self._scattered[0] is not shared:
            try:
                future = self._client.scatter(shared, broadcast=True, hash=False)
            except (TimeoutError, OSError, RuntimeError) as error:
                raise RunStopped(f"the cluster has no worker left ({error})") from None
            self._scattered = (shared, future)
        return self._scattered[1]

    def _begun(self) -> set[str]:
        return {name for _, name in self._client.get_events(self._topic)}


Runner = InProcess | OnCluster


def _outcome(future: Future, unit: AnyUnit) -> Outcome[AnyUnit] | None:
    """The outcome a future stands for; None where it, or the data it needs, were lost."""
    if future.status not in ("finished", "error"):
        return None
    try:
        error = future.exception()
        return Outcome(unit, error=describe(error)) if error else Outcome(unit, **future.result())
    except CancelledError:  # the last worker died between the end of the task and now
        return None


def _measured(work: Work[AnyUnit], shared: Any, unit: AnyUnit, topic: str | None) -> dict[str, Any]:
    """The task: the unit's result, with where and when it was computed."""
    worker = "in process"
    if topic is not None:
        from distributed import get_worker

        this = get_worker()
        this.log_event(topic, unit.name)
        worker = this.address
    started, clock = time.time(), time.perf_counter()
    result = work(shared, unit)
    seconds = time.perf_counter() - clock
    return {"result": result, "worker": worker, "started": started, "seconds": seconds}


def describe(error: BaseException) -> str:
    """An exception as one short line for a row's status."""
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__:
        return "out of memory"
    if type(error).__name__ == "KilledWorker":
        return f"its worker died {DEATHS_ALLOWED + 1} times"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
