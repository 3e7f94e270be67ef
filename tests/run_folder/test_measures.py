"""What is shown of a score, in console and pages."""

import numpy as np
import pytest

from pipelines.run_folder.measures import measure_of


@pytest.mark.parametrize(
    ("scoring", "name", "score", "text"),
    [
        (None, "error", 0.9861, "1.39 %"),
        ("accuracy", "error", 0.9861, "1.39 %"),
        ("f1_macro", "f1_macro", 0.91234, "0.9123"),
        ("r2", "r2", -0.015, "-0.0150"),
        ("neg_mean_absolute_error", "mean absolute error", -43.7183, "43.72"),
        ("r2", "r2", float("nan"), "–"),
    ],
)
def test_a_score_is_shown_as_its_measure_has_it(scoring, name, score, text):
    measure = measure_of(scoring)
    assert measure.name == name
    assert measure.text(measure.of(score)) == text


def test_arrays_spreads_and_differences():
    error, f1 = measure_of("accuracy"), measure_of("f1")
    assert error.of(np.array([1.0, 0.75])).tolist() == [0.0, 0.25]
    assert error.mean_and_spread(0.9861, 0.0038) == "1.39 % ± 0.38 %"
    assert f1.mean_and_spread(0.9861, None) == "0.9861"
    assert (error.text(0.011, "+"), error.text(-0.011, "+")) == ("+1.10 %", "-1.10 %")


def test_how_far_a_score_is_behind():
    error, mae = measure_of(None), measure_of("neg_mean_absolute_error")
    assert [error.behind(score) for score in (0.031, 0.0002, 0.0, 1.0)] == [
        "3.1 points",
        "0.02 points",
        "0.0 points",
        "100.0 points",
    ]
    assert mae.behind(3.217) == "3.2170"
