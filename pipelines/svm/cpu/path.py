"""Cross-validation of a whole grid of C and gamma by the path solver on a CPU."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Progress
from pipelines.svm.cpu.beyond_memory import open_rows
from pipelines.svm.cpu.class_products import products_by_class
from pipelines.svm.cpu.in_memory import solve_in_memory
from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
from pipelines.svm.cpu.pairwise import score_pairwise, solve_pairwise
from pipelines.svm.cpu.score import score_pairs, score_rest, score_two
from pipelines.svm.cpu.solve import solve_rest
from pipelines.svm.cpu.solver_threads import Resources, fits_in_memory, open_pool
from pipelines.svm.grid_cells import PathResult, Scores, fits_of_fold
from pipelines.svm.search import PathSearch, as_arrays, search_folds
from pipelines.svm.settings import Settings
from pipelines.svm.solutions import Solutions

ROWS = "rows"  # the key of the prepared rows in the cache that calls share


def cross_validate_path(
    X: np.ndarray, y: np.ndarray, gammas: Any, Cs: Any, folds: Any, **options: Any
) -> PathResult:
    """Cross-validate C-SVC, and collect every cell in arrays.

    Parameters
    ----------
    X, y, gammas, Cs, folds, **options
        As for ``solve_path``.
    """
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
    X : float array of shape (n, n_features), or (n, n) for ``"precomputed"``
    y : array of shape (n,)
        At least two different labels.
    gammas : sequence of float, or float
        Above 0; without effect on the linear kernel.
    Cs : sequence of float
        Above 0, in any order.
    folds : sequence of (train, validation)
        Index arrays, as from any scikit-learn splitter. A training row counts as often as it
        appears.
    n_threads : int, optional
        None for every core that this process may use.
    memory_bytes : int, default 4 GiB
        Bytes of kernel matrices that may be held; beyond that they are computed block by block.
    sample_weight : float array of shape (n,), optional
        Factors of C. Rows with a factor of 0 or below are left out of training.
    return_decisions : bool, default False
        Whether fits also have the decision values of the binary problems.
    cache : dict, optional
        Data that calls with the same ``X``, ``y``, ``folds`` and kernel share; empty at the first
        call. Without it, distances are computed again in each call.
    only : sequence of int, optional
        Numbers of the folds to work on, by default all. The cells of a fold are the same to the
        last digit whichever others are solved with it.
    **form
        Fields of ``Settings``: decision, tol, max_iter, class_weight, kernel, degree, coef0.

    Yields
    ------
    Fit or Progress
        The fits of a gamma and a fold, see ``fits_of_fold``, as soon as these are solved; folds
        end in no special order. Candidates are numbered gamma by gamma, and C by C within a gamma.

    Raises
    ------
    ValueError
        Values of ``X`` or ``gammas`` are too large for single precision, or ``y`` holds only one
        class.
    """
    X, cache = np.asarray(X), {} if cache is None else cache
    unchecked = X[:0] if ROWS in cache else X  # the values of cached rows have been checked
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
    if fits_in_memory(len(rows), memory_bytes):  # beyond it no products of all rows are kept either
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
    """Solve one gamma: yield each fold with its scores and the seconds that scoring took."""
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
