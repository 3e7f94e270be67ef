"""What ``data_parallel`` trains: a network, the rows of a data set, a loss and a metric.

Rows are loaded in the form that a network takes: images as bytes, tables prepared.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pipelines.data.batches import rank_slice
from pipelines.data.dataset import channels_height_width, take_rows
from pipelines.data.load import DATASETS, load_dataset, refuse_unstreamed
from pipelines.data.preparation import Preparation
from pipelines.data.scaling import FittedScaling
from pipelines.data.stream.row_feed import StreamedColumns
from pipelines.data.stream.streamed_rows import RowsOnDisk
from pipelines.data.stream.tables import TableStore, open_table
from pipelines.data.tables import SUFFIXES, RawTable, Reading, read_raw_table
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    import torch

    from pipelines.data.batches import Columns
    from pipelines.parallel.process_group.group import ProcessGroup

__all__ = ["approximator"]  # for users' programs; the other names are internal

CLASSES, NUMBERS = "classification", "regression"
METRICS = {CLASSES: "error", NUMBERS: "mean absolute error"}
BLOCK = 2048  # rows evaluated at once, which bounds the memory of their activations
INTERVAL = (0.0, 20.0)

Rows = dict[str, Any]  # arrays X and y; X may be RowsOnDisk
NETWORKS = ("approximator", "bagging", "mlp", "cnn")
# Units of the study's function approximator, 1 -> 80 -> 80 -> 40 -> 1.
APPROXIMATOR = (80, 80, 40)
CHANNELS_OF_CNN = 16
CHANNELS, KERNEL, HIDDEN = 8, 3, 64  # a bagging network such as the search often chooses


@dataclass(frozen=True)
class NetworkDescription:
    """The description of a network, from which each rank builds it.

    Attributes
    ----------
    name : str
        One of ``NETWORKS``, a name of ``torchvision.models``, or ``module:NAME`` or
        ``FILE.py:NAME`` of the user's class, function or module.
    n_inputs, n_outputs : int
        Features of a row, and outputs of the network.
    image_shape : tuple of int or None
        (height, width) in pixels, before them the channels of a coloured image; None for a table.
    hidden : tuple of int, default (64, 64)
        Units of the layers of an mlp.
    ink : bool, default False
        Whether images show ink on an even background, as digits do.
    """

    name: str
    n_inputs: int
    n_outputs: int
    image_shape: tuple[int, ...] | None = None
    hidden: tuple[int, ...] = (64, 64)
    ink: bool = False

    def make(self, seed: int) -> torch.nn.Module:
        """Build the network, with first weights drawn from a seed.

        Returns
        -------
        torch.nn.Module
            From a float32 tensor of shape (n_rows, n_inputs) to one of shape (n_rows, n_outputs).
        """
        from torch import nn

        from pipelines.nn.inputs import Inputs
        from pipelines.nn.networks import drawing_from, make_network
        from pipelines.nn.space import NetworkSpec

        if self.name not in NETWORKS[:-1]:  # a network of nn_bagging, which takes images, not rows
            inputs = Inputs(self.n_inputs, self.n_outputs, self.image_shape)
            network = make_network(NetworkSpec(self.name, 0, 0, 0, CHANNELS_OF_CNN), inputs, seed)
            if self.image_shape is None:
                return network
            return nn.Sequential(nn.Unflatten(1, channels_height_width(self.image_shape)), network)
        layers: list[Any]
        with drawing_from(seed):
            if self.name == "bagging":
                assert self.image_shape is not None
                channels, height, width = channels_height_width(self.image_shape)
                n_features = CHANNELS * (height - KERNEL + 1) * (width - KERNEL + 1)
                unflatten = nn.Unflatten(1, (channels, height, width))
                layers = [unflatten, nn.Conv2d(channels, CHANNELS, KERNEL), nn.ReLU(), nn.Flatten()]
                layers += [nn.Linear(n_features, HIDDEN), nn.ReLU()]
                return nn.Sequential(*layers, nn.Linear(HIDDEN, self.n_outputs))
            hidden = APPROXIMATOR if self.name == "approximator" else self.hidden
            layers = []
            for n_inputs, n_units in itertools.pairwise((self.n_inputs, *hidden)):
                layers += [nn.Linear(n_inputs, n_units), nn.ReLU()]
            return nn.Sequential(*layers, nn.Linear((self.n_inputs, *hidden)[-1], self.n_outputs))


def refuse_unknown_network(name: str) -> None:
    """Raise InputError for an unknown network, before any data are loaded."""
    if name in NETWORKS:
        return
    if ":" in name:
        from pipelines.data.user_files import load_object

        load_object("network", name)
        return
    from pipelines.nn.networks import torchvision_models

    torchvision_models(name, NETWORKS)


@dataclass(frozen=True, eq=False)
class TrainingProblem:
    """A network and the rows it learns from, on the host; scattered once to the workers.

    Attributes
    ----------
    name : str
        The name of the data.
    task : {"classification", "regression"}
        The loss is cross-entropy or squared error.
    network : NetworkDescription
    train, validation, test : dict of arrays
        X of shape (n_rows, n_inputs), uint8 or float32, and y of shape (n_rows,): int64 class
        codes, or float32. X may be ``RowsOnDisk`` if the data are large.
    center, scale : float
        Bytes x become (x - center) / scale on the device.
    unit : float
        A factor of the metric, which brings it back to the unit of the target if y is
        standardised.
    classes : array of shape (n_classes,) or None
        The labels of the class codes; None in a regression.
    lines : tuple of str
        The lines that the terminal prints about the data before a run.
    notes : tuple of str
        What was noticed when the data were read; a part of ``lines``.
    table : mapping or None
        How a table was read, JSON-serialisable; None for images.
    """

    name: str
    task: str
    network: NetworkDescription
    train: Rows
    validation: Rows
    test: Rows
    center: float = 0.0
    scale: float = 1.0
    unit: float = 1.0
    classes: np.ndarray | None = None
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    table: Mapping[str, Any] | None = None

    @property
    def n_train(self) -> int:
        return len(self.train["y"])

    @property
    def on_disk(self) -> list[RowsOnDisk]:
        """The rows that are streamed from disk."""
        parts = (self.train, self.validation, self.test)
        return [rows["X"] for rows in parts if isinstance(rows["X"], RowsOnDisk)]

    @property
    def metric(self) -> str:
        """The name of the metric that is measured beside the loss."""
        return METRICS[self.task]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the task and all rows, in hexadecimal."""
        digest = hashlib.sha256(f"{self.task} ".encode())
        for rows in (self.train, self.validation, self.test):
            for array in rows.values():
                if isinstance(array, RowsOnDisk):
                    digest.update(array.identity)
                    continue
                digest.update(f"{array.dtype.str} {array.shape};".encode())
                digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Metadata of the data, JSON-serialisable."""
        shape = self.network.image_shape
        return {
            "name": self.name,
            "task": self.task,
            "n_train": self.n_train,
            "n_validation": len(self.validation["y"]),
            "n_test": len(self.test["y"]),
            "n_features": self.network.n_inputs,
            "n_classes": self.network.n_outputs if self.task == CLASSES else None,
            "image_shape": list(shape) if shape else None,
            "fingerprint": self.fingerprint,
            **({} if self.table is None else {"table": dict(self.table)}),
            "notes": list(self.notes),
        }

    def prepare(self, columns: Columns) -> Columns:
        """A batch as the network takes it, with bytes scaled; ``Batches`` maps rows with it."""
        import torch

        if columns["X"].dtype != torch.uint8:
            return columns
        return {"X": columns["X"].float().sub_(self.center).div_(self.scale), "y": columns["y"]}

    def augmented(self, X: torch.Tensor, augment: str, seed: int) -> torch.Tensor:
        """Augment prepared images at random, each differently.

        Parameters
        ----------
        X : float32 tensor of shape (n_rows, n_inputs)
            As ``prepare`` gives it.
        augment : str
            The augmentation, see ``pipelines.nn.augment``.
        seed : int
            Equal seeds give equal changes.
        """
        import torch

        from pipelines.nn.augment import augment_images

        generator = torch.Generator().manual_seed(seed)
        assert self.network.image_shape is not None
        shape = channels_height_width(self.network.image_shape)
        images = X.mul(self.scale).add_(self.center).unflatten(1, shape)
        changed = augment_images(images[None], augment, [generator], 255.0)[0].flatten(1)
        return changed.sub_(self.center).div_(self.scale)

    def loss(self, outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The loss, summed over rows."""
        from torch.nn import functional

        if self.task == CLASSES:
            return functional.cross_entropy(outputs, y, reduction="sum")
        return functional.mse_loss(outputs.squeeze(1), y, reduction="sum")

    def sums(self, outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Loss and metric, each summed over rows."""
        import torch

        if self.task == CLASSES:
            metric = (outputs.argmax(1) != y).sum()
        else:
            metric = (outputs.squeeze(1) - y).abs().sum() * self.unit
        return torch.stack([self.loss(outputs, y), metric.float()])

    def measure(
        self, network: torch.nn.Module, columns: Columns | StreamedColumns, group: ProcessGroup
    ) -> tuple[float, float]:
        """Mean loss and metric of rows that every rank has; each rank computes a part of them.

        Parameters
        ----------
        network : torch.nn.Module
            It is in training mode afterwards.
        columns : tensors by name, or StreamedColumns
            The same rows on all ranks.
        group : ProcessGroup
            All its ranks make this call.
        """
        import torch

        n_rows = len(columns["y"])
        part = rank_slice(n_rows, group.rank, group.n_ranks)
        sums = torch.zeros(2, device=group.device)
        network.eval()
        with torch.inference_mode():
            for block in map(self.prepare, blocks_of(columns, part)):
                sums += self.sums(network(block["X"]), block["y"])
        network.train()
        group.sum(sums)
        loss, metric = (sums / max(1, n_rows)).tolist()
        return loss, metric


def blocks_of(columns: Columns | StreamedColumns, part: slice) -> Iterator[Columns]:
    """Blocks of adjacent rows of a part, each a copy of at most ``BLOCK`` rows."""
    if isinstance(columns, StreamedColumns):
        yield from columns.blocks(part, BLOCK)
        return
    for first in range(part.start, part.stop, BLOCK):
        block = slice(first, min(first + BLOCK, part.stop))
        # A network may change its input in place, and these rows are measured again.
        yield {name: column[block].clone() for name, column in columns.items()}


def approximator(n_rows: int, validation: float, seed: int) -> TrainingProblem:
    """The study's regression problem: sqrt(x) sin(3.14 x / 5), at random points of [0, 20].

    x is scaled to [-1, 1]: without it the study's plain SGD needed thousands of epochs.

    Parameters
    ----------
    n_rows : int
        Points to train on and to hold out; 1000 more, evenly spaced, are for the test.
    validation : float
        The fraction that is held out.
    seed : int
        Draws the points.

    Returns
    -------
    TrainingProblem

    Examples
    --------
    >>> problem = approximator(100, validation=0.1, seed=0)
    >>> problem.n_train, len(problem.validation["y"]), len(problem.test["y"])
    (90, 10, 1000)
    """
    rng = np.random.default_rng(seed)
    n_held, n_test = max(1, round(n_rows * validation)), 1000
    low, high = INTERVAL
    x = rng.uniform(low, high, n_rows + n_test)
    x[n_rows:] = np.linspace(low, high, n_test)
    X = ((x - (low + high) / 2) / ((high - low) / 2)).astype(np.float32)[:, None]
    y = (np.sqrt(x) * np.sin(3.14 * x / 5)).astype(np.float32)
    held_part, train_part, test = slice(n_held), slice(n_held, n_rows), slice(n_rows, None)
    parts = [{"X": X[part], "y": y[part]} for part in (train_part, held_part, test)]
    network = NetworkDescription("approximator", 1, 1)
    return TrainingProblem(
        "sqrt(x) sin(3.14 x / 5)", NUMBERS, network, parts[0], parts[1], parts[2]
    )


def held_out(
    y: np.ndarray, task: str, validation: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows at random into those to train on and those held out; classes are stratified.

    Parameters
    ----------
    y : array of shape (n_rows,)
        The target.
    task : {"classification", "regression"}
        Only classes are stratified.
    validation : float
        The fraction held out, at least one row.
    seed : int

    Returns
    -------
    train_rows, held_rows : int64 arrays
        Sorted indices of rows.

    Raises
    ------
    InputError
        No row would remain to train on.
    """
    n_rows, n_held = len(y), max(1, round(validation * len(y)))
    if n_held >= n_rows:
        raise InputError(
            f"{opt('validation')} must leave rows to train on, got {validation} of {n_rows}; "
            "take a smaller share"
        )
    order = np.random.default_rng(seed).permutation(n_rows)
    if task == CLASSES:  # each class is spread evenly over the order, whose end is held out
        order = order[np.argsort(y[order], kind="stable")]
        position = np.empty(n_rows)
        for label in np.unique(y):
            has_label = y[order] == label
            position[has_label] = (np.arange(has_label.sum()) + 0.5) / has_label.sum()
        order = order[np.argsort(position, kind="stable")]
    return np.sort(order[:-n_held]), np.sort(order[-n_held:])


def load_rows(
    name: str,
    network: str,
    hidden: tuple[int, ...],
    *,
    task: str | None,
    target: str | None,
    limit: int | None,
    test_size: float,
    validation: float,
    seed: int,
    reading: Reading,
    **settings: Any,
) -> TrainingProblem:
    """Load a data set by its name, or a table by its path, as a problem for a network.

    Scaling and preparation are fitted on the training rows alone.

    Parameters
    ----------
    name : str
        The name of a data set, or the path of a table or a folder of images.
    network, hidden : str, tuple of int
        See ``NetworkDescription``.
    task : {"classification", "regression"} or None
        The task of a table; None decides by the values of its target.
    target : str or None
        The target column of a table.
    limit : int or None
        The most rows to train on and hold out.
    test_size, validation : float
        Fractions of the rows for the test, and of the others for the validation.
    seed : int
        Draws both splits.
    reading : Reading
        How a table is read.
    **settings
        Further parameters of ``pipelines.data.load.load_dataset``.

    Returns
    -------
    TrainingProblem

    Raises
    ------
    InputError
        The data cannot be read, or do not go with the network or the task.
    """
    if name in DATASETS and task == NUMBERS:
        raise InputError(
            f"{opt('task')} must be {CLASSES} for {opt('dataset', name)}, got {task}; leave it out"
        )
    if name not in DATASETS and Path(name).suffix.lower() in SUFFIXES and task != CLASSES:
        table_task, input_mode = cast(Any, task), settings.get("input", "memory")
        table: RawTable | None = open_table(Path(name), target, table_task, reading, input_mode)
        if table is None:
            refuse_unstreamed(Path(name), input_mode)
            table = read_raw_table(Path(name), target, task=table_task, **asdict(reading))
        if table.task == NUMBERS:
            return _of_numbers(table, network, hidden, limit, test_size, validation, seed)
    settings |= {"target": target, "limit": limit, "reading": reading}
    dataset = load_dataset(name, test_size=test_size, seed=seed, **settings)
    if network == "bagging" and dataset.image_shape is None:
        raise InputError(
            f"{opt('network')} must be mlp or your own for a table, got bagging, whose convolution "
            "needs images"
        )
    train_rows, held_rows = held_out(dataset.y_train, CLASSES, validation, seed)
    lines = (*dataset.lines, *fitted_on_disk(dataset.X_train, train_rows))
    scaling = dataset.scaling.fit(take_rows(dataset.X_train, train_rows))
    as_bytes = (
        isinstance(scaling, FittedScaling)
        and isinstance(scaling.center, float)
        and getattr(dataset.X_train, "dtype", None) == np.uint8
    )

    def rows(X: Any, y: np.ndarray) -> Rows:
        matrix = (
            X if as_bytes or isinstance(X, RowsOnDisk) else scaling.transform(X).astype(np.float32)
        )
        if not isinstance(matrix, RowsOnDisk):
            matrix = np.ascontiguousarray(matrix)
        return {"X": matrix, "y": y.astype(np.int64)}

    train = rows(take_rows(dataset.X_train, train_rows), dataset.y_train[train_rows])
    n_inputs = train["X"].shape[1]
    validation_rows = rows(take_rows(dataset.X_train, held_rows), dataset.y_train[held_rows])
    parts = (train, validation_rows, rows(dataset.X_test, dataset.y_test))
    center, scale = 0.0, 1.0
    if as_bytes:
        assert isinstance(scaling, FittedScaling)
        center, scale = float(scaling.center), float(scaling.scale)
    inputs = NetworkDescription(
        network, n_inputs, dataset.n_classes, dataset.image_shape, hidden, dataset.ink
    )
    about: dict[str, Any] = {"classes": dataset.classes, "lines": lines, "notes": dataset.notes}
    return TrainingProblem(
        dataset.name, CLASSES, inputs, *parts, center, scale, table=dataset.table, **about
    )


def fitted_on_disk(X: Any, train_rows: np.ndarray) -> list[str]:
    """Fit the preparation of X if it is a table on disk; return a line that gives its rows."""
    if not isinstance(X, RowsOnDisk) or not isinstance(X.store, TableStore):
        return []
    n = X.store.fit(X.rows[train_rows])
    return [f"prepared   by {n:,} training rows of the sample"]


def _of_numbers(
    table: RawTable,
    network: str,
    hidden: tuple[int, ...],
    limit: int | None,
    test_size: float,
    validation: float,
    seed: int,
) -> TrainingProblem:
    if network == "bagging":
        raise InputError(
            f"{opt('network')} must be mlp or your own for numbers, got bagging, which tells "
            "classes apart"
        )
    y = np.asarray(table.y, float)
    train, test = held_out(y, NUMBERS, test_size, seed)
    if limit is not None:
        train = train[:limit]
    train_rows, held_rows = held_out(y[train], NUMBERS, validation, seed + 1)
    train_rows, held_rows = train[train_rows], train[held_rows]
    lines = (*table.lines(), *fitted_on_disk(table.X, train_rows))
    on_disk = isinstance(table.X, RowsOnDisk)
    if not on_disk:
        prepare = Preparation(table.kinds, table.missing).fit(take_rows(table.X, train_rows))
    center, unit = float(y[train_rows].mean()), float(y[train_rows].std()) or 1.0

    def rows(numbers: np.ndarray) -> Rows:
        X: Any = table.X[numbers] if on_disk else prepare.transform(take_rows(table.X, numbers))
        if not on_disk:
            X = np.ascontiguousarray(X, np.float32)
        return {"X": X, "y": ((y[numbers] - center) / unit).astype(np.float32)}

    parts = (rows(train_rows), rows(held_rows), rows(test))
    inputs = NetworkDescription(network, parts[0]["X"].shape[1], 1, None, hidden)
    about: dict[str, Any] = {"lines": lines, "notes": table.conversions}
    return TrainingProblem(
        table.name, NUMBERS, inputs, *parts, unit=unit, table=table.describe(), **about
    )
