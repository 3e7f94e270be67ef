"""The binary problems of one gamma, with a kernel in memory or with kernel rows."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import TypeVar

import numpy as np

from pipelines.data.fits import Progress
from pipelines.svm.cpu.binary_problem import PULL_FIRST, PULL_SECOND, SIDE, WEIGHT, Path, Y
from pipelines.svm.cpu.by_fold import Job, jobs_in_order, solve_by_fold
from pipelines.svm.cpu.solver_threads import Resources
from pipelines.svm.search import Layout, PathProblem, PathSearch
from pipelines.svm.solutions import CONVERGED, Solutions

Found = TypeVar("Found")

# ``walk`` or ``walk_rows`` with its kernel bound; takes problem_data, Cs, tol, limit and out.
Walker = Callable[[np.ndarray, np.ndarray, float, int, Path], tuple[int, int]]

# A function of starts, int64 (n_classes + 1,), where each class begins, and of weights, float64
# (n_folds, n). It returns a walker on the kernel of n rows, and that kernel times the weights over
# each class, float64 (n_folds, n_classes, n).
OpenKernel = Callable[[np.ndarray, np.ndarray], tuple[Walker, np.ndarray]]


def longest_first(layout: Layout, problems: list[PathProblem]) -> list[int]:
    """Numbers of the problems, those with the most rows first."""
    sizes = np.diff(layout.starts)
    rows = [sizes[p.first] + (0 if p.second is None else sizes[p.second]) for p in problems]
    return np.argsort(-np.array(rows), kind="stable").tolist()


def _one_sided(out: Solutions, fold: int, number: int, sign: float) -> None:
    """Write the solution for a fold that lacks one side's training rows: all rows get the other."""
    out.intercepts[fold, number] = sign
    out.status[fold, number] = CONVERGED


def _walk(
    walker: Walker,
    problem_data: np.ndarray,
    search: PathSearch,
    number: int,
    fold: int,
    out: Solutions,
    decisions: np.ndarray,
) -> np.ndarray:
    """Walk the path of a problem and write its intercepts, objectives and counts to ``out``.

    decisions : float32 (n_C, n), or (0, 0) where they are not needed, output

    Returns the multipliers, float64 (n_C, n).
    """
    n = problem_data.shape[1]
    betas = np.empty((search.Cs.size, n))
    path = Path(
        betas,
        decisions,
        out.intercepts[fold, number],
        out.objectives[fold, number],
        out.iterations[fold, number],
        out.status[fold, number],
    )
    out.solved[fold, number], out.single[fold, number] = walker(
        problem_data, search.Cs, search.settings.tol, search.settings.limit(n), path
    )
    if decisions.size:  # the walk leaves residuals there
        np.subtract(problem_data[Y], decisions, out=decisions)
        decisions += path.intercepts[:, None]
    return betas


def solve_pair(
    search: PathSearch,
    number: int,
    fold: int,
    rows: np.ndarray,
    open_kernel: OpenKernel,
    out: Solutions,
) -> None:
    """Solve a pair of classes on a fold, and write the solution to ``out``.

    Parameters
    ----------
    search : PathSearch
    number, fold : int
        Numbers of the pair and of the fold.
    rows : int64 array
        The sorted rows of the problem: the pair's training rows, or, with two classes, all rows.
    open_kernel : OpenKernel, of these rows
    out : Solutions
        Output.
    """
    began, layout = time.perf_counter(), search.layout
    problem, weight = search.problems[number], search.weights[fold][rows]
    assert problem.second is not None
    codes = layout.codes[rows]
    is_first = codes == problem.first
    n_first, n_trained = int(np.count_nonzero(is_first)), np.count_nonzero(weight[is_first])
    if n_trained in (0, np.count_nonzero(weight)):
        _one_sided(out, fold, number, 1.0 if n_trained else -1.0)
        if out.decisions is not None:
            out.kept_decisions[fold, number] = out.intercepts[fold, number, 0]
        return
    bounds = search.bounds(number, fold)[rows]
    walker, pulls = open_kernel(np.array([0, n_first, rows.size]), bounds[None])
    problem_data = np.empty((5, rows.size))
    problem_data[Y] = problem_data[SIDE] = np.where(is_first, 1.0, -1.0)
    problem_data[WEIGHT], problem_data[PULL_FIRST:] = bounds, pulls[0]
    decisions = (
        np.empty((0, 0), np.float32) if out.decisions is None else out.kept_decisions[fold, number]
    )
    betas = _walk(walker, problem_data, search, number, fold, out, decisions)
    out.pairs[fold, rows[:n_first], problem.second] = betas[:, :n_first].T
    out.pairs[fold, rows[n_first:], problem.first] = betas[:, n_first:].T
    out.seconds[fold, number] = time.perf_counter() - began


def solve_rest(
    search: PathSearch,
    open_kernel: OpenKernel,
    out: Solutions,
    finish: Callable[[int], Found],
    resources: Resources,
    pool: Executor | None = None,
) -> Iterator[tuple[int, Found] | Progress]:
    """Solve every class against all others on every fold; see ``solve_by_fold``.

    The rows that a fold leaves out stay in the problem with a bound of 0: their residuals are
    updated with the others, so their decision values come for free.

    Parameters
    ----------
    search : PathSearch
    open_kernel : OpenKernel, of all rows
    out : Solutions
        Output.
    finish : callable of a fold
    resources : Resources
    pool : Executor, optional
        Its threads solve the problems. None if the kernel rows are computed by the threads: the
        problems are then solved one after another.
    """
    out.decisions = search.empty_decisions()
    if len(search.weights) == 1:
        out.multipliers = np.zeros(out.decisions.shape)
    walker, pulls = open_kernel(search.layout.starts, search.weights)
    guard = threading.Lock()

    def solve(number: int, fold: int) -> None:
        """Solve a class against all others on a fold, and write the solution to ``out``."""
        began, layout = time.perf_counter(), search.layout
        problem, weight = search.problems[number], search.weights[fold]
        is_first = layout.codes == problem.first
        n_trained = np.count_nonzero(weight[is_first])
        if n_trained in (0, np.count_nonzero(weight)):
            _one_sided(out, fold, number, 1.0 if n_trained else -np.inf)
            out.kept_decisions[fold, number] = out.intercepts[fold, number, 0]
            return
        problem_data = np.empty((5, is_first.size))
        problem_data[Y] = problem_data[SIDE] = np.where(is_first, 1.0, -1.0)
        pull = pulls[fold] * search.factors(number, fold)[:, None]
        problem_data[WEIGHT], problem_data[PULL_FIRST] = (
            search.bounds(number, fold),
            pull[problem.first],
        )
        problem_data[PULL_SECOND] = pull.sum(axis=0) - pull[problem.first]
        betas = _walk(
            walker, problem_data, search, number, fold, out, out.kept_decisions[fold, number]
        )
        if out.multipliers is not None:
            out.multipliers[fold, number] = betas
        with guard:
            out.support[fold] |= betas != 0
        out.seconds[fold, number] = time.perf_counter() - began

    numbers = longest_first(search.layout, search.problems)
    jobs: list[Job] = [[(number, fold)] for number in numbers for fold in search.folds]
    if pool is not None:
        jobs = jobs_in_order(numbers, search.folds, len(search.layout.order))
    return solve_by_fold(jobs, solve, finish, pool)
