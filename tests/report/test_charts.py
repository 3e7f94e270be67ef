"""The charts that all commands share."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from pipelines.report.charts import (
    MOST_LAID_OUT,
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
from pipelines.report.style import VERMILLION, figure_style
from pipelines.run_folder.measures import measure_of

ERROR, R2 = measure_of("accuracy"), measure_of("r2")


@pytest.fixture(autouse=True)
def style():
    with figure_style():
        yield


def drawn(figure: Figure) -> Figure:
    """Drawing is where a bad scale or a bad limit would show."""
    figure.draw_without_rendering()
    return figure


def by_gid(figure: Figure, gid: str) -> list:
    return [artist for artist in figure.axes[0].get_children() if artist.get_gid() == gid]


def strokes(figure: Figure, gid: str) -> np.ndarray:
    """Start and end of every line of a path of lines."""
    (patch,) = by_gid(figure, gid)
    return patch.get_path().vertices.reshape(-1, 2, 2)


def grid(values: list[list[float]], gamma=(1e-3, 1e-2), C=(1.0, 10.0, 100.0)) -> pd.DataFrame:
    rows, columns = pd.Index(gamma, name="gamma"), pd.Index(C, name="C")
    return pd.DataFrame(values, index=rows, columns=columns)


def test_the_heat_map_has_each_mean_at_its_place_and_the_best_framed():
    means = grid([[0.5, 0.4, 0.3], [0.2, 0.01, 0.6]])
    figure = drawn(heat_map(means, (0.01, 10.0), ERROR, "Mean error", "best: 1 %"))
    (mesh,) = [one for one in figure.axes[0].collections if isinstance(one, QuadMesh)]
    assert mesh.get_array().data == pytest.approx(means.to_numpy())
    assert isinstance(mesh.norm, LogNorm)
    assert mesh.norm(0.6) > mesh.norm(0.01), "large is bright"
    assert sum(mesh.cmap(1.0)[:3]) > sum(mesh.cmap(0.0)[:3])
    (frame,) = by_gid(figure, "best")
    assert frame.get_center() == pytest.approx((1, -2))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["best: 1 %"]
    assert {text.get_text() for text in figure.axes[0].texts} >= {"50.0", "1.00"}


def test_an_axis_of_a_map_has_the_values_themselves():
    wide = drawn(heat_map(grid([[0.1] * 3] * 2, gamma=(1e-5, 1.0)), None, ERROR, "", ""))
    assert "10⁻³" in [label.get_text() for label in wide.axes[0].get_yticklabels()]
    narrow = drawn(heat_map(grid([[0.1] * 3] * 2, gamma=(0.002, 0.01)), None, ERROR, "", ""))
    assert [one.get_text() for one in narrow.axes[0].get_yticklabels()] == ["0.002", "0.01"]


def test_what_has_no_mean_is_hatched():
    means = grid([[0.5, np.nan, 0.3], [np.nan, 0.1, 0.6]])
    figure = drawn(heat_map(means, None, ERROR, "", ""))
    (hatched,) = by_gid(figure, "none")
    assert isinstance(hatched, PolyCollection)
    centres = [path.get_extents().get_points().mean(axis=0) for path in hatched.get_paths()]
    assert np.array(centres) == pytest.approx(np.array([[1, -3], [0, -2]]))
    assert "failed, or not finished" in [one.get_text() for one in figure.legends[0].get_texts()]


def test_a_score_far_below_nothing_does_not_take_all_colours():
    figure = heat_map(grid([[-1e6, 0.4, 0.5], [0.1, 0.2, 0.3]]), None, R2, "", "")
    (mesh,) = [one for one in figure.axes[0].collections if isinstance(one, QuadMesh)]
    assert type(mesh.norm) is Normalize
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0.0, 0.5)


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (1, 1)])
def test_maps_of_a_single_value(shape):
    means = grid([[0.1] * 3] * 2).iloc[: shape[0], : shape[1]]
    drawn(heat_map(means, (0.001, 1.0), ERROR, "", ""))
    drawn(heat_map(means * np.nan, None, ERROR, "", ""))


def test_few_numbers_are_dots_with_their_mean_and_standard_deviation():
    few = np.array([0.1, 0.2, 0.2, 0.3, 0.4])
    figure = drawn(samples_chart([Sample(0, few), Sample(1, few / 2, True)], ERROR, "", "ab"))
    places = strokes(figure, "dots")[:, 0]
    assert np.sort(places[:, 1]) == pytest.approx(np.sort(np.concatenate([few, few / 2])))
    assert len(np.unique(places[:, 0])) == 10, "side by side"
    ends = [patch.get_path().vertices[:, 1] for patch in by_gid(figure, "spread")]
    assert ends[0] == pytest.approx([few.mean() - few.std(), few.mean() + few.std()])
    means = by_gid(figure, "means")
    assert [one.get_path().vertices[0, 1] for one in means] == pytest.approx([0.24, 0.12])
    colours = [one.get_edgecolor() for one in means]
    assert colours[0] != colours[1], "the best stands out"
    assert not by_gid(figure, "boxes")


def test_many_numbers_are_in_a_box_after_tukey():
    many = np.random.default_rng(0).random(12)
    figure = drawn(samples_chart([Sample(0, many)], R2, "", "a"))
    (boxes,) = by_gid(figure, "boxes")
    (box,) = (path.get_extents() for path in boxes.get_paths())
    q1, middle, q3 = np.percentile(many, [25, 50, 75])
    assert (box.y0, box.y1) == pytest.approx((q1, q3))
    assert strokes(figure, "medians")[0, :, 1] == pytest.approx([middle, middle])
    assert "quartiles" in how_to_read(12, "member")
    assert "standard deviation" in how_to_read(5, "fold")


def test_a_failed_number_is_a_cross_and_not_a_dot():
    figure = drawn(samples_chart([Sample(0, np.array([0.1, np.nan, 0.3]))], ERROR, "", "a"))
    (crosses,) = by_gid(figure, "failed")
    assert len(crosses.get_offsets()) == 1
    assert len(strokes(figure, "dots")) == 2
    drawn(samples_chart([Sample(0, np.array([np.nan]))], ERROR, "", "a"))


def test_an_error_of_zero_keeps_its_place_on_the_scale():
    axes = drawn(samples_chart([Sample(0, np.array([0, 0.01, 0.9]))], ERROR, "")).axes[0]
    assert axes.get_yscale() == "symlog"
    assert axes.get_ylim()[0] < 0
    assert "0 %" in [label.get_text() for label in axes.get_yticklabels()]


def test_series_have_bands_and_one_key():
    x, y = np.arange(3), np.array([0.1, 0.2, 0.3])
    one = Series(x, y, "a", (y - 0.05, y + 0.05), {"color": VERMILLION})
    panels = [Panel([one, Series(x, y, "b")], f"x{i}", "error", scales=("linear", "percent"))
              for i in range(2)]  # fmt: skip
    figure = drawn(series_chart(panels, "A title"))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    (band,) = figure.axes[0].collections
    assert band.get_paths()[0].get_extents().y1 == pytest.approx(0.35)
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim(), "one y axis"
    other = [panels[0], Panel([Series(x, 100 * y)], "x", "seconds")]
    axes = drawn(series_chart(other)).axes
    assert axes[0].get_ylim() != axes[1].get_ylim()


def test_many_panels_are_placed_without_a_layout_that_takes_seconds():
    panel = Panel([Series([1, 10], [0.1, 0.2])], "C", "error", scales=("log", "percent"))
    figure = drawn(series_chart([panel] * (MOST_LAID_OUT + 14)))
    assert figure.get_layout_engine() is None
    assert len([axes for axes in figure.axes if axes.axison]) == MOST_LAID_OUT + 14


def test_more_marks_than_a_page_can_hold_are_stored_as_pixels():
    x = np.arange(MOST_MARKS + 1)
    figure = series_chart([Panel([Series(x, x, look=dots(VERMILLION))], "x", "y")])
    assert figure.axes[0].lines[0].get_rasterized()
