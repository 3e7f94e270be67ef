"""Cross-validation of epsilon-support vector regression for every C and epsilon of one gamma.

The dual problem has two multipliers a row, one for each edge of the tube about its target: that
is a binary problem of twice the rows (C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support
vector machines", ACM TIST 2, 2011, section 4.1.4), and the walk along C solves it as any other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pipelines.svm.cpu.binary import BinaryProblem, Path
from pipelines.svm.cpu.exact import ExactRows, exact_values
from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
from pipelines.svm.cpu.threads import Means, open_pool
from pipelines.svm.cpu.walk import walk
from pipelines.svm.kernel import Kernel
from pipelines.svm.search import Settings

# Bytes a thread needs for each pair of training rows: the kernel of twice the rows in single
# and in double precision, Newton's work space and the kernel it is made from.
_BYTES_A_PAIR = 4 * 4 + 4 * 8 + 4 * 16 + 8


@dataclass(frozen=True)
class RegressionResult:
    """What was found; C's in the order they were given.

    predictions : of each fold, float64 (n_epsilon, n_C, n_validation)
    objectives : float64 (n_epsilon, n_C, n_folds), the dual's, as LIBSVM reports it
    n_support : int64, the same shape, rows outside the tube or on its edge
    status : int64, the same shape, see ``solutions``
    """

    predictions: list[np.ndarray]
    objectives: np.ndarray
    n_support: np.ndarray
    status: np.ndarray


def fits(n: int, memory_bytes: int = 4 << 30) -> bool:
    """Whether so many training rows are solved within so much memory."""
    return _BYTES_A_PAIR * n * n <= memory_bytes


def cross_validate_regression(
    X: np.ndarray,
    y: np.ndarray,
    gamma: float,
    Cs: Sequence[float],
    epsilons: Sequence[float],
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    n_threads: int | None = None,
    memory_bytes: int = 4 << 30,
    kernel: str = "rbf",
    degree: int = 3,
    coef0: float = 0.0,
) -> RegressionResult:
    """Predict every fold's validation rows for every C and epsilon.

    Parameters
    ----------
    X : float array of shape (n, n_features)
    y : float array of shape (n,), the targets
    Cs, epsilons : above 0, and 0 or above, in any order
    folds : (train, validation) index arrays
    tol, max_iter : LIBSVM's stopping tolerance, in units of y, and its limit

    The others are as for ``cross_validate_path``.

    Raises
    ------
    ValueError
        There are more training rows than the memory holds.
    """
    y, form = np.asarray(y, np.float64), Kernel(kernel, degree, coef0, gamma)
    largest = max(len(train) for train, _ in folds)
    if not fits(largest, memory_bytes):
        raise ValueError(
            f"X must have few enough training rows for memory_bytes={memory_bytes:,}, "
            f"got {largest:,}; give more memory, or fewer rows"
        )
    C_values = np.asarray(Cs, np.float64)
    ascending = np.argsort(C_values, kind="stable")
    settings = Settings(np.ascontiguousarray(C_values[ascending]), tol, max_iter)
    rows = prepare_rows(np.asarray(X), form)
    beside = max(1, memory_bytes // (_BYTES_A_PAIR * largest**2))
    tasks = [(f, e) for f in range(len(folds)) for e in range(len(epsilons))]
    shape = (len(epsilons), len(Cs), len(folds))
    result = RegressionResult(
        [np.empty((*shape[:2], len(validation))) for _, validation in folds],
        np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.int64),
    )  # fmt: skip
    with open_pool(n_threads) as pool:
        means = Means(pool, memory_bytes)
        values = shared_products(rows, form, pool)
        kernel_values(values, form, values, pool)
        exact = means.exact_kernel(rows, form)

        def solve(task: tuple[int, int]) -> None:
            fold, e = task
            train, validation = folds[fold]
            better = None if exact is None else partial(exact.of, np.tile(train, 2))
            path = _walk_tube(values[np.ix_(train, train)], better, y[train], epsilons[e], settings)
            net = path.betas[:, : len(train)] + path.betas[:, len(train) :]
            between = exact_values(
                np.asarray(rows[validation], np.float64), np.asarray(rows[train], np.float64),
                form,
            )  # fmt: skip
            place = (e, ascending)
            result.predictions[fold][place] = net @ between.T + path.intercepts[:, None]
            result.objectives[e, ascending, fold] = path.objectives
            result.n_support[e, ascending, fold] = np.count_nonzero(net, axis=1)
            result.status[e, ascending, fold] = path.status

        for at in range(0, len(tasks), beside):
            list(pool.map(solve, tasks[at : at + beside]))
    return result


def _walk_tube(
    kernel: np.ndarray,
    exact: Callable[[], ExactRows] | None,
    y: np.ndarray,
    epsilon: float,
    settings: Settings,
) -> Path:
    """The path of one fold: first the multipliers of the tube's lower edges, then the others'."""
    n, n_C = 2 * len(y), settings.Cs.size
    problem = BinaryProblem(
        np.concatenate([y - epsilon, y + epsilon]), np.repeat([1.0, -1.0], len(y)),
        np.ones(n), np.empty(0), np.empty(0),
    )  # fmt: skip
    path = Path(
        np.empty((n_C, n)), np.empty((0, 0)), np.empty(n_C), np.empty(n_C),
        np.empty(n_C, np.int64), np.empty(n_C, np.int64), np.empty(n_C, np.int64),
    )  # fmt: skip
    doubled = np.tile(kernel, (2, 2))
    walk(
        doubled, np.diagonal(doubled).copy(), exact, problem, settings.Cs, settings.tol,
        settings.limit(n), path,
    )  # fmt: skip
    return path
