"""Folders of images as people have them."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from pipelines.data.image_files import decode
from pipelines.data.image_folder import ImageReading, load_folder
from pipelines.data.image_paths import SUFFIXES
from pipelines.data.load import load_dataset
from pipelines.errors import InputError

RNG = np.random.default_rng(0)
COLOURED = RNG.integers(0, 256, (8, 8, 3), np.uint8)


def put(path, image=COLOURED, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    image.save(path, **options)
    return path


@pytest.fixture
def folder(tmp_path):
    """Two classes of five coloured images each."""
    for i in range(10):
        put(tmp_path / "own" / "ab"[i % 2] / f"{i}.png", np.roll(COLOURED, i, axis=1))
    return tmp_path / "own"


def load(folder, **reading):
    return load_folder(folder, folder.parent / "data", ImageReading(**reading))


def test_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder / "a" / "pipe.png")
    with pytest.raises(InputError, match="a pipe, not a file"):
        load(folder)
    assert load(folder, unreadable="skip").X.shape == (10, 192)


def test_files_classes_and_pixels_are_those_of_torchvision(folder):
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


def put_split(root, **classes_of):
    """Put an image of each class, a letter, into each split; ``__`` in its name stands for /."""
    for i, (split, classes) in enumerate(classes_of.items()):
        for name in classes:
            put(root / split.replace("__", "/") / name / "1.png", np.roll(COLOURED, i, axis=0))
    return root


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train", "test"),
        ("train", "val"),
        ("train", "validation"),
        ("train", "valid"),
        ("training", "testing"),
        ("Train", "Test"),
        ("training_set", "test_set"),
        ("Training Set", "Validation-Set"),
        ("trn", "dev"),
        ("TRAIN", "tst"),
        ("train_images", "eval"),
    ],
)
def test_a_split_is_known_by_its_usual_names(tmp_path, train, test):
    folder = put_split(tmp_path / "own", **{train: "ab", test: "ab"})
    put(folder / train / "b" / "2.png", 255 - COLOURED)
    data = load_dataset(str(folder), data_dir=tmp_path / "data")
    assert data.classes.tolist() == ["a", "b"]
    assert data.y_train.tolist() == [0, 1, 1]
    assert data.y_test.tolist() == [0, 1]
    np.testing.assert_array_equal(data.X_test[0], load(folder / test).X[0])
    assert data.notes == (f"the training set is '{train}', and the test set '{test}'",)


def test_what_is_beside_a_split_is_said(tmp_path):
    folder = put_split(tmp_path / "own", train="ab", test="ab", validation="ab", more="c")
    (folder / "labels.csv").write_text("a,b")
    put(folder / "cover.png")
    put(folder / "test" / "cover.png")
    lines = load(folder).lines
    assert lines[1] == (
        "note       the training set is 'train', and the test set 'test'; 'more', 'validation' "
        "are left out"
    )
    assert "3 files are left out: 2 outside of the classes, 1 .csv" in lines[2]


def test_a_training_set_alone(tmp_path):
    source = load(put_split(tmp_path / "own", training="ab"))
    assert source.y.tolist() == ["a", "b"]
    assert source.X_test is None
    assert source.lines[1].endswith(
        "the training set is 'training', and the test set drawn from it"
    )


@pytest.mark.parametrize(
    ("splits", "flat", "words"),
    [
        (
            {"train": "ab", "Train": "ab", "test": "ab"},
            "",
            ["one folder for each split", "'Train'"],
        ),
        ({"train": "ab", "val": "ab", "valid": "ab"}, "", ["one folder for each", "'valid'"]),
        ({"test": "ab", "val": "ab"}, "", ["must have a training split", "'test', 'val'"]),
        ({"val": "ab"}, "cat dog", ["must have a training split", "'val'"]),
        ({"train": "ab"}, "test", ["a test or validation split", "has 'test'"]),
        ({"train": "ab", "plane": "ab"}, "", ["a test or validation split", "has 'plane'"]),
        ({}, "train test", ["must have a training split with folders", "'test', 'train'"]),
        ({}, "dev tst", ["must have a training split with folders", "'dev', 'tst'"]),
        ({"train": "ab", "test": "ac"}, "", ["same classes", "has 'c'", "lacks 'b'"]),
    ],
)
def test_an_unclear_split_is_refused(
    splits,
    flat,
    words,
    tmp_path,
    refused,
):
    folder = put_split(tmp_path / "own", **splits)
    for name in flat.split():
        put(folder / name / "1.png")
    refused(lambda: load(folder), "--dataset must have", *words)


@pytest.mark.parametrize("names", ["train plane", "test plane", "valid invalid other"])
def test_classes_may_be_called_as_splits_are(tmp_path, names):
    for name in names.split():
        put(tmp_path / "own" / name / "1.png")
    assert set(load(tmp_path / "own").y) == {*names.split()}


def test_classes_that_look_like_splits_are_warned_of(tmp_path):
    source = load(put_split(tmp_path / "own", here="ab", there="ab"))
    assert source.y.tolist() == ["here", "here", "there", "there"]
    assert source.lines[1].startswith("warning    the classes are 'here', 'there', each with")


def test_a_class_that_the_test_set_lacks_is_warned_of(tmp_path):
    folder = put_split(tmp_path / "own", train="abc", test="ab")
    assert f"warning    the test set '{folder / 'test'}' has no 'c'" in load(folder).lines


@pytest.mark.parametrize(
    "path",
    [
        ".ipynb_checkpoints/1-checkpoint.png",
        "@eaDir/1.png/SYNOPHOTO_THUMB_M.jpg",
        "deeper/__MACOSX/1.png",
        ".trash/deeper/1.png",
        "._1.png",
        "Thumbs.db",
        "desktop.ini",
    ],
)
def test_hidden_things_are_no_images(folder, path):
    put(folder / "a" / path, format="png")
    (folder / "__MACOSX").mkdir()
    source = load(folder)
    assert source.X.shape == (10, 192)
    assert len(source.lines) == 1


@pytest.mark.parametrize(
    ("subfolder", "files"),
    [("results/run", "run.json journal.jsonl"), ("data/images/key", "about.json X.npy")],
)
def test_what_this_program_wrote_is_no_class(folder, subfolder, files):
    put(folder / subfolder / "figure.png")
    for name in files.split():
        (folder / subfolder / name).touch()
    source = load(folder)
    assert source.y.tolist() == ["a"] * 5 + ["b"] * 5
    assert source.lines[1:] == ("note       1 folder of this program's runs left out",)


def to_itself(a):
    (a / "loop").symlink_to(".")


def to_the_classes(a):
    (a / "up").symlink_to("..")


def to_another_file(a):
    (a / "again.png").symlink_to("0.png")


def by_a_hard_link(a):
    os.link(a / "0.png", a / "again.png")


def to_a_folder_in_it(a):
    (a / "deeper").mkdir()
    (a / "0.png").rename(a / "deeper" / "0.png")
    (a / "again").symlink_to("deeper")


def in_a_circle(a):
    for name, other in (("x", "y"), ("y", "x")):
        (a / name).mkdir()
        (a / name / "on").symlink_to(f"../{other}")


@pytest.mark.parametrize(
    "link",
    [to_itself, to_the_classes, to_another_file, by_a_hard_link, to_a_folder_in_it, in_a_circle],
)
def test_an_image_counts_once_whatever_links_lead_to_it(folder, link):
    link(folder / "a")
    (folder / "self").symlink_to(".")
    source = load(folder)
    assert source.y.tolist() == ["a"] * 5 + ["b"] * 5
    n = 2 if link is in_a_circle else 1
    assert f"{n} link{'s' * (n > 1)} to what is in the same folder already" in source.lines[1]


def test_a_link_leads_to_images_elsewhere(folder, tmp_path):
    put(tmp_path / "elsewhere" / "c" / "1.png")
    (folder / "c").symlink_to(tmp_path / "elsewhere" / "c")
    (folder / "b" / "more").symlink_to(tmp_path / "elsewhere")
    source = load(folder)
    assert source.y.tolist() == ["a"] * 5 + ["b"] * 6 + ["c"]
    assert source.lines[1:] == (
        "warning    1 image is in several classes by links, the first in 'b', 'c'",
    )


def test_an_image_in_training_and_test_is_warned_of(tmp_path):
    folder = put_split(tmp_path / "own", train="ab", test="ab")
    (folder / "test" / "a" / "2.png").symlink_to(folder / "train" / "a" / "1.png")
    assert "1 image of the test set" in load(folder).lines[1]


def test_a_link_to_nothing_is_named(folder, refused):
    (folder / "a" / "gone").symlink_to("nowhere")
    assert "1 file is left out: 1 behind dangling links" in load(folder).lines[1]
    (folder / "a" / "gone.png").symlink_to("nowhere.png")
    refused(lambda: load(folder), "'a/gone.png' (a link to nothing)")


def test_a_subfolder_that_cannot_be_read_is_named(folder, monkeypatch, refused):
    (folder / "a" / "closed").mkdir()
    scandir = os.scandir

    def closed(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("os.scandir", closed)
    refused(lambda: load(folder), "--dataset", "a/closed': Permission denied")


def test_files_that_are_left_out_are_counted_by_kind(folder):
    for name in ("1.gif", "2.GIF", "3.gif", "4.jfif", "5.jfif", "README"):
        (folder / "b" / name).write_bytes(b"x")
    kinds = "3 .gif, 2 .jfif, 1 without suffix; read are .jpg, .jpeg, .png, "
    assert f"note       6 files are left out: {kinds}" in load(folder).lines[1]


def test_names_that_are_no_utf8_are_read_and_written_out(folder):
    os.rename(folder / "b", os.fsencode(folder) + b"/caf\xe9")
    (folder / os.fsdecode(b"caf\xe9") / "1.png").rename(
        folder / os.fsdecode(b"caf\xe9") / os.fsdecode(b"\xe9.png")
    )
    for _ in range(2):  # decoded, and from the cache
        source = load(folder)
        assert source.y.tolist() == ["a"] * 5 + [r"caf\xe9"] * 5
    (folder / os.fsdecode(b"caf\xe9") / os.fsdecode(b"\xff.png")).write_text("hello")
    assert r"'caf\xe9/\xff.png' (not a readable image)" in load(folder, unreadable="skip").lines[1]
    (folder / r"caf\xe9").mkdir()
    put(folder / r"caf\xe9" / "1.png")
    with pytest.raises(InputError, match="classes that can be told apart as text"):
        load(folder)


# Values of images of a folder, of which the first is in training -> their gray values.
@pytest.mark.parametrize(
    ("values", "gray", "note"),
    [
        ([np.uint16(4095), np.uint16(819)], [255, 51], "2 images of 16 bits scaled by 4095, the l"),
        ([np.uint16(65535), np.uint16(257)], [255, 1], "16 bits scaled by 65535, their full scale"),
        ([np.uint16(40000), np.uint16(257)], [156, 1], "16 bits scaled by 65535, their full scale"),
        ([np.uint16(200), np.uint16(100)], [200, 100], "16 bits scaled by 255, their full scale"),
        ([np.uint16(0), np.uint16(0)], [0, 0], "2 images of 16 bits scaled by 1"),
        ([np.int32(300), np.int32(200)], [255, 170], "32 bits scaled by 300, the largest of them"),
        ([np.float32(3), np.float32(1)], [255, 85], "floats scaled by 3, the largest of them"),
        ([np.float32(0.8), np.float32(0.2)], [204, 51], "floats scaled by 1, their full scale"),
        ([np.float32(1e-40), np.float32(0)], [255, 0], "floats scaled by 9.99995e-41, the largest"),
        ([np.uint16(4095), np.uint8(7)], [255, 7], "1 image of 16 bits scaled by 4095, the large"),
    ],
)
def test_images_of_more_than_8_bits_have_one_scale(tmp_path, values, gray, note):
    for name, value in zip("ab", values, strict=True):
        put(tmp_path / "own" / name / "1.tif", np.full((8, 8), value))
    for _ in range(2):
        source = load(tmp_path / "own", gray=True)
        assert source.X[:, 0].tolist() == gray
        assert note in source.lines[1]


def test_the_scale_is_that_of_the_training_set(tmp_path):
    for i, split in enumerate(("train", "test")):
        for j, name in enumerate("ab"):
            value = (2000, 1000, 4000, 500)[2 * i + j]
            put(tmp_path / "own" / split / name / "1.png", np.full((8, 8), value, np.uint16))
    source = load(tmp_path / "own", gray=True)
    assert source.X[:, 0].tolist() == [255, 128]
    assert source.X_test[:, 0].tolist() == [255, 64]
    assert "1 image of the test set" in source.lines[1]
    assert "4 images of 16 bits scaled by 2000, the largest of them in training" in source.lines[3]
    assert source.folder.white == {"16 bits": 2000}


@pytest.mark.parametrize(
    ("value", "words"), [(-5, "below zero, from -5"), (np.nan, "not finite"), (np.inf, "not fin")]
)
def test_values_without_a_gray_are_refused(folder, value, words, refused):
    put(folder / "a" / "x.tif", np.full((8, 8), value, np.float32))
    refused(lambda: load(folder), "a/x.tif", words)


def test_a_second_run_decodes_nothing_and_a_changed_file_is_seen(folder, monkeypatch):
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


def test_many_files_are_decoded_by_processes_in_their_order(folder, monkeypatch):
    expected = load(folder).X
    monkeypatch.setattr("pipelines.data.image_folder.FEW", 2)
    monkeypatch.setattr("pipelines.data.image_folder.BATCH", 3)
    monkeypatch.setattr("pipelines.data.image_folder.VERSION", 0)
    np.testing.assert_array_equal(load(folder).X, expected)


def test_resizing_and_cropping_are_those_of_torchvision(tmp_path):
    v2 = pytest.importorskip("torchvision.transforms.v2", reason="it is what is compared with")
    shapes = [(30, 50), (50, 30), (31, 31), (64, 47), (33, 200), (1, 9)]
    for n, (height, width) in enumerate(shapes):
        image = Image.fromarray(RNG.integers(0, 256, (height, width, 3), np.uint8))
        path = put(tmp_path / f"{n}.png", image)
        for size in (1, 12, 13, 30, 31, 40):
            transform = v2.Compose([v2.Resize(size), v2.CenterCrop(size)])
            expected = np.asarray(transform(image))
            np.testing.assert_array_equal(decode(path, size), expected.transpose(2, 0, 1))
            expected = np.asarray(transform(image.convert("L")))
            np.testing.assert_array_equal(decode(path, size, gray=True), expected)


def test_several_sizes_need_one_size(folder, refused):
    put(folder / "b" / "large.png", np.zeros((9, 12, 3), np.uint8))
    refused(lambda: load(folder), "--image-size must be given", "8 x 8 and 12 x 9", "b/large.png")
    assert load(folder, size=6).X.shape == (11, 108)


def test_a_test_set_of_another_size_is_refused(folder, refused):
    for name in "ab":
        put(folder / "train" / name / "1.png")
        put(folder / "test" / name / "1.png", COLOURED[:4])
    refused(lambda: load(folder), "--image-size", "8 x 8", "8 x 4")


def test_files_that_are_no_images_are_named_and_refused_or_skipped(folder, refused):
    (folder / "a" / "text.png").write_text("hello")
    whole = (folder / "a" / "0.png").read_bytes()
    (folder / "a" / "cut.png").write_bytes(whole[: len(whole) // 2])
    words = ("2 files", "a/text.png", "a/cut.png", "--unreadable skip")
    refused(lambda: load(folder), "--dataset", *words)
    source = load(folder, unreadable="skip")
    assert len(source.X) == len(source.y) == 10
    assert source.lines[1].startswith("warning    2 files cannot be read and are left out")
    assert "a/cut.png" in source.lines[1]


def test_no_file_can_be_read(tmp_path, refused):
    for name in "ab":
        (tmp_path / "own" / name).mkdir(parents=True)
        (tmp_path / "own" / name / "x.png").write_text("hello")
    refused(lambda: load(tmp_path / "own"), "none of 2 files")


def test_an_empty_class_is_refused(folder, refused):
    (folder / "c").mkdir()
    refused(lambda: load(folder), "--dataset must have an image in every class", "'c'")


def test_one_image_and_one_image_of_a_class(folder, refused):
    put(folder / "c" / "only.png")
    loaded = lambda path: load_dataset(str(path), data_dir=folder.parent / "data")  # noqa: E731
    refused(lambda: loaded(folder), "--rare drop", "'c' (1)")
    put(folder.parent / "single" / "a" / "only.png")
    refused(lambda: loaded(folder.parent / "single"), "at least two classes")


def test_a_folder_without_classes(tmp_path, refused):
    put(tmp_path / "own" / "x.png")
    refused(lambda: load(tmp_path / "own"), "--dataset", "subfolder of images for each class")


def test_what_does_not_fit_in_half_of_the_memory(folder, monkeypatch, refused):
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("", (), {"total": 2000}))
    refused(lambda: load(folder), "half of the memory", "use at most --image-size 5")
    assert load(folder, size=5).X.shape == (10, 75)


def test_a_damaged_cache_is_named(folder, refused):
    load(folder)
    (kept,) = (folder.parent / "data" / "images").iterdir()
    (kept / "X.npy").write_bytes(b"")
    refused(lambda: load(folder), "--data-dir", str(kept), "delete it")


@pytest.mark.parametrize("options", [{"size": 8}, {"gray": True}, {"unreadable": "skip"}])
def test_options_of_folders_are_for_folders(options, refused):
    refused(lambda: load_dataset("digits", images=ImageReading(**options)), "a folder of images")


def test_a_folder_is_read_without_torch(folder):
    """Where neither can be imported, as in an installation without the extra ``nn``."""
    put(folder / "b" / "large.png", np.zeros((9, 12, 3), np.uint8))
    script = (
        "import sys; sys.modules.update(torch=None, torchvision=None)\n"
        "from pathlib import Path\n"
        "from pipelines.data.image_folder import ImageReading, load_folder\n"
        "source = load_folder(Path(sys.argv[1]), sys.argv[2], ImageReading(size=6))\n"
        "print(source.X.shape)"
    )
    command = [sys.executable, "-c", script, str(folder), str(folder.parent / "data")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == "(11, 108)\n"


# What images come as. Each is of 8 x 8 pixels, dark at the left and light at the right.
RAMP = np.tile(np.linspace(0, 255, 8).astype(np.uint8), (8, 1))


def ramps(tmp_path):
    gray = Image.fromarray(RAMP)
    turned = gray.rotate(90)
    exif = turned.getexif()
    exif[0x0112] = 6  # shown turned to the right
    alpha = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    alpha.putalpha(Image.fromarray(255 - RAMP))
    clear = gray.convert("P")
    images = {
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
    return {
        name: put(tmp_path / name, image, **options) for name, (image, options) in images.items()
    }


@pytest.mark.parametrize("gray", [False, True])
def test_every_kind_of_image_becomes_eight_bits_upright_on_white(tmp_path, gray):
    for name, path in ramps(tmp_path).items():
        pixels = decode(path, gray=gray)
        assert pixels.dtype == np.uint8, name
        assert pixels.shape == ((8, 8) if gray else (3, 8, 8)), name
        away = np.abs(pixels.astype(int) - RAMP).max()
        assert away <= (6 if "jpg" in name or "palette.png" in name else 1), (name, away)


def test_one_bit_is_black_and_white(tmp_path):
    path = put(tmp_path / "x.png", Image.fromarray(RAMP > 127))
    assert np.unique(decode(path)).tolist() == [0, 255]
