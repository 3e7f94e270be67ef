from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from pipelines.report.bagging_figures import (
    ExplainedSample,
    calibration,
    calibration_bins,
    certainty_panels,
    kept_errors,
)
from pipelines.report.style import VERMILLION, figure_style, save
from pipelines.run_folder.statistics import wilson


def drawn(figure: Figure, gid: str) -> list:
    return [
        artist for axes in figure.axes for artist in axes.get_children() if artist.get_gid() == gid
    ]


def point(deferred: bool = False, image: bool = True, n_members: int = 5) -> ExplainedSample:
    p = np.random.default_rng(1).dirichlet(np.ones(4), size=n_members)
    pixels = np.arange(12).reshape(4, 3) if image else None
    return ExplainedSample("test sample 3", 2, pixels, p, 1, deferred)


def test_a_panel_has_the_image_and_every_member_of_every_class() -> None:
    with figure_style():
        figure = certainty_panels([point()], list("abcd"))
    images = [a for axes in figure.axes for a in axes.get_children() if isinstance(a, AxesImage)]
    np.testing.assert_array_equal(images[0].get_array(), np.arange(12).reshape(4, 3))
    (members,) = drawn(figure, "dots")
    heights = members.get_path().vertices[::2, 1].reshape(4, 5)
    np.testing.assert_allclose(heights.T, point().probabilities)


def test_a_point_that_is_referred_says_so_in_orange() -> None:
    figure = certainty_panels([point(deferred=True), point(deferred=False)], list("abcd"))
    first, second = figure.texts
    assert first.get_text().endswith("defer to a human")
    assert first.get_color() == VERMILLION
    assert "deferred" not in second.get_text()
    assert "test sample 3, true c: vote b," in second.get_text()
    assert second.get_color() != VERMILLION


def test_one_member_many_classes_and_no_image(tmp_path: Path) -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(60), size=1)
    alone = ExplainedSample("x" * 80, None, None, p, 7, False)
    with figure_style():
        save(certainty_panels([alone], [f"class {i}" for i in range(60)]), tmp_path, "many")
        save(certainty_panels([point(image=False)] * 3, list("abcd")), tmp_path, "three")
    assert (tmp_path / "many.svg").exists()


def test_calibration_bins_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    certainty = rng.random(500)
    is_right = rng.random(500) < certainty
    bins = calibration_bins(certainty, is_right, 10)
    assert bins.n_samples.sum() == 500
    for number in range(10):
        inside = (certainty > number / 10) & (certainty <= (number + 1) / 10)
        assert bins.n_samples[number] == inside.sum()
        assert bins.certainty[number] == pytest.approx(certainty[inside].mean())
        assert bins.right[number] == pytest.approx(is_right[inside].mean())
    ends = calibration_bins(np.array([0.0, 1.0]), np.array([False, True]), 10)
    assert ends.n_samples[[0, 9]].tolist() == [1, 1]
    assert np.isnan(ends.right[5])


def test_the_bars_of_calibration_are_the_bins() -> None:
    certainty = np.array([0.35, 0.35, 0.95, 0.95, 0.95, 0.95])
    is_right = np.array([True, False, True, True, True, False])
    figure = calibration(certainty, is_right, 0.2)
    bars = drawn(figure, "calibration")
    places = [bar.get_x() + bar.get_width() / 2 for bar in bars]
    assert places == pytest.approx([5.5 / 15, 14.5 / 15], abs=0.01)  # of 15 bins
    assert [bar.get_height() for bar in bars] == [0.5, 0.75]
    (sure,) = drawn(figure, "interval")
    assert [line[:, 1].tolist() for line in sure.get_segments()] == [
        pytest.approx(wilson(1, 2)), pytest.approx(wilson(3, 4))
    ]  # fmt: skip
    assert [text.get_text() for text in figure.axes[1].texts] == ["2", "4"]


def test_kept_errors_refer_the_least_certain_first() -> None:
    certainty = np.array([0.9, 0.5, 0.9, 0.7])
    is_right = np.array([True, False, False, True])
    kept, errors = kept_errors(certainty, is_right)
    np.testing.assert_allclose(kept, [0.5, 0.75, 1.0])  # equals go together
    np.testing.assert_allclose(errors, [1 / 2, 1 / 3, 2 / 4])
