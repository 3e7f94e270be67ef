"""One fit on a GPU: the model of one C and gamma."""

from typing import Any

import numpy as np

from pipelines.svm.cpu.fit import FittedPath, model_of, path_to
from pipelines.svm.cuda.distances import prepare_rows, symmetric_products
from pipelines.svm.cuda.gpu import array_module, limits, own_memory, to_host
from pipelines.svm.cuda.launches import Launching, solve_table
from pipelines.svm.cuda.table import make_table
from pipelines.svm.kernel import Kernel
from pipelines.svm.problems import ClassWeight, problems_of, sort_rows
from pipelines.svm.search import Settings
from pipelines.svm.solutions import empty_solutions


def fit_path_cuda(
    X: Any,
    y: np.ndarray,
    C: float = 1.0,
    gamma: float = 1.0,
    *,
    decision: str = "ovo",
    tol: float = 1e-3,
    max_iter: int = -1,
    class_weight: ClassWeight = None,
    sample_weight: np.ndarray | None = None,
    kernel: str = "rbf",
    degree: int = 3,
    coef0: float = 0.0,
    launching: Launching | None = None,
    xp: Any = None,
) -> FittedPath:
    """Fit C-SVC for one C and gamma on all rows; as ``pipelines.svm.cpu.fit.fit_path``.

    The shared products of all rows must fit in device memory (4 n**2 bytes).

    Parameters
    ----------
    X : float array of shape (n, n_features), numpy or on the device
    launching : how the solver is launched
    xp : array module; None for cupy, or numpy under the simulator

    Returns
    -------
    FittedPath
        ``support`` rows of X, ``dual_coef`` (n_problems, n_support), ``intercept``.
    """
    xp, limit = array_module(xp), limits()
    layout, form = sort_rows(y), Kernel(kernel, degree, coef0)
    problems = problems_of(layout.n_classes, decision)
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    weights = np.ascontiguousarray(weight[layout.order][None])
    settings = Settings(path_to(C), tol, max_iter, class_weight)
    classes = list(range(layout.n_classes))
    with own_memory(xp):
        rows = prepare_rows(X, form, xp, limit.fast_float64)[xp.asarray(layout.order)]
        shape = (1, 1, layout.n_classes, settings.Cs.size, len(rows))
        coefficients = xp.zeros(shape, np.float32)
        found = solve_table(
            make_table(layout, problems, weights, class_weight, classes),
            symmetric_products(rows, form, xp), rows, layout, classes, weights, np.array([gamma]),
            settings, form, coefficients, xp, launching, limit,
        )  # fmt: skip
        # Place p of a row holds its multiplier against class p, or in problem p.
        last = np.ascontiguousarray(to_host(coefficients[0, 0, :, -1]).T)
        del rows, coefficients  # before their pool is emptied
    out = empty_solutions(1, len(problems), settings.Cs.size, len(y))
    out.intercepts, out.objectives = found.intercepts, found.objectives
    out.iterations, out.status = found.iterations, found.status
    out.support[0, -1] = (last != 0).any(axis=1)
    return model_of(layout, problems, out, last)
