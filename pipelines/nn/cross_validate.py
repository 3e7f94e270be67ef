"""The task of the random search: the folds of one candidate."""

from __future__ import annotations

from pipelines.data.placement import FoldedData
from pipelines.nn.inputs import Inputs
from pipelines.nn.stack import ProgressCallback
from pipelines.nn.settings import Training
from pipelines.nn.stack import (
    Score,
    Stack,
    Tensors,
    does_not_fit,
    empty_row,
    networks_that_fit,
    place,
    row_of,
    sample_of,
)
from pipelines.nn.start import generators_of
from pipelines.nn.tasks import CandidateTask, Row
from pipelines.nn.train import train


def cross_validate_candidate(
    data: FoldedData,
    task: CandidateTask,
    inputs: Inputs,
    training: Training,
    on_progress: ProgressCallback = lambda share: None,
) -> list[Row]:
    """Train and score the folds of one candidate; the task of the random search.

    Each fold's network is trained on the bootstrap's samples of the other folds, and
    scored on the rows of its own fold, each once. Where the device has no room for all
    folds at once they are trained in turns, with the same result.

    Returns
    -------
    list of dict
        One row for each fold; the caller adds ``worker``. A candidate whose loss ceases to
        be a number has the status ``diverged``, one that does not fit the device a status
        that says so; both have no error.
    """
    sample = sample_of(data, task)
    at_once = networks_that_fit(data, task, inputs, training, task.n_folds)
    if at_once == 0:
        reason = does_not_fit(data, task, inputs, training)
        return failed_rows(data, task, reason)
    generators = generators_of(task.seed, task.n_folds)
    n_rows = min(len(sample.train(fold)) for fold in range(task.n_folds))
    found: list[Row] = []
    for first in range(0, task.n_folds, at_once):
        folds = range(first, min(first + at_once, task.n_folds))
        drawn = [(sample.train(fold), sample.out_of_bag(fold)) for fold in folds]
        stack = place(
            data, task.candidate, drawn, [generators[fold] for fold in folds], inputs, training,
            n_rows,
        )  # fmt: skip

        def score(slot: int, weights: Tensors, first: int = first, stack: Stack = stack) -> Score:
            return stack.score(slot, sample.validation(first + slot), weights)

        def told_of_turn(share: float, first: int = first, n: int = len(folds)) -> None:
            on_progress((first + share * n) / task.n_folds)

        trained = train(stack, training, score, told_of_turn)
        for fold, part, one in zip(folds, stack.parts, trained, strict=True):
            n_validation = len(sample.validation(fold))
            found.append(row_of(task, fold, len(part.rows), n_validation, one))
    return found


def failed_rows(data: FoldedData, task: CandidateTask, reason: str) -> list[Row]:
    """Return the rows of a task whose task gave none."""
    sample = sample_of(data, task)
    return [
        empty_row(task, fold, len(sample.train(fold)), len(sample.validation(fold)), reason)
        for fold in range(task.n_folds)
    ]
