"""Networks of one candidate that are trained together: their rows, scores and results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from pipelines.data.bootstrap import Bootstrap
from pipelines.data.placement import FoldedData, cached
from pipelines.data.preparation import Preparation
from pipelines.data.scaling import FittedScaling
from pipelines.nn.device_rows import (
    DeviceRows,
    place_images,
    place_parts,
    place_rows,
    relative_scaling,
)
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.size import networks_at_once, scoring_rows, training_bytes
from pipelines.nn.space import Candidate
from pipelines.nn.tasks import Row, Task, redraw_sample

if TYPE_CHECKING:
    import torch

Tensors = dict[str, "torch.Tensor"]
Result = TypeVar("Result")
ProgressCallback = Callable[[float], None]
OK, DIVERGED = "ok", "diverged"


@dataclass(frozen=True)
class Part:
    """A network of a stack, with the rows that it is trained on.

    Attributes
    ----------
    rows : int array
        Of the data set; a row may occur more than once.
    generator : numpy Generator
        Draws its first weights, then the order of every epoch.
    scaling : FittedScaling, optional
        Of the placed rows; see ``relative_scaling``.
    out_of_bag : int array, optional
        Rows that were not drawn, each once: they end the training of a network for tables.
    weights : float array, optional
        What each of those counts there; by default all alike.
    """

    rows: np.ndarray
    generator: np.random.Generator
    scaling: FittedScaling | None = None
    out_of_bag: np.ndarray | None = None
    weights: np.ndarray | None = None

    def scaled(self, X: torch.Tensor) -> torch.Tensor:
        """Return placed rows, brought to the scale of the network's own where they are."""
        import torch

        X = X.float()  # images are placed as bytes
        if self.scaling is None:
            return X
        center, scale = (
            torch.from_numpy(np.asarray(one, dtype=np.float32)).to(X.device)
            for one in (self.scaling.center, self.scaling.scale)
        )
        return X.sub_(center).div_(scale)


@dataclass(frozen=True)
class Trained(Generic[Result]):
    """A trained network.

    Attributes
    ----------
    result : what ``collect`` made of it
    losses : mean cross-entropy of each epoch, measured while the weights moved
    status : "ok" or "diverged"
    seconds : of the stack's training up to the end of this network, shared out among
        the networks that were trained meanwhile
    """

    result: Result
    losses: tuple[float, ...]
    status: str
    seconds: float


Drawn = tuple[np.ndarray, np.ndarray]  # the rows of a sample, and those that it left out
GIB = 2**30
DATA_SHARE = 0.9  # of a GPU's free memory that is planned with; the rest is torch's own


@dataclass(frozen=True)
class Score:
    """The errors and the mean cross-entropy of a network on some rows."""

    n_rows: int
    n_errors: int
    loss: float
    seconds: float


def sample_of(data: FoldedData, task: Task) -> Bootstrap:
    """Return the bootstrap of a task, drawn again, and kept."""
    key = f"bootstrap {task.run_seed} {task.member} {task.n_folds}"
    return cached(
        (data.token, key),
        lambda: redraw_sample(data.y, task.n_folds, task.run_seed, task.member, data.weights),
    )


@dataclass(frozen=True, eq=False)
class Stack:
    """A candidate, rows on the device, and for each network which of them are its own.

    Row r of the data set is row ``slot * step + r`` for the network of ``parts[slot]``.

    Attributes
    ----------
    n_rows : int
        Rows of the smallest part of the task, of which this stack may be a share: a module's
        networks all take the steps that it has rows for.
    """

    candidate: Candidate
    inputs: Inputs
    rows: DeviceRows
    parts: list[Part]
    step: int = 0
    n_rows: int = 0

    def score(self, slot: int, some: np.ndarray, weights: Tensors) -> Score:
        """Score one network on rows of the data set."""
        import torch

        from pipelines.nn.networks import log_certainty, network_to_ask

        started = time.perf_counter()
        rows = self.rows
        network = network_to_ask(self.candidate, self.inputs, rows.device)
        index = torch.from_numpy(some.astype(np.int64) + slot * self.step).to(rows.device)
        n_errors, loss = 0, 0.0
        for block in index.split(scoring_rows(self.candidate, self.inputs)):
            X = self.parts[slot].scaled(rows.X.index_select(0, block))
            certainty = log_certainty(network, weights, X, self.inputs)
            truth = rows.one_hot.index_select(0, block)
            n_errors += int((certainty.argmax(1) != truth.argmax(1)).sum())
            loss -= float((certainty * truth).sum())
        seconds = time.perf_counter() - started
        return Score(len(some), n_errors, loss / max(1, len(some)), seconds)


def place(
    data: FoldedData,
    candidate: Candidate,
    drawn: Sequence[Drawn],
    generators: Sequence[np.random.Generator],
    inputs: Inputs,
    training: Training,
    n_rows: int,
) -> Stack:
    """Place what a stack is trained on: for each of its networks the rows drawn, and left out.

    Images for a module stay as they came, so that they can be augmented, and are scaled batch
    by batch.
    """
    trios = [(*rows, own) for rows, own in zip(drawn, generators, strict=True)]
    weights = np.ones(len(data.y)) if data.weights is None else data.weights
    if isinstance(data.scaling, Preparation):
        n, each = len(data.y), [rows for rows, _, _ in trios]
        placed = place_parts(data, each, inputs.n_classes, training.device)
        return Stack(candidate, inputs, placed, [
            Part(slot * n + rows, own, None, slot * n + out_of_bag, weights[out_of_bag])
            for slot, (rows, out_of_bag, own) in enumerate(trios)
        ], n, n_rows)  # fmt: skip
    as_they_came = training.optimizer is not None and inputs.image_shape is not None
    scaling = data.scaling_for if as_they_came else partial(relative_scaling, data)
    parts = [
        Part(rows, own, scaling(rows), out_of_bag, weights[out_of_bag])
        for rows, out_of_bag, own in trios
    ]
    rows = (place_images if as_they_came else place_rows)(data, inputs.n_classes, training.device)
    return Stack(candidate, inputs, rows, parts, 0, n_rows)


def networks_that_fit(
    data: FoldedData, task: Task, inputs: Inputs, training: Training, n: int
) -> int:
    """Return how many of n networks fit into the device's memory together."""
    return networks_at_once(
        task.candidate, inputs, n, training.batch_size, len(data.y), memory_of(training)
    )


def memory_of(training: Training) -> int | None:
    """Return bytes that training may take of its device; None for no limit.

    On a GPU what is free now, and what torch keeps of it unused: another worker, a desktop
    or another library may hold the rest. The rows, which a process places once, are
    counted in ``training_bytes`` again: a few parts in a hundred on the safe side.
    """
    if training.memory_bytes is not None or training.device == "cpu":
        return training.memory_bytes
    import torch

    free, _ = torch.cuda.mem_get_info()
    unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return int(DATA_SHARE * (free + unused))


def does_not_fit(data: FoldedData, task: Task, inputs: Inputs, training: Training) -> str:
    """Return the error message for a task of which not even one network fits."""
    needed = training_bytes(task.candidate, inputs, 1, training.batch_size, len(data.y))
    limit = memory_of(training) or 0
    return f"needs {needed / GIB:.1f} GiB, the device has {limit / GIB:.1f} GiB"


def row_of(
    task: Task, fold: int, n_train: int, n_validation: int,
    trained: Trained[Score],
) -> Row:  # fmt: skip
    """Return a row of results, ``fold`` -1 for a refit."""
    row = empty_row(task, fold, n_train, n_validation, "")
    one = trained.result
    row |= {
        "n_epochs": len(trained.losses),
        "fit_seconds": trained.seconds,
        "score_seconds": one.seconds,
        "status": trained.status,
    }
    if trained.status != OK:
        return row
    error = one.n_errors / n_validation if n_validation else None
    return row | {
        "n_errors": one.n_errors,
        "error": error,
        "score": None if error is None else 1 - error,
        "loss": one.loss,
    }


def empty_row(task: Task, fold: int, n_train: int, n_validation: int, reason: str) -> Row:
    """Return the same where nothing was trained."""
    return {
        "member": task.member,
        "candidate": task.number,
        "fold": fold,
        **task.candidate.parameters(),
        "n_train": n_train,
        "n_validation": n_validation,
        "n_errors": None,
        "error": None,
        "score": None,
        "loss": None,
        "n_epochs": None,
        "fit_seconds": None,
        "score_seconds": None,
        "status": f"failed: {reason}",
    }
