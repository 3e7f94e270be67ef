"""``SVMGridSearch``: the grid search as a scikit-learn estimator."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import GridSearchCV, ParameterGrid, check_cv
from sklearn.model_selection._validation import (
    _insert_error_scores,
    _warn_or_raise_about_fit_failures,
)
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.run.progress import show_progress
from pipelines.select.scores import result_of
from pipelines.select.scoring import resolve_scoring
from pipelines.svm.grid import Grid, refit
from pipelines.svm.judged import ANSWERS, Best, Judge, Result, fit_best, needed
from pipelines.svm.means import means_of
from pipelines.svm.parameters import CONSTRAINTS, positive, refuse_overlap, rows_that_count
from pipelines.svm.path_svc import PathSVC
from pipelines.svm.plan import Plan
from pipelines.svm.refit import Refit, refit_estimator
from pipelines.svm.solvers.base import NOT_CONVERGED

if TYPE_CHECKING:
    from distributed import Client


def _has_probability(search: Any) -> bool:
    if not (search.probability or search._asks_probabilities):
        raise AttributeError("predict_proba needs probability=True")
    if hasattr(search, "cv_results_") and not hasattr(search, "best_estimator_"):
        raise AttributeError("predict_proba needs refit=True")
    return True


class SVMGridSearch(GridSearchCV):
    """Grid search of a kernel SVM by cross-validation, on threads or a Dask cluster.

    What ``GridSearchCV(SVC(), param_grid)`` does, with the same attributes, results and
    ties. ``X`` is taken as it is: scale it before.

    Candidates that differ in C and gamma share one path for each gamma, and so do their
    scores by scorers that ask for predictions or decision values. One ``PathSVC`` is fitted
    for each candidate and fold where a scorer asks for more (probabilities, or a callable
    that may look at anything), and for candidates that differ in ``probability``,
    ``break_ties`` or ``decision_function_shape``.

    Parameters
    ----------
    C : sequence of float
    gamma : sequence of float, "scale" or "auto"
        Of the kernel exp(-gamma * |x - z|^2), or as the other kernels take it. ``"scale"`` is
        of the training rows of each fold; ``kernel="linear"`` has none and fits one.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable
    degree : int, of ``poly``
    coef0 : float, of ``poly`` and ``sigmoid``
    class_weight : None, "balanced" or dict of label to factor of C
    param_grid : dict of parameter of ``PathSVC`` to values, or list of them, optional
        In the place of ``C`` and ``gamma``.
    scoring : None, str, callable, list, tuple or dict
        As ``GridSearchCV`` takes it; accuracy by default.
    refit : bool, str or callable
        As ``GridSearchCV`` takes it: whether to fit the best candidate on all rows, by the
        score of which name it is best, or what chooses it from ``cv_results_``.
    probability : bool
        Whether to calibrate the best candidate on the same folds, for
        ``predict_proba``; then they must validate every row once.
    cv : int or scikit-learn splitter
        An int means stratified folds, not shuffled, as in scikit-learn.
    error_score : float or "raise"
        The score of a fit that fails.
    return_train_score : bool
    n_jobs : int, optional
        Threads of this process; all its cores by default, and where there is a ``client``.
    solver : str
        ``"auto"``, or a name in ``pipelines.svm.solvers.SOLVERS``.
    device : {"auto", "cpu", "gpu"}
    decision : {"ovo", "ovr"}
        One-vs-one (LIBSVM's) or one-vs-rest.
    tol : float
        LIBSVM's stopping tolerance.
    max_iter : int
        Most iterations of a binary problem; -1 for LIBSVM's limit,
        max(10,000,000, 100 n_samples).
    memory_bytes : int
        What may be held of kernel matrices, and of a sparse ``X`` made dense.
    client : distributed.Client, optional
        Where to compute; by default on threads of this process, which opens no port.
    verbose : int
        1 shows the progress: a bar on a terminal, a widget in a notebook; above it, a line
        for each fit.

    Attributes
    ----------
    cv_results_ : dict of arrays, as ``GridSearchCV`` has it
    best_params_ : dict; ties go to the first candidate, C varying the slowest
    best_score_ : float, mean score of the best candidate over the folds
    best_index_ : int, its place in ``cv_results_``
    best_estimator_ : fitted on all of ``X`` by the solver
    calibration_ : Calibration of its decision values, or None
    scorer_ : what ``score`` calls
    classes_ : array of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features_in_,), where ``X`` had names
    multimetric_ : bool
    n_splits_ : int
    n_iter_ : int, iterations of all fits of the search together, of those that share work
    refit_time_ : float, seconds

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> SVMGridSearch(C=[1, 10], gamma=[0.01, 0.1]).fit(X, y).best_params_
    {'C': 1, 'gamma': 0.1}
    """

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        **GridSearchCV._parameter_constraints,
        **CONSTRAINTS,
        "scoring": [str, callable, list, tuple, dict, None],
        "param_grid": [dict, list, None],
        "solver": [str],
        "device": [StrOptions({"auto", "cpu", "gpu"})],
        "probability": ["boolean"],
        "memory_bytes": PathSVC._parameter_constraints["memory_bytes"],
    }

    def __init__(
        self,
        C: Sequence[float] = (0.1, 1.0, 10.0, 100.0),
        gamma: Sequence[float] | str = (0.001, 0.01, 0.1, 1.0),
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: dict[Any, float] | str | None = None,
        param_grid: Any = None,
        scoring: Any = None,
        refit: Any = True,
        probability: bool = False,
        cv: Any = 5,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        n_jobs: int | None = None,
        solver: str = "auto",
        device: str = "auto",
        decision: str = "ovo",
        tol: float = 1e-3,
        max_iter: int = -1,
        memory_bytes: int = 4 << 30,
        client: Client | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.param_grid = param_grid
        self.scoring = scoring
        self.refit = refit
        self.probability = probability
        self.cv = cv
        self.error_score = error_score
        self.return_train_score = return_train_score
        self.n_jobs = n_jobs
        self.solver = solver
        self.device = device
        self.decision = decision
        self.tol = tol
        self.max_iter = max_iter
        self.memory_bytes = memory_bytes
        self.client = client
        self.verbose = verbose

    @property
    def estimator(self) -> PathSVC:
        """What candidates have in common."""
        return PathSVC(
            kernel=self.kernel, degree=self.degree, coef0=self.coef0, decision=self.decision,
            class_weight=self.class_weight, tol=self.tol, max_iter=self.max_iter,
            memory_bytes=self.memory_bytes,
        )  # fmt: skip

    @property
    def _asks_probabilities(self) -> bool:
        """Whether a scorer does, so that every fit is calibrated."""
        if callable(self.scoring) and not hasattr(self.scoring, "_response_method"):
            return False
        methods = needed(self._get_scorers()[0])
        return "predict_proba" in methods or "predict_log_proba" in methods

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Search the grid, then fit the best candidate on all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), optional
            For splitters that need them.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C, and weights of scorers that take them; of ``solver="path"`` on a CPU.

        Raises
        ------
        ValueError
            Parameters or data cannot be used, or every fit failed.
        """
        self._validate_params()
        candidates = self._candidates()
        template = self.estimator
        rows, y = template.validated(X, y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes, got 1 class: {classes[0]}")
        self._refuse_useless_scoring(classes)
        scorers, refit_metric = self._get_scorers()
        split = check_cv(self.cv, y, classifier=True).split(rows, y, groups)
        folds = [(_rows_of(train), _rows_of(test)) for train, test in split]
        self.n_splits_ = len(folds)
        if not folds:
            raise ValueError(f"cv must give at least one fold, got none of {self.cv!r}")
        if self.probability and self.refit:
            refuse_overlap(folds, len(y))
        weights, weighs_scores = None, False
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, rows, dtype=np.float64)
            rows_that_count(rows, classes, codes, weights)
            weighs_scores = self._check_scorers_accept_sample_weight()
        codes = codes.astype(np.int32)
        data = FoldedData(rows, codes, rows[:0], codes[:0], folds, Scaling("none"))
        judge = Judge(
            scorers, classes, self.error_score, self.return_train_score, weights, weighs_scores
        )
        means = means_of(self, weights)
        plan = Plan(candidates, template, data, judge, means, self._asks_probabilities)
        self._say(
            f"Fitting {self.n_splits_} folds for each of {len(candidates)} candidates, "
            f"totalling {self.n_splits_ * len(candidates)} fits"
        )
        out = self._carry_out(plan)
        if callable(self.scoring):
            _insert_error_scores(out, self.error_score)
        results = self._format_results(candidates, self.n_splits_, out)
        self._choose(results, out, refit_metric)
        self.n_iter_ = plan.n_iterations
        self.calibration_ = None
        if self.refit:
            self._refit(X, y, plan, template)
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        self.cv_results_ = results
        return self

    def _candidates(self) -> list[dict[str, Any]]:
        grid = self.param_grid
        if grid is None:
            grid = {"C": positive("C", self.C), "gamma": positive("gamma", self.gamma)}
        return list(ParameterGrid(grid))

    def _refuse_useless_scoring(self, classes: np.ndarray) -> None:
        """Say what is wrong with the name of a scorer before any fit is made."""
        name = self.scoring
        if not isinstance(name, str):
            return
        if name not in get_scorer_names() or needed(get_scorer(name)) <= ANSWERS:
            scoring = resolve_scoring(name)
            if scoring is not None:
                scoring.on(classes)

    def _say(self, line: str, level: int = 1) -> None:
        if self.verbose >= level:
            print(line, flush=True)

    def _carry_out(self, plan: Plan) -> list[Result]:
        """The results of all candidates on all folds, candidate by candidate."""
        units, runner = plan.units, plan.means.runner
        cost = sum(unit.cost for unit in units)
        with show_progress(len(units), cost, self.verbose != 1, lambda: runner.n_workers) as shown:
            for unit, filled in plan.carry_out():
                shown.advance(unit, any(plan.out[place]["fit_error"] for place in filled))
                for place in filled if self.verbose > 1 else ():
                    self._say(plan.line(place, self.verbose))
        places = [(c, f) for c in range(len(plan.candidates)) for f in range(self.n_splits_)]
        out = [plan.out[place] for place in places]
        _warn_or_raise_about_fit_failures(out, self.error_score)
        unfinished = sum(result["status"] == NOT_CONVERGED for result in out)
        if unfinished:
            warnings.warn(
                f"{unfinished} of {len(out)} fits did not converge within "
                f"max_iter={self.max_iter}; raise it or tol, or scale the data",
                ConvergenceWarning,
                stacklevel=3,
            )
        return out

    def _choose(self, results: dict[str, Any], out: list[Result], refit_metric: Any) -> None:
        """Best candidate, as ``GridSearchCV`` chooses it."""
        first = out[0]["test_scores"]
        self.multimetric_ = isinstance(first, dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(first)
            refit_metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, refit_metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]

    def _refit(self, X: Any, y: Any, plan: Plan, template: PathSVC) -> None:
        """Fit the best candidate on all rows."""
        started = time.perf_counter()
        best, judge, means = plan.estimators[self.best_index_], plan.judge, plan.means
        if callable(best.kernel):  # it takes rows as they were given
            whole = clone(best).set_params(probability=best.probability or self.probability)
            self.best_estimator_ = whole.fit(X, y, judge.weights)
        elif means.is_path_svc:
            self.best_estimator_, self.calibration_ = result_of(
                means.runner, partial(fit_best, judge=judge), plan.data,
                Best(best, self.probability), "refit-best failed",
            )  # fmt: skip
        else:
            grid = Grid((best.C,), (), means.solver, plan.settings_of(best))
            unit = Refit(best.C, best.gamma_of(plan.data.X), judge.classes, self.probability)
            self.best_estimator_, self.calibration_ = refit(
                means.runner, plan.data, grid, unit, refit_estimator
            )
        self.refit_time_ = time.perf_counter() - started
        names = getattr(template, "feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
            if isinstance(self.best_estimator_, PathSVC):
                self.best_estimator_.feature_names_in_ = names

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Calibrated probabilities, an array of shape (n_samples, n_classes)."""
        check_is_fitted(self)
        if self.calibration_ is None:
            found: np.ndarray = self.best_estimator_.predict_proba(X)
            return found
        return self.calibration_.probabilities(self.decision_function(X))

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Natural logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


def _rows_of(fold: Any) -> np.ndarray:
    """Row numbers of a part of a fold, which may be a mask."""
    part = np.asarray(fold)
    return np.flatnonzero(part) if part.dtype == np.bool_ else part
