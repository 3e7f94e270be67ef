"""Fixed features of images: HOG [1]_, or the penultimate layer of a network of torchvision.

References
----------
.. [1] Dalal and Triggs, Histograms of oriented gradients for human detection, CVPR 2005.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cluster_setup.installation import install_line
from pipelines.data.dataset import ImageShape, channels_height_width
from pipelines.data.images import need_torchvision
from pipelines.errors import InputError, nearest, opt

HOG, RANDOM = "hog", "random"
ORIENTATIONS, CELLS_OF_A_BLOCK = 9, 2  # of hog
# Cells along the shorter side, at two scales: on MNIST these err a seventh less than one scale.
CELLS = (7, 4)
AT_ONCE = 64  # images in a batch of a network


@dataclass(frozen=True)
class Extractor:
    """A map from images to features that is not fitted to them; every worker gets a copy.

    Attributes
    ----------
    name : str
        "hog", or a network of ``torchvision.models``.
    size : int, optional
        Side in pixels to which images are resized for a network; by default that of its weights.
    weights : str
        SHA-256, in hex, of the file of weights; "random", or "" for hog.
    content : bytes
        The content of that file, since workers may not see it.
    weights_name : str
        The name of the weights in torchvision, which decides how images are prepared.
    """

    name: str
    size: int | None = None
    weights: str = ""
    content: bytes = field(default=b"", repr=False, compare=False)
    weights_name: str = ""

    @classmethod
    def of(cls, name: str, size: int | None = None, weights: str | None = None) -> Extractor:
        """Make an extractor, with its weights in memory.

        Parameters
        ----------
        name : str
            "hog", or a network of ``torchvision.models``.
        size : int, optional
            As for the attribute.
        weights : str, optional
            A file, or "random"; by default a file in the cache of ``torch.hub``.

        Raises
        ------
        InputError
            The name is unknown, a package is missing, or there is no usable file of weights.
        """
        if name == HOG:
            if find_spec("skimage") is None:
                raise InputError(
                    f"{opt('features', HOG)} needs scikit-image, which is not installed; run "
                    f"{install_line('images')}"
                )
            if weights is not None or size is not None:
                option_name = "feature_size" if weights is None else "weights"
                raise InputError(f"{opt(option_name)} is for a network, hog has none; leave it out")
            return cls(HOG)
        need_torchvision(opt("features", name))
        from torchvision import models

        if name not in models.list_models(module=models):
            hint = nearest(name, [HOG, *models.list_models(module=models)], "check the spelling")
            raise InputError(
                f"{opt('features')} must be hog, a network of torchvision.models such as resnet18, "
                f"or an .npy file, got {name!r}; {hint}"
            )
        weight_versions = models.get_model_weights(name)
        default = weight_versions.DEFAULT
        if weights == RANDOM:
            return cls(name, size, RANDOM, weights_name=default.name)
        if weights is None:
            import torch

            folder = Path(torch.hub.get_dir()) / "checkpoints"
            paths = {
                folder / version.url.rpartition("/")[2]: version
                for version in (default, *weight_versions)
            }
            path = next(filter(Path.is_file, paths), Path())
            if path not in paths:
                raise InputError(
                    f"{opt('features', name)} needs its weights, which are not in '{folder}'; "
                    f"fetch {default.url} into it, name a file with {opt('weights')}, or take "
                    f"{opt('weights', RANDOM)}"
                )
            default = paths[path]
        else:
            path = Path(weights).expanduser()
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(
                f"{opt('weights')} must be a file that can be read, got '{path}': "
                f"{error.strerror}; check the path"
            ) from None
        extractor = cls(name, size, hashlib.sha256(content).hexdigest(), content, default.name)
        # A damaged file is refused here, before there are workers.
        _network(extractor, "cpu")
        return extractor

    def describe(self) -> dict[str, Any]:
        """Everything that the features depend on, for ``run.json`` and the name of the cache."""
        return {
            "name": self.name,
            "size": self.size,
            "weights": self.weights,
            "weights_name": self.weights_name,
        }

    def features(self, X: np.ndarray, shape: ImageShape, device: str = "cpu") -> np.ndarray:
        """The features of images, float32 of shape (n, n_features).

        Parameters
        ----------
        X : uint8 array of shape (n, channels * height * width)
        shape : (height, width) or (channels, height, width)
        device : {"cpu", "gpu"}
            Where a network computes; HOG is computed on the CPU.
        """
        images = X.reshape(len(X), *channels_height_width(shape))
        if self.name == HOG:
            from skimage.feature import hog

            sides = sorted({max(2, min(images.shape[2:]) // cells) for cells in CELLS})
            block = (CELLS_OF_A_BLOCK, CELLS_OF_A_BLOCK)
            rows = (
                [hog(image, ORIENTATIONS, (side, side), block, channel_axis=0) for side in sides]
                for image in images
            )
            return np.stack([np.concatenate(row) for row in rows]).astype(np.float32)
        import torch

        torch_device = "cuda" if device == "gpu" else "cpu"
        network, transform = _network(self, torch_device)
        blocks = []
        with torch.inference_mode():
            for start in range(0, len(images), AT_ONCE):
                batch = torch.from_numpy(np.ascontiguousarray(images[start : start + AT_ONCE]))
                batch = transform(batch.to(torch_device).expand(-1, 3, -1, -1))
                blocks.append(network(batch).flatten(1).float().cpu().numpy())
        return np.concatenate(blocks)


@lru_cache(maxsize=1)
def _network(extractor: Extractor, device: str) -> tuple[Any, Any]:
    """The network without its last layer, and the transform that prepares images for it."""
    import torch
    from torchvision import models
    from torchvision.transforms._presets import ImageClassification

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = models.get_model(extractor.name, weights=None)
    if extractor.weights != RANDOM:
        try:
            state = torch.load(io.BytesIO(extractor.content), "cpu", weights_only=True)
            network.load_state_dict(state)
        except Exception as error:  # whatever unpickling a damaged file raises
            raise InputError(
                f"{opt('weights')} must be a state_dict of {extractor.name}, this file is none "
                f"({' '.join(str(error).split())[:200]}); fetch it again"
            ) from None
    linear = [name for name, part in network.named_modules() if isinstance(part, torch.nn.Linear)]
    if not linear:
        raise InputError(
            f"{opt('features')} must be a network that ends in a linear layer, {extractor.name} "
            "has none; take resnet18"
        )
    parent, _, last = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), last, torch.nn.Identity())
    preset = models.get_model_weights(extractor.name)[extractor.weights_name].transforms()
    if extractor.size is not None:
        preset = ImageClassification(
            crop_size=extractor.size, resize_size=extractor.size, mean=preset.mean, std=preset.std
        )
    return network.eval().to(device), preset
