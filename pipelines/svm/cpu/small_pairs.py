"""One-vs-one of several small classes: all pairs of a fold in one call of compiled code.

Solving a pair with a few hundred rows takes less time than Python needs to prepare and call a walk.
"""

import time

import numpy as np

from pipelines.svm.compiled import compiled
from pipelines.svm.cpu.binary_problem import (
    EAGER,
    PLACE,
    PULL_FIRST,
    PULL_SECOND,
    SIDE,
    WEIGHT,
    ZERO,
    Y,
)
from pipelines.svm.cpu.blocks import class_pulls
from pipelines.svm.cpu.exact import ExactKernel
from pipelines.svm.cpu.walk import WORKING_FRACTION, walk_easily
from pipelines.svm.search import PathSearch
from pipelines.svm.solutions import Solutions

# The most rows of a small pair, training and validation together.
_MOST_ROWS = 512


def has_small_pairs(search: PathSearch) -> bool:
    """Whether a search is one-vs-one of several classes, and all its pairs are small."""
    sizes = np.sort(np.diff(search.layout.starts))
    return (
        search.one_vs_one and search.layout.n_classes > 2 and bool(sizes[-2:].sum() <= _MOST_ROWS)
    )


def shares_of_classes(search: PathSearch, n_threads: int) -> list[range]:
    """Ranges of classes; the pairs of a range's classes with those after them are one call.

    One range of all classes, or a range for each class if there are more threads than folds. The
    results do not depend on this choice.
    """
    n_firsts = search.layout.n_classes - 1
    if n_threads <= len(search.folds):
        return [range(n_firsts)]
    return [range(a, a + 1) for a in range(n_firsts)]


@compiled()
def _sort(values: np.ndarray, numbers: np.ndarray) -> None:
    """Shell sort of values, and of numbers with them.

    D. L. Shell, "A high-speed sorting procedure", CACM 2, 1959.
    """
    gap = values.size
    while gap > 1:
        gap = max(1, gap * 4 // 11)
        for p in range(gap, values.size):
            value, number, q = values[p], numbers[p], p
            while q >= gap and values[q - gap] > value:
                values[q], numbers[q] = values[q - gap], numbers[q - gap]
                q -= gap
            values[q], numbers[q] = value, number


@compiled()
def _walk_pairs(
    kernel: np.ndarray,
    rows: np.ndarray,
    starts: np.ndarray,
    bounds: np.ndarray,
    Cs: np.ndarray,
    tol: float,
    limit: int,
    convex: bool,
    begin: int,
    end: int,
    coefficients: np.ndarray,
    intercepts: np.ndarray,
    objectives: np.ndarray,
    iterations: np.ndarray,
    status: np.ndarray,
    solved: np.ndarray,
) -> None:
    """Solve pairs for every C; ``solved`` stays 0 for a pair that lacks a side or is hard.

    rows : int64 (m,), the training rows, sorted by class
    starts : int64 (n_classes + 1,), where among them each class begins
    bounds : float64 (m,), the factor of C for each of them
    convex : see ``walk_easily``
    begin, end : the first classes of the pairs, from ``begin`` to before ``end``
    coefficients, intercepts, ... : of one fold, see ``Solutions``, output
    """
    number, size, n_C, sides = -1, ZERO, Cs.size, np.empty(3, np.int64)
    for a in range(starts.size - 1):
        for b in range(a + 1, starts.size - 1):
            number += 1
            n_first = starts[a + 1] - starts[a]
            n = n_first + starts[b + 1] - starts[b]
            if not begin <= a < end or n_first == 0 or n == n_first:
                continue
            if n != size:  # most pairs have as many rows as the last, and use its arrays again
                size, capacity = n, max(2, int(WORKING_FRACTION * n))
                members, slot = np.empty((2, n), np.int64)
                runs = np.empty(n + 1, np.int64)
                numbers = np.empty((5, n), np.int64)
                problem_data, state, betas = np.empty((5, n)), np.empty((11, n)), np.empty((n_C, n))
                weights, pulls = np.empty((1, n)), np.empty((1, 2, n))
                block, diagonal = np.empty((n, n), np.float32), np.empty(n, np.float32)
                compact = np.empty((capacity, capacity + 16), np.float32)
                compact_diagonal, work = np.empty(capacity, np.float32), np.empty((6, capacity))
                residuals = np.empty((0, 0), np.float32)
            first, second = 0.0, 0.0
            for p in range(n):
                at = starts[a] + p if p < n_first else starts[b] + p - n_first
                members[p], weights[0, p], slot[p] = rows[at], bounds[at], p
                problem_data[Y, p] = problem_data[SIDE, p] = 1.0 if p < n_first else -1.0
                problem_data[WEIGHT, p] = bounds[at]
                if p < n_first:
                    first += bounds[at]
                else:
                    second += bounds[at]
            n_runs = ZERO
            for p in range(n):  # runs of consecutive rows, which are copied as a whole
                if p == 0 or members[p] != members[p - 1] + 1:
                    runs[n_runs], n_runs = p, n_runs + 1
            runs[n_runs] = n
            for p in range(n):
                for r in range(n_runs):
                    part = block[p, runs[r] : runs[r + 1]]
                    first_column = members[runs[r]]
                    values = kernel[members[p], first_column : first_column + part.size]
                    for q in range(part.size):
                        part[q] = values[q]
                diagonal[p] = block[p, p]
            sides[0], sides[1], sides[2] = 0, n_first, n
            class_pulls(block, sides, weights, ZERO, n, pulls)
            light = min(first, second)
            for p in range(n):  # what ``new_state`` does for other walks
                problem_data[PULL_FIRST, p], problem_data[PULL_SECOND, p] = (
                    pulls[0, 0, p],
                    pulls[0, 1, p],
                )
                eager = problem_data[PULL_FIRST, p] / first - problem_data[PULL_SECOND, p] / second
                weights[0, p] = eager * Cs[0] * light - problem_data[Y, p]
                numbers[EAGER, p], numbers[PLACE, p] = p, -1
                for q in range(11):
                    state[q, p] = 0.0
            _sort(weights[0], numbers[EAGER])
            done, hard = walk_easily(
                block,
                diagonal,
                slot,
                problem_data,
                state,
                numbers,
                compact,
                compact_diagonal,
                work,
                Cs,
                tol,
                limit,
                convex,
                betas,
                residuals,
                intercepts[number],
                objectives[number],
                iterations[number],
                status[number],
            )
            if hard:
                continue
            solved[number] = done
            for c in range(n_C):
                last = min(c, done - 1)
                if c > last:
                    iterations[number, c], status[number, c] = ZERO, ZERO
                    intercepts[number, c] = intercepts[number, last]
                    objectives[number, c] = objectives[number, last]
                for p in range(n):
                    other = b if p < n_first else a
                    coefficients[members[p], other, c] = betas[last, p]


def walk_small_pairs(
    search: PathSearch,
    kernel: np.ndarray,
    exact: ExactKernel | None,
    fold: int,
    firsts: range,
    out: Solutions,
) -> list[int]:
    """Solve the easy pairs of a fold, and write their solutions to ``out``.

    Parameters
    ----------
    search : PathSearch
    kernel : float32 array of shape (n, n)
        The kernel of all sorted rows.
    exact : ExactKernel or None, as for ``walk``
    fold : int
    firsts : range
        The first classes of the pairs, from ``shares_of_classes``.
    out : Solutions
        Output.

    Returns
    -------
    list of int
        The pairs that remain: hard ones, and those without training rows of one of their classes.
    """
    began, settings, weight = time.perf_counter(), search.settings, search.weights[fold]
    rows = np.flatnonzero(weight > 0)
    bounds = search.bounds(0, fold)[rows]
    numbers = [n for n, problem in enumerate(search.problems) if problem.first in firsts]
    out.solved[fold, numbers] = 0
    _walk_pairs(
        kernel,
        rows,
        np.searchsorted(rows, search.layout.starts),
        bounds,
        search.Cs,
        settings.tol,
        settings.limit(_MOST_ROWS),
        exact is not None,
        firsts.start,
        firsts.stop,
        out.pairs[fold],
        out.intercepts[fold],
        out.objectives[fold],
        out.iterations[fold],
        out.status[fold],
        out.solved[fold],
    )
    remaining = [n for n in numbers if out.solved[fold, n] == 0]
    out.solved[fold, remaining] = 1
    out.seconds[fold, numbers] = (time.perf_counter() - began) / len(numbers)
    return remaining
