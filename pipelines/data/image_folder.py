"""A folder of images with a subfolder for each class: decoded once, then read from a cache.

Files and classes are those of torchvision's ``ImageFolder``; the pixels are kept as uint8 under
``--data-dir/images``, by the content of the folder, and may be deleted there at any time.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipelines.data.dataset import Array, Source
from pipelines.data.image_files import SUFFIXES, decode
from pipelines.data.images import need_torchvision, source_of
from pipelines.data.tables.words import counted, listed
from pipelines.errors import InputError, opt

TRAINING, TESTS = "train", ("test", "val")  # names of the folders of a split that is there
BATCH = 64  # images that a decoding process takes at once
FEW = 500  # images, which are decoded sooner than processes start
VERSION = 1  # of what is cached; another one decodes anew
Unreadable = Literal["refuse", "skip"]
UNREADABLE: tuple[Unreadable, ...] = ("refuse", "skip")


@dataclass(frozen=True)
class ImageReading:
    """How the files of a folder become images of one shape.

    Attributes
    ----------
    size : resize the shorter side to so many pixels and crop the centre; None for images that are
        all of one size
    gray : drop the colours
    unreadable : refuse a folder with files that cannot be decoded, or skip them
    """

    size: int | None = None
    gray: bool = False
    unreadable: Unreadable = "refuse"


def load_folder(
    path: Path, data_dir: str | Path, reading: ImageReading, *, show_progress: bool = False
) -> Source:
    """Return the images of a folder, a class in each of its subfolders.

    Parameters
    ----------
    path : of the classes, or of ``train/`` and ``test/`` or ``val/`` with the same classes each
    data_dir : where the pixels are kept
    show_progress : draw a bar on stderr, where that is a terminal

    Returns
    -------
    Source with X uint8 of shape (n, channels * height * width), y of shape (n,) with the names of
    the subfolders, and the test set where the folder has one.

    Raises
    ------
    InputError
        There are no classes, a class is empty, the images are of several sizes, they do not fit
        in half of the memory, or a file cannot be decoded and is not to be skipped.
    """
    began = time.monotonic()
    tests = [path / name for name in TESTS if (path / name).is_dir()]
    has_split = bool(tests) and (path / TRAINING).is_dir()
    train, test = (path / TRAINING, tests[0]) if has_split else (path, None)
    parts = [
        _read(part, Path(os.path.expanduser(data_dir)), reading, show_progress)
        for part in (train, test)
        if part is not None
    ]
    bad = [f"'{name}' ({why})" for part in parts for name, why in part.unreadable]
    if bad and reading.unreadable == "refuse":
        raise InputError(
            f"{opt('dataset')} must hold images that can be read, {counted(len(bad), 'file')} of "
            f"'{path}' cannot: {', '.join(bad[:3])}{', …' * (len(bad) > 3)}; mend or remove them, "
            f"or use {opt('unreadable', 'skip')}"
        )
    first, last = parts[0], parts[-1]
    if len({part.X.shape[1:] for part in parts}) > 1:
        raise _several_sizes(f"{first.shown} in '{train}', and {last.shown} in '{test}'")
    n = sum(len(part.y) for part in parts)
    lines = [f"images     {counted(n, 'image')} of {first.shown} in '{path}'"]
    if any(part.is_new for part in parts):
        lines[0] += f", decoded in {time.monotonic() - began:.1f} s and kept in '{data_dir}'"
    lines += [
        f"warning    {counted(len(bad), 'file')} cannot be read and are left out: "
        f"{', '.join(bad[:10])}{', …' * (len(bad) > 10)}"
    ] * bool(bad)
    if has_split and len(tests) > 1:
        lines.append(f"warning    '{tests[1]}' is left out: the test set is '{test}'")
    X_test, y_test = (None, None) if test is None else (last.X, last.y)
    return source_of(first.X, first.y, X_test, y_test, lines=tuple(lines))


@dataclass(frozen=True)
class _Part:
    """Decoded images, their labels, the files that could not be read, and whether this is new."""

    X: Array
    y: Array
    unreadable: list[tuple[str, str]]
    is_new: bool

    @property
    def shown(self) -> str:
        channels = "gray" if self.X.ndim == 3 else "coloured"
        return f"{self.X.shape[-1]} x {self.X.shape[-2]} pixels, {channels},"


def _read(root: Path, data_dir: Path, reading: ImageReading, show_progress: bool) -> _Part:
    """Read decoded images from the cache, or decode them into it."""
    files = _files(root)
    content = _digest(root, [path for paths in files.values() for path in paths])
    asked = {**asdict(reading), "version": VERSION, "content": content}
    del asked["unreadable"]
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    kept = data_dir / "images" / key
    is_new = not kept.is_dir()
    if is_new:
        need_torchvision(f"{opt('dataset')} of a folder of images")
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
                _decode_all(root, files, Path(folder, "new"), reading, show_progress)
                if not kept.is_dir():  # another run may have been faster
                    os.replace(Path(folder, "new"), kept)
        except OSError as error:
            raise InputError(
                f"{opt('data_dir')} must be a folder with room for the decoded images, cannot "
                f"write '{kept.parent}': {error.strerror or error}; name another"
            ) from None
    try:
        about = json.loads((kept / "about.json").read_text())
        X, codes = np.load(kept / "X.npy"), np.load(kept / "y.npy")
        return _Part(X, np.array(about["classes"])[codes], about["unreadable"], is_new)
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise InputError(
            f"{opt('data_dir')}: '{kept}' must hold images that were decoded before, it is "
            f"damaged ({' '.join(str(error).split())}); delete it"
        ) from None


def _files(root: Path) -> dict[str, list[Path]]:
    """Return the image files of each class, those of torchvision's ``ImageFolder`` in its order."""
    try:
        names = sorted(one.name for one in os.scandir(root) if one.is_dir() and one.name[0] != ".")
    except OSError as error:
        raise InputError(
            f"{opt('dataset')} must be a folder that can be read, got '{root}': {error.strerror}; "
            "check its permissions"
        ) from None
    found = {
        name: [
            Path(folder, file)
            for folder, _, files in sorted(os.walk(root / name, followlinks=True))
            for file in sorted(files)
            if file.lower().endswith(SUFFIXES)
        ]
        for name in names
    }
    if not any(found.values()):
        raise InputError(
            f"{opt('dataset')} must be a file, or a folder with a subfolder of images for each "
            f"class, '{root}' has none; sort the images into subfolders"
        )
    if empty := [name for name, files in found.items() if not files]:
        raise InputError(
            f"{opt('dataset')} must have an image in every class, {listed(empty)} of '{root}' "
            f"{'has' if len(empty) == 1 else 'have'} none; add images, or remove the folder"
        )
    return found


def _digest(root: Path, files: list[Path]) -> str:
    """Return the SHA-256, in hex, of the names and contents of files."""

    def of_file(path: Path) -> bytes:
        try:
            content = b"" if path.is_fifo() else path.read_bytes()
        except OSError as error:  # it is named as unreadable when it is to be decoded
            content = str(error.errno).encode()
        name = path.relative_to(root).as_posix().encode()
        return hashlib.sha256(name + b"\0" + content).digest()

    with ThreadPoolExecutor() as pool:
        return hashlib.sha256(b"".join(pool.map(of_file, sorted(files)))).hexdigest()


def _decode_all(
    root: Path, files: dict[str, list[Path]], to: Path, reading: ImageReading, show_progress: bool
) -> None:
    """Decode the images of a folder into the files of a cache."""
    import psutil
    from joblib import cpu_count

    paths = [path for some in files.values() for path in some]
    labels = np.repeat(np.arange(len(files), dtype=np.int32), [*map(len, files.values())])
    to.mkdir()
    X: np.memmap[Any, Any] | None = None
    is_read, unreadable = np.ones(len(paths), bool), []
    decode_one = partial(_decoded, size=reading.size, gray=reading.gray)
    with ExitStack() as pool:
        images: Iterable[np.ndarray | str] = map(decode_one, paths)
        if len(paths) >= FEW:
            executor = pool.enter_context(ProcessPoolExecutor(cpu_count()))
            images = executor.map(decode_one, paths, chunksize=BATCH)
        if show_progress and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import track

            console = Console(stderr=True, width=shutil.get_terminal_size().columns)
            images = track(images, "decoding  ", len(paths), console=console)
        for i, (path, image) in enumerate(zip(paths, images, strict=True)):
            name = os.path.relpath(path, root)
            if isinstance(image, str):
                is_read[i] = False
                unreadable.append((name, image))
                continue
            if X is None:
                most, needed = psutil.virtual_memory().total // 2, len(paths) * image.size
                if needed > most:
                    fits = math.isqrt(most // (needed // (image.shape[-1] * image.shape[-2])))
                    raise InputError(
                        f"{opt('image_size')} must let the images fit in half of the memory, "
                        f"{counted(len(paths), 'image')} of '{root}' need {needed / 2**30:.1f} "
                        f"GiB of {most / 2**30:.1f}; use at most {opt('image_size', fits)}"
                    )
                shape = (len(paths), *image.shape)
                X = np.lib.format.open_memmap(to / "X.npy", "w+", np.uint8, shape)
            if image.shape != X.shape[1:]:
                raise _several_sizes(
                    f"{X.shape[-1]} x {X.shape[-2]} and {image.shape[-1]} x {image.shape[-2]} "
                    f"('{name}')"
                )
            X[i] = image
    if X is None:
        raise InputError(
            f"{opt('dataset')} must hold an image that can be read, none of "
            f"{counted(len(paths), 'file')} in '{root}' can; write them anew"
        )
    X.flush()
    if unreadable:
        np.save(to / "X.npy", X[is_read])
    np.save(to / "y.npy", labels[is_read])
    (to / "about.json").write_text(json.dumps({"classes": [*files], "unreadable": unreadable}))


def _decoded(path: Path, size: int | None, gray: bool) -> np.ndarray | str:
    """Return the pixels of a file, or why it cannot be read."""
    try:
        return decode(path, size, gray)
    except ValueError as error:
        return str(error)


def _several_sizes(found: str) -> InputError:
    return InputError(
        f"{opt('image_size')} must be given where images are of several sizes, got {found}; "
        f"give {opt('image_size', 64)} or another size to resize and crop them to"
    )
