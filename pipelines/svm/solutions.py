"""What a path solver finds: the solutions of one gamma, and the cells of a grid made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pipelines.svm.search import Search

# How the solution of a binary problem ended.
CONVERGED, ITERATION_LIMIT, STALLED = 0, 1, 2


@dataclass
class Solutions:
    """Solutions of one gamma: ``n_folds`` x ``n_problems`` x ``n_C``.

    intercepts, objectives : float64; iterations, status : int64
    solved : int64 (n_folds, n_problems), the number of different solutions
    single : the same, of C's solved from a kernel in single precision
    seconds : float64 (n_folds, n_problems), wall time on the thread that solved it
    coefficients : float64, or float32 where that is large, (n_folds, n, n_classes, n_C), or None
        ``ovo``: the multipliers of each sorted row in the problem of its class
        against each other class.
    multipliers : float32 (1, n_classes, n_C, n) or None
        ``ovr`` of a single fold: the multipliers of every row; of several folds
        only the decision values are kept.
    decisions : float32 (n_folds, n_problems, n_C, n) or None
        ``ovr``, and ``ovo`` of two classes: decision values of every row, training and
        validation.
    support : bool (n_folds, n_C, n)
    """

    intercepts: np.ndarray
    objectives: np.ndarray
    iterations: np.ndarray
    status: np.ndarray
    solved: np.ndarray
    single: np.ndarray
    seconds: np.ndarray
    support: np.ndarray
    coefficients: np.ndarray | None = None
    multipliers: np.ndarray | None = None
    decisions: np.ndarray | None = None

    @property
    def pairs(self) -> np.ndarray:
        """``coefficients`` of one-vs-one."""
        assert self.coefficients is not None
        return self.coefficients

    @property
    def rest(self) -> np.ndarray:
        """``decisions``, where they are kept."""
        assert self.decisions is not None
        return self.decisions


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
    predictions : list (n_gammas) of lists (n_folds) of int64 (n_C, n_validation),
        class numbers
    decisions : the same of float32 (n_C, n_validation, n_problems), or None
    """

    gammas: np.ndarray
    Cs: np.ndarray
    classes: np.ndarray
    objectives: np.ndarray
    predictions: list[Any]
    decisions: list[Any] | None
    n_errors: np.ndarray
    n_support: np.ndarray
    n_iterations: np.ndarray
    status: np.ndarray
    fit_seconds: np.ndarray
    score_seconds: np.ndarray


def checked(
    X: np.ndarray, y: Any, gammas: Any, Cs: Any, folds: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Return a call's labels, gammas, C's and folds as arrays."""
    check_size(X)
    return (
        np.asarray(y),
        np.atleast_1d(np.asarray(gammas, dtype=np.float64)),
        np.asarray(Cs, dtype=np.float64),
        [(np.asarray(train), np.asarray(validation)) for train, validation in folds],
    )


def check_size(X: np.ndarray) -> None:
    """Refuse values whose squares overflow single precision, which ends at 3e38."""
    largest, most = float(np.abs(X).max(initial=0.0)), np.sqrt(1e37 / max(1, X.shape[1]))
    if not largest <= most:
        raise ValueError(
            f"X must hold values below {most:.0e} in size, got {largest:.3g}; scale its columns"
        )


def empty_result(gammas: np.ndarray, Cs: np.ndarray, search: Search) -> PathResult:
    n_folds = len(search.validation)
    shape = (gammas.size, Cs.size, n_folds)
    by_fold = [[None] * n_folds for _ in gammas]
    return PathResult(
        gammas,
        Cs,
        search.layout.classes,
        np.zeros((*shape, len(search.problems))),
        by_fold,
        [list(some) for some in by_fold] if search.with_values else None,
        *np.zeros((4, *shape), np.int64),
        *np.zeros((2, *shape)),
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
    result.predictions[g][fold] = score.codes.T[back]
    if result.decisions is not None:
        assert score.values is not None
        result.decisions[g][fold] = score.values.transpose(2, 0, 1)[back]
