import numpy as np
import pytest
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from pipelines.report.style import (
    error_norm,
    log_ticks,
    percent_y_axis,
    powers_of_ten,
    spans_a_decade,
)


def test_a_decade_is_counted_between_errors_that_are_not_zero():
    assert spans_a_decade(np.array([0.01, 0.1]))
    assert not spans_a_decade(np.array([0.0, 0.02, 0.1]))
    assert not spans_a_decade(np.array([]))


@pytest.mark.parametrize("errors", [[], [0.0], [0.25], [0.1, 0.2], [0.0, 0.0]])
def test_a_linear_colour_scale_never_has_zero_length(errors):
    norm = error_norm(np.array(errors))
    assert type(norm) is Normalize
    assert norm.vmin < norm.vmax


def test_zero_has_the_lowest_colour_of_a_logarithmic_scale():
    norm = error_norm(np.array([0.0, 0.01, 0.9]))
    assert isinstance(norm, LogNorm)
    assert norm(0.0) == norm(0.01) == 0


def test_ticks_are_round_and_within_the_scale():
    assert log_ticks(0.012, 0.9) == [0.02, 0.05, 0.1, 0.2, 0.5]
    assert log_ticks(0.0001, 0.9) == [0.0001, 0.001, 0.01, 0.1]


@pytest.mark.parametrize(
    ("errors", "scale"),
    [
        ([0.05, 0.06], "linear"), ([0.05], "linear"), ([0.0], "linear"), ([], "linear"),
        ([0.01, 0.9], "log"), ([0.0, 0.01, 0.9], "symlog"),
    ],
)  # fmt: skip
def test_every_error_lies_within_the_axis(errors, scale):
    axes = Figure().add_subplot()
    percent_y_axis(axes, np.array(errors))
    axes.figure.draw_without_rendering()
    assert axes.get_yscale() == scale
    low, high = axes.get_ylim()
    assert low < high
    assert all(low < error < high for error in errors)


@pytest.mark.parametrize(("high", "wanted"), [(1000.0, "10²"), (4.9, "3")])
def test_a_logarithmic_axis_has_labels_however_short_it_is(high, wanted):
    axes = Figure().subplots()
    axes.set_yscale("log")
    axes.plot([1, 2], [2.2, high])
    powers_of_ten(axes.yaxis)
    axes.figure.draw_without_rendering()
    low, top = axes.get_ylim()
    shown = [
        label.get_text()
        for label in axes.get_yticklabels()
        if low <= label.get_position()[1] <= top
    ]
    assert wanted in shown
    assert len(shown) >= 2
