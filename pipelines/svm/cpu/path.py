"""Cross-validation of a whole grid of C and gamma."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pipelines.svm.cpu.beyond_memory import open_rows
from pipelines.svm.cpu.class_products import products_by_class
from pipelines.svm.cpu.exact import ExactKernel
from pipelines.svm.cpu.in_memory import solve_in_memory
from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
from pipelines.svm.cpu.pairwise import score_pairwise, solve_pairwise
from pipelines.svm.cpu.score import score_pairs, score_rest, score_two
from pipelines.svm.cpu.solve import solve_rest
from pipelines.svm.cpu.threads import Clock, Resources, fits_in_memory, open_pool
from pipelines.svm.path_result import PathResult, Scores, checked, empty_result, fill_fold
from pipelines.svm.search import Form, Search, search_folds
from pipelines.svm.solutions import Solutions


def cross_validate_path(
    X: np.ndarray,
    y: np.ndarray,
    gammas: Sequence[float] | float,
    Cs: Sequence[float],
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    n_threads: int | None = None,
    memory_bytes: int = 4 << 30,
    sample_weight: np.ndarray | None = None,
    return_predictions: bool = False,
    return_decisions: bool = False,
    kept: dict[str, Any] | None = None,
    only: Sequence[int] | None = None,
    on_fold: Callable[[PathResult, int, int], None] | None = None,
    on_progress: Callable[[float], None] | None = None,
    **form: Any,
) -> PathResult:
    """Return cross-validate C-SVC for every gamma and C on every fold.

    Parameters
    ----------
    X : float array of shape (n, n_features)
    y : array of shape (n,), at least two labels
    gammas : one or more, above 0 (not used by the linear kernel)
    Cs : one or more, above 0, in any order
    folds : (train, validation) index arrays of any scikit-learn splitter; an
        index that repeats in train counts as often
    n_threads : None for every core this process may use
    memory_bytes : beyond it the kernel is made block by block
    sample_weight : float (n,) of factors of C, rows of 0 or below are left out of training,
        or None
    kept : what calls with the same X, y, folds and kernel share: an empty dict at the
        first of them; without it distances are made anew in each call
    only : numbers of the folds to work on, by default all; the cells of a fold are the same
        to the last digit whichever others there are
    on_fold : function of the result, the number of a gamma and that of a fold, called by one
        thread when the cells of these are filled; by default folds end in no special order
    on_progress : function of the share that is done, called by any thread
    form : decision, tol, max_iter, class_weight, kernel, degree, coef0: see ``Form``

    Returns
    -------
    PathResult

    Raises
    ------
    ValueError
        With the name of the argument, the rule and what was given.
    """
    X = np.asarray(X)
    y, gamma_values, C_values, folds = checked(X, y, gammas, Cs, folds)
    clock = Clock()
    search, ascending = search_folds(
        y, C_values, folds, Form(**form), sample_weight, with_values=return_decisions,
        kept={} if kept is None else kept, only=only,
    )  # fmt: skip
    rows = prepare_rows(X, search.kernel, search.layout.order)
    clock.lap("sort")
    result = empty_result(gamma_values, C_values, search, folds, return_predictions)
    with open_pool(n_threads) as pool:
        resources = Resources(pool, memory_bytes, clock)
        for (g, fold), solutions, (score, seconds) in _search_all(
            search, rows, gamma_values, resources, on_progress or (lambda share: None)
        ):
            fill_fold(result, (g, fold), ascending, search, solutions, score, seconds)
            if on_fold is not None:
                on_fold(result, g, fold)
    result.phases = clock.phases
    return result


# A gamma and a fold, the gamma's solutions, and the fold's scores with their seconds.
Found = tuple[tuple[int, int], Solutions, tuple[Scores, float]]


def _search_all(
    search: Search,
    rows: np.ndarray,
    gammas: np.ndarray,
    resources: Resources,
    on_progress: Callable[[float], None],
) -> Iterator[Found]:
    """Yield every gamma, in order, on every fold."""
    if search.kernel.is_given or fits_in_memory(len(rows), resources.memory_bytes):
        solve: Callable[..., Iterator[tuple[int, tuple[Scores, float]]]] = _solve_in_memory
    elif search.one_vs_one:
        solve = _solve_pairwise
    else:
        solve = _solve_rest
    for g, gamma in enumerate(gammas):
        out, at = search.empty_solutions(), partial(_all_in_all, g, len(gammas), on_progress)
        for fold, scored in solve(
            search.at(gamma), rows, out=out, resources=replace(resources, on_progress=at)
        ):
            yield (g, fold), out, scored
        resources.clock.lap("solve and score")


def _all_in_all(g: int, n_gammas: int, on_progress: Callable[[float], None], share: float) -> None:
    on_progress((g + share) / n_gammas)


def _solve_in_memory(
    search: Search, rows: np.ndarray, out: Solutions, resources: Resources
) -> Iterator[tuple[int, tuple[Scores, float]]]:
    if "products" not in search.kept:
        search.kept["products"] = shared_products(rows, search.kernel, resources.pool)
        search.kept["values"] = np.empty_like(search.kept["products"])
        resources.clock.lap("distances")
    values = search.kept["values"]
    kernel_values(search.kept["products"], search.kernel, values, resources.pool)
    resources.clock.lap("kernel")
    exact = resources.exact_kernel(rows, search.kernel)
    score = partial(_score_fold, search, values, exact, out)
    yield from solve_in_memory(values, exact, search, out, score, resources)


def _solve_pairwise(
    search: Search, rows: np.ndarray, out: Solutions, resources: Resources
) -> Iterator[tuple[int, tuple[Scores, float]]]:
    products = products_by_class(search, rows, resources)

    def score(fold: int) -> tuple[Scores, float]:
        began = time.perf_counter()
        found = score_pairwise(search, rows, products, out, resources, fold)
        return found, time.perf_counter() - began

    yield from solve_pairwise(search, rows, products, out, score, resources)


def _solve_rest(
    search: Search, rows: np.ndarray, out: Solutions, resources: Resources
) -> Iterator[tuple[int, tuple[Scores, float]]]:
    score = partial(_score_fold, search, None, None, out)
    opened = partial(open_rows, rows, search.kernel, resources)
    yield from solve_rest(search, opened, out, score, resources)


def _score_fold(
    search: Search,
    values: np.ndarray | None,
    exact: ExactKernel | None,
    solutions: Solutions,
    fold: int,
) -> tuple[Scores, float]:
    """Return scores of a fold, one-vs-one from the kernel of all rows, and their seconds."""
    began, rows = time.perf_counter(), search.validation[fold]
    if values is None or not search.one_vs_one:
        found = score_rest(rows, fold, solutions, search.with_values)
    else:
        between, score = None if exact is None else exact.between, score_pairs
        if search.of_two:
            score = score_two
        found = score(values, rows, fold, solutions, search, between)
    return found, time.perf_counter() - began
