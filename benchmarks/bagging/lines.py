"""Candidates cross-validated by us and by the plain loop: same folds, same chance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from benchmarks.bagging.plain import Net, count_errors, train_plainly
from pipelines.bagging.work import Trainings
from pipelines.data.bootstrap import BootstrapSplits
from pipelines.data.dataset import Dataset
from pipelines.data.load import load_dataset
from pipelines.data.placement import FoldedData
from pipelines.nn.batched_fit import generator_of
from pipelines.nn.by_hand import epoch_order, first_weights
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import TrainingSettings, torch_device
from pipelines.nn.space import SearchSpace
from pipelines.run.runners import InProcess, OnCluster
from pipelines.search.shared.networks import NetworkCandidate
from pipelines.search.tasks import make_tasks, task_rows


@dataclass(frozen=True)
class Problem:
    """A data set of images and candidates: the same for every line.

    Attributes
    ----------
    dataset : Dataset, scaled by constants
    trainings : Trainings, of one bootstrap
    """

    dataset: Dataset
    trainings: Trainings

    @property
    def training(self) -> TrainingSettings:
        """Settings that all candidates share."""
        return self.trainings.training

    @property
    def candidates(self) -> Sequence[NetworkCandidate]:
        """Draws from a search space."""
        return self.trainings.candidates[0]

    def data(self) -> FoldedData:
        """New at each call, so that no worker has kept anything of the turn before."""
        dataset = self.dataset
        return FoldedData(
            dataset.X_train, dataset.y_train, dataset.X_test, dataset.y_test, (), dataset.scaling
        )


@dataclass(frozen=True)
class Cells:
    """What a line gives: by (candidate, fold), and the seconds of each candidate.

    Of the study's networks half of a short run is drawing first weights, on the host and
    the same for every line: ``training`` leaves it out.

    Attributes
    ----------
    n_errors : dict of (candidate, fold) -> wrong rows, or None where the loss diverged
    n_epochs : dict of (candidate, fold) -> epochs
    seconds : dict of candidate -> seconds its task took
    training : dict of candidate -> seconds of these in which its networks were trained
    """

    n_errors: dict[tuple[int, int], int | None]
    n_epochs: dict[tuple[int, int], int]
    seconds: dict[int, float]
    training: dict[int, float] = field(default_factory=dict)


def make_problem(
    name: str,
    space: str,
    n_draws: int,
    *,
    n_folds: int = 5,
    limit: int | None = None,
    data_dir: str = "data",
    seed: int = 0,
    training: TrainingSettings | None = None,
) -> Problem:
    """Load a data set and draw candidates, as a bagging run does.

    Raises
    ------
    InputError
        The data set cannot be had, or the space is not for it.
    """
    training = training or TrainingSettings()
    dataset = load_dataset(name, data_dir=data_dir, limit=limit, seed=seed)
    inputs = Inputs(dataset.X_train.shape[1], dataset.n_classes, dataset.image_shape)
    counts: dict[str, Any] = {
        "n_bootstrap": 1,
        "n_tuning": n_draws,
        "n_folds": n_folds,
        "seed": seed,
    }
    drawn = Trainings.draw(dataset.y_train, inputs, SearchSpace.load(space), training, **counts)
    return Problem(dataset, drawn)


def train_with_us(problem: Problem, runner: InProcess | OnCluster) -> Cells:
    """Our way, from unscaled arrays to the errors of every fold.

    Raises
    ------
    RuntimeError
        A task failed, for lack of memory or otherwise.
    """
    cells, searches = Cells({}, {}, {}), problem.trainings.problem(problem.data())
    (stage,) = problem.trainings.stages
    for outcome in runner.outcomes(task_rows, searches, make_tasks(searches, stage)):
        rows = outcome.result or []
        failed = [row["status"] for row in rows if row["status"].startswith("failed")]
        if outcome.error or failed:
            raise RuntimeError(f"{outcome.task.name}: {outcome.error or failed[0]}")
        (candidate,) = outcome.task.members
        cells.seconds[candidate] = outcome.seconds
        cells.training[candidate] = sum(row["fit_seconds"] for row in rows)
        for row in rows:
            cell = (row["candidate"], row["fold"])
            cells.n_errors[cell] = row["n_errors"]
            cells.n_epochs[cell] = row["n_iterations"]
    return cells


def train_plain(problem: Problem, n_threads: int) -> Cells:
    """The plain way: candidate by candidate, fold by fold, on so many threads of a CPU."""
    torch.set_num_threads(n_threads)
    torch.set_flush_denormal(False)  # as PyTorch begins
    data = problem.data()
    # As the tutorials have it: a data set of tensors on the host, a copy for each batch.
    X = torch.from_numpy(np.asarray(data.scaled("cpu"), dtype=np.float32))
    pairs = TensorDataset(X, torch.from_numpy(data.y.astype(np.int64)))
    cells = Cells({}, {}, {})
    splits = BootstrapSplits(data, problem.trainings.n_folds, problem.trainings.seed, (0,))
    for number in range(len(problem.candidates)):
        started = time.perf_counter()
        _train_candidate(problem, number, splits, pairs, cells)
        cells.seconds[number] = time.perf_counter() - started
    return cells


def _train_candidate(
    problem: Problem, number: int, splits: BootstrapSplits, pairs: TensorDataset, cells: Cells
) -> None:
    training, inputs = problem.training, problem.trainings.inputs
    network = problem.candidates[number]
    spec = network.spec
    cells.training[number] = 0.0
    device = torch_device(training.device)
    for fold, (train, validation) in enumerate(splits):
        generator = generator_of(network.random_state, fold)
        net = Net(spec, inputs).to(device)
        weights = first_weights(spec, inputs, [generator], torch.device(device))
        net.put({name: weight[0] for name, weight in weights.items()})
        started = time.perf_counter()
        losses = train_plainly(
            net,
            pairs,
            partial(epoch_order, train, generator),
            spec,
            batch_size=training.batch_size,
            max_epochs=training.max_epochs,
            least_fall=training.least_fall,
            device=device,
        )
        cells.training[number] += time.perf_counter() - started
        cells.n_epochs[number, fold] = len(losses)
        cells.n_errors[number, fold] = (
            count_errors(net, pairs, validation, device) if np.isfinite(losses[-1]) else None
        )


def first_draws(problem: Problem, count: int) -> Problem:
    """The same problem with its first candidates only."""
    fewer = replace(problem.trainings, candidates=[problem.candidates[:count]])
    return replace(problem, trainings=fewer)


def compare(ours: Cells, plain: Cells, n_workers: int) -> dict[str, Any]:
    """Errors and epochs side by side, and how many times longer the plain way takes.

    Of a single candidate the ratio is of the time it keeps the whole machine busy: ours
    trains ``n_workers`` candidates side by side, the plain way one.
    """
    both = [
        (errors, plain.n_errors[cell])
        for cell, errors in ours.n_errors.items()
        if errors is not None
    ]
    differences = [abs(errors - other) for errors, other in both if other is not None]
    by_draw = [
        n_workers * plain.seconds[number] / ours.seconds[number] for number in sorted(ours.seconds)
    ]
    return {
        "n_cells": len(ours.n_errors),
        "n_cells_that_differ": sum(
            errors != plain.n_errors[cell] for cell, errors in ours.n_errors.items()
        ),
        "largest_difference_rows": max(differences, default=None),
        "n_cells_with_other_epochs": sum(
            epochs != plain.n_epochs[cell] for cell, epochs in ours.n_epochs.items()
        ),
        "epochs_ours": sum(ours.n_epochs.values()),
        "epochs_plain": sum(plain.n_epochs.values()),
        "ratio_by_draw": by_draw,
        "ratio_median_draw": float(np.median(by_draw)),
        "ratio_training_by_draw": [
            n_workers * plain.training[number] / ours.training[number]
            for number in sorted(ours.training)
        ],
    }
