"""load_dataset: from a name and options to a Dataset."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from pipelines.data.load import load_dataset


@pytest.fixture
def table(tmp_path):
    """A .csv of 40 rows: three features that name their row, labels a (20), b (15), c (5)."""
    path = tmp_path / "points.csv"
    rows = np.arange(40)
    frame = pd.DataFrame({"place": rows[::-1], "half": rows / 2, "square": rows**2})
    frame["label"] = np.random.default_rng(1).permutation(list("a" * 20 + "b" * 15 + "c" * 5))
    frame.to_csv(path, index=False)
    return str(path)


def check(data):
    """What every data set promises."""
    for X, y in ((data.X_train, data.y_train), (data.X_test, data.y_test)):
        assert X.ndim == 2
        assert len(X) == len(y) > 0
        assert X.flags.c_contiguous
        assert X.dtype == (np.uint8 if data.image_shape else np.float64)
        assert y.dtype == np.int32
        assert y.min() >= 0
        assert y.max() < data.n_classes
    np.testing.assert_array_equal(np.unique(data.y_train), np.arange(data.n_classes))
    np.testing.assert_array_equal(data.classes, np.unique(data.classes))
    if data.image_shape:
        assert np.prod(data.image_shape) == data.X_train.shape[1]
        assert data.feature_names is None
    else:
        assert len(data.feature_names) == data.X_train.shape[1]


def test_digits_is_split_as_scikit_learn_does():
    data = load_dataset("digits", seed=4)
    check(data)
    X, y = load_digits(return_X_y=True)
    theirs = train_test_split(X, y, test_size=0.2, stratify=y, random_state=4)
    for ours, expected in zip(
        (data.X_train, data.X_test, data.y_train, data.y_test), theirs, strict=True
    ):
        np.testing.assert_array_equal(ours, expected)
    assert data.name == "digits"
    assert data.image_shape == (8, 8)


def test_mnist_keeps_its_test_set(tmp_path, write_mnist):
    write_mnist(tmp_path)
    data = load_dataset("mnist", data_dir=tmp_path, limit=20, test_size=0.5)
    check(data)
    assert data.X_train.shape == (20, 12)
    assert data.X_test.shape == (20, 12)
    np.testing.assert_array_equal(np.bincount(data.y_train), 2)
    np.testing.assert_array_equal(data.y_test, np.arange(20) % 10)


def test_table(table):
    data = load_dataset(table, target="label")
    check(data)
    assert data.name == "points.csv"
    assert data.classes.tolist() == ["a", "b", "c"]
    assert data.feature_names == ["place", "half", "square"]
    assert data.scaling.kind == "standardise"
    assert data.image_shape is None
    assert np.bincount(data.y_test).tolist() == [4, 3, 1]
    labels = pd.read_csv(table)["label"].to_numpy()
    for X, y in ((data.X_train, data.y_train), (data.X_test, data.y_test)):
        np.testing.assert_array_equal(data.classes[y], labels[39 - X[:, 0].astype(int)])


def test_limit_takes_training_rows_in_their_order(table):
    whole, part = (load_dataset(table, target="label", limit=limit) for limit in (None, 16))
    check(part)
    assert np.bincount(part.y_train).tolist() == [8, 6, 2]
    np.testing.assert_array_equal(part.X_test, whole.X_test)
    places = [whole.X_train[:, 0].tolist().index(row) for row in part.X_train[:, 0]]
    assert places == sorted(places)


def test_seed_decides(table):
    prints = [load_dataset(table, target="label", seed=s).fingerprint for s in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]
    limited = [load_dataset("digits", limit=99, seed=s).fingerprint for s in (0, 0, 1)]
    assert limited[0] == limited[1] != limited[2]


def test_labels_need_not_start_at_zero(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.arange(20.0).reshape(10, 2), y=[7, -3] * 5)
    data = load_dataset(str(tmp_path / "t.npz"))
    check(data)
    assert data.classes.tolist() == [-3, 7]
    np.testing.assert_array_equal(
        data.classes[data.y_train], np.where(data.X_train[:, 0] % 4 == 0, 7, -3)
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "mnits",
            [
                "digits, mnist, fashion-mnist, kmnist",
                "a folder",
                ".csv",
                ".parquet",
                ".npz",
                "did you mean 'mnist'?",
            ],
        ),
        ("MNIST", ["did you mean 'mnist'?"]),
        ("fashion_mnist", ["did you mean 'fashion-mnist'?"]),
        ("qqq", ["'qqq'", "path"]),
        ("", ["''"]),
        ("folder/table.xyz", ["folder/table.xyz", ".csv"]),
        ("absent.csv", ["absent.csv", "existing"]),
    ],
)
def test_unknown_name(name, words, refused):
    refused(lambda: load_dataset(name), "--dataset", *words)


def test_target_with_a_data_set_that_has_its_own(refused):
    refused(lambda: load_dataset("digits", target="y"), "--target", "digits", "leave it out")


def test_one_class_only(tmp_path, write_mnist, refused):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,x\n")
    words = ["--dataset", "two classes", "'x'"]
    refused(lambda: load_dataset(str(tmp_path / "t.csv"), target="b"), *words)
    write_mnist(tmp_path, train_labels=np.full(30, 3, np.uint8))
    refused(lambda: load_dataset("mnist", data_dir=tmp_path), "two classes", "'3'")


def test_test_label_that_training_lacks(tmp_path, write_mnist, refused):
    write_mnist(tmp_path, train_labels=np.arange(30, dtype=np.uint8) % 9)
    refused(lambda: load_dataset("mnist", data_dir=tmp_path), "--data-dir", "'9'", "training")


def test_importing_costs_only_numpy():
    heavy = "{'pandas', 'sklearn', 'scipy', 'pyarrow', 'torch', 'torchvision', 'cudf', 'dask'}"
    code = f"import sys, pipelines.data; print({heavy} & set(sys.modules) or '')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_features_of_a_file_take_the_place_of_pixels(tmp_path, write_mnist, refused):
    write_mnist(tmp_path)
    features = np.random.default_rng(0).normal(size=(50, 7))
    np.save(tmp_path / "f.npy", features)
    data = load_dataset("mnist", data_dir=tmp_path, features=tmp_path / "f.npy", limit=20)
    whole = load_dataset("mnist", data_dir=tmp_path)
    np.testing.assert_array_equal(data.X_test, features[30:])
    rows = [np.flatnonzero((whole.X_train == row).all(axis=1))[0] for row in data.pictures.X_train]
    np.testing.assert_array_equal(data.X_train, features[rows])
    assert data.image_shape is None
    assert data.describe()["image_shape"] == [4, 3]
    for array, word in (
        (features[:49], "50 images"),
        (features[0], "shape (7,)"),
        (np.full((50, 2), np.nan), "finite"),
        (np.full((50, 2), "a"), "numbers"),
    ):
        np.save(tmp_path / "f.npy", array)
        refused(
            lambda: load_dataset("mnist", data_dir=tmp_path, features=tmp_path / "f.npy"),
            "--features",
            word,
        )
    refused(
        lambda: load_dataset("mnist", data_dir=tmp_path, features=tmp_path / "none.npy"), "none.npy"
    )
