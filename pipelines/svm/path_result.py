"""The result of a path solver for a grid, filled in the same way by CPU and GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.svm.search import Search
from pipelines.svm.solutions import Solutions


@dataclass
class Scores:
    """Predictions on one fold's validation rows.

    codes : int64 (n_validation, n_C), predicted class numbers
    values : float32 (n_validation, n_problems, n_C), decision values, or None
    """

    codes: np.ndarray
    values: np.ndarray | None = None

    @classmethod
    def of(cls, pieces: Sequence[Scores], order: np.ndarray) -> Scores:
        """Return scores of some rows each, joined; ``order`` is that of all, among them."""
        values = [one.values for one in pieces if one.values is not None]
        return cls(
            np.concatenate([one.codes for one in pieces])[order],
            np.concatenate(values)[order] if values else None,
        )


@dataclass
class PathResult:
    """Every cell of a grid.

    gammas : float64 (n_gammas,); Cs : float64 (n_C,), as given
    n_errors : int64 (n_gammas, n_C, n_folds)
    n_support, n_iterations : int64, the same shape; support vectors are counted
        once for all the binary problems of a cell
    status : int64, the same shape: the worst of the cell's problems, ``CONVERGED`` or another
    fit_seconds, score_seconds : float64, the same shape; a fold's time is shared
        out over its C's, fitting in proportion to iterations
    objectives : float64 (n_gammas, n_C, n_folds, n_problems)
    n_train, n_validation : int64 (n_folds,)
    predictions : list (n_gammas) of lists (n_folds) of int64 (n_C, n_validation),
        class numbers, or None
    decisions : the same of float32 (n_C, n_validation, n_problems), or None
    """

    gammas: np.ndarray
    Cs: np.ndarray
    classes: np.ndarray
    n_errors: np.ndarray
    n_support: np.ndarray
    n_iterations: np.ndarray
    status: np.ndarray
    fit_seconds: np.ndarray
    score_seconds: np.ndarray
    objectives: np.ndarray
    n_train: np.ndarray
    n_validation: np.ndarray
    predictions: list[Any] | None = None
    decisions: list[Any] | None = None


def checked(
    X: np.ndarray, y: Any, gammas: Any, Cs: Any, folds: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Validate a call's labels, gammas, C's and folds, and return them as arrays."""
    y, gammas = np.asarray(y), np.atleast_1d(np.asarray(gammas, dtype=np.float64))
    Cs = np.asarray(Cs, dtype=np.float64)
    folds = [(np.asarray(train), np.asarray(validation)) for train, validation in folds]
    if X.ndim != 2 or len(X) != len(y):
        raise ValueError(f"X must have shape (n, n_features) with n = len(y), got {X.shape}")
    if not np.isfinite(X).all():
        raise ValueError("X must be finite, got NaN or infinity")
    check_size(X)
    for name, values in (("gammas", gammas), ("Cs", Cs)):
        if values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"{name} must be finite and above 0, got {values.tolist()}")
    if not folds:
        raise ValueError("folds must hold at least 1 (train, validation) pair, got 0")
    return y, gammas, Cs, folds


def check_size(X: np.ndarray) -> None:
    """Refuse values whose squares overflow single precision, which ends at 3e38."""
    largest, most = float(np.abs(X).max(initial=0.0)), np.sqrt(1e37 / max(1, X.shape[1]))
    if not largest <= most:
        raise ValueError(
            f"X must hold values below {most:.0e} in size, got {largest:.3g}; scale its columns"
        )


def empty_result(
    gammas: np.ndarray,
    Cs: np.ndarray,
    search: Search,
    folds: list[tuple[np.ndarray, np.ndarray]],
    return_predictions: bool,
) -> PathResult:
    shape = (gammas.size, Cs.size, len(folds))

    def nothing() -> list[Any]:
        return [[None] * len(folds) for _ in gammas]

    return PathResult(
        gammas=gammas,
        Cs=Cs,
        classes=search.layout.classes,
        n_errors=np.zeros(shape, np.int64),
        n_support=np.zeros(shape, np.int64),
        n_iterations=np.zeros(shape, np.int64),
        status=np.zeros(shape, np.int64),
        fit_seconds=np.zeros(shape),
        score_seconds=np.zeros(shape),
        objectives=np.zeros((*shape, len(search.problems))),
        n_train=np.array([len(train) for train, _ in folds]),
        n_validation=np.array([len(validation) for _, validation in folds]),
        predictions=nothing() if return_predictions else None,
        decisions=nothing() if search.with_values else None,
    )


def fill_fold(
    result: PathResult,
    place: tuple[int, int],
    ascending: np.ndarray,
    search: Search,
    solutions: Solutions,
    score: Scores,
    score_seconds: float,
) -> None:
    """Write the cells of one gamma and fold, C's back in the caller's order."""
    g, fold = place
    iterations = solutions.iterations[fold].sum(axis=0)
    effort = iterations + 1.0
    effort *= solutions.seconds[fold].sum() / effort.sum()
    result.n_iterations[g, ascending, fold] = iterations
    result.n_support[g, ascending, fold] = solutions.support[fold].sum(axis=1)
    result.status[g, ascending, fold] = solutions.status[fold].max(axis=0)
    result.objectives[g, ascending, fold] = solutions.objectives[fold].T
    result.fit_seconds[g, ascending, fold] = effort
    result.score_seconds[g, :, fold] = score_seconds / ascending.size
    truth = search.layout.codes[search.validation[fold]]
    result.n_errors[g, ascending, fold] = (score.codes != truth[:, None]).sum(axis=0)
    back = np.argsort(ascending)
    if result.predictions is not None:
        result.predictions[g][fold] = score.codes.T[back]
    if result.decisions is not None:
        assert score.values is not None
        result.decisions[g][fold] = score.values.transpose(2, 0, 1)[back]
