"""Trained networks as plain arrays: one member, and the ensemble of several."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from pipelines.data.dataset import take_rows
from pipelines.data.model_file import (
    Arrays,
    labels_as_json,
    labels_from_json,
    read_model_file,
    write_model,
)
from pipelines.data.placement import to_device, to_host
from pipelines.data.preparation import Fitted, fitted_from
from pipelines.data.scaling import FittedScaling
from pipelines.errors import InputError, opt
from pipelines.nn.inputs import Inputs, NotNamed, weight_shapes
from pipelines.nn.settings import BY_HAND, TrainingSettings
from pipelines.nn.size import scoring_rows
from pipelines.nn.space import NetworkSpec

if TYPE_CHECKING:
    import torch

NOVELTY = ("whitening", "centers")  # arrays of ``FeatureDistance``
TARGET = ("center", "scale")  # numbers of the target's ``FittedScaling``
NOVELTY_ROWS = 5000  # training rows, at most, to which ``FeatureDistance`` is fitted
# The fraction of the covariance that is made equal in all directions: hidden units that never fire
# would otherwise leave it singular.
SHRINKAGE = 0.01


@dataclass(frozen=True, eq=False)
class FeatureDistance:
    """The Mahalanobis distance of features to the nearest class mean [1]_.

    All classes share one covariance, the covariance within the classes.

    Attributes
    ----------
    whitening : float32 array of shape (n_features, n_features)
        Brings features to unit covariance within classes, in units of the median distance of the
        rows it was fitted on, so that the distances of several networks can be averaged.
    centers : float32 array of shape (n_classes, n_features)
        Whitened means of the classes that have rows.

    References
    ----------
    .. [1] Lee, Lee, Lee and Shin, A simple unified framework for detecting out-of-distribution
       samples and adversarial attacks, NeurIPS 31 (2018).
    """

    whitening: np.ndarray
    centers: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, y: np.ndarray) -> Self:
        """Fit to features of shape (n_rows, n_features) of rows of the classes ``y``."""
        rows = features.astype(np.float64)
        classes, codes = np.unique(y, return_inverse=True)
        means = np.stack([rows[codes == code].mean(axis=0) for code in range(len(classes))])
        within = rows - means[codes]
        covariance = within.T @ within / len(rows)
        mean_variance = np.trace(covariance) / len(covariance) or 1.0
        covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * mean_variance * np.eye(
            len(covariance)
        )
        whitening = np.linalg.inv(np.linalg.cholesky(covariance)).T
        median_distance = np.median(cls(whitening, means @ whitening).distance(rows)) or 1.0
        whitening /= median_distance
        return cls(whitening.astype(np.float32), (means @ whitening).astype(np.float32))

    def distance(self, features: Any) -> torch.Tensor:
        """The distances of features of shape (n_rows, n_features), float32 of shape (n_rows,).

        Features are an array or a tensor; the distances are on the same device.
        """
        import torch

        rows = torch.as_tensor(features).double()
        whitening, centers = (
            torch.as_tensor(array).to(rows) for array in (self.whitening, self.centers)
        )
        # The faster mode subtracts squares, which loses digits.
        exact = "donot_use_mm_for_euclid_dist"
        return torch.cdist(rows @ whitening, centers, compute_mode=exact).amin(1).float()


class Prediction(NamedTuple):
    """The prediction of a member: numpy arrays, or cupy's from a GPU where cupy is installed.

    Attributes
    ----------
    outputs : float32 array of shape (n_rows, n_classes)
        Softmax probabilities; for a regression, the target in its units, float64 of shape
        (n_rows, 1).
    distance : float32 array of shape (n_rows,)
        See ``FeatureDistance``; NaN for a member without one.
    """

    outputs: np.ndarray
    distance: np.ndarray

    def on_host(self) -> Prediction:
        """The prediction as numpy arrays."""
        return Prediction(*map(to_host, self))

    def on(self, device: str) -> Prediction:
        """The prediction as arrays of the kind that a member on ``device`` would give."""
        if device == "cpu" or find_spec("cupy") is None:
            return self.on_host()
        return Prediction(*(to_device(array, device) for array in self))


class OutOfBagPrediction(NamedTuple):
    """A member's prediction of its out-of-bag rows, the third or so that it did not draw.

    Attributes
    ----------
    rows : int32 array of shape (n_left_out,)
        Row numbers in the training rows.
    outputs, distance
        As for ``Prediction``.
    """

    rows: np.ndarray
    outputs: np.ndarray
    distance: np.ndarray


@dataclass(frozen=True, eq=False)
class Member:
    """A trained network of an ensemble.

    Attributes
    ----------
    spec, inputs : NetworkSpec, Inputs
    weights : dict of str to float32 arrays
        For ``BY_HAND``, with the shapes of ``weight_shapes``; otherwise the state of the module.
    scaling : FittedScaling or TablePreprocessor
        Applied to rows before the network.
    novelty : FeatureDistance, optional
        The distance in its last hidden layer; see ``with_novelty``.
    target : FittedScaling, optional
        In a regression, the scaling of the targets it was trained on, two numbers.
    """

    spec: NetworkSpec
    inputs: Inputs
    weights: Arrays
    scaling: Fitted
    novelty: FeatureDistance | None = None
    target: FittedScaling | None = None

    def with_novelty(self, X: Any, y: np.ndarray, training: TrainingSettings | None = None) -> Self:
        """The member with a ``FeatureDistance`` fitted to rows that it was trained on.

        For a regression, all rows count as one class.
        """
        subset = slice(None, None, max(1, math.ceil(len(y) / NOVELTY_ROWS)))
        import torch

        blocks = [hidden for _, hidden in self._blocks(take_rows(X, subset), training)]
        hidden = torch.cat(blocks).cpu().numpy()
        if not np.isfinite(hidden).all():
            return self
        classes = np.zeros(len(hidden)) if self.inputs.is_regression else y[subset]
        return replace(self, novelty=FeatureDistance.of(hidden, classes))

    def predict_proba(self, X: Any, training: TrainingSettings | None = None) -> np.ndarray:
        """The ``outputs`` for unscaled rows, on the host; see ``Prediction``."""
        return self.predict(X, training).on_host().outputs

    def predict(self, X: Any, training: TrainingSettings | None = None) -> Prediction:
        """Predict probabilities, or targets, and distances of unscaled rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), or the DataFrame that a ``TablePreprocessor`` takes
        training : TrainingSettings, optional
            Decides the device and the precision; by default a CPU.
        """
        import torch

        from pipelines.nn.settings import torch_device

        training = training or TrainingSettings()
        torch_name = torch_device(training.device)
        dtype = torch.float32 if self.target is None else torch.float64
        certainty = torch.empty((len(X), self.inputs.n_outputs), device=torch_name, dtype=dtype)
        distance = torch.full((len(X),), torch.nan, device=torch_name)
        n_done = 0
        for answer, hidden in self._blocks(X, training):
            block = slice(n_done, n_done := n_done + len(answer))
            certainty[block] = answer
            if self.novelty is not None:
                distance[block] = self.novelty.distance(hidden)
        if training.device == "cpu" or find_spec("cupy") is None:
            return Prediction(certainty.cpu().numpy(), distance.cpu().numpy())
        import cupy

        return Prediction(cupy.from_dlpack(certainty), cupy.from_dlpack(distance))

    def _blocks(
        self, X: Any, training: TrainingSettings | None
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Outputs and last hidden layer (the input of the last dense layer), block by block.

        A network without a dense layer has the logarithm of its probabilities in its place.
        """
        import torch

        from pipelines.nn.networks import (
            inputs_of_dense_layers,
            log_certainty,
            network_to_ask,
            outputs_of,
            refuse_other_weights,
        )
        from pipelines.nn.settings import torch_device
        from pipelines.nn.train import on_device

        training = training or TrainingSettings()
        step = scoring_rows(self.spec, self.inputs)
        with on_device(training):
            torch_name = torch_device(training.device)
            # In single precision a product may depend in its last bits on the rows beside it, which
            # shows in a predicted number.
            double = self.target is not None and self.spec.network in ("mlp", "table")
            dtype = torch.float64 if double else torch.float32
            weights = {
                name: torch.tensor(weight).to(torch_name, dtype)
                for name, weight in self.weights.items()
            }
            network = network_to_ask(self.spec, self.inputs, torch.device(torch_name))
            if ":" in self.spec.network:
                refuse_other_weights(self.spec, network, weights)
            dense_inputs = inputs_of_dense_layers(network)
            for first in range(0, len(X), step):
                block = self.scaling.transform(take_rows(X, slice(first, first + step)))
                with np.errstate(over="ignore"):
                    block = block.astype(np.float32, copy=False)
                beyond = ~np.isfinite(block).all(axis=1)
                if beyond.any():
                    raise InputError(
                        "rows must stay within single precision, ±3.4e38, once they are scaled, "
                        f"row {first + int(np.argmax(beyond))} (from 0) does not; check its numbers"
                    )
                # A copy: numpy aligns less strictly, and the last bits of a product depend on it.
                rows = torch.tensor(block, device=torch_name, dtype=dtype)
                ask = log_certainty if self.target is None else outputs_of
                answer = ask(network, weights, rows, self.inputs)
                hidden = dense_inputs[-1] if dense_inputs else answer
                if hidden.ndim > 2:  # a dense layer applied at several positions
                    hidden = hidden.flatten(1, -2).mean(1)
                yield self._in_units(answer), hidden.float()
                dense_inputs.clear()

    def _in_units(self, answer: torch.Tensor) -> torch.Tensor:
        if self.target is None:
            return answer.exp()
        # Double precision, as targets may be far from 0 and vary little.
        return answer.double().view(-1, 1) * float(self.target.scale) + float(self.target.center)

    def augmented(self, X: np.ndarray, augment: str, seed: int) -> np.ndarray:
        """The images augmented at random, float32 of the shape of ``X``."""
        import torch

        from pipelines.nn.augment import augment_images
        from pipelines.nn.networks import as_network_takes
        from pipelines.nn.stack import brightest_of

        generator = torch.Generator().manual_seed(seed)
        images = as_network_takes(torch.tensor(X, dtype=torch.float32), self.inputs)
        changed = augment_images(images[None], augment, [generator], brightest_of(X))
        return changed.view(len(X), -1).numpy()

    def _stored(self) -> Arrays:
        """The arrays of the member by name, without its spec."""
        novelty = self.novelty and {
            f"novelty.{name}": getattr(self.novelty, name) for name in NOVELTY
        }
        target = self.target and {
            f"target.{name}": np.atleast_1d(getattr(self.target, name)) for name in TARGET
        }
        return self.weights | self.scaling.arrays() | (novelty or {}) | (target or {})

    @classmethod
    def _from_stored(cls, arrays: Arrays, spec: NetworkSpec, inputs: Inputs) -> Member:
        scaling = fitted_from(arrays)
        weights = {
            name: array
            for name, array in arrays.items()
            if name not in ("preparation", "preparation.layout")
            and not name.startswith(("scaling.", "novelty.", "target."))
        }
        # The shapes of a module are checked when it predicts: to know them would run its code.
        shapes: dict[str, Any] = {name: array.shape for name, array in weights.items()}
        if spec.network in BY_HAND:
            shapes = dict(weight_shapes(spec, inputs))
        novelty = None
        if "novelty.centers" in arrays:
            novelty = FeatureDistance(*(arrays[f"novelty.{name}"] for name in NOVELTY))
            n_classes, n = novelty.centers.shape
            shapes |= {"novelty.whitening": (n, n), "novelty.centers": (n_classes, n)}
        target = None
        if inputs.is_regression:
            shapes |= {f"target.{name}": (1,) for name in TARGET}
            target = FittedScaling(*(arrays[f"target.{name}"].item() for name in TARGET))
        if isinstance(scaling, FittedScaling):
            parts = scaling.arrays()
            constant = all(array.size == 1 for array in parts.values())
            shapes |= dict.fromkeys(parts, (1 if constant else inputs.n_features,))
            if constant:  # numbers as before, not arrays, whose precision numpy would compute in
                scaling = FittedScaling(*(array.item() for array in parts.values()))
        elif len(scaling.layout) != inputs.n_features:
            raise ValueError(f"its rows have {len(scaling.layout)} columns")
        for name, shape in shapes.items():
            if np.shape(arrays[name]) != shape:
                raise ValueError(f"its {name} has the shape {np.shape(arrays[name])}, not {shape}")
            if not np.isfinite(arrays[name]).all():
                raise ValueError(f"its {name} is not finite")
        return cls(spec, inputs, weights, scaling, novelty, target)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members that were trained for the same classes, on which they vote, or the same target.

    Attributes
    ----------
    members : sequence of Member
        At least one.
    classes_ : array of shape (n_classes,)
        The labels; empty in a regression.
    """

    members: Sequence[Member]
    classes_: np.ndarray

    def member_proba(self, X: Any, training: TrainingSettings | None = None) -> np.ndarray:
        """The ``outputs`` of every member, (n_members, n_rows, n_outputs); see ``Prediction``."""
        return np.stack([member.predict_proba(X, training) for member in self.members])

    def predict(self, X: Any, training: TrainingSettings | None = None) -> Prediction:
        """The outputs of every member, as ``member_proba``, and the mean of their distances."""
        predictions = [member.predict(X, training) for member in self.members]
        distance = to_host(
            np.stack([prediction.distance for prediction in predictions]).mean(axis=0)
        )
        return Prediction(np.stack([prediction.outputs for prediction in predictions]), distance)

    def save(self, path: Path, **about: Any) -> None:
        """Write all members to one safetensors file, which holds arrays and text, no code.

        ``about`` is stored as metadata, anything that JSON can hold.
        """
        arrays: Arrays = {}
        for number, member in enumerate(self.members):
            arrays |= {f"{number}.{name}": array for name, array in member._stored().items()}
        inputs = asdict(replace(self.members[0].inputs, module=None))
        del inputs["module"]
        specs = [asdict(member.spec) for member in self.members]
        metadata = {
            "classes": labels_as_json(self.classes_),
            "inputs": inputs,
            "members": specs,
        }
        write_model(path, arrays, metadata | about)

    @classmethod
    def load(cls, path: Path, network: Any = None) -> Ensemble:
        """Read an ensemble that ``save`` wrote.

        Parameters
        ----------
        path : Path
        network : str, torch.nn.Module or a class of one, optional
            The members' network where it is the user's own: code that a file names is not imported.

        Raises
        ------
        InputError
            The file is missing or damaged, or the given network is not the members' network.
        """
        refuse_network(network, path)
        ensemble = read_model_file(
            path,
            partial(cls._from_stored, network=network),
            "an ensemble that this program saved",
            "give the ensemble.safetensors of a run's folder",
        )
        refuse_network(network, path, *(member.spec.network for member in ensemble.members))
        return ensemble

    @classmethod
    def _from_stored(cls, arrays: Arrays, about: dict[str, Any], network: Any = None) -> Ensemble:
        stored = about["inputs"]
        shape = stored["image_shape"]
        inputs = Inputs(stored["n_features"], stored["n_classes"], tuple(shape) if shape else None)
        is_name = isinstance(network, str)
        own_inputs = replace(inputs, module=NotNamed if network is None else network)
        if is_name:
            own_inputs = inputs
        members = []
        for number, spec_fields in enumerate(about["members"]):
            prefix = f"{number}."
            member_arrays = {
                name.removeprefix(prefix): array
                for name, array in arrays.items()
                if name.startswith(prefix)
            }
            spec = NetworkSpec(**spec_fields)
            is_own = ":" in spec.network
            if is_own and is_name:
                spec = replace(spec, network=network)
            members.append(
                Member._from_stored(member_arrays, spec, own_inputs if is_own else inputs)
            )
        classes = labels_from_json(about["classes"])
        if not members or len(classes) != members[0].inputs.n_classes:
            raise ValueError("its members and classes do not belong together")
        return cls(members, classes)


def refuse_network(network: Any, path: Path, *stored_networks: str) -> None:
    """Refuse a network for the members of a file unless both it and theirs are the user's own.

    Parameters
    ----------
    network : str, torch.nn.Module, a class of one, or None
        None is never refused.
    path : Path
        The file, for the message.
    *stored_networks : str
        The networks in the file.
    """
    if isinstance(network, str) and ":" not in network:
        raise InputError(
            f"{opt('network')} must be FILE.py:Class or module:Class, got {network}; networks of "
            "this program need not be named"
        )
    if network is not None and not all(":" in name for name in stored_networks):
        raise InputError(
            f"{opt('network')} is for networks of your own, {path} has "
            f"{', '.join(sorted({*stored_networks}))}; leave it out"
        )
