"""An image of one's own -> a row in the form of the training images.

Large data sets of digits were made in one way: the ink is brought to a box
of fixed size with its proportions kept, and its centre of mass to the centre of
the image (LeCun et al., Gradient-based learning applied to document recognition,
1998). An image gets the same treatment; the size of the box, and the
brightest pixel, are those of the training images.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.dataset import ImageShape
from pipelines.errors import InputError, opt

INK = 0.2  # share of the brightest pixel from which on a pixel counts as ink
MOST_PIXELS = 80_000_000


@dataclass(frozen=True)
class ImageFormat:
    """The form of a data set's images, as a run records it.

    Attributes
    ----------
    height, width : int, in pixels
    brightest : float
        Value of the brightest pixel.
    ink_side : int
        Longer side of the box around the ink, the median over the images.
    """

    height: int
    width: int
    brightest: float
    ink_side: int

    @classmethod
    def of(cls, X: np.ndarray, shape: ImageShape) -> ImageFormat:
        """Return the form of images ``X``, an array of shape (n, channels * height * width)."""
        height, width = shape[-2:]
        images = X.reshape(-1, height, width)
        brightest = float(images.max())
        is_ink = images > INK * brightest
        sides = np.maximum(_extent(is_ink.any(axis=2)), _extent(is_ink.any(axis=1)))
        ink_side = int(np.median(sides[sides > 0])) if sides.any() else height
        return cls(height, width, brightest, ink_side)


def _extent(lines: Any) -> np.ndarray:
    """Return the length from the first to the last True of each row, shape (n,); 0 if none."""
    first, last = lines.argmax(axis=1), lines.shape[1] - lines[:, ::-1].argmax(axis=1)
    return np.where(lines.any(axis=1), last - first, 0)


def read_image(path: Path, form: ImageFormat) -> np.ndarray:
    """Return an image in the form of a data set's images.

    It becomes grey; transparent parts become background. Where its border is
    light it is inverted, as ink is bright in the data. The border's level is taken
    away and the rest stretched to the data's range. The ink is cut out, scaled to
    the data's box with its proportions kept, and its centre of mass put in the centre.

    Parameters
    ----------
    path : Path of a file that Pillow reads

    Returns
    -------
    float32 array of shape (height * width,), whole numbers from 0 to ``form.brightest``

    Raises
    ------
    InputError
        The file cannot be read as an image, or it is of one colour.
    """
    grey = _read_grey(path)
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    background = float(np.median(border))
    ink = background - grey if background > 127.5 else grey - background
    ink = np.clip(ink, 0, None)
    if ink.max() < 8:
        raise InputError(
            f"{opt('image')} must show something darker or lighter than its border, got {path}, "
            "which is nearly of one colour; give another image"
        )
    ink *= 255 / ink.max()
    return _place(_cut_out(ink), form).ravel()


def _read_grey(path: Path) -> np.ndarray:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path) as image:
            if image.width * image.height > MOST_PIXELS:
                raise InputError(
                    f"{opt('image')} must have at most {MOST_PIXELS:,} pixels, got {path} with "
                    f"{image.width} x {image.height}; give a smaller one"
                )
            upright = ImageOps.exif_transpose(image).convert("RGBA")
    except InputError:
        raise
    except (
        OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError, SyntaxError
    ) as error:  # fmt: skip
        reason = getattr(error, "strerror", None) or "it is no image that can be read"
        raise InputError(
            f"{opt('image')} must be an image such as a .png or .jpg file, got {path}: {reason}; "
            "check the path, or save the image again as .png"
        ) from None
    # Composed on white: most images with transparent parts are drawn for a light page.
    paper = Image.new("RGBA", upright.size, "white")
    paper.alpha_composite(upright)
    return np.asarray(paper.convert("L"), dtype=np.float64)


def _cut_out(ink: np.ndarray) -> np.ndarray:
    rows, columns = (np.flatnonzero((ink > INK * 255).any(axis=axis)) for axis in (1, 0))
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _place(ink: np.ndarray, form: ImageFormat) -> np.ndarray:
    from PIL import Image

    height, width = ink.shape
    scale = min(form.ink_side / max(height, width), form.height / height, form.width / width)
    size = max(1, round(scale * width)), max(1, round(scale * height))
    small = Image.fromarray(ink.astype(np.float32)).resize(size, Image.Resampling.BOX)
    pixels = np.asarray(small, dtype=np.float64)
    pixels *= form.brightest / pixels.max()
    top = _start(pixels.sum(axis=1), form.height)
    left = _start(pixels.sum(axis=0), form.width)
    image = np.zeros((form.height, form.width), dtype=np.float32)
    image[top : top + size[1], left : left + size[0]] = np.rint(pixels)
    return image


def _start(mass: np.ndarray, length: int) -> int:
    """Return where to place a line of pixels so that its centre of mass is in the middle."""
    centre = float((np.arange(len(mass)) + 0.5) @ mass / mass.sum())
    return int(np.clip(round(length / 2 - centre), 0, length - len(mass)))
