from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from pipelines.report.bagging_figures import member_losses, parallel_coordinates
from pipelines.report.style import PHONE, WIDE, figure_style, on_a_phone


def lines_of(figure: Figure, gid: str) -> list[np.ndarray]:
    return [
        path.vertices for one in figure.axes[0].collections if one.get_gid() == gid
        for path in one.get_paths()
    ]  # fmt: skip


def candidates() -> pd.DataFrame:
    return pd.DataFrame(
        {"learning_rate": [0.001, 0.1, 0.01], "momentum": [0.2, 0.4, 0.3],
         "error_mean": [0.5, 0.1, 0.3], "is_best": [False, True, False]}
    )  # fmt: skip


def test_a_candidate_is_a_line_through_its_parameters_to_its_error() -> None:
    with figure_style():
        figure = parallel_coordinates(candidates(), ["learning_rate", "momentum"])
        figure.draw_without_rendering()
    (chosen,) = lines_of(figure, "chosen")
    assert chosen.tolist() == [[0, 1], [1, 1], [2, 0]]
    others = lines_of(figure, "candidates")
    assert [line[:, 1].tolist() for line in others] == [
        pytest.approx([0, 0, 1]), pytest.approx([0.5, 0.5, 0.5])  # the rate by its logarithm
    ]  # fmt: skip


def test_a_member_is_a_line_of_its_losses() -> None:
    with figure_style():
        figure = member_losses({0: [2.0, 1.0], 3: [2.5, 1.5, 1.4]}, 3)
    drawn = [line for line in figure.axes[0].lines if line.get_gid() == "losses"]
    assert [line.get_ydata().tolist() for line in drawn] == [[2.0, 1.0], [2.5, 1.5, 1.4]]
    assert drawn[1].get_xdata().tolist() == [1, 2, 3]


def test_a_figure_for_a_phone_is_narrow() -> None:
    with figure_style():
        wide = parallel_coordinates(candidates(), ["learning_rate"])
        with on_a_phone():
            narrow = parallel_coordinates(candidates(), ["learning_rate"])
    assert (wide.get_figwidth(), narrow.get_figwidth()) == (WIDE, PHONE)
