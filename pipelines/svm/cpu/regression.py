"""Epsilon-support vector regression: one fit, or the cross-validation of every C and epsilon.

The dual problem has two multipliers per row, one for each edge of the tube around its target. It is
a binary problem with twice the rows, which the walk along C solves like any other.

References
----------
C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines", ACM TIST 2, 2011, section
4.1.4.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Predictions, Progress
from pipelines.svm.cpu.beyond_memory import KernelRows, largest_working_set, walk_rows
from pipelines.svm.cpu.binary_problem import Path
from pipelines.svm.cpu.by_fold import solve_by_fold
from pipelines.svm.cpu.fit import path_to
from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
from pipelines.svm.cpu.smo import MAX_ROWS
from pipelines.svm.cpu.solver_threads import Resources, open_pool
from pipelines.svm.cpu.walk import walk
from pipelines.svm.kernel import Kernel
from pipelines.svm.search import check_size
from pipelines.svm.settings import Settings

# Newton's method works on at most this many multipliers, in two matrices of double precision.
_NEWTON_ROWS, _NEWTON_BYTES = 4096, 2 * 8

# Kernel values that a prediction computes at once.
_BLOCK_VALUES = 1 << 22


@dataclass(frozen=True)
class FittedRegression:
    """A fitted regression: ``sum_j dual_coef[j] K(x, x_support[j]) + intercept``.

    Attributes
    ----------
    support : int64 array of shape (n_support,)
        Rows of X.
    dual_coef : float64 array of shape (n_support,)
    intercept : float
    objective : float
        Dual objective, as LIBSVM reports it.
    n_iterations : int
        Iterations of the whole path up to this C.
    status : int
        ``CONVERGED``, ``ITERATION_LIMIT`` or ``STALLED``.
    """

    support: np.ndarray
    dual_coef: np.ndarray
    intercept: float
    objective: float
    n_iterations: int
    status: int


def fit_regression(
    X: np.ndarray,
    y: np.ndarray,
    C: float = 1.0,
    gamma: float = 1.0,
    epsilon: float = 0.1,
    *,
    sample_weight: np.ndarray | None = None,
    n_threads: int | None = None,
    memory_bytes: int = 4 << 30,
    **form: Any,
) -> FittedRegression:
    """Fit epsilon-SVR for one C, gamma and epsilon on all rows.

    Parameters
    ----------
    X : float array of shape (n, n_features), or (n, n) for ``"precomputed"``
    y : float array of shape (n,)
        The targets.
    C, gamma : float
        Above 0.
    epsilon : float
        At least 0.
    sample_weight, n_threads, memory_bytes, **form
        As for ``solve_regression``.

    Returns
    -------
    FittedRegression

    Raises
    ------
    ValueError
        Values of X are too large, or no row has a weight above 0.
    """
    settings = Settings(**form)
    Cs = path_to(C) if settings.at().is_definite else np.array([C])
    train, weight = _train_rows(np.arange(len(X)), sample_weight)
    with _open_solver(X, y, gamma, Cs, settings, [train], n_threads, memory_bytes) as solver:
        path = solver.solve(train, weight, epsilon)
    support = np.flatnonzero(path.betas[-1])
    return FittedRegression(
        train[support],
        path.betas[-1, support],
        float(path.intercepts[-1]),
        float(path.objectives[-1]),
        int(path.iterations.sum()),
        int(path.status[-1]),
    )


def solve_regression(
    X: np.ndarray,
    y: np.ndarray,
    gamma: float,
    Cs: Sequence[float],
    epsilons: Sequence[float],
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    sample_weight: np.ndarray | None = None,
    n_threads: int | None = None,
    memory_bytes: int = 4 << 30,
    **form: Any,
) -> Iterator[Fit | Progress]:
    """Cross-validate epsilon-SVR of one gamma for every C and epsilon.

    Parameters
    ----------
    X : float array of shape (n, n_features), or (n, n) for ``"precomputed"``
    y : float array of shape (n,)
        The targets; the targets of rows that no fold trains on are not read.
    gamma : float
        Above 0.
    Cs : sequence of float
        Above 0, in any order.
    epsilons : sequence of float
        At least 0, in any order.
    folds : sequence of (train, validation)
        Index arrays: the rows to train on, each of which counts as often as it appears, and the
        rows to predict, any rows of X.
    sample_weight : float array of shape (n,), optional
        Factors of C. Rows with a factor of 0 or below are left out of training.
    n_threads : int, optional
        None for every core that this process may use.
    memory_bytes : int, default 4 GiB
        Bytes of kernel matrices that may be held; beyond that the kernel is computed row by row.
    **form
        Fields of ``Settings``: tol (in units of y), max_iter, kernel, degree, coef0.

    Yields
    ------
    Fit or Progress
        The fits of a fold as soon as these are solved; folds end in no special order. Candidates
        are numbered epsilon by epsilon, and C by C within an epsilon. The time of a path is
        divided among its C's, the fitting time in proportion to iterations. Details are
        ``objective``, the dual objective as LIBSVM reports it, and ``status``, see ``solutions``.

    Raises
    ------
    ValueError
        Values of X are too large, or no training row of a fold has a weight above 0.
    """
    C_values, settings = np.asarray(Cs, np.float64), Settings(**form)
    ascending = np.argsort(C_values, kind="stable")
    trains, weights = zip(*(_train_rows(fold[0], sample_weight) for fold in folds), strict=True)
    paths: dict[tuple[int, int], tuple[Path, float]] = {}

    def solve(e: int, fold: int) -> None:
        began = time.perf_counter()
        path = solver.solve(trains[fold], weights[fold], epsilons[e])
        paths[e, fold] = path, time.perf_counter() - began

    def predict(fold: int) -> tuple[np.ndarray, float]:
        began, validation = time.perf_counter(), folds[fold][1]
        betas = np.stack([paths[e, fold][0].betas for e in range(len(epsilons))])
        predictions = np.empty((*betas.shape[:2], len(validation)))
        solver.predict(trains[fold], betas, validation, predictions)
        for e, values in enumerate(predictions):
            values += paths[e, fold][0].intercepts[:, None]
        return predictions, time.perf_counter() - began

    jobs = [[(e, fold)] for fold in range(len(folds)) for e in range(len(epsilons))]
    with _open_solver(
        X, y, gamma, C_values[ascending], settings, trains, n_threads, memory_bytes
    ) as solver:
        for item in solve_by_fold(jobs, solve, predict, solver.pool_of_paths):
            if isinstance(item, Progress):
                yield item
                continue
            fold, (predictions, score_seconds) = item
            for e in range(len(epsilons)):
                path, seconds = paths.pop((e, fold))
                effort = path.iterations + 1.0
                effort *= seconds / effort.sum()
                n_support = np.count_nonzero(path.betas, axis=1)
                for c, position in enumerate(np.argsort(ascending)):
                    fit = Fit(
                        e * len(Cs) + c, fold, Predictions({"predict": predictions[e, position]})
                    )
                    fit.fit_seconds = float(effort[position])
                    fit.score_seconds = score_seconds / (len(epsilons) * len(Cs))
                    fit.n_support = int(n_support[position])
                    fit.n_iterations = int(path.iterations[position])
                    fit.converged = not path.status[position]
                    fit.details = {
                        "objective": float(path.objectives[position]),
                        "status": int(path.status[position]),
                    }
                    yield fit


def _train_rows(
    train: np.ndarray, sample_weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows to train on, and the factor of C for each of them."""
    rows, counts = np.unique(train, return_counts=True)
    if sample_weight is None:
        return rows, counts.astype(np.float64)
    weight = np.asarray(sample_weight, np.float64)[rows] * counts
    if not (weight > 0).any():
        raise ValueError("sample_weight must be above 0 for a training row, got none that is")
    return rows[weight > 0], weight[weight > 0]


@contextmanager
def _open_solver(
    X: np.ndarray,
    y: np.ndarray,
    gamma: float,
    Cs: np.ndarray,
    settings: Settings,
    trains: Sequence[np.ndarray],
    n_threads: int | None,
    memory_bytes: int,
) -> Iterator[_Solver]:
    """Open a solver with as many threads as the memory allows."""
    check_size(np.asarray(X), gamma)
    largest, threads = max(map(len, trains)), n_threads or len(os.sched_getaffinity(0))
    # Half of the memory is for rows in double precision. Each path needs the kernel of twice its
    # rows, and the kernel that this is copied from; as many paths as fit in the rest run at once.
    path_bytes = (4 * 4 + 4) * largest**2 + _NEWTON_BYTES * min(2 * largest, _NEWTON_ROWS) ** 2
    n_at_once = memory_bytes // 2 // path_bytes if 2 * largest <= MAX_ROWS else 0
    kernel = settings.at(gamma)
    in_memory = kernel.is_given or n_at_once > 0
    with open_pool(max(1, min(threads, n_at_once)) if in_memory else threads) as pool:
        used = np.unique(np.concatenate(trains)) if in_memory else None
        yield _Solver(X, y, kernel, Cs, settings, used, Resources(pool, memory_bytes))


class _Solver:
    """Solves paths along C of one gamma, from a kernel in memory or from kernel rows.

    used : int64, sorted, the rows that any fold trains on; None if their kernel does not fit
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        kernel: Kernel,
        Cs: np.ndarray,
        settings: Settings,
        used: np.ndarray | None,
        resources: Resources,
    ) -> None:
        self.X, self.y, self.kernel = np.asarray(X), np.asarray(y, np.float64), kernel
        self.Cs, self.settings, self.used, self.resources = Cs, settings, used, resources
        self.rows = prepare_rows(self.X, kernel)
        self.exact = resources.exact_kernel(self.rows, kernel)
        # With kernel rows, the pool's threads compute the rows, and paths are solved one by one.
        self.pool_of_paths = None if used is None else resources.pool
        if used is not None:
            used_rows = self.rows[np.ix_(used, used)] if kernel.is_given else self.rows[used]
            self.values = shared_products(used_rows, kernel, resources.pool)
            kernel_values(self.values, kernel, self.values, resources.pool)

    def solve(self, train: np.ndarray, weight: np.ndarray, epsilon: float) -> Path:
        """Solve the path of one epsilon; its ``betas`` are float64 (n_C, n_train), one per row.

        train, weight : sorted numbers of rows, and their factors of C
        """
        n, n_C = len(train), self.Cs.size
        twice, y = np.tile(train, 2), self.y[train]
        # First the multipliers of the tube's lower edges, y - epsilon, then of its upper ones.
        problem_data = np.stack(
            [
                np.concatenate([y - epsilon, y + epsilon]),
                np.repeat([1.0, -1.0], n),
                np.tile(weight, 2),
            ]
        )
        path = Path(
            np.empty((n_C, 2 * n)),
            np.empty((0, 0), np.float32),
            *np.empty((2, n_C)),
            *np.empty((2, n_C), np.int64),
        )
        rules = problem_data, self.Cs, self.settings.tol, self.settings.limit(2 * n), path
        if self.used is None:
            memory_bytes = self.resources.memory_bytes
            source = KernelRows(
                self.rows[twice], self.kernel, memory_bytes // 8 * 5, self.resources.pool
            )
            walk_rows(source, largest_working_set(2 * n, memory_bytes), *rules)
        else:
            positions = np.searchsorted(self.used, train)
            doubled = np.tile(self.values[np.ix_(positions, positions)], (2, 2))
            walk(doubled, np.diagonal(doubled).copy(), self.exact, twice, *rules)
        return path._replace(betas=path.betas[:, :n] + path.betas[:, n:])

    def predict(
        self, train: np.ndarray, coefficients: np.ndarray, validation: np.ndarray, out: np.ndarray
    ) -> None:
        """Write predictions, without their intercept, in double precision.

        validation : numbers of the rows to predict
        coefficients, out : float64 (..., n_train) and (..., n_validation)
        """
        step = max(1, _BLOCK_VALUES // len(train))
        train_rows = None if self.kernel.is_given else self.rows[train].astype(np.float64)
        for at in range(0, len(validation), step):
            row_numbers = validation[at : at + step]
            if train_rows is None:
                between = self.X[np.ix_(row_numbers, train)]
            else:
                between = self.kernel.between(self.rows[row_numbers].astype(np.float64), train_rows)
            out[..., at : at + step] = coefficients @ between.T
