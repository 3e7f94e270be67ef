import base64
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from pipelines.report.classification import class_name, confusion_matrix, pictures
from pipelines.report.style import INK, ON_COLOUR, figure_style, save
from pipelines.run_folder.reading import as_pictures


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
    # Dark ground changes the colour of the diagonal, and so of what is written there.
    colours = {text.get_position(): text.get_color() for text in axes.texts}
    assert colours[1, 1] == INK
    assert colours[1, 0] == ON_COLOUR
    assert "10 of 2,950 test samples wrong\n(0.34 %)" in figure.get_suptitle()


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


def test_names_that_look_like_mathematics_or_lack_a_glyph_are_drawn(tmp_path):
    with figure_style():
        figure = confusion_matrix(np.array([[3, 1], [0, 4]]), ["$x_", "漢字"])
        save(figure, tmp_path, "confusion_matrix")


def test_a_code_without_a_name_is_its_own_name():
    assert class_name(["a"], 0) == "a"
    assert class_name(["a"], 4) == "4"


def test_coloured_images_are_shown_in_their_colours():
    images = np.random.default_rng(0).integers(0, 200, (3, 5, 4, 3), np.uint8)
    uri = pictures(dict(enumerate(images)))[1]
    content = base64.b64decode(uri.partition(",")[2])
    np.testing.assert_array_equal(np.asarray(Image.open(BytesIO(content))), images[1])


def test_flattened_images_have_their_channels_last_in_a_drawing():
    images = np.random.default_rng(0).integers(0, 255, (2, 5, 4, 3), np.uint8)
    flat = images.transpose(0, 3, 1, 2).reshape(2, -1)
    np.testing.assert_array_equal(as_pictures(flat, (3, 5, 4)), images)
    assert as_pictures(flat, (12, 5)).shape == (2, 12, 5)
