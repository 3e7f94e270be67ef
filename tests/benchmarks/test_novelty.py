"""The benchmark of novelty: what it draws, and what it refuses."""

from __future__ import annotations

import numpy as np
from PIL import Image

from benchmarks import novelty
from pipelines.data.image_files import ImageFormat, read_image


def test_a_piece_of_the_sky_is_left_out_and_a_digit_is_a_row(tmp_path):
    form = ImageFormat(28, 28, 255.0, 20)
    drawn = [np.full((64, 64), 200), novelty._printed("4", novelty.FONTS[0])]
    rows = novelty._as_files(drawn, form, tmp_path, read_image)
    assert rows.shape == (1, 784)
    Image.fromarray(drawn[1]).save(tmp_path / "four.png")
    np.testing.assert_array_equal(rows[0], read_image(tmp_path / "four.png", form))


def test_noise_and_letters_are_images_of_a_file():
    for kind, images in novelty.strange(np.random.default_rng(0)).items():
        first = next(iter(images))
        assert first.ndim == 2, kind
        assert 20 < np.mean(first) < 256, kind


def test_a_mistake_is_one_line(tmp_path, capsys):
    assert novelty.main([str(tmp_path / "none")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{novelty.COMMAND}: RUN must be a run folder")
