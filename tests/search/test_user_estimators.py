"""What a user's estimator gives: in scores and in the test it passes one function."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from pipelines import cross_validate
from pipelines.errors import InputError
from pipelines.run.errors import RunStopped
from pipelines.run_folder import names
from pipelines.search.scoring import predictions_as

INTS = np.dtype(np.int32)


def run(estimator, results, **options):
    name = f"tests.search.awkward.{estimator}"
    how = {"dataset": "digits", "limit": 150, "folds": 3, "preprocess": "none", "quiet": True}
    return cross_validate.run(
        estimator=[name],
        param=[f"{name}:k=1,2"],
        cluster="threads",
        workers=2,
        results=str(results),
        **how | options,
    )


def cells(results):
    return pd.read_parquet(results / names.CELLS)


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """The scores and predictions of the estimator that does nothing awkward."""
    path = tmp_path_factory.mktemp("usual")
    run("Nearest", path)
    return cells(path), pd.read_parquet(path / names.PREDICTIONS)


@pytest.mark.parametrize(
    "estimator",
    ["Column", "Floats", "Objects", "ReturnsNone", "WritesRows", "WritesAsked"],
)
@pytest.mark.parametrize("preprocess", ["none", "steps"])
def test_scores_and_the_test_are_those_of_a_plain_estimator(estimator, preprocess, tmp_path, usual):
    steps = tmp_path / "steps.yaml"
    steps.write_text("- identity: {class: sklearn.preprocessing.FunctionTransformer}\n")
    path = tmp_path / "run"
    run(estimator, path, preprocess=str(steps) if preprocess == "steps" else "none")
    scores, predictions = usual
    assert list(cells(path)["status"]) == ["ok"] * 6
    assert list(cells(path)["score"]) == list(scores["score"])
    stored = pd.read_parquet(path / names.PREDICTIONS)
    pd.testing.assert_frame_equal(stored, predictions)


def test_what_predicts_no_class_says_so_in_every_row(tmp_path):
    with pytest.raises(RunStopped, match="ValueError: Classification metrics can't handle a mix"):
        run("Halves", tmp_path)
    says = set(cells(tmp_path)["status"])
    assert len(says) == 1
    assert says.pop().startswith("failed: scoring accuracy: ValueError: Classification metrics")


@pytest.mark.parametrize(
    ("estimator", "says"),
    [
        ("Halves", "predict must give class codes from 0 to 9, and gives 0.5"),
        ("Short", r"predict must give an array of shape \(\d+,\), and gives"),
    ],
)
def test_what_is_scored_by_other_methods_is_refused_in_the_test(estimator, says, tmp_path):
    with pytest.raises(RunStopped, match=says):
        run(estimator, tmp_path, scoring=["neg_log_loss"])
    assert list(cells(tmp_path)["status"]) == ["ok"] * 6


def test_a_text_that_is_no_unicode_is_written_out(tmp_path):
    run("Surrogates", tmp_path)
    status = cells(tmp_path).set_index("candidate")["status"]
    assert set(status[0]) == {"ok"}
    assert set(status[1]) == {"failed: KeyError: 'no \\udc80 here\\nnor there'"}


@pytest.mark.parametrize(
    ("estimator", "says"),
    [
        ("NoParams", r"get_params gives its parameters, got .* \(RuntimeError: they are secret\)"),
        ("CannotBeMade", r"made without arguments, got .* \(OSError: its file is gone\)"),
    ],
)
def test_a_class_that_fails_before_any_fit_is_refused(estimator, says, tmp_path):
    with pytest.raises(InputError, match=says):
        run(estimator, tmp_path)


def test_an_interrupt_from_an_estimator_is_the_failure_of_its_fit(tmp_path):
    run("Interrupts", tmp_path)
    status = cells(tmp_path).set_index("candidate")["status"]
    assert set(status[0]) == {"ok"}
    assert set(status[1]) == {"failed: TaskEndedError: the task raised KeyboardInterrupt"}
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (np.array([[1], [2]]), [1, 2]),
        (np.array([1.0, 2.0], np.float32), [1, 2]),
        (np.array([True, False]), [1, 0]),
        (np.array([1, 2], object), [1, 2]),
        (pd.Series([2, 1], index=[7, 8]), [2, 1]),
        ([1, 2.0], [1, 2]),
    ],
    ids=repr,
)
def test_predictions_become_class_codes(values, codes):
    predicted = predictions_as(INTS, values)
    assert predicted.dtype.kind == "i"
    assert predicted.tolist() == codes


@pytest.mark.parametrize(
    "values",
    [[0.5, 1.0], [np.nan, 1.0], [1e300, 1.0], ["1", "2"], [None, 1], [[1, 2], [3, 4]]],
    ids=repr,
)
def test_predictions_that_are_none_stay_as_they_are(values):
    codes = predictions_as(INTS, np.array(values))
    np.testing.assert_array_equal(codes, np.array(values))


def test_numbers_keep_their_precision():
    values = np.array([[0.1], [0.2]], np.float32)
    assert predictions_as(np.dtype(np.float64), values).dtype == np.float32
    assert predictions_as(np.dtype(np.float64), values).shape == (2,)
