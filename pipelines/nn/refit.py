"""The task after the search: the best candidate of a bootstrap on its whole sample."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.data.dataset import rows_of
from pipelines.data.placement import FoldedData
from pipelines.nn.inputs import Inputs
from pipelines.nn.member import Member
from pipelines.nn.stack import OK, ProgressCallback, Trained
from pipelines.nn.settings import Training
from pipelines.nn.stack import (
    Drawn,
    Score,
    Tensors,
    does_not_fit,
    empty_row,
    networks_that_fit,
    place,
    row_of,
    sample_of,
)
from pipelines.nn.start import generators_of
from pipelines.nn.tasks import RefitTask, Row
from pipelines.nn.train import train


@dataclass(frozen=True, eq=False)
class Refitted:
    """The result of a refit.

    Attributes
    ----------
    row : dict
        The columns of a candidate's row, ``fold`` -1; errors and loss are of the distinct
        training rows that the sample left out, a third of them.
    member : Member or None
        None where training diverged or did not fit the device.
    test_proba : float32 array of shape (n_test, n_classes), or None
    train_error : float or None
        Part of the distinct rows it was trained on that it gets wrong.
    out_of_bag : int32 array of shape (n_left_out,), or None
        The training rows that its sample left out.
    out_of_bag_proba : float32 array of shape (n_left_out, n_classes), or None
    """

    row: Row
    member: Member | None
    test_proba: np.ndarray | None
    train_error: float | None
    out_of_bag: np.ndarray | None = None
    out_of_bag_proba: np.ndarray | None = None


def refit(
    data: FoldedData,
    task: RefitTask,
    inputs: Inputs,
    training: Training,
    on_progress: ProgressCallback = lambda share: None,
) -> Refitted:
    """Train the candidate on the bootstrap's whole sample, and test it; the task of a refit."""
    (one,) = refit_together(data, [task], inputs, training, on_progress)
    return one


def refit_together(
    data: FoldedData,
    tasks: Sequence[RefitTask],
    inputs: Inputs,
    training: Training,
    on_progress: ProgressCallback = lambda share: None,
) -> list[Refitted]:
    """Return the same of several bootstraps; all take the candidate of the first task.

    Where the device has no room for all of them at once they are trained in turns.
    """
    candidate, n = tasks[0].candidate, len(tasks)
    at_once = networks_that_fit(data, tasks[0], inputs, training, n)
    if 0 < at_once < n:
        return [
            one
            for first in range(0, n, at_once)
            for one in refit_together(data, tasks[first : first + at_once], inputs, training)
        ]
    samples = [sample_of(data, task) for task in tasks]
    drawn = [(sample.everything(), sample.out_of_bag()) for sample in samples]
    if at_once == 0:
        reason = does_not_fit(data, tasks[0], inputs, training)
        return [
            Refitted(empty_row(task, -1, len(own[0]), len(own[1]), reason), None, None, None)
            for task, own in zip(tasks, drawn, strict=True)
        ]
    generators = [generators_of(task.seed, 1)[0] for task in tasks]
    stack = place(data, candidate, drawn, generators, inputs, training, min(len(rows) for rows, _ in drawn))

    def collect(slot: int, weights: Tensors) -> tuple[Score, Score, dict[str, np.ndarray]]:
        rows, out_of_bag = drawn[slot]
        # A copy: on a CPU, numpy() is a view. What a module only counts it need not remember.
        numbers = {
            name: np.array(one.cpu().numpy())
            for name, one in weights.items()
            if one.is_floating_point()
        }
        of_left_out = stack.score(slot, out_of_bag, weights)
        return of_left_out, stack.score(slot, np.unique(rows), weights), numbers

    trained = train(stack, training, collect, on_progress)
    return [
        _refitted(data, task, inputs, training, own, one)
        for task, own, one in zip(tasks, drawn, trained, strict=True)
    ]


def _refitted(
    data: FoldedData, task: RefitTask, inputs: Inputs, training: Training,
    drawn: Drawn, one: Trained[tuple[Score, Score, dict[str, np.ndarray]]],
) -> Refitted:  # fmt: skip
    of_left_out, of_drawn, weights = one.result
    rows, out_of_bag = drawn
    row = row_of(task, -1, len(rows), len(out_of_bag), Trained(
        of_left_out, one.losses, one.status, one.seconds))  # fmt: skip
    row["losses"] = json.dumps([round(loss, 6) for loss in one.losses if math.isfinite(loss)])
    if one.status != OK:
        return Refitted(row, None, None, None)
    member = Member(task.candidate, inputs, weights, data.scaling_for(rows))
    proba = member.predict_proba(data.X_test, training)
    out_of_bag_proba = member.predict_proba(rows_of(data.X, out_of_bag), training)
    return Refitted(
        row, member, proba, of_drawn.n_errors / of_drawn.n_rows, out_of_bag, out_of_bag_proba
    )
