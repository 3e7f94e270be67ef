"""``SVMGridSearch``: the grid search as a scikit-learn estimator."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cluster_setup.on_this_machine.devices import available_cores, visible_gpus
from cluster_setup.workers import describe_workers, threads_per_task
from pipelines.data.placement import Fold, FoldedData
from pipelines.data.scaling import Scaling
from pipelines.run.progress import show_progress
from pipelines.run.tasks import InProcess, OnCluster, Runner
from pipelines.select.cv_results import as_grid_search_cv
from pipelines.select.scoring import DEFAULT, resolve_scoring
from pipelines.svm.grid import Grid, rank_candidates, refit, search, tabulate
from pipelines.svm.kernel import Kernel
from pipelines.svm.parameters import CONSTRAINTS, factors_by_code
from pipelines.svm.refit import Refit, refit_estimator
from pipelines.svm.solvers import Settings, load_solver, resolve_solver

if TYPE_CHECKING:
    from distributed import Client


def _has_probability(search: Any) -> bool:
    if not search.probability:
        raise AttributeError("predict_proba needs probability=True")
    return True


class SVMGridSearch(ClassifierMixin, BaseEstimator):
    """Grid search of a kernel SVM by cross-validation, on threads or a Dask cluster.

    What ``GridSearchCV(SVC(), {"C": C, "gamma": gamma})`` does, with the same
    attributes. ``X`` is taken as it is: scale it before.

    Parameters
    ----------
    C : sequence of float
    gamma : sequence of float
        Of the kernel exp(-gamma * |x - z|^2), or as the other kernels take it.
    kernel : {"rbf", "linear", "poly", "sigmoid"}
    degree : int, of ``poly``
    coef0 : float, of ``poly`` and ``sigmoid``
    class_weight : None, "balanced" or dict of label to factor of C
    scoring : str or scorer, optional
        A name or what ``make_scorer`` gives, of predictions or decision values;
        accuracy by default. The best candidate is chosen by its mean over the folds.
    probability : bool
        Whether to calibrate the best candidate on the same folds, for
        ``predict_proba``; then they must validate every row once.
    cv : int or scikit-learn splitter
        An int means stratified folds, not shuffled, as in scikit-learn.
    solver : str
        ``"auto"``, or a name in ``pipelines.svm.solvers.SOLVERS``.
    device : {"auto", "cpu", "gpu"}
    decision : {"ovo", "ovr"}
        One-vs-one (LIBSVM's) or one-vs-rest.
    tol : float
        LIBSVM's stopping tolerance.
    max_iter : int
        Most iterations of a binary problem; -1 for no limit.
    client : distributed.Client, optional
        Where to compute; by default on threads of this process, which opens no port.
    verbose : int
        Above 0 shows the progress: a bar on a terminal, a widget in a notebook.

    Attributes
    ----------
    cv_results_ : dict of arrays, the keys of ``GridSearchCV``
    best_params_ : dict with ``C`` and ``gamma``; ties go to the smaller C, then gamma
    best_score_ : float, mean score of the best candidate over the folds
    best_index_ : int, its place in ``cv_results_``
    best_estimator_ : fitted on all of ``X`` by the solver
    calibration_ : Calibration of its decision values, or None
    scorer_ : what ``score`` calls
    classes_ : array of shape (n_classes,)
    n_splits_ : int
    n_iter_ : int, iterations of all fits of the search together
    refit_time_ : float, seconds

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> SVMGridSearch(C=[1, 10], gamma=[0.01, 0.1]).fit(X, y).best_params_
    {'C': 1.0, 'gamma': 0.1}
    """

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        **CONSTRAINTS,
        "solver": [str],
        "device": [StrOptions({"auto", "cpu", "gpu"})],
        "probability": ["boolean"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C: Sequence[float] = (0.1, 1.0, 10.0, 100.0),
        gamma: Sequence[float] = (0.001, 0.01, 0.1, 1.0),
        *,
        kernel: str = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: dict[Any, float] | str | None = None,
        scoring: Any = None,
        probability: bool = False,
        cv: Any = 5,
        solver: str = "auto",
        device: str = "auto",
        decision: str = "ovo",
        tol: float = 1e-3,
        max_iter: int = -1,
        client: Client | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.scoring = scoring
        self.probability = probability
        self.cv = cv
        self.solver = solver
        self.device = device
        self.decision = decision
        self.tol = tol
        self.max_iter = max_iter
        self.client = client
        self.verbose = verbose

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Search the grid, then fit the best candidate on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), optional
            For splitters that need them.

        Raises
        ------
        ValueError
            Parameters or data cannot be used, or every fit failed.
        """
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32))
        check_classification_targets(y)
        Cs, gammas = _positive("C", self.C), _positive("gamma", self.gamma)
        self._validate_params()
        scoring = resolve_scoring(self.scoring)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least two classes, got 1 class: {self.classes_[0]}")
        folds = list(check_cv(self.cv, y, classifier=True).split(X, y, groups))
        self.n_splits_ = len(folds)
        if self.probability:
            _refuse_overlap(folds, len(y))
        data = FoldedData(
            X, codes.astype(np.int32), X[:0], codes[:0].astype(np.int32), folds, Scaling("none")
        )
        device = self._device()
        solver = resolve_solver(self.solver, device)
        shares = load_solver(solver, device).shares_c
        settings = Settings(
            self.decision,
            self.tol,
            self.max_iter,
            Kernel(self.kernel, self.degree, self.coef0),
            self._class_weight(solver),
            n_threads=self._n_threads(shares),
            device=device,
            scoring=scoring.on(self.classes_) if scoring else None,
        )
        self.scorer_ = scoring.scorer if scoring else get_scorer(DEFAULT)
        self._search(self._runner(shares), data, Grid(Cs, gammas, solver, settings))
        return self

    def _class_weight(self, solver: str) -> dict[Any, float] | str | None:
        if not isinstance(self.class_weight, dict):
            return self.class_weight
        if self.decision == "ovr" and len(self.classes_) > 2 and solver != "path":
            raise ValueError(
                f"class_weight must be None or 'balanced' for decision='ovr' with solver={solver!r}"
                f", got {self.class_weight!r}; use solver='path'"
            )
        return factors_by_code(self.class_weight, self.classes_)

    def _device(self) -> str:
        if self.device != "auto":
            return self.device
        if self.client is None:
            return "gpu" if visible_gpus() else "cpu"
        return "gpu" if all(worker["gpu"] for worker in describe_workers(self.client)) else "cpu"

    def _n_threads(self, shares: bool) -> int:
        if self.client is not None:
            return threads_per_task(describe_workers(self.client))
        return available_cores() if shares else 1

    def _runner(self, shares: bool) -> Runner:
        if self.client is not None:
            return OnCluster(self.client)
        # A solver that shares work fills the cores from one unit, another from many.
        return InProcess(1 if shares else available_cores())

    def _search(self, runner: Runner, data: FoldedData, grid: Grid) -> None:
        units = grid.units(data)
        cost = sum(unit.cost for unit in units)
        rows = []
        with show_progress(len(units), cost, not self.verbose, lambda: runner.n_workers) as shown:
            for outcome, unit_rows in search(runner, data, grid, units):
                rows += unit_rows
                shown.advance(outcome.unit.cost, outcome.error is not None)
        results = tabulate(rows)
        best = rank_candidates(results, self.n_splits_, self.client).iloc[0]
        _warn_of_failures(results)
        if np.isnan(best.score_mean):
            raise ValueError(f"every candidate failed, for instance: {results.status.iloc[0]}")
        self.cv_results_ = as_grid_search_cv(results, {"C": grid.Cs, "gamma": grid.gammas})
        self.best_params_ = {"C": float(best.C), "gamma": float(best.gamma)}
        self.best_index_ = self.cv_results_["params"].index(self.best_params_)
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        started = time.perf_counter()
        unit = Refit(**self.best_params_, classes=self.classes_, probability=self.probability)
        self.best_estimator_, self.calibration_ = refit(runner, data, grid, unit, refit_estimator)
        self.n_iter_ = int(results.n_iterations.sum())
        self.refit_time_ = time.perf_counter() - started

    def predict(self, X: Any) -> np.ndarray:
        """Classes of the rows of ``X``, an array of shape (n_samples,)."""
        codes: np.ndarray = self._best().predict(validate_data(self, X, reset=False))
        return codes

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values of the best estimator, in the form of ``SVC.decision_function``."""
        values: np.ndarray = self._best().decision_function(validate_data(self, X, reset=False))
        return values

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities, an array of shape (n_samples, n_classes)."""
        values = self.decision_function(X)
        probabilities: np.ndarray = self.calibration_.probabilities(values)
        return probabilities

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Natural logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any) -> float:
        """The score of the best estimator on other rows, by ``scoring``."""
        check_is_fitted(self)
        return float(self.scorer_(self, X, y))

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_


def _positive(name: str, values: Any) -> tuple[float, ...]:
    try:
        array = np.unique(np.atleast_1d(np.asarray(values, dtype=float)))
    except (TypeError, ValueError):
        array = np.empty(0)
    if not len(array) or not np.all((array > 0) & np.isfinite(array)):
        raise ValueError(f"{name} must be positive finite numbers, at least one, got {values!r}")
    return tuple(array.tolist())


def _refuse_overlap(folds: Sequence[Fold], n_rows: int) -> None:
    validated = np.bincount(np.concatenate([rows for _, rows in folds]), minlength=n_rows)
    if np.any(validated != 1):
        raise ValueError(
            "probability=True needs a cv whose folds validate every row once, and "
            f"{int(np.sum(validated != 1))} of {n_rows} rows are validated never or more often; "
            "use for instance StratifiedKFold"
        )


def _warn_of_failures(results: pd.DataFrame) -> None:
    failed = results[results.n_errors.isna()]
    if len(failed):
        reasons = failed.status.value_counts()
        counts = ", ".join(f"{count} {status}" for status, count in reasons.items())
        warnings.warn(
            f"{len(failed)} of {len(results)} fits failed: {counts}", FitFailedWarning, stacklevel=4
        )
