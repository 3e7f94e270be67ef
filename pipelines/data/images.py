"""Image data sets by name: the digits of scikit-learn, and those of ``torchvision.datasets``."""

from __future__ import annotations

import gzip
import importlib.util
import io
import math
import os
import zlib
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_setup.installation import install_line
from pipelines.data.dataset import Array, LoadedRows
from pipelines.data.scaling import PIXELS_0_16, PIXELS_0_255
from pipelines.errors import InputError, opt

# Name on the command line -> class in torchvision.datasets, and the files it is made from, as it
# looks for them in --data-dir before it downloads them.
TORCHVISION = {
    "mnist": ("MNIST", "MNIST/raw/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz"),
    "fashion-mnist": (
        "FashionMNIST",
        "FashionMNIST/raw/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz",
    ),
    "kmnist": ("KMNIST", "KMNIST/raw/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz"),
    "emnist-letters": ("EMNIST", "EMNIST/raw/gzip.zip"),
    "cifar10": ("CIFAR10", "cifar-10-python.tar.gz"),
    "cifar100": ("CIFAR100", "cifar-100-python.tar.gz"),
    "svhn": ("SVHN", "{train,test}_32x32.mat"),
    "stl10": ("STL10", "stl10_binary.tar.gz"),
}
UNSIGNED_BYTES = 0x08  # the type byte of IDX
IDX = ("mnist", "fashion-mnist", "kmnist")  # read without torch, too

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def load_digits() -> LoadedRows:
    """Return the 1797 handwritten digits shipped with scikit-learn: uint8 of 0..16, 8 x 8 pixels.

    Source: E. Alpaydin, C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI.
    """
    # Its file alone: to import scikit-learn takes longer than to search these rows.
    (package,) = importlib.util.find_spec("sklearn").submodule_search_locations  # type: ignore
    rows = np.loadtxt(Path(package, "datasets", "data", "digits.csv.gz"), np.uint8, delimiter=",")
    return LoadedRows(
        np.ascontiguousarray(rows[:, :-1]),
        rows[:, -1].astype(np.int64),
        PIXELS_0_16,
        image_shape=(8, 8),
        ink=True,
    )


def load_torchvision(name: str, data_dir: str | Path) -> LoadedRows:
    """Return a data set of ``torchvision.datasets``, from ``data_dir``, else downloaded there.

    Parameters
    ----------
    name : a key of ``TORCHVISION``
    data_dir : laid out as torchvision does; the four files of one of ``IDX`` may also lie here, or
        in ``<name>/``, gzipped or not, and are then read without torch

    Returns
    -------
    Source with X uint8 of shape (n, channels * height * width) and the test set of the files. y
    holds the numbers 0..9, or the names that torchvision gives the classes of the others.

    Raises
    ------
    InputError
        A file is missing or damaged, images and labels do not fit together, or there is
        nothing to read and the download cannot be made.
    """
    data_dir = Path(os.path.expanduser(data_dir))  # which leaves what it does not know
    if name in IDX:
        files = _find(name, data_dir)
        if files is None:
            _open(name, data_dir, is_train=True)  # which fetches all four
            files = _find(name, data_dir)
            assert files is not None
        return _read_idx_files(files)
    (X, y), (X_test, y_test) = (
        _arrays(_open(name, data_dir, is_train), name) for is_train in (True, False)
    )
    return source_of(X, y, X_test, y_test, ink=X.ndim == 3)


def source_of(X: Any, y: Array, X_test: Any, y_test: Array | None, **about: Any) -> LoadedRows:
    """Images and labels as ``LoadedRows``, a row for each image; ``about`` are its other fields.

    X, X_test : bytes of shape (n, height, width) or (n, channels, height, width)
    """
    test = None if X_test is None else X_test.reshape(len(X_test), -1)
    rows, about = X.reshape(len(X), -1), {"image_shape": X.shape[1:], **about}
    return LoadedRows(rows, y, PIXELS_0_255, X_test=test, y_test=y_test, **about)


def _open(name: str, data_dir: Path, is_train: bool) -> Any:
    """Return the training or test set as torchvision has it; downloaded if it is not there."""
    need_torchvision(opt("dataset", name))
    from torchvision import datasets

    class_name, files = TORCHVISION[name]
    part: dict[str, Any] = {"train": is_train}
    if class_name in ("SVHN", "STL10"):
        part = {"split": "train" if is_train else "test"}
    elif class_name == "EMNIST":
        part["split"] = "letters"
    try:
        with redirect_stdout(io.StringIO()):  # it tells of each mirror that does not answer
            return getattr(datasets, class_name)(data_dir, download=True, **part)
    except (OSError, RuntimeError, ValueError, EOFError) as error:  # URLError is an OSError
        raise InputError(
            f"{opt('dataset', name)} is not whole in {opt('data_dir')} and could not be "
            f"downloaded ({' '.join(str(error).split())}); check the network and that the folder "
            f"can be written, or put {files} into {opt('data_dir')} '{data_dir}'"
        ) from None


def _arrays(dataset: Any, name: str) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return images (n, height, width) or (n, channels, height, width), and their labels."""
    images = np.asarray(dataset.data, np.uint8)
    codes = np.asarray(dataset.labels if hasattr(dataset, "labels") else dataset.targets, np.int64)
    if name == "emnist-letters":
        images = images.swapaxes(1, 2)  # its images lie on their side
    elif images.shape[-1] == 3:
        images = images.transpose(0, 3, 1, 2)
    names = getattr(dataset, "classes", None)
    return images, codes if names is None else np.array(names)[codes]


def need_torchvision(option: str) -> None:
    """Raise InputError, in one line, where torchvision is not installed."""
    if importlib.util.find_spec("torchvision") is None:
        raise InputError(
            f"{option} needs torchvision, which is not installed; run {install_line('nn')}"
        )


def _find(name: str, data_dir: Path) -> list[Path] | None:
    """Return the files of ``FILES``, or None where not one of them is there."""
    # All sets use the same file names: a folder that bears the name is the surer one. The
    # data folder itself may hold those of MNIST or Fashion-MNIST, as they are downloaded.
    gaps: list[tuple[Path, list[str]]] = []
    for folder in (data_dir / name, data_dir / TORCHVISION[name][0] / "raw", data_dir):
        alternatives = [[folder / f"{stem}.gz", folder / stem] for stem in FILES]
        # Unlike Path.is_file, os.path.isfile is False where access is denied.
        present_files = [next(filter(os.path.isfile, paths), None) for paths in alternatives]
        if all(present_files):
            return [path for path in present_files if path]
        if any(present_files):
            missing = [stem for stem, path in zip(FILES, present_files, strict=True) if not path]
            gaps.append((folder, missing))
    if not gaps:
        return None
    raise InputError(
        f"{opt('data_dir')} must hold all four files of {name}, '{gaps[0][0]}' lacks "
        f"{', '.join(gaps[0][1])}; add them, gzipped or not, or remove the others to download all"
    )


def _read_idx_files(files: list[Path]) -> LoadedRows:
    """Return the arrays of the four files; y has labels 0..9."""
    X, y, X_test, y_test = (
        read_idx(path, ndim) for path, ndim in zip(files, (3, 1, 3, 1), strict=True)
    )
    for path, images, labels in ((files[1], X, y), (files[3], X_test, y_test)):
        if len(images) != len(labels):
            raise _bad(path, f"have a label for each of {len(images)} images, it has {len(labels)}")
        if labels.max() > 9:
            raise _bad(path, f"hold labels in 0..9, it holds {labels.max()}")
    if X.shape[1:] != X_test.shape[1:]:
        raise _bad(files[2], f"hold images of {X.shape[1:]} pixels, they have {X_test.shape[1:]}")
    return source_of(X, y, X_test, y_test, ink=True)


def read_idx(path: str | Path, ndim: int) -> NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes, gzipped or plain; the format of MNIST, without torch.

    http://yann.lecun.com/exdb/mnist/: two zero bytes, a type byte, the number of dimensions, each
    length as a big-endian uint32, then the values.

    Parameters
    ----------
    path : the file; gzip is recognised by its first bytes, whatever the name
    ndim : the number of dimensions the array must have

    Returns
    -------
    Array of the shape that the file declares, writable.

    Raises
    ------
    InputError
        The file cannot be read, is no IDX file, is cut short or too long, or has another type or
        number of dimensions.
    """
    try:
        content = Path(path).read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _bad(path, f"be whole, its gzip stream is not ({error})") from None
    except OSError as error:
        raise InputError(
            f"{opt('data_dir')} must hold readable files, cannot read '{path}': "
            f"{error.strerror or error}; check the path and its permissions"
        ) from None
    head, start = bytes([0, 0, UNSIGNED_BYTES, ndim]), 4 + 4 * ndim
    if content[:4] != head or len(content) < start:
        raise _bad(
            path,
            f"be an IDX file of unsigned bytes in {ndim} dimensions, which starts with "
            f"{head.hex(' ')} and their lengths, it has {content[:start].hex(' ') or 'nothing'}",
        )
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", ndim, offset=4))
    n_declared, n_bytes = math.prod(shape), len(content) - start
    if n_bytes != n_declared or not n_bytes:
        raise _bad(
            path, f"hold the {n_declared} bytes of values that it declares, it holds {n_bytes}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def _bad(path: str | Path, rule_and_finding: str) -> InputError:
    return InputError(
        f"{opt('data_dir')}: '{path}' must {rule_and_finding}; delete it and fetch it again"
    )
