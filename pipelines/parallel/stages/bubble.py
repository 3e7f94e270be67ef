"""Measure the idle time of a pipeline's ranks, and its causes, from their traces.

An action is a row: kind, stage, micro-batch, and when it began and ended, in seconds since all
ranks left the collective before the step. Clocks of different ranks are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FORWARD, BACKWARD, BY_INPUTS, BY_WEIGHTS = range(4)
WIDTH = 5  # numbers of an action

Actions = NDArray[np.float64]  # of a rank in a step: (n_actions, WIDTH)


@dataclass(frozen=True)
class Bubble:
    """Shares of the ranks' time, means of several steps.

    Attributes
    ----------
    measured : idle, from the beginning of a step until its last action ends
    imbalance : of that, what the same actions would leave idle if messages took no time, beyond
        the ideal; negative where a schedule makes use of unequal actions
    communication : the rest: messages, and what torch does between two actions
    seconds : of a step
    compute : seconds of a step in which a rank computes, mean of the ranks
    """

    measured: float
    imbalance: float
    communication: float
    seconds: float
    compute: float


def split(steps: Sequence[Sequence[Actions]], ideal: float) -> Bubble:
    """Return the bubble of some steps; ``steps[i][rank]`` are the actions of a rank, in order."""
    measured, without, seconds, compute = (np.zeros(len(steps)) for _ in range(4))
    for i, ranks in enumerate(steps):
        busy = float(np.mean([(one[:, 4] - one[:, 3]).sum() for one in ranks]))
        seconds[i] = max(float(one[:, 4].max()) for one in ranks)
        compute[i] = busy
        measured[i] = 1 - busy / seconds[i]
        without[i] = 1 - busy / span([list(_costs(one)) for one in ranks])
    return Bubble(
        float(measured.mean()), float(without.mean()) - ideal,
        float((measured - without).mean()), float(seconds.mean()), float(compute.mean()),
    )  # fmt: skip


Action = tuple[int, int, int]
Costs = Sequence[tuple[Action, float]]


def _costs(actions: Actions) -> Costs:
    return [
        ((int(kind), int(stage), int(micro)), end - begin)
        for kind, stage, micro, begin, end in actions
    ]


def span(ranks: Sequence[Costs]) -> float:
    """Return the seconds until the last action ends, if each begins as soon as it can.

    Parameters
    ----------
    ranks : the actions of each rank, (kind, stage, micro-batch), in order, with their seconds
    """
    n_stages = 1 + max(action[1] for rank in ranks for action, _ in rank)
    ends: dict[Action, float] = {}
    place, free = [0] * len(ranks), [0.0] * len(ranks)
    left = sum(len(rank) for rank in ranks)
    while left:
        before = left
        for r, rank in enumerate(ranks):
            while place[r] < len(rank):
                action, cost = rank[place[r]]
                ready = _ready(action, ends, n_stages)
                if ready is None:
                    break
                free[r] = ends[action] = max(free[r], ready) + cost
                place[r] += 1
                left -= 1
        if left == before:
            raise ValueError("actions wait for each other in a circle")
    return max(free)


def _ready(action: Action, ends: Mapping[Action, float], n_stages: int) -> float | None:
    """Return when the inputs of an action are there; None if that is not known yet."""
    kind, stage, micro = action
    if kind == FORWARD:
        return 0.0 if stage == 0 else ends.get((FORWARD, stage - 1, micro))
    if kind == BY_WEIGHTS:
        return ends.get((BY_INPUTS, stage, micro))
    if stage == n_stages - 1:
        return ends.get((FORWARD, stage, micro))
    whole = ends.get((BACKWARD, stage + 1, micro))
    return ends.get((BY_INPUTS, stage + 1, micro)) if whole is None else whole


def most_kept(actions: Actions, n_bytes: Mapping[int, float]) -> tuple[int, float]:
    """Return micro-batches whose activations a rank keeps at once, and their bytes, at the most.

    Parameters
    ----------
    n_bytes : of a micro-batch's activations, by stage
    """
    kept, held, most, most_bytes = 0, 0.0, 0, 0.0
    for kind, stage, _micro, _began, _ended in actions:
        if kind == FORWARD:
            kept, held = kept + 1, held + n_bytes[int(stage)]
        elif kind in (BACKWARD, BY_WEIGHTS):
            kept, held = kept - 1, held - n_bytes[int(stage)]
        most, most_bytes = max(most, kept), max(most_bytes, held)
    return most, most_bytes
