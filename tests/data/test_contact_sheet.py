"""The sheet of images that a dry run on a folder draws."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from pipelines.data.contact_sheet import GAP, PER_CLASS, SIDE, contact_sheet
from pipelines.data.image_folder import ImageReading
from pipelines.data.load import load_dataset
from pipelines.svm_grid import main

COLOURS = {"blue": (0, 0, 255), "red": (255, 0, 0), "yellow": (255, 255, 0)}


@pytest.fixture
def folder(tmp_path):
    """Ten images of 12 x 8 pixels of each colour."""
    for name, colour in COLOURS.items():
        (tmp_path / "own" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("RGB", (12, 8), colour).save(tmp_path / "own" / name / f"{i}.png")
    return tmp_path / "own"


@pytest.mark.parametrize(("size", "side"), [(8, 64), (32, 64), (100, 64), (50, 50)])
def test_each_class_has_a_row_of_its_images(folder, size, side):
    data = load_dataset(
        str(folder), data_dir=folder.parent / "data", images=ImageReading(size=size)
    )
    sheet = np.asarray(contact_sheet(data))
    assert len(sheet) == GAP + 3 * (side + GAP)
    assert side <= SIDE
    for i, colour in enumerate(COLOURS.values()):
        row = sheet[GAP + i * (side + GAP) + side // 2]
        assert (row == colour).all(axis=1).sum() == PER_CLASS * side


def test_gray_images_that_are_not_square(folder):
    data = load_dataset(
        str(folder), data_dir=folder.parent / "data", images=ImageReading(gray=True)
    )
    sheet = np.asarray(contact_sheet(data))
    row = sheet[GAP + 20]  # of blue, whose gray is 29; a pixel is enlarged five times
    assert (row == 29).all(axis=1).sum() == PER_CLASS * 60
    assert len(sheet) == GAP + 3 * (40 + GAP)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "ü" * 90, "مرحبا", "\u2028", "🐈‍⬛"])
def test_a_class_may_have_any_name(folder, name):
    (folder / "red").rename(folder / name)
    data = load_dataset(str(folder), data_dir=folder.parent / "data")
    sheet = contact_sheet(data)
    assert sheet.height == GAP + 3 * (40 + GAP)
    assert sheet.width < 1000


def test_a_dry_run_draws_it(folder, capsys):
    data_dir = folder.parent / "data"
    argv = ["--dataset", str(folder), "--data-dir", str(data_dir), "--dry-run"]
    for _ in range(2):
        assert main(argv) == 0
        (path,) = data_dir.glob("images/*/contact.png")
        assert f"contact    {path}: some images of each class" in capsys.readouterr().out
        with Image.open(path) as sheet:
            assert sheet.height == GAP + 3 * (40 + GAP)
    path.unlink()
    path.mkdir()
    assert main(argv) == 0
    assert "contact    not drawn: " in capsys.readouterr().out
