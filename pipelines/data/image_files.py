"""Image files as pixels, and images of the user's own in the form of a data set's images.

Large data sets of digits were made in one way: the ink is scaled to a box of fixed size with its
proportions kept, and its centre of mass is moved to the centre of the image [1]_. An image of the
user's own gets the same treatment; the size of the box, the width of strokes and the brightest
pixel are those of the training images. Photographs are resized and cropped as the photographs of
the data set were.

References
----------
.. [1] Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-based learning applied to document
   recognition, Proceedings of the IEEE 86 (11), 1998.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.dataset import Dataset, channels_height_width
from pipelines.data.image_paths import SUFFIXES, ImagePaths, image_paths, join_folders, readable
from pipelines.data.tables.words import counted
from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    from PIL import Image

INK = 0.2  # fraction of the brightest pixel above which a pixel counts as ink
MOST_PIXELS = 80_000_000  # larger images are refused before they are decoded
FINE = 8  # strokes are measured and changed at this multiple of the data's resolution
MEASURED = 100  # images of the data set whose strokes are measured
USUAL = (0.1, 0.9)  # quantiles of their widths between which a stroke is brought
FULL_SCALES = (1.0, 255.0, 65535.0)  # usual largest values of a pixel format
COLOURS = "16 bits a channel"  # Pillow reads the upper 8 of them

# Depth of an image of more than 8 bits ("16 bits", "32 bits", "floats") and its largest value
# -> the value that becomes white.
White = Callable[[str, float], float]


class Unscaled(ValueError):
    """An image has more than eight bits, and it is not known which value is white.

    Attributes
    ----------
    depth : str
        What its values are, such as "16 bits".
    largest : float
        The largest of its values.
    """

    def __init__(self, depth: str, largest: float) -> None:
        super().__init__(depth, largest)
        self.depth, self.largest = depth, largest


def full_scale(largest: float) -> float | None:
    """The usual full scale of values if they use more than half of it, else None."""
    scale = next((scale for scale in FULL_SCALES if largest <= scale), None)
    return scale if scale and largest > scale / 2 else None


def own_white(depth: str, largest: float) -> float:
    """The full scale of values; the largest value where no full scale fits."""
    return full_scale(largest) or largest or 1.0


def white_of(levels: Mapping[str, float], depth: str, largest: float) -> float:
    """The white of a data set's images of this depth.

    Raises
    ------
    Unscaled
        The data set has no white for this depth.
    """
    if depth not in levels:
        raise Unscaled(depth, largest)
    return levels[depth]


def open_image(path: str | Path, white: White = own_white) -> Image.Image:
    """Open an image as a viewer shows it, with 8 bits, grey ("L") or coloured ("RGB").

    The orientation that a camera noted is applied; palettes and CMYK become RGB; values of more
    than 8 bits are scaled so that ``white`` becomes 255; transparent parts become white, as most
    such images are drawn for a light page.

    Raises
    ------
    ValueError
        The file cannot be read as an image; the message says why.
    """
    from PIL import Image, ImageOps

    if not os.path.isfile(path) and os.path.exists(path) and not os.path.isdir(path):
        raise ValueError("a pipe, not a file" if Path(path).is_fifo() else "a device, not a file")
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(
                    f"it has {image.width} x {image.height} pixels, of {MOST_PIXELS:,} at most"
                )
            depth = _depth(image)
            image.load()
            ImageOps.exif_transpose(image, in_place=True)
            upright: Image.Image = image
    except (OSError, Image.DecompressionBombError, SyntaxError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "not a readable image"
        if isinstance(error, FileNotFoundError) and os.path.islink(path):
            reason = "a link to nothing"
        raise ValueError(reason) from None
    if depth == COLOURS:
        white(depth, 65535.0)
    elif depth is not None:
        values = np.asarray(upright, np.float64)
        if not np.isfinite(values).all():
            raise ValueError("it has values that are not finite")
        if values.min() < 0:
            raise ValueError(f"it has values below zero, from {values.min():g}")
        fractions = values / white(depth, float(values.max()))
        return Image.fromarray(np.rint(255 * fractions.clip(0, 1)).astype(np.uint8))
    if upright.has_transparency_data:
        paper = Image.new("RGBA", upright.size, "white")
        paper.alpha_composite(upright.convert("RGBA"))
        upright = paper
    return _in_mode(upright, "L" if upright.mode in ("1", "L", "LA") else "RGB")


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    """The image in a mode; itself if it has that mode, as ``convert`` would copy it."""
    return image if image.mode == mode else image.convert(mode)


def _depth(image: Image.Image) -> str | None:
    """What the values of an image are, before it is loaded; None if they have 8 bits."""
    layouts = [str(tile[3]) for tile in getattr(image, "tile", ())] if image.mode[0] != "I" else []
    if any(sign in layout for layout in layouts for sign in (";16B", ";16L", ";16N")):
        return COLOURS
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        return "16 bits"
    return {"I": "32 bits", "F": "floats"}.get(image.mode)


def decode(
    path: str | Path, size: int | None = None, gray: bool = False, white: White = own_white
) -> np.ndarray:
    """The pixels of an image file.

    Parameters
    ----------
    path : str or Path
        A file that Pillow reads.
    size : int, optional
        Resize the shorter side to this many pixels and crop the centre, as
        ``torchvision.transforms.v2`` does; None leaves the image as it is.
    gray : bool
        Drop the colours.
    white : function of a depth and a largest value
        The white of images of more than 8 bits; by default chosen from the image itself.

    Returns
    -------
    uint8 array of shape (height, width) if ``gray``, else (3, height, width)

    Raises
    ------
    ValueError
        The file cannot be read as an image.
    """
    image = _in_mode(open_image(path, white), "L" if gray else "RGB")
    if size is not None and image.size != (size, size):
        image = _centre(image, size)
    pixels = np.asarray(image)
    return pixels if gray else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _centre(image: Image.Image, size: int) -> Image.Image:
    """Resize the shorter side of an image to ``size`` pixels and crop the centre.

    Lengths, positions and filter are the same as in ``Resize`` and ``CenterCrop`` of
    ``torchvision.transforms.v2``, whose import takes many times longer than the work done here.
    """
    from PIL.Image import Resampling

    shorter = min(image.size)
    lengths = [int(size * length / shorter) for length in image.size]
    if image.size != (lengths[0], lengths[1]):
        image = image.resize((lengths[0], lengths[1]), Resampling.BILINEAR)
    left_edge, top_edge = (round((length - size) / 2) for length in lengths)
    return image.crop((left_edge, top_edge, left_edge + size, top_edge + size))


@dataclass(frozen=True)
class ImageFormat:
    """The form of a data set's images, as a run records it.

    Attributes
    ----------
    height, width : int
        In pixels.
    brightest : float
        Value of the brightest pixel.
    ink_side : int or None
        Longer side of the box around the ink, the median over the images; None for photographs,
        which are resized and cropped.
    channels : int
        1 or 3.
    strokes : (float, float) or None
        Smallest and largest usual width of a stroke, in pixels; strokes of the user's own images
        are brought between them.
    white : dict of str to float
        White of images of more than 8 bits, by their depth.
    """

    height: int
    width: int
    brightest: float
    ink_side: int | None
    channels: int = 1
    strokes: tuple[float, float] | None = None
    white: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Dataset) -> ImageFormat | None:
        """The form of a data set's images; None for a table."""
        if data.image_shape is None:
            return None
        channels, height, width = channels_height_width(data.image_shape)
        X = data.X_train
        if not data.ink:
            white = dict(data.folder.white) if data.folder else {}
            return cls(height, width, 255.0, None, channels, white=white)
        images = X.reshape(len(X), height, width)
        brightest = float(images.max())
        is_ink = images > INK * brightest
        sides = np.maximum(_extent(is_ink.any(axis=2)), _extent(is_ink.any(axis=1)))
        ink_side = int(np.median(sides[sides > 0])) if sides.any() else height
        sampled_rows = np.flatnonzero(sides)[:: max(1, len(sides) // MEASURED)]
        widths = [
            _stroke_width(_enlarged(image * (255 / brightest), FINE))
            for image in images[sampled_rows]
        ]
        strokes = np.quantile(widths, USUAL).tolist() if widths else None
        return cls(height, width, brightest, ink_side, strokes=strokes and tuple(strokes))


def _extent(lines: Any) -> np.ndarray:
    """Length from the first to the last True of each row, shape (n,); 0 if there is none."""
    first, last = lines.argmax(axis=1), lines.shape[1] - lines[:, ::-1].argmax(axis=1)
    return np.where(lines.any(axis=1), last - first, 0)


def files_of(images: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """The image files among these paths and in these folders, and notes on what is left out.

    Folders are searched in the same way as the folders of a data set; see ``image_paths``.

    Raises
    ------
    InputError
        A folder has no image.
    """
    files: list[Path] = []
    folders: list[ImagePaths] = []
    for image in images:
        if not image.is_dir():
            files.append(image)
            continue
        folders.append(image_paths(image, "image"))
        if not folders[-1].files:
            raise InputError(
                f"{opt('image')} must be images or folders of them, '{readable(image)}' has none; "
                f"its files must end in {', '.join(SUFFIXES)}"
            )
        files += folders[-1].files.values()
    return files, join_folders(folders).notes


class WhiteOfRun:
    """The white of the user's own images: that of the run's images, else the usual full scale.

    Attributes
    ----------
    n_brighter : int
        Images with values above their white, which are cut off.
    """

    def __init__(self, levels: Mapping[str, float]) -> None:
        self.levels, self.n_brighter = levels, 0

    def __call__(self, depth: str, largest: float) -> float:
        """The white of an image of this depth and largest value.

        Raises
        ------
        ValueError
            The run had no images of this depth, and the full scale cannot be told.
        """
        white = self.levels.get(depth) or full_scale(largest)
        if white is None:
            raise ValueError(
                f"its values ({depth}) reach {largest:g}, and the run had no such images to tell "
                "what is white"
            )
        self.n_brighter += largest > white
        return white

    @property
    def notes(self) -> list[str]:
        """What was cut off, in words; empty if nothing was."""
        brighter = f"{counted(self.n_brighter, 'image')} with values above the scale of the run"
        return [f"{brighter}, which are cut off"] * bool(self.n_brighter)


def read_image(path: Path, form: ImageFormat, white: White | None = None) -> np.ndarray:
    """Read an image in the form of a data set's images.

    A photograph is decoded as the photographs of the data set were. A drawing in ink becomes grey;
    where its border is light, it is inverted, as ink is bright in the data. The border's level is
    subtracted and the rest stretched to the data's range. The ink is cut out, scaled to the data's
    box with its proportions kept, its strokes made thicker or thinner where they differ from those
    of the data, and its centre of mass is put in the centre.

    Parameters
    ----------
    path : Path
        A file that Pillow reads.
    form : ImageFormat
    white : function of a depth and a largest value, optional
        White of photographs of more than 8 bits, by default ``WhiteOfRun``. Drawings are stretched
        to the data's range whatever their depth.

    Returns
    -------
    float32 array of shape (channels * height * width,)
        Whole numbers from 0 to ``form.brightest``.

    Raises
    ------
    InputError
        The file cannot be read as an image, differs in size from the photographs of the data set,
        or has a single colour where ink is expected.
    """
    try:
        if form.ink_side is None:  # images that are not square were not resized
            side = form.height if form.height == form.width else None
            white = white or WhiteOfRun(form.white)
            pixels = decode(path, side, form.channels == 1, white)
            if pixels.shape[-2:] != (form.height, form.width):
                raise ValueError(
                    f"it has {pixels.shape[-1]} x {pixels.shape[-2]} pixels, and the run's images "
                    f"{form.width} x {form.height}"
                )
            return pixels.astype(np.float32).ravel()
        grey = np.asarray(open_image(path).convert("L"), dtype=np.float64)
    except ValueError as error:
        raise InputError(
            f"{opt('image')} must be an image such as a .png or .jpg file, got {readable(path)}: "
            f"{error}; check the path, or save the image again as .png"
        ) from None
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    background = float(np.median(border))
    ink = background - grey if background > 127.5 else grey - background
    ink = np.clip(ink, 0, None)
    if ink.max() < 8:
        raise InputError(
            f"{opt('image')} must contrast with its border, but {readable(path)} "
            "has nearly one colour; give another image"
        )
    ink = _cut_out(ink * (255 / ink.max()))
    if form.strokes is not None:
        from scipy.ndimage import grey_dilation, grey_erosion

        fine = _enlarged(ink, FINE * form.ink_side / max(ink.shape))
        width = _stroke_width(fine)
        radius = round((float(np.clip(width, *form.strokes)) - width) * FINE / 2)
        across = np.arange(-abs(radius), abs(radius) + 1)
        disk = across[:, None] ** 2 + across**2 <= radius**2
        change = grey_dilation if radius > 0 else grey_erosion
        changed = change(np.pad(fine, abs(radius)), footprint=disk) if radius else ink
        if radius and changed.max() > INK * 255:
            ink = _cut_out(changed * (255 / changed.max()))
    return _scale_and_centre(ink, form, form.ink_side).ravel()


def _cut_out(ink: np.ndarray) -> np.ndarray:
    """The smallest box that holds all ink."""
    rows, columns = (np.flatnonzero((ink > INK * 255).any(axis=axis)) for axis in (1, 0))
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _enlarged(ink: np.ndarray, scale: float) -> np.ndarray:
    """An image of ink, enlarged or reduced by a factor."""
    from PIL import Image

    height, width = ink.shape
    resampling = Image.Resampling.BICUBIC if scale > 1 else Image.Resampling.BOX
    size = max(1, round(scale * width)), max(1, round(scale * height))
    return np.asarray(Image.fromarray(ink.astype(np.float32)).resize(size, resampling)).clip(0, 255)


def _stroke_width(fine: np.ndarray) -> float:
    """Width of strokes in pixels of the data: four times the mean depth of the ink.

    Across a stroke of width w, the depth rises from 0 to w / 2, and its mean is w / 4.
    """
    depth = ink_depth(np.pad(fine > 127.5, 1))
    return 4 * float(depth[depth > 0].mean()) / FINE if depth.any() else 0.0


def ink_depth(is_ink: np.ndarray) -> np.ndarray:
    """Distance of each pixel of ink from the nearest pixel without ink; 0 where there is no ink.

    Equal to ``scipy.ndimage.distance_transform_edt``, which takes longer to import than this
    takes for all images. The outermost pixels must have no ink.
    """
    rows = np.arange(len(is_ink))[:, None]
    above = np.maximum.accumulate(np.where(is_ink, 0, rows))
    below = np.minimum.accumulate(np.where(is_ink, len(rows) - 1, rows)[::-1])[::-1]
    in_column = np.minimum(rows - above, below - rows) ** 2
    squares, distance = in_column.copy(), 1
    while distance**2 < squares.max():
        right_columns, left_columns = np.s_[:, distance:], np.s_[:, :-distance]
        for columns, neighbours in ((right_columns, left_columns), (left_columns, right_columns)):
            squares[columns] = np.minimum(squares[columns], in_column[neighbours] + distance**2)
        distance += 1
    return np.sqrt(squares)


def _scale_and_centre(ink: np.ndarray, form: ImageFormat, ink_side: int) -> np.ndarray:
    """Scale ink to the box of the data set's images, and put its centre of mass in the centre."""
    from PIL import Image

    height, width = ink.shape
    scale = min(ink_side / max(height, width), form.height / height, form.width / width)
    size = max(1, round(scale * width)), max(1, round(scale * height))
    resized = Image.fromarray(ink.astype(np.float32)).resize(size, Image.Resampling.BOX)
    pixels = np.asarray(resized, dtype=np.float64)
    pixels *= form.brightest / pixels.max()
    top_edge = _start(pixels.sum(axis=1), form.height)
    left_edge = _start(pixels.sum(axis=0), form.width)
    image = np.zeros((form.height, form.width), dtype=np.float32)
    image[top_edge : top_edge + size[1], left_edge : left_edge + size[0]] = np.rint(pixels)
    return image


def _start(mass: np.ndarray, length: int) -> int:
    """First pixel of a line at which its centre of mass is in the middle of ``length`` pixels."""
    centre = float((np.arange(len(mass)) + 0.5) @ mass / mass.sum())
    return int(np.clip(round(length / 2 - centre), 0, length - len(mass)))
