"""Folders of images as people have them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipelines.data import load_dataset
from pipelines.data.image_files import decode
from pipelines.data.image_folder import ImageReading, load_folder
from pipelines.data.image_paths import SUFFIXES
from pipelines.errors import InputError

RNG = np.random.default_rng(0)
COLOURED = RNG.integers(0, 256, (8, 8, 3), np.uint8)


def put(path: Path, image: Any = COLOURED, **more: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    image.save(path, **more)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of five coloured images each."""
    for i in range(10):
        put(tmp_path / "own" / "ab"[i % 2] / f"{i}.png", np.roll(COLOURED, i, axis=1))
    return tmp_path / "own"


def load(folder: Path, **reading: Any) -> Any:
    return load_folder(folder, folder.parent / "data", ImageReading(**reading))


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "a" / "pipe.png")
    with pytest.raises(InputError, match="a pipe, not a file"):
        load(folder)
    assert load(folder, unreadable="skip").X.shape == (10, 192)


def test_files_classes_and_pixels_are_those_of_torchvision(folder: Path) -> None:
    from torchvision.datasets import ImageFolder
    from torchvision.datasets.folder import IMG_EXTENSIONS

    assert sorted(SUFFIXES) == sorted(IMG_EXTENSIONS)
    put(folder / "a" / "deeper" / "x.jpg")
    (folder / "a" / "notes.txt").write_text("no image, and not taken for one")
    (folder / ".hidden").mkdir()
    source = load(folder)
    (folder / ".hidden").rmdir()
    theirs = ImageFolder(folder)
    assert source.X.shape == (11, 192)
    assert source.X.dtype == np.uint8
    assert source.image_shape == (3, 8, 8)
    for row, label, (image, code) in zip(source.X, source.y, theirs, strict=True):
        np.testing.assert_array_equal(row.reshape(3, 8, 8), np.asarray(image).transpose(2, 0, 1))
        assert label == theirs.classes[code]
    assert not source.ink
    assert source.X_test is None


@pytest.mark.parametrize("test", ["test", "val"])
def test_a_split_that_is_there_is_kept(folder: Path, test: str) -> None:
    for i in range(4):
        put(folder / test / "ab"[i % 2] / f"{i}.png")
    (folder / "train").mkdir()
    for name in "ab":
        (folder / name).rename(folder / "train" / name)
    data = load_dataset(str(folder), data_dir=folder.parent / "data")
    assert (len(data.y_train), len(data.y_test)) == (10, 4)
    assert data.classes.tolist() == ["a", "b"]
    assert data.y_test.tolist() == [0, 0, 1, 1]
    if test == "test":
        (folder / "val").mkdir()
        assert (
            load(folder).lines[1].startswith("note       'val' is left out: the test set is 'test'")
        )


def test_a_second_run_decodes_nothing_and_a_changed_file_is_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(folder)
    with monkeypatch.context() as without:
        without.setattr("pipelines.data.image_folder.decode", None)
        again = load(folder)
        np.testing.assert_array_equal(again.X, first.X)
        assert again.y.tolist() == first.y.tolist()
        assert "decoded in" in first.lines[0]
        assert "decoded in" not in again.lines[0]
    put(folder / "a" / "0.png", 255 - COLOURED)
    assert (load(folder).X[0] != first.X[0]).any()
    assert load(folder, gray=True).image_shape == (8, 8)
    kept = list((folder.parent / "data" / "images").iterdir())
    assert len(kept) == 3


def test_many_files_are_decoded_by_processes_in_their_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load(folder).X
    monkeypatch.setattr("pipelines.data.image_folder.FEW", 2)
    monkeypatch.setattr("pipelines.data.image_folder.BATCH", 3)
    monkeypatch.setattr("pipelines.data.image_folder.VERSION", 0)
    np.testing.assert_array_equal(load(folder).X, expected)


def test_resizing_and_cropping_are_those_of_torchvision(tmp_path: Path) -> None:
    from torchvision.transforms import v2

    image = Image.fromarray(RNG.integers(0, 256, (30, 50, 3), np.uint8))
    path = put(tmp_path / "x.png", image)
    for size in (12, 30, 40):
        expected = np.asarray(v2.Compose([v2.Resize(size), v2.CenterCrop(size)])(image))
        np.testing.assert_array_equal(decode(path, size), expected.transpose(2, 0, 1))


def test_several_sizes_need_one_size(folder: Path, refused: Callable[..., str]) -> None:
    put(folder / "b" / "large.png", np.zeros((9, 12, 3), np.uint8))
    refused(lambda: load(folder), "--image-size must be given", "8 x 8 and 12 x 9", "b/large.png")
    assert load(folder, size=6).X.shape == (11, 108)


def test_a_test_set_of_another_size_is_refused(folder: Path, refused: Callable[..., str]) -> None:
    for name in "ab":
        put(folder / "train" / name / "1.png")
        put(folder / "test" / name / "1.png", COLOURED[:4])
    refused(lambda: load(folder), "--image-size", "8 x 8", "8 x 4")


def test_files_that_are_no_images_are_named_and_refused_or_skipped(
    folder: Path, refused: Callable[..., str]
) -> None:
    (folder / "a" / "text.png").write_text("hello")
    whole = (folder / "a" / "0.png").read_bytes()
    (folder / "a" / "cut.png").write_bytes(whole[: len(whole) // 2])
    words = ("2 files", "a/text.png", "a/cut.png", "--unreadable skip")
    refused(lambda: load(folder), "--dataset", *words)
    source = load(folder, unreadable="skip")
    assert len(source.X) == len(source.y) == 10
    assert source.lines[1].startswith("warning    2 files cannot be read and are left out")
    assert "a/cut.png" in source.lines[1]


def test_no_file_can_be_read(tmp_path: Path, refused: Callable[..., str]) -> None:
    for name in "ab":
        (tmp_path / "own" / name).mkdir(parents=True)
        (tmp_path / "own" / name / "x.png").write_text("hello")
    refused(lambda: load(tmp_path / "own"), "none of 2 files")


def test_an_empty_class_is_refused(folder: Path, refused: Callable[..., str]) -> None:
    (folder / "c").mkdir()
    refused(lambda: load(folder), "--dataset must have an image in every class", "'c'")


def test_one_image_and_one_image_of_a_class(folder: Path, refused: Callable[..., str]) -> None:
    put(folder / "c" / "only.png")
    loaded = lambda path: load_dataset(str(path), data_dir=folder.parent / "data")  # noqa: E731
    refused(lambda: loaded(folder), "--rare drop", "'c' (1)")
    put(folder.parent / "single" / "a" / "only.png")
    refused(lambda: loaded(folder.parent / "single"), "at least two classes")


def test_a_folder_without_classes(tmp_path: Path, refused: Callable[..., str]) -> None:
    put(tmp_path / "own" / "x.png")
    refused(lambda: load(tmp_path / "own"), "--dataset", "subfolder of images for each class")


def test_what_does_not_fit_in_half_of_the_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("", (), {"total": 2000}))
    refused(lambda: load(folder), "half of the memory", "use at most --image-size 5")
    assert load(folder, size=5).X.shape == (10, 75)


def test_a_damaged_cache_is_named(folder: Path, refused: Callable[..., str]) -> None:
    load(folder)
    (kept,) = (folder.parent / "data" / "images").iterdir()
    (kept / "X.npy").write_bytes(b"")
    refused(lambda: load(folder), "--data-dir", str(kept), "delete it")


@pytest.mark.parametrize("options", [{"size": 8}, {"gray": True}, {"unreadable": "skip"}])
def test_options_of_folders_are_for_folders(
    options: dict[str, Any], refused: Callable[..., str]
) -> None:
    refused(lambda: load_dataset("digits", images=ImageReading(**options)), "a folder of images")


def test_without_torchvision_one_line_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    refused(lambda: load(folder), "needs torchvision", "run ", "[nn]")


# What images come as. Each is of 8 x 8 pixels, dark at the left and light at the right.
RAMP = np.tile(np.linspace(0, 255, 8).astype(np.uint8), (8, 1))


def ramps(tmp_path: Path) -> dict[str, Path]:
    gray = Image.fromarray(RAMP)
    turned = gray.rotate(90)
    exif = turned.getexif()
    exif[0x0112] = 6  # shown turned to the right
    alpha = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    alpha.putalpha(Image.fromarray(255 - RAMP))
    clear = gray.convert("P")
    made = {
        "exif.png": (turned, {"exif": exif}),
        "palette.png": (gray.convert("RGB").quantize(8), {}),
        "palette with transparency.png": (clear, {"transparency": 255}),
        "16 bit.png": (Image.fromarray(RAMP.astype(np.uint16) * 257), {}),
        "32 bit.tif": (Image.fromarray(RAMP.astype(np.int32) * 257), {}),
        "numbers.tif": (Image.fromarray(RAMP.astype(np.float32) / 255), {}),
        "cmyk.tif": (gray.convert("RGB").convert("CMYK"), {}),
        "cmyk.jpg": (gray.convert("RGB").convert("CMYK"), {"quality": 100}),
        "alpha.png": (alpha, {}),
        "gray and alpha.png": (alpha.convert("LA"), {}),
        "gray.png": (gray, {}),
    }
    return {name: put(tmp_path / name, image, **more) for name, (image, more) in made.items()}


@pytest.mark.parametrize("gray", [False, True])
def test_every_kind_of_image_becomes_eight_bits_upright_on_white(
    tmp_path: Path, gray: bool
) -> None:
    for name, path in ramps(tmp_path).items():
        pixels = decode(path, gray=gray)
        assert pixels.dtype == np.uint8, name
        assert pixels.shape == ((8, 8) if gray else (3, 8, 8)), name
        away = np.abs(pixels.astype(int) - RAMP).max()
        assert away <= (6 if "jpg" in name or "palette.png" in name else 1), (name, away)


def test_one_bit_is_black_and_white(tmp_path: Path) -> None:
    path = put(tmp_path / "x.png", Image.fromarray(RAMP > 127))
    assert np.unique(decode(path)).tolist() == [0, 255]
