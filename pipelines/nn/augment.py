"""Random augmentation of training images, on the device that holds them.

Random numbers are drawn on the CPU, from one generator per network, so that images are changed
alike on every device and a network's images do not depend on the networks beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError, opt
from pipelines.run.options import rule

if TYPE_CHECKING:
    import torch

AUTOMATIC = {
    "randaugment": "RandAugment",
    "trivialaugment": "TrivialAugmentWide",
    "augmix": "AugMix",
}
NAMES = ("none", "light", *AUTOMATIC)


@dataclass(frozen=True)
class Light:
    """Bounds of the random changes to an image.

    Attributes
    ----------
    shift : float
        Largest shift, as a fraction of the image's sides.
    degrees : float
        Largest rotation to either side.
    scale : float
        Largest relative change of the size.
    flips : bool
        Whether an image may be mirrored left to right.
    padding : str
        What fills the pixels that come in at the sides: ``padding_mode`` of
        ``torch.nn.functional.grid_sample``.
    """

    shift: float
    degrees: float
    scale: float
    flips: bool
    padding: str


LIGHT = {
    # A digit that is turned further, or mirrored, may be another digit, or none.
    "digits": Light(2 / 28, 10, 0.1, False, "border"),
    "photographs": Light(4 / 32, 0, 0, True, "reflection"),
}


AUGMENTATION = rule(
    f"one of {', '.join(NAMES)}, or module:function", lambda name: name in NAMES or ":" in name
)


def choose_augmentation(name: str, is_image: bool, is_ink: bool) -> str:
    """The augmentation of a data set: ``light`` becomes the one for digits or for photographs.

    Parameters
    ----------
    name : str
        One of ``NAMES``, or ``module:function`` of the user's own.
    is_image : bool
        Whether rows are images.
    is_ink : bool
        Whether images show strokes, as handwritten digits do; photographs otherwise.

    Raises
    ------
    InputError
        The data are a table, or the user's function cannot be imported.
    """
    if name == "none":
        return name
    if not is_image:
        raise InputError(f"{opt('augment')} needs images, and the data are a table; leave it out")
    if ":" in name:
        from pipelines.data.user_files import load_object

        load_object("augment", name)
    return name if name != "light" else "digits" if is_ink else "photographs"


def augment_images(
    images: torch.Tensor, name: str, generators: Sequence[torch.Generator], brightest: float
) -> torch.Tensor:
    """Change each image at random.

    Parameters
    ----------
    images : float32 tensor of shape (n_networks, n, channels, height, width)
        From 0 to ``brightest``.
    name : str
        As ``choose_augmentation`` gives it. ``module:function`` is called with images from 0 to 1
        of shape (n, channels, height, width) and a ``torch.Generator``, and returns such images.
    generators : sequence of torch.Generator
        One for each network, on the CPU.
    brightest : float
        The value of white.

    Returns
    -------
    float32 tensor of the shape of ``images``

    Raises
    ------
    InputError
        The user's function returned images of another shape.
    """
    from importlib import import_module

    import torch

    from pipelines.data.user_files import load_object
    from pipelines.nn.networks import drawing_from

    if name in LIGHT:
        flat = images.flatten(0, 1)
        matrices = torch.cat([_matrices(LIGHT[name], images.shape[1], g) for g in generators])
        grid = torch.nn.functional.affine_grid(
            matrices.to(images.device), list(flat.shape), align_corners=False
        )
        moved = torch.nn.functional.grid_sample(
            flat, grid, padding_mode=LIGHT[name].padding, align_corners=False
        )
        return moved.view_as(images)
    changed_batches = []
    for batch, generator in zip(images / brightest, generators, strict=True):
        if name in AUTOMATIC:
            # torchvision's policies draw once for all images of a call, so each gets its own.
            transform: Any = getattr(import_module("torchvision.transforms.v2"), AUTOMATIC[name])()
            pixels = batch.mul(255).round_().clamp_(0, 255).to(torch.uint8)
            seed = int(torch.randint(2**62, (), generator=generator))
            with drawing_from(seed):
                changed_batches.append(
                    torch.stack([transform(x) for x in pixels]).float().div_(255)
                )
            continue
        changed_batches.append(load_object("augment", name)(batch, generator))
        if changed_batches[-1].shape != batch.shape:
            raise InputError(
                f"{opt('augment')} must return images of the shape it is given, "
                f"{tuple(batch.shape)}, got {tuple(changed_batches[-1].shape)} of {name}"
            )
    return torch.stack(changed_batches).mul_(brightest)


def _matrices(light: Light, n: int, generator: torch.Generator) -> torch.Tensor:
    """An affine 2 x 3 matrix for each image, from a pixel's position to where it comes from."""
    import torch

    x, y, turn, growth, flip = torch.rand(5, n, generator=generator).mul_(2).sub_(1)
    angle, scale = turn * math.radians(light.degrees), 1 / (1 + light.scale * growth)
    cosine, sine = angle.cos() * scale, angle.sin() * scale
    side = torch.where(flip < 0, -1.0, 1.0) if light.flips else torch.ones(n)
    # In coordinates of ``affine_grid`` an image reaches from -1 to 1: a side is 2 long.
    return torch.stack(
        [
            torch.stack([cosine * side, -sine, 2 * light.shift * x], 1),
            torch.stack([sine * side, cosine, 2 * light.shift * y], 1),
        ],
        1,
    )
