"""A training that outlives its workers: a gang that breaks is followed by another."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.gang.members import SECONDS_FOR_A_REPLACEMENT, run_gang, wait_for_members
from pipelines.parallel.checkpoint import Progress, progress_of, read
from pipelines.parallel.problem import Problem
from pipelines.parallel.train import Order, train
from pipelines.run.errors import RunStopped

if TYPE_CHECKING:
    from distributed import Client

MOST_FAILURES = 10  # in a row, with no step gained between them
SECONDS_TO_BEGIN = 60.0  # after which fewer workers do, where no more are on their way


@dataclass(frozen=True)
class Restart:
    """A gang that followed another.

    Attributes
    ----------
    reason : what broke the one before
    ranks_before, ranks_after : how many
    step : that it began from
    steps_lost : done before and to be done again, as far as was told
    seconds : from the loss being noticed to the new ranks' beginning
    """

    reason: str
    ranks_before: int
    ranks_after: int
    step: int
    steps_lost: int
    seconds: float


@dataclass(frozen=True)
class Trained:
    """A training at its end."""

    content: bytes
    progress: Progress
    tested: Mapping[str, float]
    restarts: list[Restart]
    members: list[str]
    seconds: float


def train_on(
    client: Client, problem: Problem, order: Order, n_ranks: int,
    told: Callable[[Mapping[str, Any]], None], *, device: str, threads: int,
) -> Trained:  # fmt: skip
    """Train on so many workers of a cluster; where one dies, go on with those that are left.

    A new gang begins at the last point at which all ranks were equal, from the memory of a rank
    that is left, or else from the last checkpoint on disk; so does a first gang that finds one.

    Raises
    ------
    RunStopped
        Workers died again and again and nothing was gained, or none is left.
    """
    began, restarts = time.perf_counter(), list[Restart]()
    newest = order.start or read(Path(order.checkpoint))
    failures, patience, whole = 0, SECONDS_TO_BEGIN, True
    broken: tuple[str, float, int, int] | None = None  # why, when, ranks, last step told
    while True:
        members = wait_for_members(client, n_ranks, patience, whole)
        tested: dict[str, float] = {}
        last_step = 0

        def hear(letter: Mapping[str, Any], n_members: int = len(members)) -> None:
            nonlocal broken, last_step
            last_step = max(last_step, int(letter.get("step", 0)))
            if letter["kind"] == "begun" and broken is not None:
                why, when, before, reached = broken
                lost = max(0, reached - letter["step"])
                restarts.append(
                    Restart(why, before, n_members, letter["step"], lost, time.time() - when)
                )
                told({"kind": "restart", **dataclasses.asdict(restarts[-1])})
                broken = None
            if letter["kind"] == "tested":
                tested.update(loss=letter["loss"], metric=letter["metric"])
            told(letter)

        ended = run_gang(
            client, members, train, problem, dataclasses.replace(order, start=newest), hear,
            device=device, threads=threads,
        )  # fmt: skip
        if ended.results is not None:
            content = ended.results[0]
            seconds = time.perf_counter() - began
            return Trained(content, progress_of(content), tested, restarts, members, seconds)
        before = _step_of(newest)
        newest = max([newest, read(Path(order.checkpoint)), *ended.kept], key=_step_of)
        failures = 0 if _step_of(newest) > before else failures + 1
        if failures >= MOST_FAILURES:
            raise RunStopped(f"the ranks were lost {failures} times at one step: {ended.lost}")
        if broken is None:
            broken = (ended.lost or "", ended.detected, len(members), last_step)
        patience, whole = SECONDS_FOR_A_REPLACEMENT, False


def _step_of(content: bytes | None) -> int:
    return -1 if content is None else progress_of(content).step
