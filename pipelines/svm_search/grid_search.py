"""``SVMGridSearch``: ``GridSearch`` of a kernel SVM over C and gamma."""

from __future__ import annotations

import time
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import ParameterGrid, check_cv

from cluster_setup.on_this_machine.devices import available_cores, visible_gpus
from cluster_setup.workers import describe_workers, threads_per_task
from pipelines.run.runners import InProcess, OnCluster
from pipelines.search.grid_search import GridSearch
from pipelines.search.scoring import PREDICTIONS, check_scoring, methods_of
from pipelines.search.shared.svm import SVCs
from pipelines.sklearn_private import Interval, StrOptions, fit_context
from pipelines.svm.backend_svc import BackendSVC
from pipelines.svm.backends import load_backend, resolve_backend
from pipelines.svm.backends.brief import IMPLEMENTATION
from pipelines.svm.kernel import PRECOMPUTED
from pipelines.svm.path_svc import PathSVC, checked_weights, factors_by_code

if TYPE_CHECKING:
    from distributed import Client


class SVMGridSearch(GridSearch):
    """Grid search of a kernel SVM by cross-validation, on threads or a Dask cluster.

    It does what ``GridSearchCV(SVC(), param_grid)`` does, with the same attributes, results and
    ties. ``X`` is not scaled here: scale it beforehand.

    Candidates that differ in C and gamma share one path for each gamma, if their scorers need only
    predictions or decision values. One ``PathSVC`` is fitted for each candidate and fold if a
    scorer needs more (probabilities, or a callable that may look at anything), and for candidates
    that differ in ``probability``, ``break_ties`` or ``decision_function_shape``.

    Parameters
    ----------
    C : sequence of float, default (0.1, 1, 10, 100)
        Each above 0.
    gamma : sequence of float, "scale" or "auto", default (0.001, 0.01, 0.1, 1)
        As in the kernel exp(-gamma * |x - z|^2), or as the other kernels use it; each above 0.
        ``"scale"`` is computed from the training rows of each fold. The linear kernel has no gamma,
        and only one value is fitted.
    kernel : str or callable, default "rbf"
    degree : int, default 3
    coef0 : float, default 0.0
    class_weight : None, "balanced" or dict, default None
        All four as for ``PathSVC``.
    param_grid : dict of parameter of ``PathSVC`` to values, or list of them, optional
        Replaces ``C`` and ``gamma``.
    scoring : str, callable, list, tuple or dict, optional
        As for ``GridSearchCV``; accuracy by default.
    refit : bool, str or callable, default True
        As for ``GridSearchCV``.
    margin : float, optional
        Run a race, as ``RaceSearch`` does, instead of the whole grid: the number of standard
        errors, at least 1, by which a candidate may be behind the best. By default all candidates
        get all folds.
    probability : bool, default False
        Whether to calibrate the best candidate on the same folds, for ``predict_proba``; they must
        then validate every row once.
    cv : int or scikit-learn splitter, default 5
        An int, at least 2, means stratified folds, not shuffled, as in scikit-learn.
    error_score : "raise" or number, default nan
        The score of a fit that fails; "raise" ends the search.
    return_train_score : bool, default False
        Whether to score the training rows as well.
    n_jobs : int, optional
        Threads of this process; all its cores by default. Without effect with a ``client``.
    solver : str, default "auto"
        ``"auto"``, or a name in ``pipelines.svm.backends.BACKENDS``.
    device : {"auto", "cpu", "gpu"}, default "auto"
        Where to fit; auto uses the GPU if the workers have one.
    decision : {"ovo", "ovr"}, default "ovo"
    tol : float, default 1e-3
    max_iter : int, default -1
    memory_bytes : int, default 4 GiB
        All four as for ``PathSVC``.
    client : distributed.Client, optional
        Where to compute; by default threads of this process, which open no port. Clones and copies
        share it, pickles do not hold it: an unpickled search has None, and warns if it is fitted.
    verbose : int, default 0
        Above 0 shows the progress: a bar on a terminal, a widget in a notebook.
    time_budget : float, optional
        Seconds, at least 1, after which the search and the refit should end, as for ``GridSearch``;
        the calibration of ``probability`` comes after them.

    Attributes
    ----------
    best_estimator_ : PathSVC
        Fitted on all of ``X``, by the solver of the search.
    n_iter_ : int
        The total number of iterations of all fits that share work.
    solver_ : str
        The solver that fitted the candidates; with ``solver="auto"`` it is ``"sklearn"``, ``SVC``
        itself, if the path solver would take longer to load or compile than ``SVC`` to fit.

    Notes
    -----
    The other attributes are those of ``GridSearchCV``. Ties go to the first candidate, where C
    varies slowest.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> SVMGridSearch(C=[1, 10], gamma=[0.01, 0.1]).fit(X, y).best_params_
    {'C': 1, 'gamma': 0.1}
    """

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        **PathSVC._parameter_constraints,
        **GridSearch._parameter_constraints,
        "C": "no_validation",  # see ``_positive``
        "gamma": "no_validation",
        "scoring": [str, callable, list, tuple, dict, None],
        "param_grid": [dict, list, None],
        "margin": [Interval(Real, 1, None, closed="left"), None],
        "solver": [str],
        "device": [StrOptions({"auto", "cpu", "gpu"})],
    }

    pre_dispatch = "2*n_jobs"  # of joblib, which runs nothing here

    _backend: tuple[str, str]  # solver and device, once a search has begun
    _n_threads: int

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
        margin: float | None = None,
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
        time_budget: float | None = None,
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
        self.margin = margin
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
        self.time_budget = time_budget

    @property
    def estimator(self) -> PathSVC:
        """The estimator of all candidates, with the parameters that they have in common."""
        backend = getattr(self, "_backend", ("path", "cpu"))
        # If a scorer needs probabilities every fit is calibrated.
        scoring, methods = self.scoring, set[str]()
        if not callable(scoring) or hasattr(scoring, "_response_method"):
            scorers = scoring.values() if isinstance(scoring, dict) else np.atleast_1d(scoring)
            for scorer in scorers if scoring is not None else ():
                if not isinstance(scorer, str):
                    methods |= methods_of(scorer)
                elif scorer in get_scorer_names():  # scikit-learn reports other names later
                    methods |= methods_of(get_scorer(scorer))
        estimator = (PathSVC if backend == ("path", "cpu") else BackendSVC)(
            # The rows of a search with a callable kernel are its values already.
            kernel=PRECOMPUTED if callable(self.kernel) else self.kernel,
            degree=self.degree,
            coef0=self.coef0,
            decision=self.decision,
            class_weight=self.class_weight,
            tol=self.tol,
            max_iter=self.max_iter,
            memory_bytes=self.memory_bytes,
            n_jobs=getattr(self, "_n_threads", None),
            probability=bool(methods & {"predict_proba", "predict_log_proba"}),
        )
        if isinstance(estimator, BackendSVC):
            estimator.backend, estimator.client = backend, self.client
        return estimator

    @fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
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
            For splitters that need groups.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C, and weights for scorers that accept them; only for ``solver="path"`` on a
            CPU.

        Returns
        -------
        SVMGridSearch
            The search itself.

        Raises
        ------
        ValueError
            Parameters or data cannot be used, or every fit failed.
        """
        self._warn_without_client(stacklevel=4)
        template = self.estimator.set_params(kernel=self.kernel, probability=False)
        rows, labels = template.validated(X, y)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes, got 1 class: {classes[0]}")
        name = self.scoring
        if isinstance(name, str) and (
            name not in get_scorer_names() or methods_of(get_scorer(name)) <= PREDICTIONS
        ):
            check_scoring(name, classes)  # before any fit is made
        arguments: dict[str, Any] = {}
        if sample_weight is not None:
            arguments["sample_weight"] = checked_weights(rows, classes, codes, sample_weight)
        if groups is not None:
            arguments["groups"] = groups
        folds: list[Any] = []
        # Made once, as splits from an iterator can be read only once.
        cv = check_cv(self.cv, labels, classifier=True)
        if self.probability and self.refit:
            folds = list(cv.split(rows, labels, groups))
            validated = np.bincount(np.concatenate([rows for _, rows in folds]))
            if not np.array_equal(validated, np.ones(len(labels))):
                raise ValueError(
                    "probability=True needs a cv whose folds validate every row once; use for "
                    "instance StratifiedKFold"
                )
        runner = self._choose_backend(sample_weight is not None)
        for params in ParameterGrid(self._grid()):
            template.set_params(**params)
            kernel = params.get("kernel", self.kernel)
            if (callable(kernel) or kernel == PRECOMPUTED) and kernel != self.kernel:
                raise ValueError(
                    f"param_grid must hold kernels that have a name, got {kernel!r}; "
                    "give it as kernel instead"
                )
            weight = params.get("class_weight", self.class_weight)
            if isinstance(weight, dict):
                factors_by_code(weight, classes)
                one_vs_rest = params.get("decision", self.decision) == "ovr" and len(classes) > 2
                if one_vs_rest and self._backend[0] != "path":
                    raise ValueError(
                        "class_weight must be None or 'balanced' for decision='ovr' with "
                        f"solver={self._backend[0]!r}, got {weight!r}; use solver='path'"
                    )
        searched = rows if callable(self.kernel) else X
        shared_fit = SVCs(*self._backend, may_be_brief=self.solver == "auto")
        self._search(searched, labels, arguments, runner, (shared_fit,), self._n_threads, cv)
        self.n_iter_ = self._n_iterations
        solvers = {
            "sklearn" if implementation == IMPLEMENTATION else self._backend[0]
            for implementation in self._implementations
        }
        self.solver_ = ", ".join(sorted(solvers, reverse=True))
        if self.refit:
            started = time.perf_counter()
            best, weights = self.best_estimator_, arguments.get("sample_weight")  # type: ignore[has-type]
            if callable(self.kernel):  # it needs the rows as the caller gave them
                best = clone(best).set_params(kernel=self.kernel)
            if self.probability:
                best = clone(best).set_params(probability=True)
                self.best_estimator_ = best.fit_calibrated(X, labels, weights, folds)
            elif callable(self.kernel):
                self.best_estimator_ = best.fit(X, labels, weights)
            self.refit_time_ += time.perf_counter() - started
        return self

    def _grid(self) -> Any:
        if self.param_grid is not None:
            return self.param_grid
        return {"C": _positive("C", self.C), "gamma": _positive("gamma", self.gamma)}

    def _run_search(self, evaluate_candidates: Any) -> None:
        evaluate_candidates(ParameterGrid(self._grid()))

    def _choose_backend(self, weighted: bool) -> InProcess | OnCluster:
        """Choose the backend, its device and number of threads; returns what runs its tasks.

        Raises
        ------
        ValueError
            The backend does not support what is asked for, or ``n_jobs`` is invalid.
        """
        needs_path = self.kernel == PRECOMPUTED or callable(self.kernel) or weighted
        device = self.device
        if device == "auto":
            workers = [] if self.client is None else describe_workers(self.client)
            gpus = bool(visible_gpus()) if self.client is None else all(w["gpu"] for w in workers)
            device = "gpu" if gpus and not needs_path else "cpu"
        solver = resolve_backend(self.solver, device)
        if needs_path and (solver, device) != ("path", "cpu"):
            cause = "sample_weight" if weighted else f"kernel={self.kernel!r}"
            raise ValueError(
                f"solver must be 'path' on a CPU for {cause}, got {solver!r} on a {device.upper()}"
            )
        self._backend = solver, device
        if self.client is not None:
            self._n_threads = threads_per_task(describe_workers(self.client))
            return OnCluster(self.client)
        cores = available_cores() if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        # A backend that shares work uses all cores in one task; the others need many tasks.
        shares_C = load_backend(solver, device).shares_C
        self._n_threads = cores if shares_C else 1
        return InProcess(1 if shares_C else cores)


def _positive(name: str, values: Any) -> list[Any]:
    """The values of a parameter as a list; refuses values that are not positive and finite."""
    value_list = [values] if isinstance(values, str) or np.ndim(values) == 0 else list(values)
    words = ("scale", "auto") if name == "gamma" else ()
    if not value_list or not all(
        value in words
        if isinstance(value, str)
        else isinstance(value, Real) and 0 < float(value) < np.inf
        for value in value_list
    ):
        raise ValueError(f"{name} must be positive finite numbers, at least one, got {values!r}")
    return value_list
