"""Epsilon-support vector regression: one fit, or the cross-validation of every C and epsilon.

The dual problem has two multipliers a row, one for each edge of the tube about its target: that
is a binary problem of twice the rows (C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support
vector machines", ACM TIST 2, 2011, section 4.1.4), and the walk along C solves it as any other.
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
from pipelines.svm.cpu.by_fold import solve_by_fold
from pipelines.svm.cpu.fit import path_to
from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
from pipelines.svm.cpu.problem import Path
from pipelines.svm.cpu.smo import MAX_ROWS
from pipelines.svm.cpu.threads import Resources, open_pool
from pipelines.svm.cpu.walk import walk
from pipelines.svm.kernel import Kernel
from pipelines.svm.search import check_size
from pipelines.svm.settings import Settings

# Newton's method works on at most so many multipliers, in two matrices of double precision.
_NEWTON_ROWS, _NEWTON_BYTES = 4096, 2 * 8

# Kernel values that a prediction makes at once.
_BLOCK_VALUES = 1 << 22


@dataclass(frozen=True)
class FittedRegression:
    """A regression: ``sum_j dual_coef[j] K(x, x_support[j]) + intercept``.

    support : int64 (n_support,), rows of X
    dual_coef : float64 (n_support,)
    objective : of the dual, as LIBSVM reports it
    n_iterations : on the whole way to this C
    status : see ``solutions``
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
    y : float array of shape (n,), the targets
    C, gamma : above 0
    epsilon : 0 or above

    The others are as for ``solve_regression``.
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
    """Predict the rows asked of every fold for every C and epsilon.

    Parameters
    ----------
    X : float array of shape (n, n_features), or (n, n) for ``"precomputed"``
    y : float array of shape (n,), the targets
        Those of rows that no fold trains on are not looked at.
    Cs, epsilons : above 0, and 0 or above, in any order
    folds : (train, asked) index arrays
        The rows to train on, where one that repeats counts as often, and the rows to predict,
        any of X.
    sample_weight : float array of shape (n,) of factors of C, or None
        Rows of 0 or below are left out of training.
    n_threads : None for every core this process may use
    memory_bytes : beyond it the kernel is made row by row
    form : tol (in units of y), max_iter, kernel, degree, coef0: see ``Settings``

    Yields
    ------
    The fits of a fold as soon as these are solved; folds end in no special order. Candidates are
    numbered epsilon by epsilon, and C by C within each. The time of a path is shared out over its
    C's, fitting in proportion to iterations. Details are ``objective``, the dual's as LIBSVM
    reports it, and ``status``, see ``solutions``.

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
    """Return the distinct rows to train on, and what multiplies C for each."""
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
    # Half of the memory is for rows in double precision. Of the rest each path takes the kernel of
    # twice its rows, and what that is made from.
    path_bytes = (4 * 4 + 4) * largest**2 + _NEWTON_BYTES * min(2 * largest, _NEWTON_ROWS) ** 2
    n_at_once = memory_bytes // 2 // path_bytes if 2 * largest <= MAX_ROWS else 0
    kernel = settings.at(gamma)
    in_memory = kernel.is_given or n_at_once > 0
    with open_pool(max(1, min(threads, n_at_once)) if in_memory else threads) as pool:
        used = np.unique(np.concatenate(trains)) if in_memory else None
        yield _Solver(X, y, kernel, Cs, settings, used, Resources(pool, memory_bytes))


class _Solver:
    """Paths along C of one gamma, from the kernel of the rows that train or from its rows.

    used : int64, sorted, the rows that train; None where their kernel does not fit in memory
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
        # Where the kernel's rows are made by the pool, one path is solved after another.
        self.pool_of_paths = None if used is None else resources.pool
        if used is not None:
            used_rows = self.rows[np.ix_(used, used)] if kernel.is_given else self.rows[used]
            self.values = shared_products(used_rows, kernel, resources.pool)
            kernel_values(self.values, kernel, self.values, resources.pool)

    def solve(self, train: np.ndarray, weight: np.ndarray, epsilon: float) -> Path:
        """Return the path of one tube; its ``betas`` are float64 (n_C, n_train), one for each row.

        train, weight : sorted numbers of rows, and factors of C
        """
        n, n_C = len(train), self.Cs.size
        twice, y = np.tile(train, 2), self.y[train]
        # First the multipliers of the tube's lower edges, then those of the upper ones.
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
        """Write the predictions of some rows, without an intercept, in double precision.

        coefficients, out : float64 (..., n_train) and (..., n_asked)
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
