"""Cross-validation of a whole grid of C and gamma."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from .beyond_memory import solve_rest_by_rows
from .in_memory import solve_in_memory
from .kernels import Kernel, kernel_values, prepare_rows, shared_products
from .layout import ClassWeight, first_validation_fold, fold_weights, problems_of, sort_rows
from .pairwise import solve_and_score_pairwise
from .score import Scores, score_pairs, score_rest
from .search import Clock, Means, Search, Settings, fits_in_memory
from .solutions import Solutions
from .threads import open_pool

STATUS_WORDS = ("converged", "iteration limit", "stalled")


@dataclass
class PathResult:
    """Every cell of a grid.

    gammas : float64 (n_gammas,); Cs : float64 (n_C,), as given
    n_errors : int64 (n_gammas, n_C, n_folds)
    n_support, n_iterations : int64, the same shape; support vectors are counted
        once for all the binary problems of a cell
    status : int64, the same shape: the worst of the cell's problems, an index
        into ``STATUS_WORDS``
    fit_seconds, score_seconds : float64, the same shape; a fold's time is shared
        out over its C's, fitting in proportion to iterations
    objectives : float64 (n_gammas, n_C, n_folds, n_problems)
    n_train, n_validation : int64 (n_folds,)
    predictions : list (n_gammas) of lists (n_folds) of int64 (n_C, n_validation),
        class numbers, or None
    decisions : the same of float32 (n_C, n_validation, n_problems), or None
    phases : seconds of wall time of each phase
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
    phases: dict[str, float] = field(default_factory=dict)


def check_input(
    X: np.ndarray, y: np.ndarray, gammas: np.ndarray, Cs: np.ndarray, folds: list[Any]
) -> None:
    if X.ndim != 2 or len(X) != len(y):
        raise ValueError(f"X must have shape (n, n_features) with n = len(y), got {X.shape}")
    if not np.isfinite(X).all():
        raise ValueError("X must be finite, got NaN or infinity")
    for name, values in (("gammas", gammas), ("Cs", Cs)):
        if values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"{name} must be finite and above 0, got {values.tolist()}")
    if not folds:
        raise ValueError("folds must hold at least 1 (train, validation) pair, got 0")


def cross_validate_path(
    X: np.ndarray,
    y: np.ndarray,
    gammas: Sequence[float] | float,
    Cs: Sequence[float],
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    decision: str = "ovo",
    tol: float = 1e-3,
    max_iter: int = -1,
    n_threads: int | None = None,
    memory_bytes: int = 4 << 30,
    class_weight: ClassWeight = None,
    kernel: str = "rbf",
    degree: int = 3,
    coef0: float = 0.0,
    return_predictions: bool = False,
    return_decisions: bool = False,
    kept: dict[str, np.ndarray] | None = None,
) -> PathResult:
    """Validate C-SVC for every gamma and C on every fold.

    Parameters
    ----------
    X : float array of shape (n, n_features)
    y : array of shape (n,), at least two labels
    gammas : one or more, above 0 (not used by the linear kernel)
    Cs : one or more, above 0, in any order
    folds : (train, validation) index arrays of any scikit-learn splitter; an
        index that repeats in train counts as often
    decision : ``"ovo"`` as ``SVC``, or ``"ovr"`` as ``OneVsRestClassifier(SVC())``
    tol : LIBSVM's stopping tolerance
    max_iter : largest number of SMO iterations for one C of one binary problem;
        -1 for LIBSVM's limit
    n_threads : None for every core this process may use
    memory_bytes : beyond it the kernel is made block by block
    class_weight : None, ``"balanced"`` or a mapping of labels
    kept : what calls with the same X, y, folds and kernel share: an empty dict at the
        first of them; without it distances are made anew in each call

    Returns
    -------
    PathResult

    Raises
    ------
    ValueError
        With the name of the argument, the rule and what was given.
    """
    X, y = np.asarray(X), np.asarray(y)
    gamma_values = np.atleast_1d(np.asarray(gammas, dtype=np.float64))
    C_values = np.asarray(Cs, dtype=np.float64)
    folds = [(np.asarray(train), np.asarray(validation)) for train, validation in folds]
    check_input(X, y, gamma_values, C_values, folds)
    clock = Clock()
    layout = sort_rows(y, first_validation_fold(folds, len(y)))
    weights = fold_weights(folds, layout.order)
    place = np.empty_like(layout.order)
    place[layout.order] = np.arange(len(y))
    ascending = np.argsort(C_values, kind="stable")
    search = Search(
        layout, problems_of(layout.n_classes, decision), weights,
        [place[validation] for _, validation in folds],
        Settings(np.ascontiguousarray(C_values[ascending]), tol, max_iter, class_weight),
        Kernel(kernel, degree, coef0), return_decisions, {} if kept is None else kept,
    )  # fmt: skip
    rows = prepare_rows(X, search.kernel)[layout.order]
    clock.lap("sort")
    result = empty_result(gamma_values, C_values, search, folds, return_predictions)
    with open_pool(n_threads) as pool:
        for g, (solutions, scores, score_seconds) in enumerate(
            _search_all(search, rows, gamma_values, Means(pool, memory_bytes, clock))
        ):
            fill_cells(result, g, ascending, search, solutions, scores, score_seconds)
    result.phases = clock.phases
    return result


def _search_all(
    search: Search, rows: np.ndarray, gammas: np.ndarray, means: Means
) -> Iterator[tuple[Solutions, list[Scores], np.ndarray]]:
    """Solutions and scores of each gamma, in order."""
    if fits_in_memory(len(rows), means.memory_bytes):
        yield from _search_in_memory(search, rows, gammas, means)
    elif search.one_vs_one:
        yield from solve_and_score_pairwise(search, rows, gammas, means)
    else:
        for gamma in gammas:
            solutions = search.empty_solutions()
            solve_rest_by_rows(rows, gamma, search, solutions, means)
            means.clock.lap("solve")
            yield _scored(search, None, solutions, means)


def _search_in_memory(
    search: Search, rows: np.ndarray, gammas: np.ndarray, means: Means
) -> Iterator[tuple[Solutions, list[Scores], np.ndarray]]:
    if not search.kept:
        search.kept["products"] = shared_products(rows, search.kernel, means.pool)
        search.kept["values"] = np.empty_like(search.kept["products"])
    shared, values = search.kept["products"], search.kept["values"]
    means.clock.lap("distances")
    for gamma in gammas:
        kernel_values(shared, search.kernel, gamma, values, means.pool)
        means.clock.lap("kernel")
        solutions = search.empty_solutions()
        solve_in_memory(values, search, solutions, means.pool)
        means.clock.lap("solve")
        yield _scored(search, values, solutions, means)


def _scored(
    search: Search, values: np.ndarray | None, solutions: Solutions, means: Means
) -> tuple[Solutions, list[Scores], np.ndarray]:
    folds = range(len(search.weights))
    scores, seconds = zip(
        *means.pool.map(partial(_score_fold, search, values, solutions), folds), strict=True
    )
    means.clock.lap("score")
    return solutions, list(scores), np.array(seconds)


def _score_fold(
    search: Search, values: np.ndarray | None, solutions: Solutions, fold: int
) -> tuple[Scores, float]:
    """Scores of a fold, one-vs-one from the kernel of all rows, and their seconds."""
    began, rows = time.perf_counter(), search.validation[fold]
    if values is None or not search.one_vs_one:
        found = score_rest(rows, fold, solutions, search.with_values)
    else:
        found = score_pairs(values, rows, fold, solutions, search.layout, search.with_values)
    return found, time.perf_counter() - began


def empty_result(
    gammas: np.ndarray,
    Cs: np.ndarray,
    search: Search,
    folds: list[tuple[np.ndarray, np.ndarray]],
    return_predictions: bool,
) -> PathResult:
    shape = (gammas.size, Cs.size, len(folds))
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
        predictions=[None] * gammas.size if return_predictions else None,
        decisions=[None] * gammas.size if search.with_values else None,
    )


def fill_cells(
    result: PathResult,
    g: int,
    ascending: np.ndarray,
    search: Search,
    solutions: Solutions,
    scores: list[Scores],
    score_seconds: np.ndarray,
) -> None:
    """Write one gamma's cells, C's back in the caller's order."""
    iterations = solutions.iterations.sum(axis=1)
    effort = iterations + 1.0
    effort *= solutions.seconds.sum(axis=1)[:, None] / effort.sum(axis=1, keepdims=True)
    result.n_iterations[g, ascending] = iterations.T
    result.n_support[g, ascending] = solutions.support.sum(axis=2).T
    result.status[g, ascending] = solutions.status.max(axis=1).T
    result.objectives[g, ascending] = solutions.objectives.transpose(2, 0, 1)
    result.fit_seconds[g, ascending] = effort.T
    result.score_seconds[g] = score_seconds / ascending.size
    for fold, score in enumerate(scores):
        truth = search.layout.codes[search.validation[fold]]
        result.n_errors[g, ascending, fold] = (score.codes != truth[:, None]).sum(axis=0)
    back = np.argsort(ascending)
    if result.predictions is not None:
        result.predictions[g] = [score.codes.T[back] for score in scores]
    if result.decisions is not None:
        result.decisions[g] = [_values(score).transpose(2, 0, 1)[back] for score in scores]


def _values(score: Scores) -> np.ndarray:
    assert score.values is not None
    return score.values
