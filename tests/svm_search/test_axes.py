"""Values of C, gamma and epsilon: by hand, and what scale and auto are on the rows of a search."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.svm import SVC

from pipelines.data import load_dataset
from pipelines.data.placement import FoldedData
from pipelines.errors import InputError
from pipelines.svm_grid import Options
from pipelines.svm_search import axes
from pipelines.svm_search.axes import (
    axes_of,
    axis_by_hand,
    check_values,
    gamma_in_numbers,
    read_values,
)

DIGITS = load_dataset("digits", limit=300)


def test_numbers_and_words_are_read_as_they_are_typed() -> None:
    assert read_values("0.1, 1,1e3") == (0.1, 1.0, 1000.0)
    assert read_values("scale,0.01") == ("scale", 0.01)
    assert read_values("") == ()


@pytest.mark.parametrize("word", ["scale", "auto"])
def test_a_word_is_scikit_learns_gamma(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = FoldedData.of(DIGITS, []).scaled("cpu")
    expected = SVC(gamma=word).fit(X, DIGITS.y_train)._gamma
    assert gamma_in_numbers(word, DIGITS) == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr(axes, "ROWS_AT_ONCE", 7)
    assert gamma_in_numbers(word, DIGITS) == pytest.approx(expected, rel=1e-6)


def test_rows_without_spread_have_a_gamma() -> None:
    from dataclasses import replace

    flat = replace(DIGITS, X_train=np.full_like(DIGITS.X_train, 3))
    assert gamma_in_numbers("scale", flat) == 1.0


def test_an_axis_by_hand_is_in_order_and_of_numbers() -> None:
    scale = gamma_in_numbers("scale", DIGITS)
    assert axis_by_hand("gamma", (1.0, "scale", 1e-5), DIGITS) == (1e-5, scale, 1.0)
    with pytest.raises(InputError, match=rf"got scale and {scale}, both"):
        axis_by_hand("gamma", ("scale", scale), DIGITS)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("c", (), "c must be numbers from 1e-30 to 1e+30 with commas between them, got none; for"),
        ("c", (1.0, 0.0), "got 0; for instance c='0.1,1,10'"),
        ("c", (float("inf"),), "got inf"),
        ("c", (float("nan"),), "got nan"),
        ("c", ("scale",), "got 'scale'"),
        ("gamma", ("scal",), "numbers from 1e-30 to 1e+30, scale or auto, with commas"),
        ("gamma", ("scale", 0.1, "scale"), "gamma must be different values, got scale twice"),
        ("c", (1.0, 1.0 + 1e-12), "got 1.0 and 1.000000000001, both 1; leave one of them out"),
        ("epsilon", (-0.1,), "epsilon must be numbers from 0 to 1e+30"),
    ],
)
def test_what_is_no_value_is_refused(name: str, values: tuple[float, ...], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        check_values(name, values)


def test_epsilon_may_be_0() -> None:
    check_values("epsilon", (0.0, 0.1))


def test_the_record_has_what_the_rows_decided_and_nothing_beside_values_by_hand() -> None:
    grid, chosen = axes_of(Options(c=(10.0, 0.1), n_gamma=2), DIGITS)
    assert grid["C"] == (0.1, 10.0)
    assert len(grid["gamma"]) == 2
    assert set(chosen) == {"n_gamma", "log_gamma"}
    grid, chosen = axes_of(Options(), DIGITS)
    assert [len(values) for values in grid.values()] == [8, 8]
    assert chosen["n_c"] == 8
    grid, chosen = axes_of(Options(kernel="linear", n_gamma=5), DIGITS)
    assert len(grid["gamma"]) == chosen["n_gamma"] == 1
