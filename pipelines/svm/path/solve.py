"""All binary problems of one gamma, for every fold and every C."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np

from .blocks import class_pulls, copy_block, mark_support
from .layout import ClassWeight, Layout, Problem, class_factors
from .runs import as_runs
from .smo import CONVERGED
from .walk import walk

_local = threading.local()

# ``walk`` or ``walk_rows`` with their kernel given.
Walker = Callable[..., int]


@dataclass(frozen=True)
class Settings:
    """What every binary problem of a search shares."""

    Cs: np.ndarray  # float64 (n_C,), ascending
    tol: float = 1e-3
    max_iter: int = -1  # -1: LIBSVM's own limit
    class_weight: ClassWeight = None

    def limit(self, n: int) -> int:
        """The largest number of iterations for one C of a problem of n rows.

        LIBSVM's own where none is given.
        """
        return max(10_000_000, 100 * n) if self.max_iter < 0 else self.max_iter


@dataclass
class Solutions:
    """Solutions of one gamma: ``n_folds`` x ``n_problems`` x ``n_C``.

    intercepts, objectives : float64; iterations, status : int64
    solved : int64 (n_folds, n_problems), the number of different solutions
    seconds : float64 (n_folds, n_problems), wall time on the thread that solved it
    coefficients : float32 (n_folds, n, n_classes, n_C) or None
        ``ovo``: the multipliers of each sorted row in the problem of its class
        against each other class.
    multipliers : float32 (1, n_classes, n_C, n) or None
        ``ovr`` of a single fold: the multipliers of every row; of several folds
        only the decision values are kept.
    decisions : float32 (n_folds, n_classes, n_C, n) or None
        ``ovr``: decision values of every row, training and validation.
    support : bool (n_folds, n_C, n)
    """

    intercepts: np.ndarray
    objectives: np.ndarray
    iterations: np.ndarray
    status: np.ndarray
    solved: np.ndarray
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
        """``decisions`` of one-vs-rest."""
        assert self.decisions is not None
        return self.decisions


def empty_solutions(n_folds: int, n_problems: int, n_C: int, n: int) -> Solutions:
    """Room for the solutions of one gamma."""
    shape = (n_folds, n_problems, n_C)
    return Solutions(
        np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape, np.int64),
        np.ones(shape[:2], np.int64), np.zeros(shape[:2]), np.zeros((n_folds, n_C, n), np.bool_),
    )  # fmt: skip


def scratch(n: int) -> np.ndarray:
    """This thread's float32 (n, n) work space.

    It is kept between calls: fresh pages cost as much as filling them.
    """
    flat = getattr(_local, "flat", None)
    if flat is None or flat.size < n * n:
        flat = _local.flat = np.empty(n * n, np.float32)
    return flat[: n * n].reshape(n, n)


def drop_scratch() -> None:
    """Give this thread's work space back."""
    _local.flat = None


def _one_sided(out: Solutions, fold: int, number: int, sign: float) -> None:
    """A fold without rows of one side: every row is decided for the other."""
    out.intercepts[fold, number] = sign
    out.status[fold, number] = CONVERGED


def solve_pair(
    source: np.ndarray,
    places: np.ndarray,
    rows: np.ndarray,
    layout: Layout,
    problem: Problem,
    number: int,
    fold: int,
    weight: np.ndarray,
    settings: Settings,
    out: Solutions,
    transform: Callable[[np.ndarray], object] | None = None,
) -> None:
    """One pair of classes on one fold; writes its place in ``out``.

    Parameters
    ----------
    source : float32 array of shape (m, m)
        Kernel, or with ``transform`` shared products, of some rows.
    places : int64 array, where in ``source`` the pair's training rows are
    rows : int64 array, the same rows' sorted numbers
    weight : float64 array of shape (n,), the fold's training weights
    transform : makes the kernel from the block of shared products, in place
    """
    began, n = time.perf_counter(), rows.size
    found = pair_labels(rows, layout, problem, number, fold, weight, settings, out)
    if found is None:
        return
    y, bounds, n_first = found
    block = source
    if transform is not None or n < len(source):
        block = scratch(n)
        copy_block(source, as_runs(places), block)
    if transform is not None:
        transform(block)
    pulls = np.empty((1, 2, n))
    class_pulls(block, np.array([0, n_first, n]), bounds[None], 0, n, pulls)
    betas = np.empty((settings.Cs.size, n), np.float32)
    walker = partial(walk, block, np.diagonal(block).copy())
    write_pair(
        walker, y, bounds, pulls[0], betas, rows, n_first, problem, number, fold, settings, out
    )
    out.seconds[fold, number] = time.perf_counter() - began


def pair_labels(
    rows: np.ndarray,
    layout: Layout,
    problem: Problem,
    number: int,
    fold: int,
    weight: np.ndarray,
    settings: Settings,
    out: Solutions,
) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Labels and bounds (at C = 1) of a pair's rows, and how many are the first's.

    None where one class has no rows; that is then written to ``out``.
    """
    own = layout.codes[rows] == problem.first
    n_first = int(np.count_nonzero(own))
    if n_first in (0, rows.size):
        _one_sided(out, fold, number, 1.0 if n_first else -1.0)
        return None
    factors = class_factors(layout, problem, weight, settings.class_weight)
    return np.where(own, 1.0, -1.0), weight[rows] * factors[layout.codes[rows]], n_first


def write_pair(
    walker: Walker,
    y: np.ndarray,
    bounds: np.ndarray,
    pulls: np.ndarray,
    betas: np.ndarray,
    rows: np.ndarray,
    n_first: int,
    problem: Problem,
    number: int,
    fold: int,
    settings: Settings,
    out: Solutions,
) -> None:
    """Walk a pair's path and write its place in ``out``.

    pulls : float64 (2, n_rows); betas : float32 (n_C, n_rows), work space
    """
    assert problem.second is not None
    out.solved[fold, number] = walker(
        y, bounds, pulls[0], pulls[1], settings.Cs, settings.tol, settings.limit(y.size),
        betas, np.empty((0, 0), np.float32),
        out.intercepts[fold, number], out.objectives[fold, number],
        out.iterations[fold, number], np.empty(settings.Cs.size, np.int64),
        out.status[fold, number],
    )  # fmt: skip
    out.pairs[fold, rows[:n_first], problem.second] = betas[:, :n_first].T
    out.pairs[fold, rows[n_first:], problem.first] = betas[:, n_first:].T


def _training_rows(layout: Layout, problem: Problem, weight: np.ndarray) -> np.ndarray:
    slices = [layout.rows_of(code) for code in (problem.first, problem.second)
              if code is not None]  # fmt: skip
    rows = [np.flatnonzero(weight[s]) + s.start for s in slices]
    return np.concatenate(rows)


def longest_first(layout: Layout, problems: list[Problem]) -> list[int]:
    """Numbers of the problems, those of the most rows first."""
    sizes = np.diff(layout.starts)
    rows = [sizes[p.first] + (0 if p.second is None else sizes[p.second]) for p in problems]
    return np.argsort(-np.array(rows), kind="stable").tolist()


def solve_pairs(
    kernel: np.ndarray,
    layout: Layout,
    problems: list[Problem],
    weights: np.ndarray,
    settings: Settings,
    out: Solutions,
    pool: Executor,
) -> None:
    """Every pair on every fold, longest first, from the kernel of all rows.

    kernel : float32 (n, n); weights : float64 (n_folds, n)
    """
    out.coefficients = np.zeros(
        (len(weights), len(layout.order), layout.n_classes, settings.Cs.size), np.float32
    )

    def run(tasks: list[tuple[int, int]]) -> None:
        for number, fold in tasks:
            rows = _training_rows(layout, problems[number], weights[fold])
            solve_pair(kernel, rows, rows, layout, problems[number], number, fold,
                       weights[fold], settings, out)  # fmt: skip

    # The folds of a pair follow each other: its rows are then still in cache.
    # One task for them all, where enough tasks are left to balance the threads.
    tasks = [[(p, f) for f in range(len(weights))] for p in longest_first(layout, problems)]
    if len(tasks) < 16:
        tasks = [[one] for task in tasks for one in task]
    list(pool.map(run, tasks))
    list(pool.map(mark_support, out.pairs, out.support))


def all_pulls(
    kernel: np.ndarray, layout: Layout, weights: np.ndarray, pool: Executor
) -> np.ndarray:
    """Kernel times fold weights over each class; float64 (n_folds, n_classes, n)."""
    n = len(layout.order)
    pulls = np.empty((len(weights), layout.n_classes, n))
    step = max(1, (1 << 19) // (4 * n))

    def run(first: int) -> None:
        class_pulls(kernel, layout.starts, weights, first, min(first + step, n), pulls)

    list(pool.map(run, range(0, n, step)))
    return pulls


def solve_rest(
    kernel: np.ndarray,
    layout: Layout,
    problems: list[Problem],
    weights: np.ndarray,
    settings: Settings,
    out: Solutions,
    pool: Executor,
) -> None:
    """Every class against all others on every fold, from the kernel of all rows.

    The rows a fold leaves out stay in the problem with a bound of 0: their
    residual is kept up to date, so their decision values come for free.
    """
    n, n_C = len(layout.order), settings.Cs.size
    out.decisions = np.empty((len(weights), len(problems), n_C, n), np.float32)
    if len(weights) == 1:
        out.multipliers = np.zeros((1, len(problems), n_C, n), np.float32)
    pulls = all_pulls(kernel, layout, weights, pool)
    walker, guard = partial(walk, kernel, np.diagonal(kernel).copy()), threading.Lock()

    def run(task: tuple[int, int]) -> None:
        number, fold = task
        solve_one_rest(walker, layout, problems[number], number, fold, weights[fold],
                       pulls[fold], settings, out, guard)  # fmt: skip

    tasks = [(p, f) for p in longest_first(layout, problems) for f in range(len(weights))]
    list(pool.map(run, tasks))


def solve_one_rest(
    walker: Walker,
    layout: Layout,
    problem: Problem,
    number: int,
    fold: int,
    weight: np.ndarray,
    pulls: np.ndarray,
    settings: Settings,
    out: Solutions,
    guard: threading.Lock,
) -> None:
    """One class against all others on one fold; writes its place in ``out``.

    pulls : float64 (n_classes, n), the kernel times the fold's weights
    """
    began = time.perf_counter()
    own = layout.codes == problem.first
    trained = np.count_nonzero(weight[own])
    if trained in (0, np.count_nonzero(weight)):
        _one_sided(out, fold, number, 1.0 if trained else -np.inf)
        out.rest[fold, number] = out.intercepts[fold, number, 0]
        return
    y = np.where(own, 1.0, -1.0)
    factors = class_factors(layout, problem, weight, settings.class_weight)
    pull = pulls * factors[:, None]
    betas, residuals = np.empty((settings.Cs.size, y.size), np.float32), out.rest[fold, number]
    out.solved[fold, number] = walker(
        y, weight * factors[layout.codes], pull[problem.first],
        pull.sum(axis=0) - pull[problem.first], settings.Cs, settings.tol,
        settings.limit(y.size), betas, residuals,
        out.intercepts[fold, number], out.objectives[fold, number],
        out.iterations[fold, number], np.empty(settings.Cs.size, np.int64),
        out.status[fold, number],
    )  # fmt: skip
    np.subtract(y[None], residuals, out=residuals)
    residuals += out.intercepts[fold, number, :, None]
    if out.multipliers is not None:
        out.multipliers[fold, number] = betas
    with guard:
        out.support[fold] |= betas != 0
    out.seconds[fold, number] = time.perf_counter() - began
