"""What a search will take, before its first task: seconds by a few probes, and memory."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np

from pipelines.search.fitting import PLAIN
from pipelines.search.tasks import Problem

LAST = 15  # measured tasks of a kind that correct its predictions

Kind = tuple[str, str]  # the shared work, the algorithm
Rates = Mapping[int, float]  # seconds of a unit of cost, by the place of a task's first candidate


class Pace:
    """Predicts the seconds of tasks by their costs, corrected by what tasks took.

    Costs are relative within a kind of work: tasks that share the same work of the same algorithm.
    Probes say what a unit of cost takes, between them it is interpolated; and what tasks then took
    corrects that, by the median of the last ratios, so that one odd task changes nothing.

    Parameters
    ----------
    problem : Problem
    rates : of each kind that was probed, seconds of a unit of cost by the place of a candidate
    """

    def __init__(self, problem: Problem, rates: Mapping[Kind, Rates] | None = None) -> None:
        self._problem, self._rates = problem, dict(rates or {})
        self._ratios: dict[Kind, deque[float]] = defaultdict(lambda: deque(maxlen=LAST))

    def kind(self, task: Any) -> Kind:
        """The kind of work of a task; a refit's has no algorithm."""
        group = getattr(task, "group", None)
        if group is None:
            return PLAIN, type(task).__name__
        return self._problem.of(task.stage).shared_by(task).name, task.label

    def seconds(self, task: Any) -> float:
        """Predict the seconds of a task on one worker; NaN where nothing of its kind is known."""
        kind = self.kind(task)
        ratios = self._ratios.get(kind)
        if not ratios and kind in self._rates:  # the machine as the other kinds found it
            ratios = deque(
                [one for other in self._rates for one in self._ratios.get(other, ())] or [1.0]
            )
        return self._uncorrected(kind, task) * median(ratios) if ratios else math.nan

    def tell(self, task: Any, seconds: float) -> None:
        """Correct by what a task took, without compilation."""
        kind = self.kind(task)
        predicted = self._uncorrected(kind, task)
        if predicted > 0 and seconds > 0:
            self._ratios[kind].append(seconds / predicted)

    def _uncorrected(self, kind: Kind, task: Any) -> float:
        rates = self._rates.get(kind)
        if not rates:
            return float(task.cost)
        places = sorted(rates)
        logs = [math.log(rates[place]) for place in places]
        members = getattr(task, "members", (0,))
        return float(task.cost) * math.exp(np.interp(members[0], places, logs))
