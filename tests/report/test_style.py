import numpy as np
import pytest
from matplotlib.figure import Figure

from pipelines.report.style import percent_axis, powers_of_ten


@pytest.mark.parametrize(
    ("errors", "scale"),
    [
        ([0.05, 0.06], "linear"),
        ([0.05], "linear"),
        ([0.0], "linear"),
        ([], "linear"),
        ([0.01, 0.9], "log"),
        ([0.0, 0.01, 0.9], "linear"),
    ],
)
def test_every_error_lies_within_the_axis(errors, scale):
    axes = Figure().add_subplot()
    percent_axis(axes.yaxis, np.array(errors))
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
