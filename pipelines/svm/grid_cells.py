"""The cells of a grid, from the solutions and scores of a path solver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Predictions, Progress
from pipelines.svm.search import PathSearch
from pipelines.svm.solutions import CONVERGED, Solutions


@dataclass
class Scores:
    """Predictions for one fold's validation rows, at every C.

    Attributes
    ----------
    codes : int64 array of shape (n_validation, n_C)
        Predicted class numbers.
    values : float32 array of shape (n_validation, n_problems, n_C) or None
        Decision values.
    """

    codes: np.ndarray
    values: np.ndarray | None = None

    @classmethod
    def of(cls, pieces: Sequence[Scores], order: np.ndarray) -> Scores:
        """Join the scores of pieces of the rows; ``order`` indexes the joined rows."""
        values = [piece.values for piece in pieces if piece.values is not None]
        return cls(
            np.concatenate([piece.codes for piece in pieces])[order],
            np.concatenate(values)[order] if values else None,
        )


@dataclass
class PathResult:
    """Every cell of a grid, in arrays.

    Attributes
    ----------
    classes : array of shape (n_classes,)
        The labels.
    objectives : float64 array of shape (n_gammas, n_C, n_folds, n_problems)
        Dual objectives.
    predictions : list (n_gammas) of lists (n_folds) of int64 arrays of shape (n_C, n_validation)
        Class numbers.
    decisions : lists like ``predictions``, of float32 arrays (n_C, n_validation, n_problems)
        Decision values, 0 where they were not asked for.
    n_errors : int64 array of shape (n_gammas, n_C, n_folds)
    n_support, n_iterations : int64 arrays of the same shape
        A row that is a support vector of several binary problems of a cell counts once.
    status : int64 array of the same shape
        The worst of the cell's problems: ``CONVERGED``, ``ITERATION_LIMIT`` or ``STALLED``.
    fit_seconds, score_seconds : float64 arrays of the same shape
        The time of a fold, divided among its C's, the fitting time in proportion to iterations.
    """

    classes: np.ndarray
    objectives: np.ndarray
    predictions: list[list[np.ndarray]]
    decisions: list[list[np.ndarray]]
    n_errors: np.ndarray
    n_support: np.ndarray
    n_iterations: np.ndarray
    status: np.ndarray
    fit_seconds: np.ndarray
    score_seconds: np.ndarray

    @classmethod
    def of(
        cls, fits: Iterable[Fit | Progress], y: Any, gammas: Any, Cs: Any, folds: Sequence[Any]
    ) -> PathResult:
        """Collect the fits of a path solver in arrays; cells that were not solved hold 0."""
        cells = [fit for fit in fits if isinstance(fit, Fit)]
        n_gammas, n_C, n_problems = np.size(gammas), len(Cs), len(cells[0].details["objectives"])
        shape, classes, y = (n_gammas, n_C, len(folds)), np.unique(y), np.asarray(y)
        sizes = [len(validation) for _, validation in folds]
        result = cls(
            classes,
            np.zeros((*shape, n_problems)),
            [[np.zeros((n_C, n), np.int64) for n in sizes] for _ in range(n_gammas)],
            [[np.zeros((n_C, n, n_problems), np.float32) for n in sizes] for _ in range(n_gammas)],
            *np.zeros((4, *shape), np.int64),
            *np.zeros((2, *shape)),
        )
        for fit in cells:
            assert isinstance(fit.predict, Predictions)
            (g, c), fold, predicted = divmod(fit.candidate, n_C), fit.split, fit.predict.by_method
            cell = g, c, fold
            result.n_errors[cell] = np.count_nonzero(predicted["predict"] != y[folds[fold][1]])
            result.predictions[g][fold][c] = np.searchsorted(classes, predicted["predict"])
            if "problem_values" in predicted:
                result.decisions[g][fold][c] = predicted["problem_values"]
            for name in ("n_support", "n_iterations", "fit_seconds", "score_seconds"):
                getattr(result, name)[cell] = getattr(fit, name)
            for name in ("status", "objectives"):
                getattr(result, name)[cell] = fit.details[name]
        return result


def fits_of_fold(
    g: int,
    fold: int,
    ascending: np.ndarray,
    search: PathSearch,
    solutions: Solutions,
    scores: Scores,
    score_seconds: float,
) -> list[Fit]:
    """The fits of one gamma and fold, with C's in the caller's order again.

    Parameters
    ----------
    g, fold : int
        Numbers of the gamma and of the fold.
    ascending : int array of shape (n_C,), from ``search_folds``
    search : PathSearch
    solutions : Solutions
    scores : Scores
    score_seconds : float

    Returns
    -------
    list of Fit
        Their details are ``objectives``, float64 (n_problems,), and ``status``, the worst of the
        problems. Where values are kept, a prediction ``problem_values`` has the shape
        (n_validation, n_problems).
    """
    iterations = solutions.iterations[fold].sum(axis=0)
    effort = iterations + 1.0
    effort *= solutions.seconds[fold].sum() / effort.sum()
    n_support = solutions.support[fold].sum(axis=1)
    status = solutions.status[fold].max(axis=0)
    fits = []
    for c, position in enumerate(np.argsort(ascending)):
        predictions = {"predict": search.layout.classes[scores.codes[:, position]]}
        if scores.values is not None:
            predictions["problem_values"] = scores.values[:, :, position]
        fit = Fit(g * ascending.size + c, fold, Predictions(predictions))
        fit.fit_seconds, fit.score_seconds = float(effort[position]), score_seconds / ascending.size
        fit.n_support, fit.n_iterations = int(n_support[position]), int(iterations[position])
        objectives = solutions.objectives[fold, :, position]
        fit.details = {"objectives": objectives, "status": int(status[position])}
        fit.converged = fit.details["status"] == CONVERGED
        fits.append(fit)
    return fits
