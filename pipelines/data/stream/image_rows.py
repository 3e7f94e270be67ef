"""The images of a folder, decoded one by one when they are needed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.image_files import decode, own_white
from pipelines.data.image_paths import readable
from pipelines.data.stream.streamed_rows import BYTES_OF_SHARD, Store
from pipelines.errors import InputError, opt

VERSION = 1  # of the cache's content: a change reads all rows again


class ImageStore(Store):
    """Images of one shape as bytes, with each image a unit.

    Neighbours in the cache are images drawn at random, because folders are sorted by class.

    Parameters
    ----------
    root : Path
        The folder.
    files : sequence of Path
        Its images.
    content : str
        Digest of the files.
    size, gray : int or None, bool
        As in ``ImageReading``.
    shape : tuple of int
        Shape of an image, (height, width) or (3, height, width).
    """

    dtype = np.dtype(np.uint8)

    def __init__(
        self,
        root: Path,
        files: Sequence[Path],
        content: str,
        size: int | None,
        gray: bool,
        shape: tuple[int, ...],
    ) -> None:
        self.shape, self._root, self._size, self._gray = shape, os.fsencode(root), size, gray
        # An array of bytes takes a tenth of the memory of Path objects.
        self._files = np.array([os.fsencode(os.path.relpath(file, root)) for file in files])
        self.n_rows = self.n_units = len(files)
        how = json.dumps([size, gray, shape, VERSION])
        self.key = hashlib.sha256(f"{content} {how}".encode()).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        drawn = ("_slots", "_rows")
        return {name: value for name, value in vars(self).items() if name not in drawn}

    @cached_property
    def _slots(self) -> np.ndarray:
        """The slot of each row: a random permutation."""
        return np.random.default_rng(0).permutation(self.n_rows)

    @cached_property
    def _rows(self) -> np.ndarray:
        """The row of each slot."""
        return np.argsort(self._slots)

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        return self._slots[rows]

    def units_of(self, slots: np.ndarray) -> np.ndarray:
        return slots

    def shards_of(self, slots: np.ndarray) -> np.ndarray:
        return slots // max(1, BYTES_OF_SHARD // self.width)

    def read(self, unit: int) -> tuple[int, np.ndarray]:
        path = Path(os.fsdecode(os.path.join(self._root, self._files[self._rows[unit]])))
        try:
            image = decode(path, self._size, self._gray, _of_eight_bits)
            if image.shape != self.shape:
                width, height = image.shape[-1], image.shape[-2]
                raise ValueError(
                    f"it has {width} x {height} pixels, and the first image "
                    f"{self.shape[-1]} x {self.shape[-2]}; use {opt('image_size', 64)} or another"
                )
        except ValueError as error:
            raise InputError(
                f"{opt('dataset')} must hold images that can be read and are of one size, "
                f"'{readable(path)}' is not: {error}; mend or remove it"
            ) from None
        return unit, image.reshape(1, -1)


def _of_eight_bits(depth: str, largest: float) -> float:
    """The white of an image, which must not depend on other images.

    Raises
    ------
    ValueError
        Its values have a depth whose scale depends on all images, which are not read beforehand.
    """
    if depth == "16 bits a channel":
        return own_white(depth, largest)
    raise ValueError(
        f"its values are of {depth}, whose scale is that of the largest in all images, and these "
        "are not read before; convert it to 8 bits"
    )
