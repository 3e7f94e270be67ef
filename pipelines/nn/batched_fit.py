"""Train as many networks together as fit on the device; refit those that become members."""

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
DATA_SHARE = 0.9  # the fraction of a GPU's free memory to plan with; torch itself needs some

ScoreRows = Callable[[np.ndarray], Score]


class NoRoomError(RuntimeError):
    """The device has too little memory for even one network."""


def generator_of(seed: int, number: int = 0) -> np.random.Generator:
    """The random generator of a network, that of ``SeedSequence(seed).spawn(n)[number]``.

    It draws the network's first weights, then the orders of its epochs.
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
    """Train networks of one architecture together, each on its own rows.

    Where the device has no room for all of them at once they are trained in turns, with the same
    result.

    Parameters
    ----------
    data : FoldedData
    parts : sequence of StackPart
        The spec, rows, out-of-bag rows and generator of each network.
    inputs : Inputs
    training : TrainingSettings
    collect : function of a network's number, its weights and a function that scores it on rows
        Called when the network has ended; see ``train_stack``.
    n_rows : int, optional
        Rows of the smallest part that takes the same steps, see ``Stack``; by default the smallest
        of ``parts``.

    Yields
    ------
    TrainedNetwork or Progress
        Each network in the order of ``parts``, and progress in between.

    Raises
    ------
    NoRoomError
        The device has too little memory for even one network.
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
    """A network that was trained to be a member; where training diverged there is no member.

    Attributes
    ----------
    trained : TrainedNetwork
        With its score on the out-of-bag rows.
    training_error : float, optional
        The error on the distinct rows that it was trained on; None for a regression.
    member : Member, optional
    test : Prediction, optional
        The prediction of the test rows.
    out_of_bag : OutOfBagPrediction, optional
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
    """Train members, and predict the test rows and each member's out-of-bag rows.

    Parameters
    ----------
    data, parts, inputs, training
        As for ``fit_networks``.
    X_test : array or DataFrame of shape (n_test, n_features)
        Unscaled test rows.

    Yields
    ------
    Refitted or Progress
        Each member in the order of ``parts``, and progress in between. Predictions of test rows
        stay on the device that computed them.
    """

    def collect(
        number: int, weights: Tensors, score: ScoreRows
    ) -> tuple[Score, Score, dict[str, np.ndarray]]:
        # Copies, as numpy() is a view on a CPU and the stack uses that memory again. Integers are
        # left out: they are counters, such as those of batch normalisation.
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
        # Rows that ended the training look better to the network than new ones do, so each half of
        # them is predicted by the network as the other half would have ended it.
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
    """How many of ``n`` networks the device holds at once.

    On a GPU this counts the memory that is free now and what torch's or RMM's pool keeps unused, as
    another worker, a desktop or another library may hold the rest. ``training_bytes`` counts the
    rows again, though a process places them only once: a few per cent on the safe side.

    Parameters
    ----------
    data : FoldedData
    spec, inputs : NetworkSpec, Inputs
        The spec and inputs of each network.
    training : TrainingSettings
        Its ``memory_bytes`` take the place of what is free.
    n : int

    Raises
    ------
    NoRoomError
        There is too little memory for even one.
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
