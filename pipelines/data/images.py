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

# Name on the command line -> class in torchvision.datasets, and the files that it looks for in
# --data-dir before it downloads them.
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
UNSIGNED_BYTES = 0x08  # type byte of the IDX format
IDX = ("mnist", "fashion-mnist", "kmnist")  # data sets whose files can be read without torch

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def load_digits() -> LoadedRows:
    """The 1797 handwritten digits shipped with scikit-learn, uint8 of 0..16, 8 x 8 pixels.

    References
    ----------
    E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning
    Repository, 1998.
    """
    # The file is read directly: importing scikit-learn takes longer than a search of these rows.
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
    """Load a data set of ``torchvision.datasets`` from ``data_dir``, or download it there.

    Parameters
    ----------
    name : str
        A key of ``TORCHVISION``.
    data_dir : str or Path
        Laid out as by torchvision. The four files of a data set of ``IDX`` may also lie here, or in
        ``<name>/``, gzipped or not, and are then read without torch.

    Returns
    -------
    LoadedRows
        X is uint8 of shape (n, channels * height * width), with the test set of the files. y has
        the numbers 0..9, or the class names of torchvision where the data set is not of ``IDX``.

    Raises
    ------
    InputError
        A file is missing or damaged, images and labels do not match, or there is nothing to read
        and the download fails.
    """
    # Unlike Path.expanduser, it keeps the ~ of an unknown user.
    data_dir = Path(os.path.expanduser(data_dir))
    if name in IDX:
        files = _find(name, data_dir)
        if files is None:
            _open(name, data_dir, is_train=True)  # downloads all four
            files = _find(name, data_dir)
            assert files is not None
        return _read_idx_files(files)
    (X, y), (X_test, y_test) = (
        _arrays(_open(name, data_dir, is_train), name) for is_train in (True, False)
    )
    return source_of(X, y, X_test, y_test, ink=X.ndim == 3)


def source_of(X: Any, y: Array, X_test: Any, y_test: Array | None, **about: Any) -> LoadedRows:
    """Images and labels as loaded rows, one flattened image per row.

    Parameters
    ----------
    X, X_test : uint8 array of shape (n, height, width) or (n, channels, height, width)
        ``X_test`` may be None.
    y, y_test : array of shape (n,)
        Labels.
    **about
        Further fields of ``LoadedRows``.
    """
    test = None if X_test is None else X_test.reshape(len(X_test), -1)
    rows, about = X.reshape(len(X), -1), {"image_shape": X.shape[1:], **about}
    return LoadedRows(rows, y, PIXELS_0_255, X_test=test, y_test=y_test, **about)


def _open(name: str, data_dir: Path, is_train: bool) -> Any:
    """The training or test set as an object of torchvision; downloaded if it is not there.

    Raises
    ------
    InputError
        torchvision is missing, or the download fails.
    """
    need_torchvision(opt("dataset", name))
    from torchvision import datasets

    class_name, files = TORCHVISION[name]
    part: dict[str, Any] = {"train": is_train}
    if class_name in ("SVHN", "STL10"):
        part = {"split": "train" if is_train else "test"}
    elif class_name == "EMNIST":
        part["split"] = "letters"
    try:
        # The download prints a line for each mirror that does not answer.
        with redirect_stdout(io.StringIO()):
            return getattr(datasets, class_name)(data_dir, download=True, **part)
    except (OSError, RuntimeError, ValueError, EOFError) as error:  # URLError is an OSError
        raise InputError(
            f"{opt('dataset', name)} is not whole in {opt('data_dir')} and could not be "
            f"downloaded ({' '.join(str(error).split())}); check the network and that the folder "
            f"can be written, or put {files} into {opt('data_dir')} '{data_dir}'"
        ) from None


def _arrays(dataset: Any, name: str) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Images (n, height, width) or (n, channels, height, width), and their labels."""
    images = np.asarray(dataset.data, np.uint8)
    codes = np.asarray(dataset.labels if hasattr(dataset, "labels") else dataset.targets, np.int64)
    if name == "emnist-letters":
        images = images.swapaxes(1, 2)  # its images are stored transposed
    elif images.shape[-1] == 3:
        images = images.transpose(0, 3, 1, 2)
    names = getattr(dataset, "classes", None)
    return images, codes if names is None else np.array(names)[codes]


def need_torchvision(option: str) -> None:
    """Raise InputError, in one line, if torchvision is not installed."""
    if importlib.util.find_spec("torchvision") is None:
        raise InputError(
            f"{option} needs torchvision, which is not installed; run {install_line('nn')}"
        )


def _find(name: str, data_dir: Path) -> list[Path] | None:
    """The four files of a data set of ``IDX``, or None if none of them is there.

    Raises
    ------
    InputError
        Some of the files are there, others are missing.
    """
    # All data sets use the same file names, so a folder named after the data set comes first. The
    # data folder itself may hold files of MNIST or Fashion-MNIST, as they are downloaded.
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
    """Images and labels 0..9 from the four files, checked against each other."""
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
    """Read an IDX file of unsigned bytes, gzipped or plain: the format of MNIST, without torch.

    http://yann.lecun.com/exdb/mnist/: two zero bytes, a type byte, the number of dimensions, each
    length as a big-endian uint32, then the values.

    Parameters
    ----------
    path : str or Path
        gzip is recognised by its first bytes, whatever the name.
    ndim : int
        Number of dimensions that the array must have.

    Returns
    -------
    uint8 array of the shape that the file declares, writable

    Raises
    ------
    InputError
        The file cannot be read, is not an IDX file, is cut short or too long, or has another type
        or number of dimensions.
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
    """The error for a file that breaks a rule of the IDX format."""
    return InputError(
        f"{opt('data_dir')}: '{path}' must {rule_and_finding}; delete it and fetch it again"
    )
