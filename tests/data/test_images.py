from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest

from pipelines.data.images import OPENML, load_digits, load_mnist_like
from pipelines.data.scaling import PIXELS_0_16, PIXELS_0_255

MNIST = Path(__file__).parents[2] / "../shared/data/mnist"
NAMES = list(OPENML)


@pytest.fixture
def no_network(monkeypatch):
    def fetch(**named):
        raise AssertionError("the network was asked")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)


def test_digits():
    source = load_digits()
    assert source.X.shape == (1797, 64)
    assert source.X.dtype == np.uint8
    assert (source.X.min(), source.X.max()) == (0, 16)
    assert source.image_shape == (8, 8)
    assert source.scaling == PIXELS_0_16
    assert source.X_test is None
    np.testing.assert_array_equal(np.unique(source.y), np.arange(10))


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("name", "folder"),
    [(name, "") for name in NAMES]
    + [(name, name) for name in NAMES]
    + [("mnist", "MNIST/raw"), ("fashion-mnist", "FashionMNIST/raw")],
)
def test_files_that_are_there_need_no_network(name, folder, zipped, tmp_path, write_mnist):
    write_mnist(tmp_path / folder, zipped)
    source = load_mnist_like(name, tmp_path)
    assert source.X.shape == (30, 12)
    assert source.X.dtype == np.uint8
    assert source.X_test.shape == (20, 12)
    np.testing.assert_array_equal(source.y, np.arange(30) % 10)
    np.testing.assert_array_equal(source.y_test, np.arange(20) % 10)
    assert source.image_shape == (4, 3)
    assert source.scaling == PIXELS_0_255


def test_folder_with_the_name_comes_before_the_data_dir(tmp_path, write_mnist):
    write_mnist(tmp_path)
    write_mnist(tmp_path / "FashionMNIST" / "raw", train_images=np.ones((30, 4, 3), np.uint8))
    assert load_mnist_like("fashion-mnist", tmp_path).X.min() == 1
    assert load_mnist_like("mnist", tmp_path).X.min() == 0


def test_some_files_missing(tmp_path, write_mnist, refused):
    write_mnist(tmp_path, skip=("train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"))
    message = refused(lambda: load_mnist_like("mnist", tmp_path), "--data-dir", str(tmp_path))
    assert "lacks train-labels-idx1-ubyte, t10k-images-idx3-ubyte;" in message


def test_complete_folder_counts_beside_an_incomplete_one(tmp_path, write_mnist):
    write_mnist(tmp_path)
    write_mnist(tmp_path / "mnist", skip=("train-labels-idx1-ubyte",))
    assert len(load_mnist_like("mnist", tmp_path).X) == 30


@pytest.mark.parametrize("name", NAMES)
def test_a_download_is_made_once(name, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, (35, 12)), rng.integers(0, 10, 35)
    asked = []

    def fetch(**named):
        asked.append(named["data_id"])
        return SimpleNamespace(data=X.astype(float), target=y.astype(str).astype(object))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    monkeypatch.setattr("pipelines.data.images.N_TRAIN", 30)
    monkeypatch.setattr("pipelines.data.images.SIDE", 2)
    X = X[:, :4]
    for _ in range(2):
        source = load_mnist_like(name, tmp_path / "new")
        np.testing.assert_array_equal(source.X, X[:30])
        np.testing.assert_array_equal(source.y_test, y[30:])
    assert asked == [OPENML[name]]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("Dataset with data_id\n554 not found."),
        URLError("no route to host"),
        PermissionError(13, "Permission denied"),
    ],
)
def test_download_fails(error, tmp_path, monkeypatch, refused):
    def fail(**named):
        raise error

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)
    words = ["--dataset mnist", "could not be downloaded", "--data-dir", "train-images-idx3"]
    message = refused(lambda: load_mnist_like("mnist", tmp_path), *words)
    assert any(word in message for word in ("data_id 554", "no route", "denied"))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"train_labels": np.zeros(29, np.uint8)}, ["30 images", "29 labels", "train-labels"]),
        ({"t10k_labels": np.zeros(21, np.uint8)}, ["20 images", "21 labels", "t10k-labels"]),
        ({"train_labels": np.full(30, 10, np.uint8)}, ["0..9", "holds 10", "train-labels"]),
        ({"train_labels": np.zeros(30, np.int32)}, ["unsigned bytes", "int32"]),
        ({"train_images": np.zeros((30, 12), np.uint8)}, ["3 dimensions", "it has 2"]),
        ({"train_labels": np.zeros((30, 1), np.uint8)}, ["1 dimensions", "it has 2"]),
        ({"t10k_images": np.zeros((20, 3, 4), np.uint8)}, ["one size", "(4, 3)", "(3, 4)"]),
    ],
)
def test_files_that_do_not_fit_together(arrays, words, tmp_path, write_mnist, refused):
    write_mnist(tmp_path, **arrays)
    refused(lambda: load_mnist_like("mnist", tmp_path), "--data-dir", str(tmp_path), *words)


@pytest.mark.skipif(not MNIST.is_dir(), reason="the real MNIST files are not on this machine")
@pytest.mark.usefixtures("no_network")
def test_real_mnist():
    source = load_mnist_like("mnist", MNIST)
    assert source.X.shape == (60000, 784)
    assert source.X_test.shape == (10000, 784)
    assert source.X.dtype == np.uint8
    assert source.X.max() == 255
    assert source.image_shape == (28, 28)
    assert source.y[0] == 5
    per_class = np.bincount(source.y_test)
    assert len(per_class) == 10
    assert per_class.sum() == 10000
    assert per_class.min() == 892
    assert per_class.max() == 1135
    # The published constant centres the range of a pixel, not the mean of MNIST.
    scaled = source.scaling.fit(source.X).transform(source.X[:100])
    assert scaled.min() == np.float32(-127.5 / 73.61)
