"""A folder of images with a subfolder for each class: decoded once, then read from a cache.

Files and classes are those of torchvision's ``ImageFolder``, without hidden files and with each
file once. The pixels are cached as uint8 under ``--data-dir/images``, keyed by the content of the
folder; the cache may be deleted at any time.
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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipelines.data.dataset import Array, ImageFolder, LoadedRows
from pipelines.data.image_files import FULL_SCALES, Unscaled, decode, own_white, white_of
from pipelines.data.image_paths import ImagePaths, files_beside, image_paths, join_folders, readable
from pipelines.data.image_splits import Split, class_folders, find_split
from pipelines.data.images import source_of
from pipelines.data.stream.image_rows import ImageStore
from pipelines.data.stream.streamed_rows import Input, RowsOnDisk
from pipelines.data.tables.words import counted, list_names
from pipelines.errors import InputError, opt

BATCH = 64  # images sent to a decoding process at once
FEW = 500  # fewer images are decoded sooner than processes start
VERSION = 2  # of the cache's format: a change decodes all images again
Unreadable = Literal["refuse", "skip"]
UNREADABLE: tuple[Unreadable, ...] = ("refuse", "skip")


@dataclass(frozen=True)
class ImageReading:
    """How the files of a folder become images of one shape.

    Attributes
    ----------
    size : int or None
        Resize the shorter side to this many pixels and crop the centre; None for images that all
        have one size.
    gray : bool
        Drop the colours.
    unreadable : {"refuse", "skip"}
        Refuse a folder with files that cannot be decoded, or skip these files.
    """

    size: int | None = None
    gray: bool = False
    unreadable: Unreadable = "refuse"


def load_folder(
    path: Path,
    data_dir: str | Path,
    reading: ImageReading,
    *,
    show_progress: bool = False,
    input: Input = "memory",
) -> LoadedRows:
    """Load a folder of images, a class in each of its subfolders.

    Parameters
    ----------
    path : Path
        Folder of the classes, or of splits that each have the same classes; see ``find_split``.
    data_dir : str or Path
        Where decoded pixels are cached.
    reading : ImageReading
    show_progress : bool
        Draw a bar on stderr if that is a terminal.
    input : {"memory", "stream", "auto"}
        See ``load_dataset``.

    Returns
    -------
    LoadedRows
        X is uint8 of shape (n, channels * height * width), y of shape (n,) has the names of the
        subfolders; with a test set where the folder has one.

    Raises
    ------
    InputError
        There are no classes, a class is empty, the splits are unclear or differ in classes, the
        images are of several sizes, they do not fit in half of the memory, or a file cannot be
        decoded and should not be skipped.
    """
    began, root = time.monotonic(), readable(path)
    split = find_split(path)
    cache = Path(os.path.expanduser(data_dir)) / "images"
    why = "" if input == "memory" else _why_streamed(split, reading, input)
    if why:
        first = last = _read_later(split.train, reading)
    else:
        first = last = _read(split.train, cache, reading, {}, show_progress)
    if split.test is not None:
        last = (
            _read_later(split.test, reading)
            if why
            else _read(split.test, cache, reading, first.white, show_progress)
        )
    parts = (first,) if split.test is None else (first, last)
    bad = [f"'{name}' ({why})" for part in parts for name, why in part.unreadable]
    if bad and reading.unreadable == "refuse":
        raise InputError(
            f"{opt('dataset')} must hold images that can be read, {counted(len(bad), 'file')} of "
            f"'{root}' cannot: {', '.join(bad[:3])}{', …' * (len(bad) > 3)}; mend or remove them, "
            f"or use {opt('unreadable', 'skip')}"
        )
    if first.X.shape[1:] != last.X.shape[1:]:
        raise _several_sizes(
            f"{first.shown} in '{readable(split.train)}', and {last.shown} in "
            f"'{readable(split.test or '')}'"
        )
    n = sum(len(part.y) for part in parts)
    of_images = f"images     {counted(n, 'image')} of {first.shown} in '{root}'"
    if any(part.is_new for part in parts):
        of_images += f", decoded in {time.monotonic() - began:.1f} s and kept in '{data_dir}'"
    beside = [] if split.train == path else [files_beside(path)]
    notes = [*split.notes, *join_folders([*beside, *(part.paths for part in parts)]).notes]
    white = {**last.white, **first.white}
    for depth, level in white.items():
        n_deep = sum(part.n_deep.get(depth, 0) for part in parts)
        what = "their full scale" if level in FULL_SCALES else "the largest of them"
        if split.test is not None and level not in FULL_SCALES and depth in first.white:
            what += " in training"
        remainder = "" if n_deep == n else f"; the other {n - n_deep:,} are not"
        notes.append(
            f"{counted(n_deep, 'image')} of {depth} scaled by {level:.6g}, {what}{remainder}"
        )
    warnings = [*split.warnings]
    warnings += [
        f"{counted(len(bad), 'file')} cannot be read and are left out: "
        f"{', '.join(bad[:10])}{', …' * (len(bad) > 10)}"
    ] * bool(bad)
    warnings += [warning for part in parts for warning in part.in_two_classes]
    if split.test is not None:
        warnings += _compared(first, last, split)
    lines = [f"warning    {warning}" for warning in warnings]
    lines += [f"note       {note}" for note in notes]
    X_test, y_test = (None, None) if split.test is None else (last.X, last.y)
    lines += [f"input      {why}"] * bool(why)
    about = {"lines": (of_images, *lines), "notes": (*warnings, *notes)}
    folder = ImageFolder(first.decoded, white)
    return source_of(first.X, first.y, X_test, y_test, folder=folder, **about)


def _compared(train: _Part, test: _Part, split: Split) -> list[str]:
    """Warnings about a test set, compared with its training set.

    Raises
    ------
    InputError
        The test set has classes that the training set lacks.
    """
    path = readable(split.test or "")
    missing_classes = sorted({*train.classes} - {*test.classes})
    if extra := sorted({*test.classes} - {*train.classes}):
        note = f", and lacks {list_names(missing_classes)}" if missing_classes else ""
        raise InputError(
            f"{opt('dataset')} must have the same classes in its splits, '{path}' has "
            f"{list_names(extra)}, which '{readable(split.train)}' lacks{note}; "
            "rename, add or remove classes"
        )
    warnings = [f"the test set '{path}' has no {list_names(missing_classes)}"] * bool(
        missing_classes
    )
    if n_shared := len(train.paths.files.keys() & test.paths.files.keys()):
        warnings.append(
            f"{counted(n_shared, 'image')} of the test set '{path}' are links to training images"
        )
    if test.n_brighter:
        warnings.append(
            f"{counted(test.n_brighter, 'image')} of the test set '{path}' have values above the "
            "scale of the training set, which are cut off"
        )
    return warnings


@dataclass(frozen=True)
class _Part:
    """Images of one split with their labels, and what the cache and their paths say about them.

    unreadable : files that could not be read, and why
    white : values that became white in images of more than 8 bits, by depth
    n_deep : numbers of such images, by depth
    n_brighter : images with values above that white
    """

    X: Array | RowsOnDisk
    y: Array
    classes: list[str]
    unreadable: list[tuple[str, str]]
    white: dict[str, float]
    n_deep: dict[str, int]
    n_brighter: int
    by_class: Mapping[str, ImagePaths]
    paths: ImagePaths
    decoded: Path
    is_new: bool

    @property
    def shown(self) -> str:
        """Size and colour of the images, in words."""
        channels = "gray" if self.X.ndim == 3 else "coloured"
        return f"{self.X.shape[-1]} x {self.X.shape[-2]} pixels, {channels},"

    @property
    def in_two_classes(self) -> list[str]:
        """A warning where links lead from two classes to the same files."""
        n_classes = Counter(key for paths in self.by_class.values() for key in paths.files)
        shared = [key for key, n in n_classes.items() if n > 1]
        if not shared:
            return []
        names = [
            readable(name) for name, paths in self.by_class.items() if shared[0] in paths.files
        ]
        return [
            f"{counted(len(shared), 'image')} {'is' if len(shared) == 1 else 'are'} in several "
            f"classes by links, the first in {list_names(names)}"
        ]


def _read(
    root: Path,
    cache: Path,
    reading: ImageReading,
    white: Mapping[str, float],
    show_progress: bool,
) -> _Part:
    """Load decoded images from the cache; decode them into it first if they are not there."""
    by_class = _files(root)
    paths = join_folders(by_class.values())
    files = [path for part in by_class.values() for path in part.files.values()]
    identity = {**asdict(reading), "version": VERSION, "white": dict(white)}
    identity["content"] = _digest(root, files)
    # What happens to unreadable files does not change the pixels of the others.
    del identity["unreadable"]
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    entry = cache / key
    is_new = not entry.is_dir()
    if is_new:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                _decode_all(root, by_class, Path(folder, "new"), reading, white, show_progress)
                if not entry.is_dir():  # another process may have decoded them meanwhile
                    os.replace(Path(folder, "new"), entry)
        except OSError as error:
            raise InputError(
                f"{opt('data_dir')} must be a folder with room for the decoded images, cannot "
                f"write '{cache}': {error.strerror or error}; name another"
            ) from None
    try:
        about = json.loads((entry / "about.json").read_text())
        X, codes = np.load(entry / "X.npy"), np.load(entry / "y.npy")
        y = np.array(about["classes"])[codes]
        return _Part(X, y, **about, by_class=by_class, paths=paths, decoded=entry, is_new=is_new)
    except (OSError, ValueError, KeyError, EOFError, TypeError) as error:
        raise InputError(
            f"{opt('data_dir')}: '{entry}' must hold images that were decoded before, it is "
            f"damaged ({' '.join(str(error).split())}); delete it"
        ) from None


def _why_streamed(split: Split, reading: ImageReading, input: Input) -> str:
    """Why images should stay on disk, in words; empty where they should be loaded into memory."""
    import psutil

    roots = [split.train] if split.test is None else [split.train, split.test]
    paths = [join_folders(_files(root).values()).files.values() for root in roots]
    n_bytes = sum(map(len, paths)) * math.prod(_first_shape([*paths[0]], reading))
    total = psutil.virtual_memory().total
    if input == "auto" and n_bytes <= total // 2:
        return ""
    if reading.unreadable == "skip":
        raise InputError(
            f"{opt('unreadable')} must be refuse for images that stay on disk, got skip: which "
            "they are is known when all are decoded; remove them from the folder, or use "
            f"{opt('input', 'memory')}"
        )
    size = "as asked" if input == "stream" else "larger than half of the memory"
    sizes = f"{n_bytes / 2**30:.1f} GiB of {total / 2**30:.1f}"
    return f"{size} ({sizes}): images stay on disk, and are decoded as they are needed"


def _first_shape(paths: list[Path], reading: ImageReading) -> tuple[int, ...]:
    """Shape of the first image, decoded as all will be."""
    image = _decoded(paths[0], reading.size, reading.gray)
    if isinstance(image, np.ndarray):
        return image.shape
    why = image if isinstance(image, str) else f"it has {image.depth}, and 8 bits can be streamed"
    raise InputError(
        f"{opt('dataset')} must hold images that can be read, '{readable(paths[0])}' cannot: "
        f"{why}; mend or remove it"
    )


def _read_later(root: Path, reading: ImageReading) -> _Part:
    """The images of a folder, to be decoded when they are needed."""
    by_class = _files(root)
    files = [path for part in by_class.values() for path in part.files.values()]
    shape = _first_shape(files, reading)
    store = ImageStore(root, files, _digest(root, files), reading.size, reading.gray, shape)
    classes = [*map(readable, by_class)]
    n_of_class = [len(part.files) for part in by_class.values()]
    return _Part(
        RowsOnDisk(store, np.arange(len(files)), is_flat=False),
        np.repeat(np.array(classes), n_of_class),
        classes,
        unreadable=[],
        white={},
        n_deep={},
        n_brighter=0,
        by_class=by_class,
        paths=join_folders(by_class.values()),
        decoded=Path(),
        is_new=False,
    )


def _files(root: Path) -> dict[str, ImagePaths]:
    """The image files of each class; files outside the classes are counted with the first class.

    Raises
    ------
    InputError
        There is no class, a class is empty, or two classes have names that are the same as text.
    """
    by_class = {name: image_paths(root / name, "dataset") for name in class_folders(root)}
    path = readable(root)
    if not any(paths.files for paths in by_class.values()):
        raise InputError(
            f"{opt('dataset')} must be a file, or a folder with a subfolder of images for each "
            f"class, '{path}' has none; sort the images into subfolders"
        )
    run_folders = [
        by_class.pop(name) for name, paths in [*by_class.items()] if paths.n_own and not paths.files
    ]
    if empty := [readable(name) for name, paths in by_class.items() if not paths.files]:
        raise InputError(
            f"{opt('dataset')} must have an image in every class, {list_names(empty)} of '{path}' "
            f"{'has' if len(empty) == 1 else 'have'} none; add images, or remove the folder"
        )
    if len({*map(readable, by_class)}) < len(by_class):
        raise InputError(
            f"{opt('dataset')} must have classes that can be told apart as text, those of "
            f"'{path}' cannot: {list_names(map(readable, by_class))}; rename a folder"
        )
    paths_beside = join_folders([*run_folders, files_beside(root)])
    first = next(iter(by_class.values()))
    first.kinds += paths_beside.kinds
    first.n_own += paths_beside.n_own
    return by_class


def _digest(root: Path, files: list[Path]) -> str:
    """SHA-256, in hex, of the names and contents of files."""

    def of_file(path: str) -> bytes:
        try:  # only regular files: reading a pipe would block
            content = Path(path).read_bytes() if os.path.isfile(path) else b""
        except OSError as error:  # decoding reports it as unreadable
            content = str(error.errno).encode()
        name = os.fsencode(path.removeprefix(str(root)).lstrip(os.sep))
        return hashlib.sha256(name + b"\0" + content).digest()

    with ThreadPoolExecutor() as pool:
        return hashlib.sha256(b"".join(pool.map(of_file, sorted(map(str, files))))).hexdigest()


def _decode_all(
    root: Path,
    by_class: Mapping[str, ImagePaths],
    folder: Path,
    reading: ImageReading,
    white: Mapping[str, float],
    show_progress: bool,
) -> None:
    """Decode the images of a folder and write the files of a cache."""
    import psutil

    paths = [path for part in by_class.values() for path in part.files.values()]
    n_of_class = [len(part.files) for part in by_class.values()]
    labels = np.repeat(np.arange(len(by_class), dtype=np.int32), n_of_class)
    about: dict[str, Any] = {"white": dict(white), "n_deep": {}, "n_brighter": 0}
    folder.mkdir()
    X: np.memmap[Any, Any] | None = None
    is_read, unreadable = np.ones(len(paths), bool), []
    images: Iterable[tuple[int, np.ndarray | str]] = _pixels(paths, reading, about)
    if show_progress and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        console = Console(stderr=True, width=shutil.get_terminal_size().columns)
        images = track(images, "decoding  ", len(paths), console=console)
    for i, image in images:
        name = readable(os.path.relpath(paths[i], root))
        if isinstance(image, str):
            is_read[i] = False
            unreadable.append((name, image))
            continue
        if X is None:
            max_bytes, n_bytes = psutil.virtual_memory().total // 2, len(paths) * image.size
            if n_bytes > max_bytes:
                # Bytes that one pixel takes in all images together give the largest square.
                max_side = math.isqrt(max_bytes // (n_bytes // (image.shape[-1] * image.shape[-2])))
                raise InputError(
                    f"{opt('image_size')} must let the images fit in half of the memory, "
                    f"{counted(len(paths), 'image')} of '{readable(root)}' need "
                    f"{n_bytes / 2**30:.1f} GiB of {max_bytes / 2**30:.1f}; use at most "
                    f"{opt('image_size', max_side)}"
                )
            shape = (len(paths), *image.shape)
            X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.uint8, shape)
        if image.shape != X.shape[1:]:
            raise _several_sizes(
                f"{X.shape[-1]} x {X.shape[-2]} and {image.shape[-1]} x {image.shape[-2]} "
                f"('{name}')"
            )
        X[i] = image
    if X is None:
        examples = ", ".join(f"'{name}' ({why})" for name, why in unreadable[:3])
        raise InputError(
            f"{opt('dataset')} must hold an image that can be read, none of "
            f"{counted(len(paths), 'file')} in '{readable(root)}' can: {examples}"
            f"{', …' * (len(unreadable) > 3)}; write them anew"
        )
    X.flush()
    if unreadable:
        np.save(folder / "X.npy", X[is_read])
    np.save(folder / "y.npy", labels[is_read])
    about |= {"classes": [*map(readable, by_class)], "unreadable": unreadable}
    (folder / "about.json").write_text(json.dumps(about))


def _pixels(
    paths: list[Path], reading: ImageReading, about: dict[str, Any]
) -> Iterator[tuple[int, np.ndarray | str]]:
    """The number of each file with its pixels, or with the reason why it cannot be read.

    Images of more than 8 bits come last: their scale depends on the largest value of all. Scales
    and numbers of such images are added to ``about``.
    """
    from joblib import cpu_count

    decode_one = partial(_decoded, size=reading.size, gray=reading.gray)
    with ExitStack() as pool:
        run: Any = map
        if len(paths) >= FEW:
            executor = pool.enter_context(ProcessPoolExecutor(cpu_count()))
            run = partial(executor.map, chunksize=BATCH)
        deep_images: dict[int, Unscaled] = {}
        for i, image in enumerate(run(decode_one, paths)):
            if isinstance(image, Unscaled):
                deep_images[i] = image
            else:
                yield i, image
        levels, of_depth = about["white"], Counter(image.depth for image in deep_images.values())
        for depth in of_depth.keys() - levels.keys():
            largest = max(image.largest for image in deep_images.values() if image.depth == depth)
            levels[depth] = own_white(depth, largest)
        about["n_deep"] = dict(of_depth)
        about["n_brighter"] = sum(
            image.largest > levels[image.depth] for image in deep_images.values()
        )
        decode_one = partial(decode_one, levels=levels)
        yield from zip(deep_images, run(decode_one, [paths[i] for i in deep_images]), strict=True)


def _decoded(
    path: Path, size: int | None, gray: bool, levels: Mapping[str, float] | None = None
) -> np.ndarray | Unscaled | str:
    """The pixels of a file, the exception if its scale is unknown, or why it is unreadable."""
    try:
        return decode(path, size, gray, partial(white_of, levels or {}))
    except Unscaled as unscaled_image:
        return unscaled_image
    except ValueError as error:
        return str(error)


def _several_sizes(sizes: str) -> InputError:
    """The error for images of several sizes."""
    return InputError(
        f"{opt('image_size')} must be given where images are of several sizes, got {sizes}; "
        f"give {opt('image_size', 64)} or another size to resize and crop them to"
    )
