"""Cross-validation of a whole grid of C and gamma."""

import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from pipelines.svm.cpu.beyond_memory import solve_rest_by_rows
from pipelines.svm.cpu.exact import ExactKernel
from pipelines.svm.cpu.in_memory import solve_in_memory
from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
from pipelines.svm.cpu.pairwise import solve_and_score_pairwise
from pipelines.svm.cpu.score import score_pairs, score_rest
from pipelines.svm.cpu.threads import Clock, Means, fits_in_memory, open_pool
from pipelines.svm.kernel import Kernel
from pipelines.svm.path_result import PathResult, Scores, check_input, empty_result, fill_cells
from pipelines.svm.problems import (
    ClassWeight,
    first_validation_fold,
    fold_weights,
    problems_of,
    sort_rows,
)
from pipelines.svm.search import Search, Settings
from pipelines.svm.solutions import Solutions


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
    sample_weight: np.ndarray | None = None,
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
    sample_weight : float (n,) of factors of C, rows of 0 or below are left out of training,
        or None
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
    counts = fold_weights(folds, layout.order)
    weights = counts
    if sample_weight is not None:
        weights = counts * np.maximum(np.asarray(sample_weight, np.float64)[layout.order], 0)
    place = np.empty_like(layout.order)
    place[layout.order] = np.arange(len(y))
    ascending = np.argsort(C_values, kind="stable")
    search = Search(
        layout, problems_of(layout.n_classes, decision), weights,
        [place[validation] for _, validation in folds],
        Settings(np.ascontiguousarray(C_values[ascending]), tol, max_iter, class_weight),
        Kernel(kernel, degree, coef0), return_decisions, {} if kept is None else kept, counts,
    )  # fmt: skip
    rows = prepare_rows(X, search.kernel, layout.order)
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
    if search.kernel.is_given or fits_in_memory(len(rows), means.memory_bytes):
        yield from _search_in_memory(search, rows, gammas, means)
    elif search.one_vs_one:
        yield from solve_and_score_pairwise(search, rows, gammas, means)
    else:
        for gamma in gammas:
            solutions = search.empty_solutions()
            solve_rest_by_rows(rows, gamma, search, solutions, means)
            means.clock.lap("solve")
            yield _scored(search, None, None, solutions, means)


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
        solutions, exact = search.empty_solutions(), means.exact_kernel(rows, search.kernel, gamma)
        solve_in_memory(values, exact, search, solutions, means.pool)
        means.clock.lap("solve")
        yield _scored(search, values, exact, solutions, means)


def _scored(
    search: Search,
    values: np.ndarray | None,
    exact: ExactKernel | None,
    solutions: Solutions,
    means: Means,
) -> tuple[Solutions, list[Scores], np.ndarray]:
    folds = range(len(search.weights))
    scores, seconds = zip(
        *means.pool.map(partial(_score_fold, search, values, exact, solutions), folds), strict=True
    )
    means.clock.lap("score")
    return solutions, list(scores), np.array(seconds)


def _score_fold(
    search: Search,
    values: np.ndarray | None,
    exact: ExactKernel | None,
    solutions: Solutions,
    fold: int,
) -> tuple[Scores, float]:
    """Scores of a fold, one-vs-one from the kernel of all rows, and their seconds."""
    began, rows = time.perf_counter(), search.validation[fold]
    if values is None or not search.one_vs_one:
        found = score_rest(rows, fold, solutions, search.with_values)
    else:
        between = None if exact is None else exact.between
        found = score_pairs(values, rows, fold, solutions, search, between)
    return found, time.perf_counter() - began
