"""Image data sets: the digits of scikit-learn, MNIST and Fashion-MNIST."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.data.dataset import Source
from pipelines.data.idx import read_idx, write_idx
from pipelines.data.scaling import PIXELS_0_16, PIXELS_0_255
from pipelines.errors import InputError, opt

# Name on the command line -> number of the data set at openml.org: the rows of the training set,
# and after them those of the test set.
OPENML = {"mnist": 554, "fashion-mnist": 40996}
N_TRAIN, SIDE = 60_000, 28
TORCHVISIONS = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}  # its folders

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def load_digits() -> Source:
    """Return the 1797 handwritten digits shipped with scikit-learn: uint8 of 0..16, 8 x 8 pixels.

    Source: E. Alpaydin, C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI.
    """
    # Its file alone: to import scikit-learn takes longer than to search these rows.
    (package,) = importlib.util.find_spec("sklearn").submodule_search_locations  # type: ignore
    rows = np.loadtxt(Path(package, "datasets", "data", "digits.csv.gz"), np.uint8, delimiter=",")
    return Source(
        np.ascontiguousarray(rows[:, :-1]), rows[:, -1].astype(np.int64), PIXELS_0_16,
        image_shape=(8, 8),
    )  # fmt: skip


def load_mnist_like(name: str, data_dir: str | Path) -> Source:
    """Return MNIST or Fashion-MNIST, from IDX files in ``data_dir``, else downloaded there.

    Parameters
    ----------
    name : "mnist" or "fashion-mnist"
    data_dir : the four files are looked for here, in ``<name>/`` and where torchvision puts
        them (``MNIST/raw/``, ``FashionMNIST/raw/``), gzipped or not

    Returns
    -------
    Source with X uint8 of shape (n, height * width), y of shape (n,) with labels 0..9, and
    the test set of the files.

    Raises
    ------
    InputError
        A file is missing or damaged, images and labels do not fit together, or there is
        nothing to read and the download cannot be made.

    References
    ----------
    LeCun et al. (1998), Gradient-based learning applied to document recognition.
    Xiao et al. (2017), Fashion-MNIST, arXiv:1708.07747.
    """
    data_dir = Path(os.path.expanduser(data_dir))
    files = _find(name, data_dir)
    if files is None:
        _download(name, data_dir)
        files = _find(name, data_dir)
        assert files is not None
    X, y = _read_part(*(files[stem] for stem in TRAIN))
    X_test, y_test = _read_part(*(files[stem] for stem in TEST))
    if X.shape[1:] != X_test.shape[1:]:
        raise InputError(
            f"{opt('data_dir')}: training and test images must have one size, got {X.shape[1:]} "
            f"and {X_test.shape[1:]} in '{files[TRAIN[0]].parent}'; fetch the four files again"
        )
    height, width = X.shape[1:]
    return Source(
        X.reshape(len(X), -1),
        y,
        PIXELS_0_255,
        X_test=X_test.reshape(len(X_test), -1),
        y_test=y_test,
        image_shape=(height, width),
    )


def is_here(name: str, data_dir: str | Path) -> bool:
    """Return whether ``data_dir`` already holds the four files of an image data set.

    Parameters
    ----------
    name : "mnist" or "fashion-mnist"
    """
    return _find(name, Path(data_dir)) is not None


def _find(name: str, data_dir: Path) -> dict[str, Path] | None:
    """Return the four files by name, or None where not one of them is there."""
    # Both data sets use the same file names: a folder that bears the name is the surer one.
    folders = (data_dir / name, data_dir / TORCHVISIONS[name] / "raw", data_dir)
    found = [(folder, _files_in(folder)) for folder in folders]
    for _, files in found:
        if len(files) == len(TRAIN + TEST):
            return files
    for folder, files in found:
        if files:
            missing = ", ".join(stem for stem in TRAIN + TEST if stem not in files)
            raise InputError(
                f"{opt('data_dir')} must hold all four files of {name}, '{folder}' lacks "
                f"{missing}; add them, gzipped or not, or remove the others to download all"
            )
    return None


def _files_in(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for stem in TRAIN + TEST:
        for path in (folder / f"{stem}.gz", folder / stem):
            if os.path.isfile(path):  # unlike Path.is_file, False where access is denied
                found.setdefault(stem, path)
    return found


def _download(name: str, data_dir: Path) -> None:
    """Fetch a data set from openml.org, and write the four files it is read from ever after."""
    from sklearn.datasets import fetch_openml

    folder = data_dir / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = fetch_openml(data_id=OPENML[name], as_frame=False, cache=False)
        X = found.data.astype(np.uint8).reshape(-1, SIDE, SIDE)
        y = found.target.astype(np.uint8)
        for stem, array in zip(
            TRAIN + TEST, (X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]), strict=True
        ):
            write_idx(folder / stem, array)
    except (OSError, ValueError) as error:  # URLError is an OSError
        raise InputError(
            f"{opt('dataset', name)} is not in {opt('data_dir')} and could not be downloaded "
            f"({' '.join(str(error).split())}); check the network and that the folder can be "
            f"written, or put {', '.join(TRAIN + TEST)} into {opt('data_dir')} '{data_dir}'"
        ) from None


def _read_part(images: Path, labels: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    X, y = read_idx(images, ndim=3), read_idx(labels, ndim=1)
    for path, array in ((images, X), (labels, y)):
        if array.dtype != np.uint8:
            raise InputError(
                f"{opt('data_dir')}: '{path}' must hold unsigned bytes, it holds {array.dtype}; "
                f"delete it and fetch it again"
            )
    if len(X) != len(y):
        raise InputError(
            f"{opt('data_dir')}: images and labels must agree in number, got {len(X)} images in "
            f"'{images}' and {len(y)} labels in '{labels}'; fetch both again"
        )
    if y.max() > 9:
        raise InputError(
            f"{opt('data_dir')}: labels must lie in 0..9, '{labels}' holds {y.max()}; "
            f"delete it and fetch it again"
        )
    return X, y
