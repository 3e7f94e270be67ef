import base64
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from pipelines.report.classification import (
    _image_uri,
    class_name,
    confusion_counts,
    confusion_matrix,
    wrong_test_samples,
)
from pipelines.report.style import figure_style, save
from pipelines.run_folder.reading import WrongImages, as_pictures


def wrong_samples(n: int, shape: tuple[int, ...] = (5, 4)) -> WrongImages:
    codes = np.arange(n)
    images = np.random.default_rng(0).integers(0, 255, (n, *shape)).astype(np.uint8)
    return WrongImages(codes + 100, codes % 3, (codes + 1) % 3, images)


def test_counts_are_true_by_predicted():
    counts = confusion_counts(np.array([0, 0, 1, 2, 2, 2]), np.array([0, 2, 1, 2, 2, 1]), 3)
    assert counts.tolist() == [[1, 0, 1], [0, 1, 0], [0, 1, 2]]


def test_every_count_is_written_and_only_errors_have_a_colour():
    counts = np.array([[980, 2, 0], [0, 990, 7], [1, 0, 970]])
    figure = confusion_matrix(counts, ["a", "b", "c"])

    axes = figure.axes[0]
    written = {text.get_position(): text.get_text() for text in axes.texts}
    assert written == {
        (column, row): str(counts[row, column]) for row, column in np.argwhere(counts)
    }
    (image,) = axes.images
    coloured = ~np.ma.getmaskarray(image.get_array())
    assert coloured.tolist() == ((counts > 0) & ~np.eye(3, dtype=bool)).tolist()
    assert image.norm.vmax < 10  # the scale is the errors', not the diagonal's
    assert "10 of 2,950 test samples wrong (0.34 %)" in figure.get_suptitle()


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 26, 60])
def test_the_matrix_serves_few_and_many_classes(n_classes, tmp_path):
    counts = np.full((n_classes, n_classes), 1) + 5000 * np.eye(n_classes, dtype=int)
    with figure_style():
        figure = confusion_matrix(counts, [f"class {i}" for i in range(n_classes)])
        save(figure, tmp_path, "confusion_matrix")
        figure.draw_without_rendering()
    axes = figure.axes[0]
    assert len(axes.texts) == (n_classes**2 if n_classes <= 30 else 0)
    if axes.texts:
        cell = axes.transData.transform([(1, 0), (0, 0)])
        widest = max(text.get_window_extent().width for text in axes.texts)
        assert widest < cell[0, 0] - cell[1, 0]


def test_a_matrix_without_errors(tmp_path):
    with figure_style():
        save(confusion_matrix(np.diag([3, 4]), ["a", "b"]), tmp_path, "confusion_matrix")


def test_names_that_look_like_mathematics_or_lack_a_glyph_are_drawn(tmp_path):
    with figure_style():
        figure = confusion_matrix(np.array([[3, 1], [0, 4]]), ["$x_", "漢字"])
        save(figure, tmp_path, "confusion_matrix")


def test_each_wrong_point_has_its_row_and_classes_as_title():
    figure = wrong_test_samples(wrong_samples(3), ["a", "b", "c"])
    assert [text.get_text() for text in figure.axes[0].texts] == [
        "100: a → b", "101: b → c", "102: c → a"
    ]  # fmt: skip
    assert len(figure.axes[0].images) == 3
    assert np.array_equal(figure.axes[0].images[1].get_array(), wrong_samples(3).images[1])


def test_long_names_take_a_second_line():
    figure = wrong_test_samples(wrong_samples(1), ["ankle boot", "T-shirt or top", "bag"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["100: ankle boot\n→ T-shirt or …"]


def test_at_most_forty_wrong_points_are_drawn():
    assert len(wrong_test_samples(wrong_samples(60), ["a", "b", "c"]).axes[0].images) == 40


def test_a_code_without_a_name_is_its_own_name():
    assert class_name(["a"], 0) == "a"
    assert class_name(["a"], 4) == "4"


def test_coloured_images_are_drawn_and_listed_in_their_colours():
    wrong = wrong_samples(3, (5, 4, 3))
    (first, *_) = wrong_test_samples(wrong, ["a", "b", "c"]).axes[0].images
    np.testing.assert_array_equal(first.get_array(), wrong.images[0])
    content = base64.b64decode(_image_uri(wrong.images[0], 255).partition(",")[2])
    np.testing.assert_array_equal(np.asarray(Image.open(BytesIO(content))), wrong.images[0])


def test_flattened_images_have_their_channels_last_in_a_drawing():
    images = np.random.default_rng(0).integers(0, 255, (2, 5, 4, 3), np.uint8)
    flat = images.transpose(0, 3, 1, 2).reshape(2, -1)
    np.testing.assert_array_equal(as_pictures(flat, (3, 5, 4)), images)
    assert as_pictures(flat, (12, 5)).shape == (2, 12, 5)
