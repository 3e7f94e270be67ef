"""The trainings of a run, and what they leave: a table of epochs and the best network."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from pipelines.data.baseline import better_on_test_rows, constant_answer
from pipelines.data.model_file import write_model
from pipelines.parallel.checkpoint import StoredStages, from_bytes, read
from pipelines.parallel.flat import BEST, best_network
from pipelines.parallel.record import CHECKPOINTS, EPOCHS, EpochRow, training_name
from pipelines.parallel.training_problem import CLASSES, TrainingProblem, blocks_of
from pipelines.run_folder import names
from pipelines.run_folder.reading import as_table

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Training:
    """One training of a network, by one strategy on a number of ranks; hashable.

    Attributes
    ----------
    strategy : str
        As it is typed, such as ``every-k=4``; see ``strategy_of``.
    ranks : int
        The number that was requested; fewer may train where workers are missing.
    repeat : int
        Counted from 0. It decides the seed, so that all strategies of a repeat begin with the same
        weights.
    cost : float, default 1.0
        The predicted cost relative to other trainings, for the forecast of the run's end.
    """

    strategy: str
    ranks: int
    repeat: int
    cost: float = 1.0

    @property
    def name(self) -> str:
        return f"{self.strategy} on {self.ranks}, repeat {self.repeat + 1}"

    @property
    def words(self) -> str:
        """The name in words, for the terminal and the page."""
        return training_name(self.name)

    @property
    def file(self) -> str:
        """The file name of its checkpoint."""
        return f"{self.strategy}-on-{self.ranks}-{self.repeat + 1}.safetensors"

    @classmethod
    def of_file(cls, name: str) -> Self:
        """The training to which a checkpoint, or a stage's part of one, belongs by its name."""
        strategy, _, numbers = name.partition(".")[0].rpartition("-on-")
        ranks, _, number = numbers.partition("-")
        return cls(strategy, int(ranks), int(number) - 1)

    def seed(self, seed: int) -> int:
        """The seed of the first weights and of the order of the rows.

        Parameters
        ----------
        seed : int
            The seed of the run.
        """
        spawned = np.random.SeedSequence(seed).spawn(self.repeat + 1)[-1]
        return int(spawned.generate_state(1)[0])

    def rows(self, epochs: list[dict[str, Any]], status: str = "ok") -> list[dict[str, Any]]:
        """The epochs as rows of the run's table; a training without any has one empty row."""
        identity = {"strategy": self.strategy, "ranks": self.ranks, "repeat": self.repeat}
        return [{**identity, **row, "status": status} for row in epochs or [{"epoch": 0}]]


def write_answer(
    folder: Path,
    problem: TrainingProblem,
    options: Any,
    trainings: dict[Training, list[dict[str, Any]]],
) -> dict[str, Any]:
    """Write the table of epochs and the model with the lowest validation loss.

    Parameters
    ----------
    folder : Path
        The run's folder, which also has the checkpoints.
    problem : TrainingProblem
        What was trained on; its test rows are predicted by the best network.
    options : Options of ``data_parallel``
    trainings : dict of lists of rows
        The epochs of each training, as the journal has them.

    Returns
    -------
    dict
        Entries for ``run.json``: a summary of each training, and the scores of the best network on
        the test rows where a training has a whole checkpoint.
    """
    rows = [row for epochs in trainings.values() for row in epochs]
    table = pd.DataFrame(rows).reindex(columns=list(EpochRow.model_fields))
    table = as_table(table.fillna({"worker": ""}), EpochRow)
    names.write_table(table, folder / EPOCHS, index=False)
    columns = ("strategy", "ranks", "repeat", "seconds", "test_loss", "test_metric", "status")
    metadata = []
    for epochs in trainings.values():
        last, best_epoch = epochs[-1], _best_epoch(epochs) or {}
        metadata.append(
            {
                **{name: last.get(name) for name in columns},
                "epochs": last["epoch"],
                "steps": last.get("step"),
                "best_epoch": best_epoch.get("epoch"),
                **{name: best_epoch.get(name) for name in ("validation_loss", "validation_metric")},
                "wait_share": _wait_fraction(epochs[1:] or epochs),
            }
        )
    failed = sum(entry["status"].startswith("failed") for entry in metadata)
    entries = {
        "n_cells": len(metadata),
        "n_failed": failed,
        "trainings": metadata,
        "metric": problem.metric,
    }
    candidates = [
        training
        for training, rows in trainings.items()
        if _best_epoch(rows) is not None and read(folder / CHECKPOINTS / training.file)
    ]
    if not candidates:
        return entries
    best = min(candidates, key=lambda training: _best_epoch(trainings[training])["validation_loss"])
    return entries | _store(folder, problem, best, options)


def _wait_fraction(rows: list[dict[str, Any]]) -> float | None:
    """The fraction of the seconds of these epochs in which ranks waited for each other."""
    phases = ("compute", "communication", "wait")
    sums = {phase: sum(row.get(f"{phase}_seconds") or 0.0 for row in rows) for phase in phases}
    seconds = sum(sums.values())
    return sums["wait"] / seconds if seconds else None


def _best_epoch(rows: list[dict[str, Any]]) -> Any:
    """The epoch with the lowest validation loss; None if no loss was measured."""
    measured = [row for row in rows if row.get("validation_loss") is not None]
    return min(measured, key=lambda row: row["validation_loss"], default=None)


def _best_network(problem: TrainingProblem, path: Path, seed: int) -> torch.nn.Module:
    """The network after its best epoch; if it was trained in stages, weights are mapped from disk.

    A network in stages may be larger than the memory of this process.
    """
    if path.exists():
        state, _ = from_bytes(path.read_bytes())
        return best_network(problem.network.make(seed), state)
    from pipelines.parallel.stages import network_from

    stored = StoredStages(path)
    by_name = {
        name.removeprefix(BEST).split(" ", 1)[1]: stored[name]
        for name in stored
        if name.startswith((f"{BEST}weights ", f"{BEST}buffer "))
    }
    return network_from(by_name, lambda: problem.network.make(seed))


def _tested(
    network: torch.nn.Module, problem: TrainingProblem, options: Any
) -> tuple[float, float, np.ndarray]:
    """Mean loss and metric of the test rows, and the index of the largest output for each row."""
    import torch

    from pipelines.data.stream.row_feed import RowFeed, StreamedColumns

    columns: Any
    n_rows, sums = len(problem.test["y"]), torch.zeros(2)
    predicted = list[torch.Tensor]()
    with ExitStack() as stack:
        if problem.on_disk:
            feed = RowFeed(
                [problem.test["X"]],
                n_workers=options.loaders(1),
                directory=options.cache_dir,
                say=lambda text: None,  # the ranks have sent these notes already
            )
            stack.callback(feed.close)
            columns = StreamedColumns(problem.test, feed, "cpu")
        else:
            columns = {name: torch.tensor(array) for name, array in problem.test.items()}
        network.eval()
        stack.enter_context(torch.inference_mode())
        for block in map(problem.prepare, blocks_of(columns, slice(0, n_rows))):
            outputs = network(block["X"])
            sums += problem.sums(outputs, block["y"])
            predicted.append(outputs.argmax(1))
    loss, metric = (sums / max(1, n_rows)).tolist()
    return loss, metric, torch.cat(predicted).numpy()


def _store(folder: Path, problem: TrainingProblem, best: Training, options: Any) -> dict[str, Any]:
    """Store the best network and its predictions of the test rows; return its scores on them."""
    path = folder / CHECKPOINTS / best.file
    network = _best_network(problem, path, best.seed(options.seed))
    about = {
        "network": problem.network.name,
        "n_inputs": problem.network.n_inputs,
        "n_outputs": problem.network.n_outputs,
        "hidden": list(problem.network.hidden),
        "image_shape": problem.network.image_shape,
        "task": problem.task,
        "center": problem.center,
        "scale": problem.scale,
    }
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    with names.replacing(folder / names.MODEL) as file:
        write_model(file, weights, about)
    loss, metric, predicted = _tested(network, problem, options)
    metadata = {
        "best": {"training": best.name},
        "n_weights": sum(weights.numel() for weights in network.parameters()),
        "test_loss": loss,
    }
    if problem.task != CLASSES:
        deviation = np.abs(problem.test["y"] - problem.train["y"].mean()).mean() * problem.unit
        baseline = {"words": "always answering the mean", "test_metric": float(deviation)}
        return metadata | {"test_metric": metric, "baseline": baseline}
    true = problem.test["y"]
    frame = pd.DataFrame({"row": np.arange(len(true)), "true": true, "predicted": predicted})
    names.write_table(frame.astype("int64"), folder / names.PREDICTIONS, index=False)
    wrong = int((predicted != true).sum())
    error = wrong / len(true)
    baseline = constant_answer(problem.train["y"], true, problem.classes)
    metadata |= {"n_test_errors": wrong, "test_error": error, "baseline": baseline}
    return metadata | {"remarks": better_on_test_rows(baseline, error)}
