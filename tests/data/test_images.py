from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest

from pipelines.data.images import IDX, TORCHVISION, load_digits, load_torchvision
from pipelines.data.scaling import PIXELS_0_16, PIXELS_0_255

MNIST = Path(__file__).parents[2] / "../shared/data/mnist"
NAMES = list(IDX)


@pytest.fixture
def no_network(monkeypatch):
    def fetch(*args):
        raise AssertionError("torchvision was asked")

    monkeypatch.setattr("pipelines.data.images._open", fetch)


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
    + [("mnist", "MNIST/raw"), ("fashion-mnist", "FashionMNIST/raw"), ("kmnist", "KMNIST/raw")],
)
def test_files_that_are_there_need_no_network(name, folder, zipped, tmp_path, write_mnist):
    write_mnist(tmp_path / folder, zipped)
    source = load_torchvision(name, tmp_path)
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
    assert load_torchvision("fashion-mnist", tmp_path).X.min() == 1
    assert load_torchvision("mnist", tmp_path).X.min() == 0


def test_a_folder_may_begin_with_a_tilde_that_names_nobody(tmp_path, monkeypatch, write_mnist):
    monkeypatch.chdir(tmp_path)
    write_mnist(tmp_path / "~nobody-here")
    assert len(load_torchvision("mnist", "~nobody-here").X) == 30


def test_some_files_missing(tmp_path, write_mnist, refused):
    write_mnist(tmp_path, skip=("train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"))
    message = refused(lambda: load_torchvision("mnist", tmp_path), "--data-dir", str(tmp_path))
    assert "lacks train-labels-idx1-ubyte, t10k-images-idx3-ubyte;" in message


def test_complete_folder_counts_beside_an_incomplete_one(tmp_path, write_mnist):
    write_mnist(tmp_path)
    write_mnist(tmp_path / "mnist", skip=("train-labels-idx1-ubyte",))
    assert len(load_torchvision("mnist", tmp_path).X) == 30


class Stand:
    """What ``torchvision.datasets`` gives, without its files."""

    def __init__(self, root, train=None, split=None, download=False):
        assert download
        is_train = train if train is not None else split == "train"
        rng, n = np.random.default_rng(is_train), 30 if is_train else 20
        self.data = rng.integers(0, 256, (n, *self.shape), np.uint8)
        setattr(self, self.labels_are, (np.arange(n) % 3).tolist())


def stand_in(monkeypatch, kind, shape, labels_are, classes=None):
    about = {"shape": shape, "labels_are": labels_are} | ({"classes": classes} if classes else {})
    dataset_class = type(kind, (Stand,), about)
    monkeypatch.setattr(f"torchvision.datasets.{kind}", dataset_class)
    return dataset_class


@pytest.mark.parametrize(
    ("name", "kind", "shape", "labels_are", "classes"),
    [
        ("cifar10", "CIFAR10", (5, 4, 3), "targets", ["cat", "dog", "ape"]),
        ("cifar100", "CIFAR100", (5, 4, 3), "targets", ["cat", "dog", "ape"]),
        ("svhn", "SVHN", (3, 5, 4), "labels", None),
        ("stl10", "STL10", (3, 5, 4), "labels", ["cat", "dog", "ape"]),
    ],
)
def test_coloured_sets_have_their_channels_first(
    name, kind, shape, labels_are, classes, tmp_path, monkeypatch
):
    dataset_class = stand_in(monkeypatch, kind, shape, labels_are, classes)
    source = load_torchvision(name, tmp_path)
    assert source.image_shape == (3, 5, 4)
    assert not source.ink
    assert source.scaling == PIXELS_0_255
    last = dataset_class(tmp_path, train=True, download=True).data[-1]
    last = last if shape[0] == 3 else last.transpose(2, 0, 1)
    np.testing.assert_array_equal(source.X[-1], last.ravel())
    assert len(source.X_test) == 20
    assert source.y[:3].tolist() == (classes or [0, 1, 2])


def test_letters_stand_upright(tmp_path, monkeypatch):
    dataset_class = stand_in(monkeypatch, "EMNIST", (4, 5), "targets", ["N/A", "a", "b"])
    source = load_torchvision("emnist-letters", tmp_path)
    assert source.image_shape == (5, 4)
    assert source.ink
    first = dataset_class(tmp_path, train=True, download=True).data[0]
    np.testing.assert_array_equal(source.X[0].reshape(5, 4), first.T)


def test_idx_files_are_read_as_torchvision_reads_them(tmp_path, write_mnist):
    from torchvision.datasets import MNIST as Theirs

    write_mnist(tmp_path / "MNIST" / "raw")
    source = load_torchvision("mnist", tmp_path)
    for is_train, X, y in ((True, source.X, source.y), (False, source.X_test, source.y_test)):
        theirs = Theirs(tmp_path, train=is_train)
        np.testing.assert_array_equal(theirs.data.numpy().reshape(len(X), -1), X)
        np.testing.assert_array_equal(theirs.targets.numpy(), y)


@pytest.mark.parametrize("name", NAMES)
def test_a_download_is_made_once(name, tmp_path, monkeypatch, write_mnist):
    roots = []

    def fetch(root, train, download):
        roots.append(root)
        write_mnist(root / kind / "raw")

    kind = TORCHVISION[name][0]
    monkeypatch.setattr(f"torchvision.datasets.{kind}", fetch)
    for _ in range(2):
        assert load_torchvision(name, tmp_path / "new").X.shape == (30, 12)
    assert roots == [tmp_path / "new"]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("mnist", "MNIST/raw/{train,t10k}"),
        ("cifar10", "cifar-10-python.tar.gz"),
        ("svhn", "{train,test}_32x32.mat"),
    ],
)
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Error downloading\ntrain-images"),
        URLError("no route to host"),
        PermissionError(13, "Permission denied"),
    ],
)
def test_a_download_that_fails_says_which_files_to_put_where(
    name, files, error, tmp_path, monkeypatch, refused
):
    def fail(*args, **named):
        raise error

    monkeypatch.setattr(f"torchvision.datasets.{TORCHVISION[name][0]}", fail)
    message = refused(
        lambda: load_torchvision(name, tmp_path),
        f"--dataset {name}",
        "could not be downloaded",
        files,
        f"--data-dir '{tmp_path}'",
    )
    assert any(word in message for word in ("Error downloading", "no route", "denied"))


def test_without_torchvision_one_line_says_so(tmp_path, monkeypatch, refused):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    refused(lambda: load_torchvision("cifar10", tmp_path), "needs torchvision", "run ", "[nn]")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"train_labels": np.zeros(29, np.uint8)}, ["30 images", "has 29", "train-labels"]),
        ({"t10k_labels": np.zeros(21, np.uint8)}, ["20 images", "has 21", "t10k-labels"]),
        ({"train_labels": np.full(30, 10, np.uint8)}, ["0..9", "holds 10", "train-labels"]),
        ({"train_labels": np.zeros(30, np.int32)}, ["unsigned bytes", "00 00 0c 01"]),
        ({"train_images": np.zeros((30, 12), np.uint8)}, ["3 dimensions", "00 00 08 02"]),
        ({"train_labels": np.zeros((30, 1), np.uint8)}, ["1 dimensions", "00 00 08 02"]),
        ({"t10k_images": np.zeros((20, 3, 4), np.uint8)}, ["t10k-images", "(4, 3)", "(3, 4)"]),
    ],
)
def test_files_that_do_not_fit_together(arrays, words, tmp_path, write_mnist, refused):
    write_mnist(tmp_path, **arrays)
    refused(lambda: load_torchvision("mnist", tmp_path), "--data-dir", str(tmp_path), *words)


@pytest.mark.skipif(not MNIST.is_dir(), reason="the real MNIST files are not on this machine")
@pytest.mark.usefixtures("no_network")
def test_real_mnist():
    source = load_torchvision("mnist", MNIST)
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
