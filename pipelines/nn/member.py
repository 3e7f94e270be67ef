"""Trained networks as plain numbers: one member, and the ensemble they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.dataset import rows_of
from pipelines.data.model_file import (
    Arrays,
    labels_as_json,
    labels_from_json,
    load_model,
    write_model,
)
from pipelines.data.preparation import Fitted, fitted_from
from pipelines.data.scaling import FittedScaling
from pipelines.nn.inputs import Inputs, weight_shapes
from pipelines.nn.settings import BY_HAND, Training
from pipelines.nn.size import scoring_rows
from pipelines.nn.space import Candidate


@dataclass(frozen=True, eq=False)
class Member:
    """A network of the ensemble.

    Attributes
    ----------
    weights : float32 arrays by name, of the shapes ``weight_shapes`` gives
    scaling : FittedScaling or FittedPreparation
        Applied to rows before the network.
    """

    candidate: Candidate
    inputs: Inputs
    weights: Arrays
    scaling: Fitted

    def predict_proba(self, X: Any, training: Training | None = None) -> np.ndarray:
        """Return softmax certainty of unscaled rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features); the DataFrame that a ``FittedPreparation`` takes
        training : Training, optional
            Says the device and the precision; a CPU by default.

        Returns
        -------
        float32 array of shape (n_rows, n_classes)
        """
        import torch

        from pipelines.nn.device_rows import torch_device
        from pipelines.nn.networks import log_certainty, network_to_ask
        from pipelines.nn.train import on_device

        training = training or Training()
        step = scoring_rows(self.candidate, self.inputs)
        certainty = np.empty((len(X), self.inputs.n_classes), dtype=np.float32)
        with on_device(training):
            where = torch_device(training.device)
            weights = {name: torch.tensor(one).to(where) for name, one in self.weights.items()}
            network = network_to_ask(self.candidate, self.inputs, torch.device(where))
            for first in range(0, len(X), step):
                block = self.scaling.transform(rows_of(X, slice(first, first + step)))
                block = block.astype(np.float32, copy=False)
                # A copy, for numpy aligns less strictly, and the bits of a product depend on it.
                rows = torch.tensor(block, device=where)
                answer = log_certainty(network, weights, rows, self.inputs).exp_()
                certainty[first : first + step] = answer.cpu().numpy()
        return certainty

    def augmented(self, X: np.ndarray, augment: str, seed: int) -> np.ndarray:
        """Return images, each changed at random, float32 of the shape of ``X``."""
        import torch

        from pipelines.nn.augment import augmented
        from pipelines.nn.device_rows import brightest_of
        from pipelines.nn.networks import as_network_takes

        generator = torch.Generator().manual_seed(seed)
        images = as_network_takes(torch.tensor(X, dtype=torch.float32), self.inputs)
        changed = augmented(images[None], augment, [generator], brightest_of(X))
        return changed.view(len(X), -1).numpy()

    def _stored(self, prefix: str) -> tuple[Arrays, dict[str, Any]]:
        """Return the member as arrays whose names begin with ``prefix``, and as metadata."""
        arrays = {f"{prefix}{name}": one for name, one in self.weights.items()}
        arrays |= {f"{prefix}{name}": one for name, one in self.scaling.arrays().items()}
        return arrays, self.candidate.parameters()

    @classmethod
    def _from_stored(
        cls, arrays: Arrays, metadata: dict[str, Any], prefix: str, inputs: Inputs
    ) -> Member:
        candidate = Candidate(**metadata)
        if candidate.network in BY_HAND:
            shapes = weight_shapes(candidate, inputs)
        else:  # made only when it is asked: a network of the user's own is code
            shapes = {
                one.removeprefix(prefix): array.shape
                for one, array in arrays.items()
                if one.startswith(prefix) and not one.startswith(f"{prefix}scaling.")
            }
        weights = {name: arrays[f"{prefix}{name}"] for name in shapes}
        for name, shape in shapes.items():
            _check(name, weights[name], [shape])
        scaling = fitted_from(arrays, prefix)
        if not isinstance(scaling, FittedScaling):
            if len(scaling.layout) != inputs.n_features:
                raise ValueError(f"its rows have {len(scaling.layout)} columns")
            return cls(candidate, inputs, weights, scaling)
        parts = {"center": scaling.center, "scale": scaling.scale}
        for name, one in parts.items():
            _check(f"scaling.{name}", one, [(1,), (inputs.n_features,)])
        # Constants as the numbers they were: with an array numpy would compute in its precision.
        numbers = (x.item() if np.size(x) == 1 else x for x in map(np.asarray, parts.values()))
        return cls(candidate, inputs, weights, FittedScaling(*numbers))


def _check(name: str, array: Any, shapes: list[tuple[int, ...]]) -> None:
    if np.shape(array) not in shapes:
        raise ValueError(f"its {name} has the shape {np.shape(array)}, not {shapes[0]}")
    if not np.isfinite(array).all():
        raise ValueError(f"its {name} is not finite")


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members that were trained for the same classes, and vote.

    Attributes
    ----------
    members : sequence of Member, at least one
    classes_ : array of shape (n_classes,)
    """

    members: Sequence[Member]
    classes_: np.ndarray

    def member_proba(self, X: Any, training: Training | None = None) -> np.ndarray:
        """Return each member's probabilities, float32 of shape (n_members, n_rows, n_classes)."""
        return np.stack([member.predict_proba(X, training) for member in self.members])

    def save(self, path: Path, **about: Any) -> None:
        """Write all members as one safetensors file: numbers and text, no code.

        ``about`` is written beside them, anything JSON can hold.
        """
        arrays: Arrays = {}
        candidates = []
        for number, member in enumerate(self.members):
            own, metadata = member._stored(f"{number}.")
            arrays |= own
            candidates.append(metadata)
        inputs = asdict(replace(self.members[0].inputs, module=None))
        del inputs["module"]
        metadata = {"classes": labels_as_json(self.classes_), "inputs": inputs,
                 "members": candidates}  # fmt: skip
        write_model(path, arrays, metadata | about)

    @classmethod
    def load(cls, path: Path) -> Ensemble:
        """Read an ensemble that ``save`` wrote.

        Raises
        ------
        InputError
            The file is missing or not such a file.
        """
        return load_model(
            path, cls._from_stored, "an ensemble that this program saved",
            "give the ensemble.safetensors of a run's folder",
        )  # fmt: skip

    @classmethod
    def _from_stored(cls, arrays: Arrays, about: dict[str, Any]) -> Ensemble:
        members = list(_members(arrays, about))
        classes = labels_from_json(about["classes"])
        if not members or len(classes) != members[0].inputs.n_classes:
            raise ValueError("its members and classes do not belong together")
        return cls(members, classes)


def _members(arrays: Arrays, about: dict[str, Any]) -> Iterator[Member]:
    stored = about["inputs"]
    shape = stored["image_shape"]
    inputs = Inputs(**{**stored, "image_shape": tuple(shape) if shape else None})
    for number, metadata in enumerate(about["members"]):
        yield Member._from_stored(arrays, metadata, f"{number}.", inputs)
