"""Fit the model of one C and gamma, for the refit and for an estimator."""

import warnings
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pipelines.svm.cpu import first_use
from pipelines.svm.kernel import KERNELS
from pipelines.svm.multiclass import spread
from pipelines.svm.search import Layout, PathProblem, check_size, problems_of, search_all_rows
from pipelines.svm.settings import Settings
from pipelines.svm.solutions import Solutions

# The path to a single C starts where most multipliers are at their bound, and goes up in steps of
# this factor (factors from 10 up, or no steps at all, cost the same).
_FIRST_C, _STEP = 1e-3, 100.0


@dataclass(frozen=True)
class FittedPath:
    """A fitted C-SVC model.

    Attributes
    ----------
    classes : array of shape (n_classes,)
    problems : list of PathProblem
        Their classes are indices of ``classes``.
    support : int64 array of shape (n_support,)
        Rows of X, class by class, as in LIBSVM.
    n_support : int64 array of shape (n_classes,)
        Support vectors of each class.
    dual_coef : float64 array of shape (n_problems, n_support)
        Signed multipliers, 0 where a support vector has no part in a problem.
    intercept : float64 array of shape (n_problems,)
        ``sum_j dual_coef[p, j] K(x, x_j) + intercept[p]`` is the decision value; above 0 it means
        the problem's first class.
    objective, n_iterations, status : arrays of shape (n_problems,)
        The objectives are NaN where ``SVC`` itself fitted.
    """

    classes: np.ndarray
    problems: list[PathProblem]
    support: np.ndarray
    n_support: np.ndarray
    dual_coef: np.ndarray
    intercept: np.ndarray
    objective: np.ndarray
    n_iterations: np.ndarray
    status: np.ndarray


def path_to(C: float) -> np.ndarray:
    """Ascending C's that end in ``C``; the solution of each is the start of the next."""
    if C <= _FIRST_C:
        return np.array([C])
    steps = max(1, round(np.log(C / _FIRST_C) / np.log(_STEP)))
    return np.append(np.geomspace(_FIRST_C, C, steps + 1)[:-1], C)


def fit_path(
    X: np.ndarray,
    y: np.ndarray,
    C: float = 1.0,
    gamma: float = 1.0,
    *,
    n_threads: int | None = None,
    memory_bytes: int = 4 << 30,
    sample_weight: np.ndarray | None = None,
    may_be_brief: bool = True,
    **form: Any,
) -> FittedPath:
    """Fit C-SVC for one C and gamma on all rows.

    Parameters
    ----------
    X : float array of shape (n, n_features), or (n, n) for ``"precomputed"``
    y : array of shape (n,)
        At least two different labels.
    C, gamma : float
        Above 0.
    n_threads, memory_bytes : int
        As for ``solve_path``.
    sample_weight : float array of shape (n,), optional
        Factors of C, at least 0.
    may_be_brief : bool, default True
        Whether ``SVC`` may fit the model if the path solver would take longer to start.
    **form
        Fields of ``Settings``, as for ``solve_path``.

    Returns
    -------
    FittedPath

    Raises
    ------
    ValueError
        Values of ``X`` are too large, or ``y`` holds only one class.
    """
    X, settings = np.asarray(X), Settings(**form)
    check_size(X, gamma)
    if may_be_brief and sample_weight is None:
        brief = _fit_briefly(X, y, C, gamma, settings)
        if brief is not None:
            return brief
    first_use.compile_here()
    # Imported only here, as they import numba.
    from pipelines.svm.cpu.beyond_memory import open_rows
    from pipelines.svm.cpu.in_memory import solve_in_memory
    from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
    from pipelines.svm.cpu.pairwise import solve_pairwise
    from pipelines.svm.cpu.smo import MAX_ROWS
    from pipelines.svm.cpu.solve import solve_rest
    from pipelines.svm.cpu.solver_threads import Resources, open_pool

    Cs = path_to(C) if settings.at().is_definite else np.array([C])
    search = search_all_rows(y, Cs, gamma, settings, sample_weight)
    rows = prepare_rows(X, search.kernel, search.layout.order)
    fits = search.kernel.is_given or (
        len(rows) <= MAX_ROWS and 4 * len(rows) ** 2 <= 0.8 * memory_bytes
    )
    out, scores = search.empty_solutions(), (lambda fold: None)  # a single fit has none
    with open_pool(n_threads) as pool:
        resources = Resources(pool, memory_bytes)
        if fits:
            shared = shared_products(rows, search.kernel, pool)
            kernel_values(shared, search.kernel, shared, pool)
            exact = resources.exact_kernel(rows, search.kernel, search.cache)
            solved = solve_in_memory(shared, exact, search, out, scores, resources)
        elif search.one_vs_one:
            solved = solve_pairwise(search, rows, None, out, scores, resources)
        else:
            opened = partial(open_rows, rows, search.kernel, resources)
            solved = solve_rest(search, opened, out, scores, resources)
        deque(solved, maxlen=0)
    if search.one_vs_one:
        return model_of(search.layout, search.problems, out, out.pairs[0, :, :, -1])
    assert out.multipliers is not None
    return model_of(search.layout, search.problems, out, out.multipliers[0, :, -1].T)


def _fit_briefly(
    X: np.ndarray, y: np.ndarray, C: float, gamma: float, settings: Settings
) -> FittedPath | None:
    """Fit by ``SVC`` if it finishes before the path solver could start; None otherwise."""
    start = first_use.seconds_to_start() if first_use.may_wait() else 0.0
    classes, n_of_classes = np.unique(y, return_counts=True)
    is_known = (
        settings.kernel in KERNELS
        and settings.max_iter == -1
        and not isinstance(settings.class_weight, dict)
        and (settings.decision == "ovo" or len(classes) == 2)
        and len(classes) > 1
    )
    if not is_known or first_use.svc_seconds(*X.shape) >= start:
        return None
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import SVC

    problems = problems_of(len(classes), settings.decision)
    n_rows = int(np.sort(n_of_classes)[-2:].sum())
    limit = max(1, int(start / len(problems) / first_use.iteration_seconds(n_rows)))
    svc = SVC(C=C, gamma=gamma, **{**settings.svc, "max_iter": limit})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svc.fit(X, y)
    if svc.fit_status_:
        return None
    first_use.compile_meanwhile()
    # scikit-learn flips the sign of a single problem.
    is_one = len(problems) == 1
    dual = -svc.dual_coef_ if is_one else spread(svc.dual_coef_, svc.n_support_).T
    unknown = np.full(len(problems), np.nan)
    return FittedPath(
        classes,
        problems,
        svc.support_.astype(np.int64),
        svc.n_support_.astype(np.int64),
        np.asarray(dual),
        -svc.intercept_ if is_one else svc.intercept_,
        unknown,
        np.asarray(svc.n_iter_, np.int64),
        np.zeros(len(problems), np.int64),
    )


def model_of(
    layout: Layout, problems: list[PathProblem], out: Solutions, betas: np.ndarray
) -> FittedPath:
    """The model of the last C: support vectors of all problems, class by class, as rows of X.

    Parameters
    ----------
    layout : Layout
    problems : list of PathProblem
    out : Solutions
    betas : float array of shape (n, n_classes) for pairs, (n, n_problems) for one-vs-rest
        Multipliers of the sorted rows at the last C.
    """
    used = np.flatnonzero(out.support[0, -1])
    dual = np.zeros((len(problems), used.size))
    codes = layout.codes[used]
    if problems[0].second is None:
        dual[:] = betas[used].T
    else:
        number = np.empty((layout.n_classes, layout.n_classes), np.int64)
        for p, problem in enumerate(problems):
            number[problem.first, problem.second] = number[problem.second, problem.first] = p
        for code in range(layout.n_classes):
            is_other, columns = np.arange(layout.n_classes) != code, np.flatnonzero(codes == code)
            dual[number[code, is_other][:, None], columns] = betas[used[columns]][:, is_other].T
    return FittedPath(
        layout.classes,
        problems,
        layout.order[used],
        np.bincount(codes, minlength=layout.n_classes),
        dual,
        out.intercepts[0, :, -1].copy(),
        out.objectives[0, :, -1].copy(),
        out.iterations[0].sum(axis=1),
        out.status[0, :, -1].copy(),
    )
