"""One-vs-one where the kernel of all rows does not fit: fold by fold, a pair's block at a time."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial

import numpy as np

from pipelines.svm.cpu.beyond_memory import open_rows
from pipelines.svm.cpu.blocks import mark_support
from pipelines.svm.cpu.by_fold import solve_by_fold
from pipelines.svm.cpu.class_products import ClassProducts
from pipelines.svm.cpu.exact import ExactKernel
from pipelines.svm.cpu.in_memory import open_block, scratch
from pipelines.svm.cpu.kernels import cross_products, kernel_values, shared_products
from pipelines.svm.cpu.pairwise import solve_pairwise
from pipelines.svm.cpu.score import score_pairs
from pipelines.svm.cpu.smo import MAX_ROWS
from pipelines.svm.cpu.solve import longest_first, solve_pair
from pipelines.svm.cpu.threads import Means
from pipelines.svm.path_result import Scores
from pipelines.svm.search import Search
from pipelines.svm.solutions import Solutions

Scored = tuple[Scores, float]  # and their seconds

# Multiplications from which one gamma takes more than about a minute on two cores.
PRODUCTS_OF_A_MINUTE = 3e12


def solve_and_score_by_fold(
    search: Search,
    rows: np.ndarray,
    products: ClassProducts | None,
    gamma: float,
    out: Solutions,
    means: Means,
) -> Iterator[tuple[int, Scored]]:
    """One gamma; each fold with its scores, and their seconds.

    With products that are there, or where it takes long, folds are solved one after another,
    and each is given as soon as it is done. Without them a pair's are then made for each
    fold, of the rows that train, with five folds three times what they cost where they are
    made once.

    Parameters
    ----------
    rows : float array of shape (n, n_features), sorted, from ``prepare_rows``
    products : of all rows, or None where they have no room
    out : Solutions, output
    """
    score = partial(_score_fold, search, rows, products, gamma, out, means)
    if products is None and _n_products(search) * rows.shape[1] < PRODUCTS_OF_A_MINUTE:
        solve_pairwise(search, rows, np.array([gamma]), means, [out])
        yield from zip(search.folds, means.pool.map(score, search.folds), strict=True)
    else:
        yield from _solve_by_fold(search, rows, products, gamma, out, score, means)
    means.clock.lap("solve and score")


def _n_products(search: Search) -> int:
    """Products of rows: of each pair's with each other, half of them, and all with all."""
    layout = search.layout
    pairs = sum(len(problem.pair_rows(layout)) ** 2 for problem in search.problems)
    return pairs // 2 + len(layout.order) ** 2


def _solve_by_fold(
    search: Search,
    rows: np.ndarray,
    products: ClassProducts | None,
    gamma: float,
    out: Solutions,
    score: Callable[[int], Scored],
    means: Means,
) -> Iterator[tuple[int, Scored]]:
    out.coefficients = search.empty_coefficients()
    memory = 0.8 * means.memory_bytes
    numbers = longest_first(search.layout, search.problems)
    fits = {number: means.n_threads * _pair_bytes(search, number) <= memory for number in numbers}
    alone = [number for number in numbers if not fits[number]]
    beside = [number for number in numbers if fits[number]]
    solve = partial(_solve_pair, search, rows, products, gamma, out, means, None)

    def finish(fold: int) -> Scored:
        mark_support(out.pairs[fold], out.support[fold])
        return score(fold)

    if not alone:
        jobs = [[(number, fold)] for fold in search.folds for number in numbers]
        yield from solve_by_fold(jobs, solve, finish, means.pool, means.told)
    for turn, fold in enumerate(search.folds if alone else ()):
        for done, number in enumerate(alone, 1):
            _solve_pair(search, rows, None, gamma, out, means, means.pool, number, fold)
            means.told((turn + done / len(numbers)) / len(search.folds))
        list(means.pool.map(lambda number, fold=fold: solve(number, fold), beside))
        means.told((turn + 1) / len(search.folds))
        yield fold, finish(fold)


def _pair_bytes(search: Search, number: int) -> int:
    return 4 * len(search.problems[number].pair_rows(search.layout)) ** 2


def _rows_at_once(n: int, memory_bytes: int) -> int:
    """How many rows' kernel against all rows fits in a few hundredths, for as many folds."""
    return int(max(64, min(1024, 0.03 * memory_bytes // (4 * n))))


def _solve_pair(
    search: Search,
    rows: np.ndarray,
    products: ClassProducts | None,
    gamma: float,
    out: Solutions,
    means: Means,
    pool: Executor | None,
    number: int,
    fold: int,
) -> None:
    """One pair on one fold; with ``pool`` its threads make the kernel."""
    members = search.problems[number].pair_rows(search.layout)
    some = members[search.weights[fold][members] > 0]
    if len(some) > MAX_ROWS or 4 * len(some) ** 2 > 0.8 * means.memory_bytes:
        opened = partial(open_rows, rows[some], search.kernel, gamma, means)
    else:
        if products is None:
            block = shared_products(rows[some], search.kernel, pool)
        else:
            block = scratch(len(some))
            products.between(some, some, block)
        kernel_values(block, search.kernel, gamma, block, pool)
        exact = means.exact_kernel(rows, search.kernel, gamma)
        better = None if exact is None else partial(exact.of, some)
        opened = partial(open_block, block, np.arange(len(some)), None, better)
    solve_pair(search, number, fold, some, opened, out)


def _between(exact: ExactKernel, some: np.ndarray, places: np.ndarray) -> np.ndarray:
    return exact.between(some[places])


def _score_fold(
    search: Search,
    rows: np.ndarray,
    products: ClassProducts | None,
    gamma: float,
    out: Solutions,
    means: Means,
    fold: int,
) -> Scored:
    """Scores of a fold's validation rows, a few at a time, and their seconds."""
    began = time.perf_counter()
    exact = means.exact_kernel(rows, search.kernel, gamma)
    in_order = np.argsort(search.validation[fold])
    validation = search.validation[fold][in_order]
    everything, step = np.arange(len(rows)), _rows_at_once(len(rows), means.memory_bytes)
    found = []
    for at in range(0, max(1, len(validation)), step):
        some = validation[at : at + step]
        if products is None:
            values = cross_products(rows[some], rows, search.kernel)
        else:
            values = np.empty((len(some), len(rows)), np.float32)
            products.between(some, everything, values)
        kernel_values(values, search.kernel, gamma, out=values)
        between = None if exact is None else partial(_between, exact, some)
        found.append(score_pairs(values, np.arange(len(some)), fold, out, search, between))
    back = np.argsort(in_order)
    values_of = [scores.values for scores in found if scores.values is not None]
    joined = Scores(
        np.concatenate([scores.codes for scores in found])[back],
        np.concatenate(values_of)[back] if values_of else None,
    )
    return joined, time.perf_counter() - began
