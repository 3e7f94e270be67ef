from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import distance_transform_edt
from sklearn.datasets import load_digits

from pipelines.data.image_files import ImageFormat, decode, ink_depth, read_image
from pipelines.errors import InputError

MNIST = ImageFormat(28, 28, 255.0, 20)


def save(tmp_path, pixels, name="image.png"):
    Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / name)
    return tmp_path / name


def bar(height=200, width=300):
    """A dark upright bar on light paper, far from the middle."""
    image = np.full((height, width), 240)
    image[30:130, 40:60] = 15
    return image


def form_of(X, shape, ink=True):
    data = SimpleNamespace(X_train=X, image_shape=shape, ink=ink, folder=None)
    return ImageFormat.of(data)


def test_the_form_is_measured_on_the_images():
    X = np.zeros((3, 6, 5))
    X[0, 1:5, 2] = 16  # four pixels high
    X[1, 2, 0:4] = 9  # four wide
    X[2, 0, 0] = 16
    form = form_of(X.reshape(3, 30), (6, 5))
    assert form is not None
    assert replace(form, strokes=None) == ImageFormat(6, 5, 16.0, 4)
    form = form_of(load_digits().data, (8, 8))
    assert form is not None
    assert form.strokes is not None
    assert 1 < form.strokes[0] < 1.7 < form.strokes[1] < 3
    assert replace(form, strokes=None) == ImageFormat(8, 8, 16.0, 8)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999, 1.0])
def test_the_depth_of_ink_is_the_exact_distance_from_its_edge(share):
    for seed, shape in enumerate([(1, 1), (2, 30), (30, 2), (40, 25)]):
        is_ink = np.pad(np.random.default_rng(seed).random(shape) < share, 1)
        np.testing.assert_array_equal(ink_depth(is_ink), distance_transform_edt(is_ink))


def test_photographs_have_no_ink():
    assert form_of(np.ones((2, 90)), (3, 6, 5), ink=False) == ImageFormat(6, 5, 255.0, None, 3)


def test_images_without_ink_have_a_form():
    form = form_of(np.zeros((2, 30)), (6, 5))
    assert form is not None
    assert form.ink_side == 6


def test_a_photograph_is_resized_and_cropped_as_those_of_a_data_set(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    row = read_image(save(tmp_path, pixels), ImageFormat(16, 16, 255.0, None, 3))
    np.testing.assert_array_equal(row, decode(tmp_path / "image.png", 16).ravel())
    assert row.dtype == np.float32
    with pytest.raises(InputError, match="60 x 40 pixels, and the run's images 10 x 8"):
        read_image(tmp_path / "image.png", ImageFormat(8, 10, 255.0, None, 3))


@pytest.mark.parametrize(("kind", "channels"), [(2, 3), (6, 4), (4, 2)])
def test_of_16_bits_a_channel_the_upper_8_are_read(tmp_path, kind, channels):
    rows = np.full((4, 5, channels), 0x40FF, ">u2")
    rows[..., {2: 1, 3: 3, 4: 3}[channels] :] = 0xFFFF  # opaque
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", 5, 4, 16, kind, 0, 0, 0),
        b"IDAT": zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows)),
        b"IEND": b"",
    }
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts.items()
    )
    (tmp_path / "x.png").write_bytes(png)
    calls = []

    def white(depth, largest):
        calls.append((depth, largest))
        return largest

    assert (decode(tmp_path / "x.png", white=white) == 0x40).all()
    assert calls == [("16 bits a channel", 65535)]


@pytest.mark.parametrize(
    ("values", "white", "gray"),
    [
        (np.full((8, 8), 1000, np.uint16), {"16 bits": 4095.0}, 62),
        (np.full((8, 8), 40_000, np.uint16), {}, 156),  # beyond doubt of 65,535
        (np.full((8, 8), 0.6, np.float32), {"16 bits": 4095.0}, 153),  # and of 1
        (np.full((8, 8), 1000, np.uint16), {}, None),
        (np.full((8, 8), 0.3, np.float32), {}, None),
        (np.full((8, 8), 7, np.uint8), {"16 bits": 4095.0}, 7),
    ],
)
def test_more_than_8_bits_are_scaled_as_in_the_run(tmp_path, values, white, gray):
    Image.fromarray(values).save(tmp_path / "x.tif")
    form = ImageFormat(8, 8, 255.0, None, 1, white=white)
    if gray is None:
        with pytest.raises(InputError, match="and the run had no such images to tell"):
            read_image(tmp_path / "x.tif", form)
    else:
        assert (read_image(tmp_path / "x.tif", form) == gray).all()


def test_ink_of_12_bits_keeps_its_gray_levels(tmp_path):
    twelve = np.rint(bar() / 255 * 4095)
    Image.fromarray(twelve.astype(np.uint16)).save(tmp_path / "deep.png")
    row = read_image(tmp_path / "deep.png", MNIST)
    np.testing.assert_array_equal(row, read_image(save(tmp_path, bar()), MNIST))


def test_dark_ink_is_inverted_scaled_and_centred(tmp_path):
    row = read_image(save(tmp_path, bar()), MNIST)
    image = row.reshape(28, 28)
    assert row.dtype == np.float32
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    assert len(rows) == 20  # the box of the data, proportions kept
    assert len(columns) == 4
    assert (rows[0], columns[0]) == (4, 12)
    assert image.max() == 255
    assert image[0, 0] == 0


def test_light_ink_on_a_dark_ground_gives_the_same(tmp_path):
    dark = read_image(save(tmp_path, 255 - bar(), "dark.png"), MNIST)
    light = read_image(save(tmp_path, bar(), "light.png"), MNIST)
    np.testing.assert_array_equal(dark, light)


def test_the_centre_of_mass_is_in_the_middle(tmp_path):
    image = np.full((100, 100), 255)
    image[20:80, 30:36] = 0
    image[70:80, 30:70] = 0  # a foot: more ink low and to the right
    image = read_image(save(tmp_path, image), MNIST).reshape(28, 28)
    mass = image.sum()
    for axis in (0, 1):
        centre = (image.sum(axis=1 - axis) * (np.arange(28) + 0.5)).sum() / mass
        assert abs(centre - 14) <= 0.5


@pytest.mark.parametrize(("pen", "columns"), [(3, 2), (16, 3), (30, 5)])
def test_strokes_become_as_wide_as_those_of_the_data(tmp_path, pen, columns):
    image = np.full((160, 160), 255)
    image[20:140, 70 : 70 + pen] = 0
    form = replace(MNIST, strokes=(2.0, 5.0))
    row = read_image(save(tmp_path, image), form).reshape(28, 28)[14]
    assert row.sum() / 255 == pytest.approx(columns, abs=0.6)
    assert row.max() == 255


def test_a_picture_of_the_data_comes_back_nearly_as_it_was(tmp_path):
    digits = load_digits()
    form = ImageFormat(8, 8, 16.0, 8)
    drawn = np.kron(255 - digits.images[0] * 15.9, np.ones((20, 20)))
    drawn = np.pad(drawn, 30, constant_values=255)
    pixels = read_image(save(tmp_path, drawn), form)
    assert np.corrcoef(pixels, digits.data[0])[0, 1] > 0.8


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.png", None, "No such file"),
        ("text.png", b"hello", "not a readable image"),
        ("cut.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a readable image"),
    ],
)
def test_a_file_that_is_no_picture_is_one_line(tmp_path, name, content, says):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=says) as caught:
        read_image(tmp_path / name, MNIST)
    assert "--image" in caught.value.flagged()
    assert "\n" not in str(caught.value)


def test_an_empty_page_and_a_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match="one colour"):
        read_image(save(tmp_path, np.full((50, 40), 250)), MNIST)
    with pytest.raises(InputError, match="Is a directory"):
        read_image(tmp_path, MNIST)


def test_a_picture_beyond_reason_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.data.image_files.MOST_PIXELS", 100)
    with pytest.raises(InputError, match="100 at most"):
        read_image(save(tmp_path, bar()), MNIST)
