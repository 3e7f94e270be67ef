"""Fit the model of one C and gamma on a GPU."""

from typing import Any

import numpy as np

from pipelines.data.placement import to_host
from pipelines.svm.cpu.fit import FittedPath, model_of, path_to
from pipelines.svm.cuda.distances import prepare_rows, symmetric_products
from pipelines.svm.cuda.gpu import array_module, limits, own_memory
from pipelines.svm.cuda.launches import Launching, solve_table
from pipelines.svm.cuda.table import make_table
from pipelines.svm.search import Form, search_all_rows


def fit_path_cuda(
    X: Any,
    y: np.ndarray,
    C: float = 1.0,
    gamma: float = 1.0,
    *,
    sample_weight: np.ndarray | None = None,
    launching: Launching | None = None,
    xp: Any = None,
    **form: Any,
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
    search = search_all_rows(y, path_to(C), gamma, Form(**form), sample_weight)
    layout, settings, kernel = search.layout, search.settings, search.kernel
    classes = list(range(layout.n_classes))
    with own_memory(xp):
        rows = prepare_rows(X, kernel, xp, limit.fast_float64)[xp.asarray(layout.order)]
        shape = (1, 1, layout.n_classes, settings.Cs.size, len(rows))
        coefficients = xp.zeros(shape, np.float32)
        found = solve_table(
            make_table(layout, search.problems, search.weights, settings.class_weight, classes),
            symmetric_products(rows, kernel, xp), rows, layout, classes, search.weights,
            np.array([gamma]), settings, kernel, coefficients, xp, launching, limit,
        )  # fmt: skip
        # Place p of a row holds its multiplier against class p, or in problem p.
        last = np.ascontiguousarray(to_host(coefficients[0, 0, :, -1]).T)
        del rows, coefficients  # before their pool is emptied
    out = search.empty_solutions()
    out.intercepts, out.objectives = found.intercepts, found.objectives
    out.iterations, out.status = found.iterations, found.status
    out.support[0, -1] = (last != 0).any(axis=1)
    return model_of(layout, search.problems, out, last)
