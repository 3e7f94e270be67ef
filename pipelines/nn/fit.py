"""Train networks as the device has room for them; and members of an ensemble, which are kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pipelines.data.dataset import take_rows
from pipelines.data.fits import Progress
from pipelines.data.placement import FoldedData, unused_in_pool
from pipelines.nn.inputs import Inputs
from pipelines.nn.member import Member, OutOfBagPrediction, Prediction
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.size import training_bytes
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import (
    DIVERGED,
    OK,
    Result,
    Score,
    Stack,
    StackPart,
    Tensors,
    TrainedNetwork,
    fit_target_scaling,
    place_stack,
)
from pipelines.nn.train import train_stack

GIB = 2**30
DATA_SHARE = 0.9  # of a GPU's free memory that is planned with; the rest is torch's own

ScoreRows = Callable[[np.ndarray], Score]


class NoRoomError(RuntimeError):
    """The device does not hold even one network of a spec."""


def generator_of(seed: int, number: int = 0) -> np.random.Generator:
    """The generator of a network, of ``SeedSequence(seed).spawn(n)[number]``.

    It draws the network's first weights, then its orders.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))


def fit_networks(
    data: FoldedData,
    parts: Sequence[StackPart],
    inputs: Inputs,
    training: TrainingSettings,
    collect: Callable[[int, Tensors, ScoreRows], Result],
    n_rows: int | None = None,
) -> Iterator[Progress | TrainedNetwork[Result]]:
    """Train networks of one architecture together, each on rows of its own.

    Where the device has no room for all of them at once they are trained in turns, with the same
    result.

    Parameters
    ----------
    parts : of each network its spec, rows, rows left out and generator
    collect : function of a network's number, its weights and what scores it on rows
        See ``train_stack``.
    n_rows : of the smallest part of all that take the same steps, see ``Stack``; by default of
        these

    Yields
    ------
    Trained, for each of ``parts`` in their order; and between them progress.

    Raises
    ------
    NoRoomError
        The device does not hold even one.
    """
    n = len(parts)
    assert parts[0].spec is not None
    at_once = room_for(data, parts[0].spec, inputs, training, n)
    n_rows = n_rows or min(len(part.rows) for part in parts)

    def of_slot(first: int, stack: Stack, slot: int, weights: Tensors) -> Result:
        return collect(first + slot, weights, partial(stack.score, slot, weights=weights))

    for first in range(0, n, at_once):
        turn_parts = parts[first : first + at_once]
        stack, trained = (
            place_stack(data, turn_parts, inputs, training, n_rows),
            list[TrainedNetwork[Result]](),
        )
        for item in train_stack(stack, training, partial(of_slot, first, stack)):
            if isinstance(item, Progress):
                yield item.within(first / n, len(turn_parts) / n)
            else:
                trained.append(item)
        yield from trained


@dataclass(frozen=True, eq=False)
class Refitted:
    """A network that was trained to be kept; without a member where its training diverged.

    Attributes
    ----------
    trained : Trained, with its score on the distinct training rows that its sample left out
    training_error : of the distinct rows that it was trained on; None of a regression
    test : Prediction of the test rows
    out_of_bag : OutOfBagPrediction
    """

    trained: TrainedNetwork[Score]
    training_error: float | None = None
    member: Member | None = None
    test: Prediction | None = None
    out_of_bag: OutOfBagPrediction | None = None


def refit(
    data: FoldedData,
    parts: Sequence[StackPart],
    inputs: Inputs,
    training: TrainingSettings,
    X_test: Any,
) -> Iterator[Progress | Refitted]:
    """Train networks to be kept, and ask them about the test rows and those they left out.

    The predictions of the test rows ``X_test`` lie where they were computed. See ``fit_networks``.
    """

    def collect(
        number: int, weights: Tensors, score: ScoreRows
    ) -> tuple[Score, Score, dict[str, np.ndarray]]:
        # A copy: on a CPU, numpy() is a view. What a module only counts it need not remember.
        numbers = {
            name: np.array(weight.cpu().numpy())
            for name, weight in weights.items()
            if weight.is_floating_point()
        }
        part = parts[number]
        return score(part.out_of_bag), score(np.unique(part.rows)), numbers

    fits = fit_networks(data, parts, inputs, training, collect)
    trained = list[TrainedNetwork[tuple[Score, Score, dict[str, np.ndarray]]]]()
    for item in fits:
        if isinstance(item, Progress):
            yield item
        else:
            trained.append(item)
    for part, fit in zip(parts, trained, strict=True):
        of_left_out, of_drawn, weights = fit.result
        answers = math.isfinite(of_left_out.loss) and math.isfinite(of_drawn.loss)
        status = fit.status if answers else DIVERGED
        scored = TrainedNetwork(of_left_out, fit.losses, status, fit.seconds)
        if status != OK:
            yield Refitted(scored)
            continue
        distinct, left_out, spec = np.unique(part.rows), part.out_of_bag, part.spec
        assert spec is not None
        target = fit_target_scaling(data.y, part.rows) if inputs.is_regression else None
        member = Member(
            spec, inputs, weights, data.scaling_for(part.rows), target=target
        ).with_novelty(take_rows(data.X, distinct), data.y[distinct], training)
        of_out_of_bag = member.predict(take_rows(data.X, left_out), training).on_host()
        for first, other in enumerate(fit.crossed):
            numbers = {name: np.array(array.cpu().numpy()) for name, array in other.items()}
            stopped = replace(member, weights=numbers, novelty=None)
            X = take_rows(data.X, left_out[first::2])
            of_out_of_bag.outputs[first::2] = stopped.predict_proba(X, training)
        yield Refitted(
            scored,
            None if of_drawn.n_errors is None else of_drawn.n_errors / of_drawn.n_rows,
            member,
            member.predict(X_test, training),
            OutOfBagPrediction(left_out, *of_out_of_bag),
        )


def room_for(
    data: FoldedData, spec: NetworkSpec, inputs: Inputs, training: TrainingSettings, n: int
) -> int:
    """How many of n networks the device holds together.

    On a GPU what is free now counts, and what torch or RMM's pool keeps of it unused: another
    worker, a desktop or another library may hold the rest. The rows, which a process places
    once, are counted in ``training_bytes`` again: a few parts in a hundred on the safe side.

    Raises
    ------
    NoRoomError
        Not even one.
    """
    limit = training.memory_bytes
    if limit is None and training.device != "cpu":
        import torch

        free, _ = torch.cuda.mem_get_info()
        unused = unused_in_pool()
        if unused is None:  # with a pool of RMM, torch has no such numbers
            unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        limit = int(DATA_SHARE * (free + unused))
    if limit is None:
        return n
    needed = [
        training_bytes(spec, inputs, count, training.batch_size, len(data.y))
        for count in range(1, n + 1)
    ]
    if needed[0] > limit:
        raise NoRoomError(f"needs {needed[0] / GIB:.1f} GiB, the device has {limit / GIB:.1f} GiB")
    return sum(n_bytes <= limit for n_bytes in needed)
