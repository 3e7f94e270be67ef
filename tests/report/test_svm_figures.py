import numpy as np
import pandas as pd
import pytest
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from pipelines.report.style import figure_style
from pipelines.report.svm_page import fold_errors, fold_errors_best, heat_map, read_svm_run
from pipelines.run_folder.records.svm_grid import BestOfSvm


def by_gid(figure: Figure, gid: str, axes: int = 0) -> list[Artist]:
    return [artist for artist in figure.axes[axes].get_children() if artist.get_gid() == gid]


@pytest.fixture(autouse=True)
def style():
    with figure_style():
        yield


def drawn(figure: Figure) -> Figure:
    """Drawing is where a bad scale or a bad limit would show."""
    figure.draw_without_rendering()
    return figure


def test_the_best_cell_is_framed_and_named(make_run):
    run = read_svm_run(make_run())
    figure = drawn(heat_map(run.candidates, run.best))

    (frame,) = by_gid(figure, "best")
    assert isinstance(frame, Rectangle)
    assert frame.get_center() == pytest.approx((np.log10(10), np.log10(0.01)))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["best: C = 10, gamma = 0.01, 4.50 %"]


def test_the_heat_map_has_each_mean_at_its_place(make_run):
    run = read_svm_run(make_run())
    figure = heat_map(run.candidates, run.best)

    (mesh,) = [c for c in figure.axes[0].collections if isinstance(c, QuadMesh)]
    means = run.cells.groupby(["gamma", "C"])["error"].mean().to_numpy().reshape(4, 5)
    assert mesh.get_array().data == pytest.approx(means)
    assert isinstance(mesh.norm, LogNorm)


def test_failed_and_unfinished_candidates_are_told_apart(make_run):
    run = read_svm_run(make_run())
    candidates = run.candidates[run.candidates["gamma"] < 0.05].copy()
    failed = (candidates["C"] == 100) & (candidates["gamma"] == 1e-4)
    candidates.loc[failed, ["error_mean", "error_std"]] = np.nan
    figure = drawn(heat_map(candidates, run.best, all_gamma=(1e-4, 1e-3, 1e-2, 1e-1)))

    (hatched,) = by_gid(figure, "failed")
    assert isinstance(hatched, PolyCollection)
    assert hatched.get_hatch()
    (path,) = hatched.get_paths()
    assert path.get_extents().get_points().mean(axis=0) == pytest.approx((2, -4))
    (absent,) = by_gid(figure, "not finished")
    assert isinstance(absent, PolyCollection)
    assert len(absent.get_paths()) == 5


def test_a_heat_map_of_failures_alone_has_no_colour_scale(make_run):
    candidates = read_svm_run(make_run()).candidates.assign(error_mean=np.nan)
    assert len(drawn(heat_map(candidates, None)).axes) == 1


@pytest.mark.parametrize("errors", [[0.0, 0.0, 0.0, 0.0], [0.0, 0.3, 0.003, 0.1]])
def test_a_mean_of_zero_does_not_break_the_colour_scale(errors):
    candidates = pd.DataFrame(
        {"C": [1.0, 10.0, 1.0, 10.0], "gamma": [0.1, 0.1, 1.0, 1.0], "error_mean": errors}
    )
    drawn(heat_map(candidates, BestOfSvm(C=1.0, gamma=0.1, error_mean=0.0)))


def test_boxes_medians_and_points_of_the_best_gamma(make_run):
    run = read_svm_run(make_run())
    figure = drawn(fold_errors_best(run.cells, run.best))

    (boxes,) = by_gid(figure, "boxes")
    (medians,) = by_gid(figure, "medians")
    (points,) = by_gid(figure, "folds")
    assert isinstance(boxes, PolyCollection)
    assert isinstance(medians, LineCollection)
    assert isinstance(points, PathCollection)
    at_best = run.cells[run.cells["gamma"] == 0.01]
    Cs = np.unique(at_best["C"])
    assert len(boxes.get_paths()) == len(Cs)
    for C, box, median in zip(Cs, boxes.get_paths(), medians.get_segments(), strict=True):
        q1, middle, q3 = np.percentile(at_best.loc[at_best["C"] == C, "error"], [25, 50, 75])
        extents = box.get_extents()
        assert (extents.y0, extents.y1) == pytest.approx((q1, q3))
        assert median[:, 1] == pytest.approx([middle, middle])
        assert (extents.x0 + extents.x1) / 2 == pytest.approx(np.log10(C))
    shown = np.sort(np.asarray(points.get_offsets())[:, 1])
    assert shown == pytest.approx(np.sort(at_best["error"]))


def test_only_the_best_box_is_highlighted(make_run):
    run = read_svm_run(make_run())
    figure = fold_errors_best(run.cells, run.best)

    (boxes,) = by_gid(figure, "boxes")
    assert isinstance(boxes, PolyCollection)
    colours = [tuple(colour) for colour in boxes.get_facecolor()]
    assert colours.count(colours[2]) == 1
    assert len(set(colours)) == 2


def test_a_fold_error_of_zero_keeps_its_place_on_the_scale(make_run):
    def with_zero(cells):
        cells.loc[(cells["C"] == 10) & (cells["gamma"] == 0.01) & (cells["fold"] == 0), "error"] = 0
        return cells

    run = read_svm_run(make_run(change=with_zero))
    for figure in (fold_errors_best(run.cells, run.best), fold_errors(run.cells, run.best)):
        axes = drawn(figure).axes[0]
        assert axes.get_yscale() == "symlog"
        assert axes.get_ylim()[0] < 0
        assert "0 %" in [label.get_text() for label in axes.get_yticklabels()]


def test_a_failed_fold_is_a_cross_and_not_a_point(make_run):
    def fail(cells):
        cells.loc[(cells["C"] == 100) & (cells["gamma"] == 0.01) & (cells["fold"] < 2), "error"] = (
            np.nan
        )
        return cells

    run = read_svm_run(make_run(change=fail))
    figure = drawn(fold_errors_best(run.cells, run.best))
    (crosses,) = by_gid(figure, "failed")
    assert isinstance(crosses, PathCollection)
    assert len(crosses.get_offsets()) == 2
    assert "failed fold" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_each_gamma_has_a_panel_on_shared_axes(make_run):
    run = read_svm_run(make_run())
    figure = drawn(fold_errors(run.cells, run.best))

    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["gamma = 0.0001", "gamma = 0.001", "gamma = 0.01 (best)", "gamma = 0.1"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert len({axes.get_xlim() for axes in figure.axes}) == 1


@pytest.mark.parametrize(
    ("C", "gamma"),
    [((10.0,), (0.01, 0.1)), ((1.0, 10.0), (0.01,)), ((10.0,), (0.01,))],
    ids=["one C", "one gamma", "one candidate"],
)
def test_grids_of_a_single_value(make_run, C, gamma):
    run = read_svm_run(make_run(C=C, gamma=gamma))
    (frame,) = by_gid(drawn(heat_map(run.candidates, run.best)), "best")
    assert isinstance(frame, Rectangle)
    assert frame.get_center() == pytest.approx((1, -2))
    drawn(fold_errors_best(run.cells, run.best))
    assert len(drawn(fold_errors(run.cells, run.best)).axes) >= len(gamma)


@pytest.mark.slow
def test_of_600_gammas_24_have_a_panel(make_run):
    gamma = np.logspace(-5, 1, 600)
    run = read_svm_run(make_run(C=(1.0, 10.0), gamma=gamma))
    assert run.best is not None
    figure = fold_errors(run.cells, run.best)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert len(panels) == 24
    assert sum(len(axes.get_children()) for axes in figure.axes) < 24 * 40
    titles = [axes.get_title("left") for axes in panels]
    assert sum("(best)" in title for title in titles) == 1
    assert figure.get_suptitle() == "Fold errors for 24 of 600 gammas"
    every = fold_errors(run.cells[run.cells["gamma"].isin(gamma[:24])], None)
    assert every.get_suptitle() == "Fold errors for each gamma"
