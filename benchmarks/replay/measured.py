"""Task times that real runs measured, kept beside this file, and as many more as are asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.run.chunking import CostModel
from pipelines.run.schedule import Seconds
from pipelines.run_folder.reading import FinishedTask

FOLDER = Path(__file__).parent
REFIT = "refit-"


@dataclass(frozen=True)
class Drawn:
    """Tasks with their times, in the order of the grid, or member by member.

    Attributes
    ----------
    seconds, costs : of shape (n,), on a worker of speed 1, and as predicted
    fold : of shape (n,), or the member
    needs : for the place of a refit, the places of its candidates
    """

    seconds: Seconds
    costs: Seconds
    fold: NDArray[np.int64]
    needs: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """The units of a run: gamma by gamma, fold by fold; or candidates and refits, by member."""

    command: str
    tasks: list[dict[str, Any]]

    @classmethod
    def load(cls, command: str) -> Measured:
        """What is kept of a command."""
        return cls(command, json.loads((FOLDER / f"tasks-{command}.json").read_text()))

    @staticmethod
    def is_kept(command: str) -> bool:
        """Whether anything is."""
        return (FOLDER / f"tasks-{command}.json").is_file()

    @property
    def n_tasks(self) -> int:
        return len(self.tasks)

    def draw(self, n: int, generator: np.random.Generator, mean: float | None = None) -> Drawn:
        """About ``n`` tasks; their times are drawn anew around what was predicted of them.

        Parameters
        ----------
        mean : seconds of a task; None: as they were measured
        """
        refits = [one for one in self.tasks if one["name"].startswith(REFIT)]
        drawn = self._members(n, generator, refits) if refits else self._grid(n, generator)
        if mean is None:
            return drawn
        return Drawn(drawn.seconds * (mean / drawn.seconds.mean()), *_rest(drawn))

    def _grid(self, n: int, generator: np.random.Generator) -> Drawn:
        """A finer grid of the same form."""
        place = np.arange(n) * self.n_tasks // n
        costs = np.array([one["cost"] for one in self.tasks])[place]
        n_folds = 1 + max(one["fold"] for one in self.tasks)
        return Drawn(pace_of(self.tasks).draw(costs, generator), costs, np.arange(n) % n_folds)

    def _members(self, n: int, generator: np.random.Generator, refits: list[Any]) -> Drawn:
        """More members, each with as many candidates as there were, drawn among all."""
        candidates = [one for one in self.tasks if one not in refits]
        own = len(candidates) // len(refits)
        n_members = max(1, round(n / (own + 1)))
        of_all = np.array([one["cost"] for one in candidates])
        costs = generator.choice(of_all, (n_members, own))
        ends = generator.choice([one["cost"] for one in refits], (n_members, 1))
        seconds = np.hstack(
            [
                pace_of(candidates).draw(costs.ravel(), generator).reshape(costs.shape),
                pace_of(refits).draw(ends.ravel(), generator).reshape(ends.shape),
            ]
        )
        width = own + 1
        needs = {m * width + own: range(m * width, m * width + own) for m in range(n_members)}
        return Drawn(
            seconds.ravel(), np.hstack([costs, ends]).ravel(),
            np.repeat(np.arange(n_members), width), needs,
        )  # fmt: skip


def pace_of(tasks: Sequence[dict[str, Any]]) -> CostModel:
    """The cost model that these tasks give."""
    done = [FinishedTask(one["name"], "", 0.0, one["seconds"], cost=one["cost"]) for one in tasks]
    cost_model = CostModel.of(done)
    assert cost_model is not None
    return cost_model


def _rest(drawn: Drawn) -> tuple[Any, ...]:
    return drawn.costs, drawn.fold, drawn.needs


def take(runs: Sequence[Path]) -> Path:
    """Keep the task times of a run's folder beside this file.

    Of several runs of the same tasks the shortest time of each counts, which other programs on
    the machine disturbed least.
    """
    from pipelines.run_folder.record import read_record

    of_runs = [_tasks_in(run) for run in runs]
    kept: list[dict[str, Any]] = []
    for whole in of_runs[0]:
        seconds = min(one[whole].seconds for one in of_runs if whole in one)
        found = of_runs[0][whole]
        kept += [
            {
                "name": found.name,
                "cost": found.cost / len(found.folds),
                "seconds": round(seconds / len(found.folds), 4),
                "fold": fold,
                "gamma": found.gamma,
            }
            for fold in sorted(found.folds)
        ]
    kept.sort(key=lambda one: (one["gamma"], one["fold"], one["name"].startswith(REFIT)))
    path = FOLDER / f"tasks-{read_record(runs[0])[1].command}.json"
    lines = ",\n".join(json.dumps(one) for one in kept if one["seconds"] > 0)
    path.write_text(f"[\n{lines}\n]\n")
    return path


@dataclass
class _Whole:
    """What is known of all folds of a gamma, or of a unit of a member."""

    name: str
    gamma: float
    cost: float = 0.0
    seconds: float = 0.0
    folds: set[int] = field(default_factory=set)


def _tasks_in(run: Path) -> dict[str, _Whole]:
    """The units of a run by name; all folds of a gamma are one.

    Folds that share a task are told of once a second: what is written down of one of them says
    when it was told, not how long it took. So each has its equal part of them all.
    """
    from pipelines.run_folder.journal import read_journal
    from pipelines.run_folder.names import JOURNAL

    found: dict[str, _Whole] = {}
    for record in read_journal(run / JOURNAL):
        row = record["rows"][0] if record["rows"] else {}
        gamma = row.get("gamma", 0.0)
        whole = f"{gamma:.6g}" if "gamma" in row else record["task"]
        one = found.setdefault(whole, _Whole(record["task"], gamma))
        one.cost += record["cost"]
        one.seconds += record["seconds"] - record.get("compile_seconds", 0.0)
        one.folds |= {row["member"]} if "member" in row else {r["fold"] for r in record["rows"]}
    return found
