"""What a task fits: the folds of a candidate, or members on their whole samples."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from pipelines.data.bootstrap import Bootstrap
from pipelines.data.dataset import rows_of
from pipelines.data.placement import FoldedData, unused_in_pool
from pipelines.nn.inputs import Inputs
from pipelines.nn.member import Member, OutOfBagPrediction, Prediction
from pipelines.nn.settings import Training
from pipelines.nn.size import training_bytes
from pipelines.nn.stack import OK, ProgressCallback, Score, Stack, Tensors, Trained, place_stack
from pipelines.nn.tasks import CandidateTask, Row, generators_of, redraw_sample
from pipelines.nn.train import train

GIB = 2**30
DATA_SHARE = 0.9  # of a GPU's free memory that is planned with; the rest is torch's own


def sample_of(data: FoldedData, task: CandidateTask) -> Bootstrap:
    """Return the bootstrap of a task, drawn again, and kept."""
    return data.placement.get(
        ("bootstrap", task.run_seed, task.member, task.n_folds),
        lambda: redraw_sample(data.y, task.n_folds, task.run_seed, task.member, data.weights),
    )


def cross_validate_candidate(
    data: FoldedData,
    task: CandidateTask,
    inputs: Inputs,
    training: Training,
    on_progress: ProgressCallback = lambda share: None,
) -> list[Row]:
    """Train and score the folds of a candidate and its ``others``; the task of the random search.

    Each fold's network is trained on the bootstrap's samples of the other folds, and
    scored on the rows of its own fold, each once. Where the device has no room for all
    networks at once they are trained in turns, with the same result.

    Returns
    -------
    list of dict
        One row for each fold of each candidate; the caller adds ``worker``. A candidate whose
        loss ceases to be a number has the status ``diverged``, one that does not fit the device
        a status that says so; both have no error.
    """
    sample = sample_of(data, task)
    networks = [
        (one, fold, generator)
        for one in task.each
        for fold, generator in enumerate(generators_of(one.seed, one.n_folds))
    ]
    at_once, reason = room_for(data, task, inputs, training, len(networks))
    if at_once == 0:
        return failed_rows(data, task, reason)
    n_rows = min(len(sample.train(fold)) for fold in range(task.n_folds))
    found: list[Row] = []
    for first in range(0, len(networks), at_once):
        some = networks[first : first + at_once]
        drawn = [(sample.train(fold), sample.out_of_bag(fold)) for _, fold, _ in some]
        candidates, generators = [one.candidate for one, _, _ in some], [own for _, _, own in some]
        stack = place_stack(data, candidates, drawn, generators, inputs, training, n_rows)
        validation = [sample.validation(fold) for _, fold, _ in some]

        def score(
            slot: int, weights: Tensors, stack: Stack = stack, rows: list[np.ndarray] = validation
        ) -> Score:
            return stack.score(slot, rows[slot], weights)

        def told_of_turn(share: float, first: int = first, n: int = len(some)) -> None:
            on_progress((first + share * n) / len(networks))

        trained = train(stack, training, score, told_of_turn)
        found += [
            row_of(one, fold, len(part.rows), len(rows), "", result)
            for (one, fold, _), part, rows, result in zip(
                some, stack.parts, validation, trained, strict=True
            )
        ]
    return found


def failed_rows(data: FoldedData, task: CandidateTask, reason: str) -> list[Row]:
    """Return the rows of a task whose folds were not trained."""
    sample = sample_of(data, task)
    return [
        row_of(one, fold, len(sample.train(fold)), len(sample.validation(fold)), reason)
        for one in task.each
        for fold in range(task.n_folds)
    ]


@dataclass(frozen=True, eq=False)
class Refitted:
    """The result of a refit; without a member where training diverged or did not fit the device.

    Attributes
    ----------
    row : dict
        The columns of a candidate's row, ``fold`` -1, and ``training_error``; the other errors
        and the loss are of the distinct training rows that the sample left out, a third of them.
    test : Prediction of the test rows
    out_of_bag : OutOfBagPrediction
    """

    row: Row
    member: Member | None = None
    test: Prediction | None = None
    out_of_bag: OutOfBagPrediction | None = None


def refit(
    data: FoldedData,
    tasks: Sequence[CandidateTask],
    inputs: Inputs,
    training: Training,
    on_progress: ProgressCallback = lambda share: None,
) -> list[Refitted]:
    """Train a candidate on the whole samples of bootstraps, and test it; the task of a refit.

    All take the candidate of the first task, modules but for the learning rate and the momentum.
    Where the device has no room for all of them at once they are trained in turns.
    """
    n = len(tasks)
    at_once, reason = room_for(data, tasks[0], inputs, training, n)
    if 0 < at_once < n:
        return [
            one
            for first in range(0, n, at_once)
            for one in refit(data, tasks[first : first + at_once], inputs, training)
        ]
    samples = [sample_of(data, task) for task in tasks]
    drawn = [(sample.everything(), sample.out_of_bag()) for sample in samples]
    if at_once == 0:
        return [
            Refitted(row_of(task, -1, len(rows), len(left_out), reason) | {"training_error": None})
            for task, (rows, left_out) in zip(tasks, drawn, strict=True)
        ]
    generators = [generators_of(task.seed, 1)[0] for task in tasks]
    candidates, n_rows = [task.candidate for task in tasks], min(len(rows) for rows, _ in drawn)
    stack = place_stack(data, candidates, drawn, generators, inputs, training, n_rows)

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

    made = []
    trained = train(stack, training, collect, on_progress)
    for task, (rows, left_out), one in zip(tasks, drawn, trained, strict=True):
        of_left_out, of_drawn, weights = one.result
        scored = Trained(of_left_out, one.losses, one.status, one.seconds)
        row = row_of(task, -1, len(rows), len(left_out), "", scored)
        row["losses"] = json.dumps([round(loss, 6) for loss in one.losses if math.isfinite(loss)])
        row["training_error"] = None
        if one.status != OK:
            made.append(Refitted(row))
            continue
        row["training_error"] = of_drawn.n_errors / of_drawn.n_rows
        distinct = np.unique(rows)
        member = Member(task.candidate, inputs, weights, data.scaling_for(rows)).knowing(
            rows_of(data.X, distinct), data.y[distinct], training
        )
        of_out_of_bag = member.predict(rows_of(data.X, left_out), training).on_host()
        for first, other in enumerate(one.crossed):
            numbers = {name: np.array(own.cpu().numpy()) for name, own in other.items()}
            stopped = replace(member, weights=numbers, novelty=None)
            X = rows_of(data.X, left_out[first::2])
            of_out_of_bag.probabilities[first::2] = stopped.predict_proba(X, training)
        out_of_bag = OutOfBagPrediction(left_out, *of_out_of_bag)
        test = member.predict(data.X_test, training)
        if len(data.y_test):  # to be reduced here, where they lie
            data.placement.get(kept_key(row), partial(tuple, (test, out_of_bag)))
        made.append(Refitted(row, member, test.on_host(), out_of_bag))
    return made


def kept_key(row: Row) -> tuple[str, int, int]:
    """Return the key by which a worker's process keeps the test predictions of a refit."""
    return "member", row["member"], row["candidate"]


def room_for(
    data: FoldedData, task: CandidateTask, inputs: Inputs, training: Training, n: int
) -> tuple[int, str]:
    """Return how many of n networks the device holds together, and why not even one.

    On a GPU what is free now counts, and what torch or RMM's pool keeps of it unused: another
    worker, a desktop or another library may hold the rest. The rows, which a process places
    once, are counted in ``training_bytes`` again: a few parts in a hundred on the safe side.
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
        return n, ""
    needed = [
        training_bytes(task.candidate, inputs, count, training.batch_size, len(data.y))
        for count in range(1, n + 1)
    ]
    reason = f"needs {needed[0] / GIB:.1f} GiB, the device has {limit / GIB:.1f} GiB"
    return sum(one <= limit for one in needed), reason


def row_of(
    task: CandidateTask,
    fold: int,
    n_train: int,
    n_validation: int,
    reason: str,
    trained: Trained[Score] | None = None,
) -> Row:
    """Return a row of results, ``fold`` -1 for a refit; ``reason`` is why nothing was trained."""
    row = {
        "member": task.member,
        "candidate": task.number,
        "fold": fold,
        **asdict(task.candidate),
        "n_train": n_train,
        "n_validation": n_validation,
        **dict.fromkeys(("n_errors", "error", "score", "loss")),
        "n_epochs": trained and len(trained.losses),
        "fit_seconds": trained and trained.seconds,
        "score_seconds": trained and trained.result.seconds,
        "status": trained.status if trained else f"failed: {reason}",
    }
    if trained and trained.status == OK:
        one = trained.result
        row |= {"n_errors": one.n_errors, "loss": one.loss}
        if n_validation:
            row["error"] = one.n_errors / n_validation
            row["score"] = 1 - row["error"]
    return row
