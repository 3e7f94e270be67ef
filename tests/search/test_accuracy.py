"""The accuracy of predictions, where it is counted and where scikit-learn is asked."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from pipelines.search.scoring import accuracy_of

rng = np.random.default_rng(0)
CODES = rng.integers(0, 3, 97), rng.integers(0, 3, 97)
LABELS = [np.array(["a", "bc", "d"])[codes] for codes in CODES]


@pytest.mark.parametrize(
    ("truth", "predicted"),
    [
        CODES,
        LABELS,
        (CODES[0] > 0, CODES[1] > 0),
        (CODES[0].astype(np.int32), CODES[1].astype(float)),
        (CODES[0].tolist(), CODES[1]),
        (LABELS[0].astype(object), LABELS[1].astype(object)),
        (CODES[0][:, None] == [0, 1, 2], CODES[1][:, None] == [0, 1, 2]),
    ],
)
def test_it_has_scikit_learns_bits(truth, predicted):
    assert accuracy_of(truth, predicted) == accuracy_score(truth, predicted)


@pytest.mark.parametrize(
    ("truth", "predicted"),
    [
        (CODES[0], CODES[1][1:]),
        (CODES[0], LABELS[1]),
        (CODES[0], CODES[1] + 0.5),
        (CODES[0][:0], CODES[1][:0]),
        tuple(np.append(labels.astype(object), None) for labels in LABELS),
        tuple(np.append(None, labels.astype(object)) for labels in LABELS),
        (LABELS[0].astype(object), CODES[1].astype(object)),
    ],
)
def test_what_scikit_learn_refuses_is_refused(truth, predicted):
    assert outcome(accuracy_of, truth, predicted) == outcome(accuracy_score, truth, predicted)


def outcome(accuracy, truth, predicted):
    """What it gives, or says; before 1.8 scikit-learn warned of some of these, or took them."""
    try:
        return f"{accuracy(truth, predicted)}"
    except (TypeError, ValueError, RuntimeWarning) as error:
        return f"{type(error).__name__}: {error}"
