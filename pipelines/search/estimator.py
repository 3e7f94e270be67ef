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
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cluster_setup.cuda import visible_gpus
from cluster_setup.local import available_cores
from cluster_setup.workers import describe_workers, threads_per_task
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.run.tasks import InProcess, OnCluster, Runner
from pipelines.search.grid import Grid, rank_candidates, refit, search, tabulate
from pipelines.svm.solvers import Settings, load_solver, resolve_solver
from pipelines.svm.units import Refit, refit_estimator

if TYPE_CHECKING:
    from distributed import Client


class SVMGridSearch(ClassifierMixin, BaseEstimator):
    """Grid search of a kernel SVM by cross-validation, on threads or a Dask cluster.

    What ``GridSearchCV(SVC(), {"C": C, "gamma": gamma})`` does, with the same
    attributes. ``X`` is taken as it is: scale it before.

    Parameters
    ----------
    C : sequence of float
    gamma : sequence of float
        Of the kernel exp(-gamma * |x - z|^2).
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

    Attributes
    ----------
    cv_results_ : dict of arrays, the keys of ``GridSearchCV``; scores are accuracies
    best_params_ : dict with ``C`` and ``gamma``; ties go to the smaller C, then gamma
    best_score_ : float, mean accuracy of the best candidate over the folds
    best_index_ : int, its place in ``cv_results_``
    best_estimator_ : fitted on all of ``X`` by the solver
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

    def __init__(
        self,
        C: Sequence[float] = (0.1, 1.0, 10.0, 100.0),
        gamma: Sequence[float] = (0.001, 0.01, 0.1, 1.0),
        *,
        cv: Any = 5,
        solver: str = "auto",
        device: str = "auto",
        decision: str = "ovo",
        tol: float = 1e-3,
        max_iter: int = -1,
        client: Client | None = None,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.cv = cv
        self.solver = solver
        self.device = device
        self.decision = decision
        self.tol = tol
        self.max_iter = max_iter
        self.client = client

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
        if self.decision not in ("ovo", "ovr"):
            raise ValueError(f"decision must be 'ovo' or 'ovr', got {self.decision!r}")
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least two classes, got 1 class: {self.classes_[0]}")
        folds = list(check_cv(self.cv, y, classifier=True).split(X, y, groups))
        self.n_splits_ = len(folds)
        data = FoldedData(
            X, codes.astype(np.int32), X[:0], codes[:0].astype(np.int32), folds, Scaling("none")
        )
        device = self._device()
        solver = resolve_solver(self.solver, device)
        shares = load_solver(solver, device).shares_c
        settings = Settings(
            self.decision, self.tol, self.max_iter, n_threads=self._n_threads(shares), device=device
        )
        self._search(self._runner(shares), data, Grid(Cs, gammas, solver, settings))
        return self

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
        rows = [
            row
            for _, unit_rows in search(runner, data, grid, grid.units(data))
            for row in unit_rows
        ]
        results = tabulate(rows)
        best = rank_candidates(results, self.n_splits_, self.client).iloc[0]
        _warn_of_failures(results)
        if np.isnan(best.error_mean):
            raise ValueError(f"every candidate failed, for instance: {results.status.iloc[0]}")
        self.cv_results_ = _as_grid_search_cv(results, grid)
        self.best_params_ = {"C": float(best.C), "gamma": float(best.gamma)}
        self.best_index_ = self.cv_results_["params"].index(self.best_params_)
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        started = time.perf_counter()
        unit = Refit(**self.best_params_, classes=self.classes_)
        self.best_estimator_ = refit(runner, data, grid, unit, refit_estimator)
        self.n_iter_ = int(results.n_iterations.sum())
        self.refit_time_ = time.perf_counter() - started

    def predict(self, X: Any) -> np.ndarray:
        """Classes of the rows of ``X``, an array of shape (n_samples,)."""
        codes: np.ndarray = self._best().predict(validate_data(self, X, reset=False))
        return codes

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values as the best estimator gives them."""
        values: np.ndarray = self._best().decision_function(validate_data(self, X, reset=False))
        return values

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_


def _positive(name: str, values: Any) -> tuple[float, ...]:
    array = np.unique(np.atleast_1d(np.asarray(values, dtype=float)))
    if not len(array) or not np.all((array > 0) & np.isfinite(array)):
        raise ValueError(f"{name} must be positive finite numbers, at least one, got {values!r}")
    return tuple(array.tolist())


def _warn_of_failures(results: pd.DataFrame) -> None:
    failed = results[results.n_errors.isna()]
    if len(failed):
        reasons = failed.status.value_counts()
        counts = ", ".join(f"{count} {status}" for status, count in reasons.items())
        warnings.warn(
            f"{len(failed)} of {len(results)} fits failed: {counts}", FitFailedWarning, stacklevel=4
        )


def _as_grid_search_cv(results: pd.DataFrame, grid: Grid) -> dict[str, Any]:
    """A table of cells as ``GridSearchCV.cv_results_``: C slowest, then gamma."""
    cells = results.sort_values(["C", "gamma", "fold"])
    shape = (len(grid.Cs) * len(grid.gammas), -1)
    right = (cells.n_validation - cells.n_errors).astype("Float64").to_numpy(float, na_value=np.nan)
    scores = (right / cells.n_validation.to_numpy()).reshape(shape)
    fit_seconds = cells.fit_seconds.to_numpy().reshape(shape)
    score_seconds = cells.score_seconds.to_numpy().reshape(shape)
    params = [{"C": C, "gamma": gamma} for C in grid.Cs for gamma in grid.gammas]
    mean = scores.mean(axis=1)
    rank = (-pd.Series(mean).round(12)).rank(method="min", na_option="bottom")
    return {
        "params": params,
        "param_C": np.ma.array([one["C"] for one in params]),
        "param_gamma": np.ma.array([one["gamma"] for one in params]),
        **{f"split{fold}_test_score": scores[:, fold] for fold in range(scores.shape[1])},
        "mean_test_score": mean,
        "std_test_score": scores.std(axis=1),
        "rank_test_score": rank.to_numpy().astype(np.int32),
        "mean_fit_time": fit_seconds.mean(axis=1),
        "std_fit_time": fit_seconds.std(axis=1),
        "mean_score_time": score_seconds.mean(axis=1),
        "std_score_time": score_seconds.std(axis=1),
    }
