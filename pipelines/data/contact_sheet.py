"""A contact sheet: a few images of each class, as a model sees them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipelines.console import printable
from pipelines.data.dataset import Dataset, channels_height_width

if TYPE_CHECKING:
    from PIL import Image, ImageFont

PER_CLASS, MOST_CLASSES = 8, 60  # images per class, and classes, on a sheet
SIDE, GAP, TEXT = 64, 4, 14  # in pixels: side of an image, gap between images, height of letters


def contact_sheet(images: Dataset) -> Image.Image:
    """The first training images of each class beside its name, a line for each class.

    Images are enlarged by whole factors, so that their pixels show, or reduced, to ``SIDE`` pixels.
    Classes beyond ``MOST_CLASSES`` are left out.
    """
    from PIL import Image, ImageDraw

    assert images.image_shape is not None
    channels, height, width = channels_height_width(images.image_shape)
    factor = SIDE / max(height, width)
    factor = max(1, int(factor)) if factor > 1 else factor
    size = max(1, round(factor * width)), max(1, round(factor * height))
    resampling = Image.Resampling.NEAREST if factor >= 1 else Image.Resampling.LANCZOS
    names, font = [_cut(str(name)) for name in images.classes[:MOST_CLASSES]], _font()
    names_width = GAP + max(int(font.getlength(name)) for name in names) + 2 * GAP
    row_height = max(size[1], TEXT + GAP) + GAP
    sheet = Image.new(
        "RGB", (names_width + PER_CLASS * (size[0] + GAP), GAP + row_height * len(names)), "white"
    )
    draw = ImageDraw.Draw(sheet)
    for code, name in enumerate(names):
        top = GAP + code * row_height
        draw.text((GAP, top + (row_height - GAP - TEXT) // 2), name, "black", font)
        rows = np.flatnonzero(images.y_train == code)[:PER_CLASS]
        for column, row in enumerate(rows):
            pixels = images.X_train[row].reshape(channels, height, width).transpose(1, 2, 0)
            thumbnail = Image.fromarray(pixels[..., 0] if channels == 1 else pixels).resize(
                size, resampling
            )
            sheet.paste(thumbnail, (names_width + column * (size[0] + GAP), top))
    return sheet


def _cut(name: str) -> str:
    """The name in one line of at most 24 characters."""
    name = " ".join(printable(name).split())
    return name if len(name) <= 24 else f"{name[:23]}…"


def _font() -> ImageFont.FreeTypeFont:
    """The font that matplotlib ships, which has more letters than Pillow's.

    It is found without importing matplotlib, which takes long.
    """
    from PIL import ImageFont

    (package,) = importlib.util.find_spec("matplotlib").submodule_search_locations  # type: ignore
    path = Path(package, "mpl-data", "fonts", "ttf", "DejaVuSans.ttf")
    # The other layout engine may be missing, and fails on some letters.
    basic = ImageFont.Layout.BASIC
    return ImageFont.truetype(path, TEXT, layout_engine=basic)
