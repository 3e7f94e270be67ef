"""Many small classes, whose pairs are solved in one call: the same as pair by pair, and as SVC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

from pipelines.svm.cpu import in_memory
from pipelines.svm.cpu.path import cross_validate_path
from pipelines.svm.solutions import PathResult

N_CLASSES = 8
CS, GAMMA = [0.1, 3.0, 1e4], 0.05


def data(rows_of_a_class: int = 12) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    y = np.repeat(np.arange(N_CLASSES), rows_of_a_class)
    return generator.normal(size=(N_CLASSES, 4))[y] + generator.normal(size=(len(y), 4)), y


X, Y = data()
# Of the first fold class 3 has no row to train on; the second draws rows more than once.
FOLDS = [
    (np.flatnonzero((Y != 3) & (np.arange(len(Y)) % 3 > 0)), np.arange(0, len(Y), 3)),
    (np.repeat(np.arange(0, len(Y), 2), 1 + np.arange(len(Y) // 2) % 2), np.arange(1, len(Y), 2)),
]


def both(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[PathResult, PathResult]:
    """The result of the pairs together, and of each by itself."""

    def found() -> PathResult:
        return cross_validate_path(
            X, Y, GAMMA, CS, FOLDS, n_threads=1, return_decisions=True,
            **options,
        )  # fmt: skip

    together = found()
    monkeypatch.setattr(in_memory, "has_small_pairs", lambda search: False)
    return together, found()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"class_weight": "balanced"},
        {"kernel": "sigmoid", "coef0": -1.0},
        {"kernel": "linear", "tol": 1e-6},  # its largest C is hard
        {"sample_weight": 0.5 + np.arange(len(Y)) % 3},
        {"max_iter": 7},
    ],
    ids=["rbf", "balanced", "sigmoid", "hard", "weighted", "limited"],
)
def test_pairs_together_are_as_each_by_itself(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    together, alone = both(monkeypatch, **options)
    np.testing.assert_allclose(together.objectives, alone.objectives, rtol=1e-5)
    np.testing.assert_array_equal(together.status, alone.status)
    assert together.decisions is not None
    assert alone.decisions is not None
    for one, other in zip(together.decisions[0], alone.decisions[0], strict=True):
        np.testing.assert_allclose(one, other, atol=5e-2 if "max_iter" in options else 5e-3)
    assert (together.fit_seconds > 0).all()


def test_cells_are_those_of_svc() -> None:
    train, validation = FOLDS[1]
    found = cross_validate_path(X, Y, GAMMA, CS, FOLDS[1:])
    for c, C in enumerate(CS):
        svc = SVC(C=C, gamma=GAMMA).fit(X[train], Y[train])
        wrong = np.count_nonzero(svc.predict(X[validation]) != Y[validation])
        assert abs(found.n_errors[0, c, 0] - wrong) <= 1
