"""Stacks, networks of one architecture that are trained together: rows, scores and results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from pipelines.data.placement import FoldedData, to_device
from pipelines.data.preparation import Preparation
from pipelines.data.scaling import SMALL, FittedScaling, Scaling
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import TrainingSettings, torch_device
from pipelines.nn.size import scoring_rows
from pipelines.nn.space import NetworkSpec
from pipelines.run_folder.names import DIVERGED, OK

if TYPE_CHECKING:
    import torch

Tensors = dict[str, "torch.Tensor"]
Result = TypeVar("Result")

__all__ = ["DIVERGED", "OK"]


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Rows and targets on a device, from which every batch is gathered by index.

    Attributes
    ----------
    X : float32 or uint8 tensor of shape (n_samples, n_features)
        Scaled, a table standardised on all rows; images for a module are stored as they came.
    targets : float32 tensor of shape (n_samples, n_outputs)
        One-hot classes; for a regression, the targets, standardised on all rows.
    brightest : float
        The value of white, for images that are stored as they came.
    """

    X: torch.Tensor
    targets: torch.Tensor
    brightest: float = 1.0

    @property
    def device(self) -> torch.device:
        return self.X.device


@dataclass(frozen=True)
class StackPart:
    """One network of a stack, with the rows that it is trained on.

    Attributes
    ----------
    rows : int array
        Row numbers in the data set or, once placed, in ``DeviceRows``; rows may be repeated.
    generator : numpy.random.Generator
        Draws the first weights, then the order of every epoch.
    scaling : FittedScaling, optional
        From placed rows to rows standardised on ``rows``; see ``relative_scaling``.
    out_of_bag : int array
        Rows that were not drawn, each once; they may end the training.
    weights : float array, optional
        Weights of the out-of-bag rows in that decision; by default all are equal.
    target : FittedScaling, optional
        In a regression, from placed targets to targets standardised on ``rows``.
    spec : NetworkSpec, optional
        Modules may differ from the stack in learning rate and momentum; other networks may not.
    """

    rows: np.ndarray
    generator: np.random.Generator
    scaling: FittedScaling | None = None
    out_of_bag: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    weights: np.ndarray | None = None
    spec: NetworkSpec | None = None
    target: FittedScaling | None = None

    def scaled(self, X: torch.Tensor) -> torch.Tensor:
        """Placed rows as float32, on the network's own scale."""
        X = X.float()  # images are placed as bytes
        scaling = stack_scaling([self], X.device)
        return X.sub_(scaling[0][0]).div_(scaling[1][0]) if scaling else X


def stack_scaling(
    parts: Sequence[StackPart], device: torch.device, attribute: str = "scaling"
) -> list[torch.Tensor]:
    """Centres and scales of networks, tensors of shape (n_networks, 1, n_features or 1).

    The list is empty where there is no scaling.

    ``attribute`` is ``"scaling"``, of the rows, or ``"target"``.
    """
    import torch

    scalings = [getattr(part, attribute) for part in parts]
    if any(scaling is None for scaling in scalings):
        return []
    return [
        torch.from_numpy(
            np.stack([np.atleast_1d(getattr(scaling, name)) for scaling in scalings])
        ).to(device, torch.float32)[:, None]
        for name in ("center", "scale")
    ]


@dataclass(frozen=True)
class TrainedNetwork(Generic[Result]):
    """The result of training a network.

    Attributes
    ----------
    result : Result
        What ``collect`` returned.
    losses : tuple of float
        The mean loss of each epoch, cross-entropy or ``squared_loss``, measured while the weights
        moved.
    status : {"ok", "diverged"}
    seconds : float
        The training time of the stack divided by its networks.
    crossed : sequence of two dicts of str to tensors, or empty
        Weights of a network for tables as the odd out-of-bag rows would have ended it, by which the
        even ones (the first, the third, ...) are judged, and the reverse. Rows that chose the epoch
        look better than new ones: on wheat seeds their error was 4.9 %, that of new rows 7.1 %.
    """

    result: Result
    losses: tuple[float, ...]
    status: str
    seconds: float
    crossed: Sequence[Tensors] = ()


@dataclass(frozen=True)
class Score:
    """A network's outputs for some rows, its errors and its mean loss.

    Attributes
    ----------
    n_rows : int
    n_errors : int, optional
        None in a regression.
    loss : float
    seconds : float
    outputs : float32 array of shape (n_rows, n_outputs)
        Logarithms of probabilities; for a regression, standardised targets.
    """

    n_rows: int
    n_errors: int | None
    loss: float
    seconds: float
    outputs: np.ndarray


@dataclass(frozen=True, eq=False)
class Stack:
    """Networks of one architecture: their spec, the rows on the device, and each network's part.

    Row r of the data set is row ``slot * step + r`` for the network of ``parts[slot]``.

    Attributes
    ----------
    spec, inputs : NetworkSpec, Inputs
    rows : DeviceRows
    parts : list of StackPart
    step : int
        0 where all networks share the placed rows; else the rows of the data set, as each network
        has its own prepared copy.
    n_rows : int
        Rows of the smallest part of the whole task, which may be cut into several stacks: all
        networks of a module take as many steps as that part has rows for.
    """

    spec: NetworkSpec
    inputs: Inputs
    rows: DeviceRows
    parts: list[StackPart]
    step: int = 0
    n_rows: int = 0

    def score(self, slot: int, row_numbers: np.ndarray, weights: Tensors) -> Score:
        """Score the network of a slot, with these weights, on rows of the data set."""
        import torch

        from pipelines.nn.networks import log_certainty, network_to_ask, outputs_of

        started = time.perf_counter()
        rows = self.rows
        network = network_to_ask(self.spec, self.inputs, rows.device)
        index = torch.from_numpy(row_numbers.astype(np.int64) + slot * self.step).to(rows.device)
        n_errors, loss, outputs = 0, 0.0, list[np.ndarray]()
        for block in index.split(scoring_rows(self.spec, self.inputs)):
            X = self.parts[slot].scaled(rows.X.index_select(0, block))
            truth = rows.targets.index_select(0, block)
            if (target := self.parts[slot].target) is not None:
                truth = (truth - float(target.center)) / float(target.scale)
            if self.inputs.is_regression:
                output = outputs_of(network, weights, X, self.inputs).view_as(truth)
                loss += float(squared_loss(output, truth).sum())
            else:
                output = log_certainty(network, weights, X, self.inputs)
                n_errors += int((output.argmax(1) != truth.argmax(1)).sum())
                loss -= float((output * truth).sum())
            outputs.append(output.cpu().numpy())
        seconds = time.perf_counter() - started
        n_wrong = None if self.inputs.is_regression else n_errors
        return Score(
            len(row_numbers),
            n_wrong,
            loss / max(1, len(row_numbers)),
            seconds,
            np.concatenate(outputs),
        )


def squared_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of a regression: half the squared error, in squared standard deviations.

    Its gradient is the error itself, as that of cross-entropy by its outputs, and a network that
    always predicts the mean of its targets has a mean loss of one half.
    """
    return (outputs - targets).square() / 2


def place_stack(
    data: FoldedData,
    parts: Sequence[StackPart],
    inputs: Inputs,
    training: TrainingSettings,
    n_rows: int,
) -> Stack:
    """Place the rows of a stack on the device.

    Targets of a regression are standardised on each network's own rows. A table whose preparation
    is more than the mean and standard deviation of each column is placed once for each network,
    prepared on that network's rows alone.

    Parameters
    ----------
    data : FoldedData
    parts : sequence of StackPart
        Parts of one architecture; only modules may differ in learning rate and momentum.
    inputs : Inputs
    training : TrainingSettings
    n_rows : int
        See ``Stack``.
    """
    step = 0
    scalings: list[FittedScaling | None] = [None] * len(parts)
    if isinstance(data.scaling, Preparation):
        step = len(data.y)
        prepared_rows = [data.scaling_for(part.rows).transform(data.X) for part in parts]
        y = np.tile(data.y, len(parts))
        device_rows = DeviceRows(
            _tensor(partial(np.concatenate, prepared_rows), training),
            _tensor(partial(_targets, y, inputs), training),
        )
    else:
        device_rows = place_rows(data, inputs, training)
        if _as_they_came(inputs, training):
            scalings = [data.scaling_for(part.rows) for part in parts]
        elif data.scaling.kind == "standardise":
            scalings = [relative_scaling(data, part.rows) for part in parts]
    weights = np.ones(len(data.y)) if data.weights is None else data.weights
    targets: list[FittedScaling | None] = [None] * len(parts)
    if inputs.is_regression:
        whole_scaling = fit_target_scaling(data.y)
        targets = [
            rescaling(whole_scaling, fit_target_scaling(data.y, part.rows)) for part in parts
        ]
    placed_parts = []
    for slot, (part, scaling, target) in enumerate(zip(parts, scalings, targets, strict=True)):
        placed_part = replace(
            part,
            rows=slot * step + part.rows,
            out_of_bag=slot * step + part.out_of_bag,
            scaling=scaling,
            weights=weights[part.out_of_bag],
            target=target,
        )
        placed_parts.append(placed_part)
    spec = parts[0].spec
    assert spec is not None
    return Stack(spec, inputs, device_rows, placed_parts, step, n_rows)


def place_rows(data: FoldedData, inputs: Inputs, training: TrainingSettings) -> DeviceRows:
    """Place the training rows on the device, once in this process.

    Images for a module stay as they came, bytes or floats, so that they can be augmented; each
    network scales its own batches.
    """
    from torch.utils.dlpack import from_dlpack

    get, arrays = data.placement.get, _host_arrays(data, inputs, training)
    X, targets = (  # cupy's, where a task ``place`` made them
        from_dlpack(get((training.device, name), partial(_tensor, make, training)))
        for name, make in arrays.items()
    )
    if "images" not in arrays:
        return DeviceRows(X, targets)
    return DeviceRows(X, targets, get("brightest", lambda: brightest_of(arrays["images"]())))


def _tensor(make: Callable[[], np.ndarray], training: TrainingSettings) -> torch.Tensor:
    import torch

    return torch.from_numpy(make()).to(torch_device(training.device))


def placed_rows(data: FoldedData, inputs: Inputs, training: TrainingSettings) -> dict[str, Any]:
    """The arrays that ``place_rows`` places, as cupy's, by name; see ``data.placement.place``."""
    arrays = _host_arrays(data, inputs, training)
    return {name: to_device(make(), "gpu") for name, make in arrays.items()}


def _host_arrays(
    data: FoldedData, inputs: Inputs, training: TrainingSettings
) -> dict[str, Callable[[], np.ndarray]]:
    """Functions that make the rows and targets of networks, by their names in a placement."""

    def images() -> np.ndarray:
        return np.ascontiguousarray(data.X, None if data.X.dtype == np.uint8 else np.float32)

    def rows() -> np.ndarray:
        return data.scaling_for(None).transform(data.X).astype(np.float32, copy=False)

    X = {"images": images} if _as_they_came(inputs, training) else {"rows": rows}
    return {**X, "targets": partial(_targets, data.y, inputs)}


def _as_they_came(inputs: Inputs, training: TrainingSettings) -> bool:
    return training.optimizer is not None and inputs.image_shape is not None


def _targets(y: np.ndarray, inputs: Inputs) -> np.ndarray:
    if inputs.is_regression:
        return fit_target_scaling(y).transform(y)[:, None].astype(np.float32)
    return np.eye(inputs.n_classes, dtype=np.float32)[y]


def brightest_of(X: np.ndarray) -> float:
    """The value of white: 1 where no pixel is above it, else 255."""
    return 1.0 if X.dtype != np.uint8 and X.max(initial=0) <= 1 else 255.0


def relative_scaling(data: FoldedData, rows: np.ndarray) -> FittedScaling:
    """The map from rows standardised on all rows to rows standardised on ``rows``.

    It removes the placed rows' knowledge of the rows left out, so that nothing leaks from them.
    """
    whole_scaling = data.placement.get("scaling", partial(data.scaling_for, None))
    part_scaling = data.scaling_for(rows)
    assert isinstance(whole_scaling, FittedScaling)
    assert isinstance(part_scaling, FittedScaling)
    return rescaling(whole_scaling, part_scaling)


def rescaling(whole: FittedScaling, part: FittedScaling) -> FittedScaling:
    """The map from values scaled by ``whole`` to the same values scaled by ``part``."""
    return FittedScaling((part.center - whole.center) / whole.scale, part.scale / whole.scale)


def fit_target_scaling(y: np.ndarray, rows: np.ndarray | None = None) -> FittedScaling:
    """The standardisation of float64 targets, fitted on ``rows``, by default on all.

    Where the targets of these rows are all equal, the scale is that of all targets. Where all
    targets are equal, it is the spacing of floats there, so that every output of a network is
    that target.
    """
    part = y if rows is None else y[rows]
    if np.ptp(y) == 0:
        return FittedScaling(float(y[0]), max(float(np.spacing(abs(y[0]))), np.finfo(float).tiny))
    fitted = Scaling("standardise").fit(part)
    if np.ptp(part) == 0:
        fitted = replace(fitted, scale=Scaling("standardise").fit(y).scale)
    return FittedScaling(float(fitted.center), float(fitted.scale))


def numbers_of(y: np.ndarray) -> np.ndarray:
    """The targets of a regression as float64.

    Raises
    ------
    ValueError
        They are not numbers, there is only one, a row has several, or they are too far apart or too
        close together to be standardised.
    """
    if y.dtype.kind not in "biuf":  # scikit-learn lets text and dates pass
        raise ValueError(f"y must be numbers, got {y.dtype} such as {y.flat[0]!r}; convert it")
    y = y.astype(np.float64)
    if y.ndim != 1:
        raise ValueError(f"y must have one number for each row, got an array of shape {y.shape}")
    if len(y) < 2:
        raise ValueError(f"a regression needs at least 2 rows, got n_samples = {len(y)}")
    with np.errstate(over="ignore", invalid="ignore"):
        spread = y.std()
    if not np.isfinite(spread):
        raise ValueError(
            "y must have a standard deviation that is a number, got values up to "
            f"{np.abs(y).max():.3g}; divide it by a constant"
        )
    if 0 < np.ptp(y) < SMALL:
        raise ValueError(
            f"y must differ by {SMALL:g} or more, or not at all, got numbers that differ by "
            f"{np.ptp(y):.3g}; multiply it by a constant"
        )
    return y
