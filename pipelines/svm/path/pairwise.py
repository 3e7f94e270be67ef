"""One-vs-one where the kernel of all rows does not fit: one pair's block at a time."""

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from functools import partial

import numpy as np

from .blocks import mark_support
from .kernels import cross_products, kernel_values, shared_products
from .score import Scores, score_pairs
from .solve import Solutions, drop_scratch, empty_solutions, longest_first, solve_pair


def _gammas_at_once(search, n: int, memory_bytes: int) -> int:
    """How many gammas' multipliers fit in half of the memory."""
    one = 4 * n * search.layout.n_classes * search.settings.Cs.size * len(search.weights)
    return max(1, int(0.5 * memory_bytes // one))


def _rows_at_once(n: int, memory_bytes: int) -> int:
    """How many rows' products and kernel against all rows fit in a quarter."""
    return int(max(64, min(4096, 0.25 * memory_bytes // (3 * 4 * n))))


def _solve_pair_all(search, rows, gammas, solutions: list[Solutions], number: int) -> None:
    """One pair for every gamma and fold: its products are made once."""
    layout, problem = search.layout, search.problems[number]
    members = np.concatenate([
        np.arange(s.start, s.stop)
        for s in (layout.rows_of(problem.first), layout.rows_of(problem.second))
    ])  # fmt: skip
    shared = shared_products(np.ascontiguousarray(rows[members]), search.kernel)
    for gamma, out in zip(gammas, solutions, strict=True):
        transform = partial(_kernel_in_place, kernel=search.kernel, gamma=gamma)
        for fold, weight in enumerate(search.weights):
            places = np.flatnonzero(weight[members])
            solve_pair(shared, places, members[places], layout, problem, number, fold,
                       weight, search.settings, out, transform)  # fmt: skip
    drop_scratch()


def _kernel_in_place(block: np.ndarray, kernel, gamma: float) -> None:
    kernel_values(block, kernel, gamma, out=block)


def _solve_all(search, rows, gammas, pool: Executor) -> list[Solutions]:
    n, n_C = len(rows), search.settings.Cs.size
    solutions = []
    for _ in gammas:
        out = empty_solutions(len(search.weights), len(search.problems), n_C, n)
        shape = (len(search.weights), n, search.layout.n_classes, n_C)
        out.coefficients = np.zeros(shape, np.float32)
        solutions.append(out)
    numbers = longest_first(search.layout, search.problems)
    list(pool.map(partial(_solve_pair_all, search, rows, gammas, solutions), numbers))
    for out in solutions:
        list(pool.map(mark_support, out.coefficients, out.support))
    return solutions


def _join(pieces: list[tuple[np.ndarray, Scores]], n_rows: int, with_values: bool) -> Scores:
    """Scores of some rows each, in the order of the fold's validation rows."""
    codes = np.empty((n_rows, pieces[0][1].codes.shape[1]), np.int64)
    values = None
    if with_values:
        values = np.empty((n_rows, *pieces[0][1].values.shape[1:]), np.float32)
    for at, piece in pieces:
        codes[at] = piece.codes
        if with_values:
            values[at] = piece.values
    return Scores(codes, values)


def solve_and_score_pairwise(
    search, rows: np.ndarray, gammas: np.ndarray, pool: Executor, memory_bytes: int, clock
) -> Iterator[tuple[Solutions, list[Scores], np.ndarray]]:
    """As the search in memory, with memory for a pair's block per thread.

    A pair's products are made once for all gammas and folds; the products of
    validation rows with all rows once more, for scoring.
    """
    batch = _gammas_at_once(search, len(rows), memory_bytes)
    for at in range(0, len(gammas), batch):
        some = gammas[at : at + batch]
        solutions = _solve_all(search, rows, some, pool)
        clock.lap("solve")
        pieces, seconds = _score_all(search, rows, some, solutions, pool, memory_bytes, clock)
        for g, out in enumerate(solutions):
            folds = [_join(pieces[g][fold], len(validation), search.with_values)
                     for fold, validation in enumerate(search.validation)]  # fmt: skip
            yield out, folds, seconds[g]


def _score_fold(search, values, first: int, solutions: Solutions, fold: int):
    """Scores of the fold's validation rows among the rows of ``values``."""
    began, validation = time.perf_counter(), search.validation[fold]
    at = np.flatnonzero((validation >= first) & (validation < first + len(values)))
    found = score_pairs(values, validation[at] - first, fold, solutions, search.layout,
                        search.with_values)  # fmt: skip
    return at, found, time.perf_counter() - began


def _score_all(search, rows, gammas, solutions, pool, memory_bytes, clock):
    n, n_folds = len(rows), len(search.weights)
    pieces = [[[] for _ in range(n_folds)] for _ in gammas]
    seconds = np.zeros((len(gammas), n_folds))
    step = _rows_at_once(n, memory_bytes)
    for first in range(0, n, step):
        shared = cross_products(rows[first : first + step], rows, search.kernel)
        values = np.empty_like(shared)
        clock.lap("distances")
        for g, gamma in enumerate(gammas):
            kernel_values(shared, search.kernel, gamma, values, pool)
            clock.lap("kernel")
            score = partial(_score_fold, search, values, first, solutions[g])
            for fold, (at, found, spent) in enumerate(pool.map(score, range(n_folds))):
                pieces[g][fold].append((at, found))
                seconds[g, fold] += spent
            clock.lap("score")
    return pieces, seconds
