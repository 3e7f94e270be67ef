"""The charts that all commands share."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import LogNorm, Normalize
from PIL import Image

from pipelines.report.charts import (
    MOST_MARKS,
    Panel,
    Sample,
    Series,
    dots,
    heat_map,
    how_to_read,
    samples_chart,
    series_chart,
)
from pipelines.report.style import VERMILLION, figure_style, save
from pipelines.run_folder.measures import measure_of

ERROR, R2 = measure_of("accuracy"), measure_of("r2")


@pytest.fixture(autouse=True)
def style():
    with figure_style():
        yield


def drawn(figure):
    """Drawing is where a bad scale or a bad limit would show."""
    figure.draw_without_rendering()
    return figure


def by_gid(figure, gid):
    return [artist for artist in figure.axes[0].get_children() if artist.get_gid() == gid]


def strokes(figure, gid):
    """Start and end of every line of a path that is broken between them."""
    (line,) = by_gid(figure, gid)
    return line.get_xydata().reshape(-1, 3, 2)[:, :2]


def grid(values, gamma=(1e-3, 1e-2), C=(1.0, 10.0, 100.0)):
    rows, columns = pd.Index(gamma, name="gamma"), pd.Index(C, name="C")
    return pd.DataFrame(values, index=rows, columns=columns)


def test_the_heat_map_has_each_mean_at_its_place_and_the_best_framed():
    means = grid([[0.5, 0.4, 0.3], [0.2, 0.01, 0.6]])
    figure = drawn(heat_map(means, (0.01, 10.0), ERROR, "Mean error", "best: 1 %"))
    (mesh,) = figure.axes[0].images
    assert mesh.get_array().data == pytest.approx(means.to_numpy())
    assert isinstance(mesh.norm, LogNorm)
    assert mesh.norm(0.6) > mesh.norm(0.01), "large is bright"
    assert sum(mesh.cmap(1.0)[:3]) > sum(mesh.cmap(0.0)[:3])
    (frame,) = by_gid(figure, "best")
    assert frame.get_center() == pytest.approx((1, 1))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["0.001", "0.01"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["best: 1 %"]
    assert {text.get_text() for text in figure.axes[0].texts} >= {"50.0", "1.00"}


def test_what_has_no_mean_is_hatched():
    means = grid([[0.5, np.nan, 0.3], [np.nan, 0.1, 0.6]])
    figure = drawn(heat_map(means, None, ERROR, "", ""))
    (image,) = figure.axes[0].images
    assert np.argwhere(np.ma.getmaskarray(image.get_array())).tolist() == [[0, 1], [1, 0]]
    assert figure.axes[0].patch.get_hatch(), "what is masked shows the ground"
    assert "failed, or not finished" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_what_was_given_up_is_hatched_over_the_mean_of_its_part():
    means = grid([[0.5, np.nan, 0.3], [np.nan, 0.1, np.nan]])
    parts = grid([[0.5, 0.02, 0.3], [0.9, 0.1, np.nan]])
    figure = drawn(heat_map(means, None, ERROR, "", "", parts))
    (image,) = figure.axes[0].images
    assert np.argwhere(np.ma.getmaskarray(image.get_array())).tolist() == [[1, 2]]
    hatched = by_gid(figure, "given up")
    assert all(patch.get_hatch() for patch in hatched)
    white, ink = sorted(hatched, key=lambda patch: -sum(patch.get_edgecolor()[:3]))
    corners = [path.get_path().vertices.min(axis=0).tolist() for path in (white, ink)]
    assert corners == [[0.5, -0.5], [-0.5, 0.5]], "white on the dark one, ink on the bright"
    assert {"2.00", "90.0"} <= {text.get_text() for text in figure.axes[0].texts}
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[-2:] == ["not all folds", "failed, or not finished"]


def test_a_score_far_below_nothing_does_not_take_all_colours():
    figure = heat_map(grid([[-1e6, 0.4, 0.5], [0.1, 0.2, 0.3]]), None, R2, "", "")
    (mesh,) = figure.axes[0].images
    assert type(mesh.norm) is Normalize
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0.0, 0.5)


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (1, 1)])
def test_maps_of_a_single_value(shape):
    means = grid([[0.1] * 3] * 2).iloc[: shape[0], : shape[1]]
    drawn(heat_map(means, (0.001, 1.0), ERROR, "", ""))
    drawn(heat_map(means * np.nan, None, ERROR, "", ""))


def test_dots_are_in_the_png_too(tmp_path):
    def pixels(gid):
        figure = samples_chart([Sample(0, np.array([0.1, 0.9]))], ERROR, "", "a")
        for line in by_gid(figure, gid):
            line.set_alpha(0)
        save(figure, tmp_path, "samples")
        return np.asarray(Image.open(tmp_path / "samples.png").convert("RGB"), int)

    assert np.abs(pixels("dots") - pixels("nothing")).sum() > 10_000


def test_few_numbers_are_dots_with_their_mean_and_standard_deviation():
    few = np.array([0.1, 0.2, 0.2, 0.3, 0.4])
    figure = drawn(samples_chart([Sample(0, few), Sample(1, few / 2, True)], ERROR, "", "ab"))
    places = strokes(figure, "dots")[:, 0]
    assert np.sort(places[:, 1]) == pytest.approx(np.sort(np.concatenate([few, few / 2])))
    assert len(np.unique(places[:, 0])) == 10, "side by side"
    ends = [line.get_ydata()[:2] for line in by_gid(figure, "spread")]
    assert ends[0] == pytest.approx([few.mean() - few.std(), few.mean() + few.std()])
    means = by_gid(figure, "middles")
    assert [mark.get_ydata()[0] for mark in means] == pytest.approx([0.24, 0.12])
    colours = [mark.get_color() for mark in means]
    assert colours[0] != colours[1], "the best stands out"
    assert not by_gid(figure, "boxes")


def test_many_numbers_are_in_a_box_after_tukey():
    values = np.random.default_rng(0).random(12)
    figure = drawn(samples_chart([Sample(0, values)], R2, "", "a"))
    (bar,) = by_gid(figure, "boxes")
    box = bar.get_bbox()
    q1, middle, q3 = np.percentile(values, [25, 50, 75])
    assert (box.y0, box.y1) == pytest.approx((q1, q3))
    assert strokes(figure, "middles")[0, :, 1] == pytest.approx([middle, middle])
    assert "quartiles" in how_to_read(12, "member")
    assert "standard deviation" in how_to_read(5, "fold")


def test_a_failed_number_is_a_cross_and_not_a_dot():
    figure = drawn(samples_chart([Sample(0, np.array([0.1, np.nan, 0.3]))], ERROR, "", "a"))
    (crosses,) = by_gid(figure, "failed")
    assert len(crosses.get_offsets()) == 1
    assert len(strokes(figure, "dots")) == 2
    drawn(samples_chart([Sample(0, np.array([np.nan]))], ERROR, "", "a"))


def test_series_have_bands_and_one_key():
    x, y = np.arange(3), np.array([0.1, 0.2, 0.3])
    series = Series(x, y, "a", (y - 0.05, y + 0.05), {"color": VERMILLION})
    panels = [
        Panel([series, Series(x, y, "b")], f"x{i}", "error", scales=("linear", "percent"))
        for i in range(2)
    ]
    figure = drawn(series_chart(panels, "A title"))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    (band,) = figure.axes[0].collections
    assert band.get_paths()[0].get_extents().y1 == pytest.approx(0.35)
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim(), "one y axis"
    other = [panels[0], Panel([Series(x, 100 * y)], "x", "seconds")]
    axes = drawn(series_chart(other)).axes
    assert axes[0].get_ylim() != axes[1].get_ylim()


def test_more_marks_than_a_page_can_hold_are_stored_as_pixels():
    x = np.arange(MOST_MARKS + 1)
    figure = series_chart([Panel([Series(x, x, look=dots(VERMILLION))], "x", "y")])
    assert figure.axes[0].lines[0].get_rasterized()


def test_a_key_with_long_labels_has_fewer_columns():
    def columns(label):
        parts = grid([[0.5, 0.2, 0.3], [0.2, 0.1, np.nan]])
        means = parts.where(parts != 0.3)
        figure = drawn(heat_map(means, (0.01, 10.0), ERROR, "", label, parts))
        (legend,) = figure.legends
        assert legend.get_window_extent().width <= figure.bbox.width
        return len({round(text.get_window_extent().x0) for text in legend.get_texts()})

    assert columns("best") == 3
    assert columns("best: C = 631, gamma = 0.00158, epsilon = 0.0316, 0.4797") == 1
