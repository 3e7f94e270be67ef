"""Cross-validation of a whole grid of C and gamma."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Progress
from pipelines.svm.cells import PathResult, Scores, fits_of_fold
from pipelines.svm.cpu.beyond_memory import open_rows
from pipelines.svm.cpu.class_products import products_by_class
from pipelines.svm.cpu.in_memory import solve_in_memory
from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
from pipelines.svm.cpu.pairwise import score_pairwise, solve_pairwise
from pipelines.svm.cpu.score import score_pairs, score_rest, score_two
from pipelines.svm.cpu.solve import solve_rest
from pipelines.svm.cpu.threads import Resources, fits_in_memory, open_pool
from pipelines.svm.search import PathSearch, as_arrays, search_folds
from pipelines.svm.settings import Settings
from pipelines.svm.solutions import Solutions

ROWS = "rows"  # prepared: what calls share beside their products


def cross_validate_path(
    X: np.ndarray, y: np.ndarray, gammas: Any, Cs: Any, folds: Any, **options: Any
) -> PathResult:
    """Cross-validate C-SVC as ``solve_path`` does; return every cell in arrays."""
    fits = solve_path(X, y, gammas, Cs, folds, **options)
    return PathResult.of(fits, y, gammas, Cs, folds)


def solve_path(
    X: np.ndarray,
    y: np.ndarray,
    gammas: Sequence[float] | float,
    Cs: Sequence[float],
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    n_threads: int | None = None,
    memory_bytes: int = 4 << 30,
    sample_weight: np.ndarray | None = None,
    return_decisions: bool = False,
    cache: dict[str, Any] | None = None,
    only: Sequence[int] | None = None,
    **form: Any,
) -> Iterator[Fit | Progress]:
    """Cross-validate C-SVC for every gamma and C on every fold.

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
    return_decisions : whether fits have the values of the binary problems, too
    kept : what calls with the same X, y, folds and kernel share: an empty dict at the
        first of them; without it distances are made anew in each call
    only : numbers of the folds to work on, by default all; the cells of a fold are the same
        to the last digit whichever others there are
    form : decision, tol, max_iter, class_weight, kernel, degree, coef0: see ``Settings``

    Yields
    ------
    The fits of a gamma and a fold, see ``fits_of_fold``, as soon as these are solved; folds end in
    no special order. Candidates are numbered gamma by gamma, and C by C within each.

    Raises
    ------
    ValueError
        With the name of the argument, the rule and what was given.
    """
    X, cache = np.asarray(X), {} if cache is None else cache
    unchecked = X[:0] if ROWS in cache else X  # of those that are kept the values were looked at
    y, gamma_values, C_values, folds = as_arrays(unchecked, y, gammas, Cs, folds)
    search, ascending = search_folds(
        y,
        C_values,
        folds,
        Settings(**form),
        sample_weight,
        with_values=return_decisions,
        cache=cache,
        only=only,
    )
    rows = cache.get(ROWS)
    if rows is None:
        rows = prepare_rows(X, search.kernel, search.layout.order)
    if fits_in_memory(len(rows), memory_bytes):  # beyond it nothing else is kept
        cache[ROWS] = rows
    length = 1 / len(gamma_values)
    with open_pool(n_threads) as pool:
        resources = Resources(pool, memory_bytes)
        for g, gamma in enumerate(gamma_values):
            solutions = search.empty_solutions()
            for item in _solve_and_score(search.at(gamma), rows, solutions, resources):
                if isinstance(item, Progress):
                    yield item.within(g * length, length)
                else:
                    fold, (scores, seconds) = item
                    yield from fits_of_fold(g, fold, ascending, search, solutions, scores, seconds)


def _solve_and_score(
    search: PathSearch, rows: np.ndarray, out: Solutions, resources: Resources
) -> Iterator[tuple[int, tuple[Scores, float]] | Progress]:
    """Yield each fold of one gamma with its scores and the seconds that these took."""
    cache, kernel, validation = search.cache, search.kernel, search.validation

    def finish(fold: int) -> tuple[Scores, float]:
        began = time.perf_counter()
        scores = score(fold)
        return scores, time.perf_counter() - began

    def score_of_rest(fold: int) -> Scores:
        return score_rest(validation[fold], fold, out, search.with_values)

    score: Callable[[int], Scores] = score_of_rest
    if kernel.is_given or fits_in_memory(len(rows), resources.memory_bytes):
        if "products" not in cache:
            cache["products"] = shared_products(rows, kernel, resources.pool)
            cache["values"] = np.empty_like(cache["products"])
        values = kernel_values(cache["products"], kernel, cache["values"], resources.pool)
        exact = resources.exact_kernel(rows, kernel, cache)
        if search.one_vs_one:
            exact_values = None if exact is None else exact.between

            def score_in_memory(fold: int) -> Scores:
                of_problems = score_two if search.of_two else score_pairs
                return of_problems(values, validation[fold], fold, out, search, exact_values)

            score = score_in_memory
        yield from solve_in_memory(values, exact, search, out, finish, resources)
    elif search.one_vs_one:
        products = products_by_class(search, rows, resources)
        score = partial(score_pairwise, search, rows, products, out, resources)
        yield from solve_pairwise(search, rows, products, out, finish, resources)
    else:
        opened = partial(open_rows, rows, kernel, resources)
        yield from solve_rest(search, opened, out, finish, resources)
