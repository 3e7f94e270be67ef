"""``GridSearch``: scikit-learn's ``GridSearchCV`` with candidates that share work."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pipelines.run.client_parameter import ClientMixin
from pipelines.run.runners import OnCluster, Runner
from pipelines.search.executor import SearchExecutor
from pipelines.search.joblib_backend import SearchBackend
from pipelines.search.shared import SharedFit
from pipelines.search.strategies.race import Race
from pipelines.sklearn_private import Interval, fit_context

if TYPE_CHECKING:
    from distributed import Client


class Fits(NamedTuple):
    """Numbers of fits: those that the search asked for, and those that were computed for them."""

    n_requested: int
    n_made: int


TIMES = ("fit_time", "score_time")  # NaN for a fit that was not made


class GridSearch(ClientMixin, GridSearchCV):
    """Exhaustive search over a parameter grid, a drop-in replacement for ``GridSearchCV``.

    It is scikit-learn's own search, with its parameters and attributes, except for how candidates
    are fitted: those that share work are fitted together, see ``pipelines.search.shared``, with
    the scores of separate fits (by the path solver, within the estimator's tolerance). Less or
    nothing is shared if a fit takes metadata other than ``sample_weight``, or if scores come from
    a function that looks at the estimator.

    Rows that fits share are never written to, so train scores refer to the original rows. Before
    each fit the global random generators are seeded by their state before the search, the
    candidate and the split; the refit finds them in that state again.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Unfitted; it is cloned for each fit.
    param_grid : dict of parameter to values, or list of them
        Every combination is a candidate.
    scoring : str, callable, list, tuple or dict, optional
        How predictions are scored; by default by the estimator's own ``score``.
    n_jobs : int, optional
        Processes of joblib if there is no ``client``: None means 1, -1 all cores.
    refit : bool, str or callable, default True
        Whether to fit the best candidate on all rows. With several scorers, the name of the one
        that chooses it, or a function of ``cv_results_`` that does.
    cv : int, splitter or iterable of splits, optional
        An int, at least 2, is the number of folds, stratified for a classifier; by default 5.
    verbose : int, default 0
        Above 0 shows the progress: a bar on a terminal, a widget in a notebook.
    pre_dispatch : int or str, default "2*n_jobs"
        Number of tasks that joblib dispatches ahead.
    error_score : "raise" or number, default nan
        The score of a fit that fails; "raise" ends the search.
    return_train_score : bool, default False
        Whether to score the training rows as well.
    client : distributed.Client, optional
        Dask client whose workers fit; by default joblib does, as ``n_jobs`` says. Clones and
        copies of the search share it; a pickle does not contain it, so an unpickled search has
        None and warns when it is fitted without one.
    time_budget : float, optional
        Seconds, at least 1, by which the search and the refit should end: no fit is begun that
        would not end in time, and coarse values come first. By default there is no limit.

    Attributes
    ----------
    fits : Fits
        Numbers of candidate fits that were asked for, and computed; the refit does not count.
    n_splits_done_ : array of int of shape (n_candidates,)
        With a ``time_budget``: number of splits on which each candidate was tried on all rows;
        also ``cv_results_["n_splits_done"]``. Scores of fits that were not made are then NaN,
        means are over the splits that were done, and ranks go by the number of these first.

    Warns
    -----
    UserWarning
        Fits were not made, as they would not have ended within ``time_budget``.
    ConvergenceWarning
        Shared fits ended at a limit of iterations; one warning with their number.

    See Also
    --------
    RaceSearch : Drops candidates that are clearly behind before they have all splits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GridSearch(KNeighborsClassifier(), {"n_neighbors": range(1, 30)}).fit(X, y)
    >>> search.fits
    Fits(n_requested=145, n_made=5)
    """

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        **GridSearchCV._parameter_constraints,
        "time_budget": [Interval(Real, 1, None, closed="left"), None],
    }

    margin: float | None = None  # of a race; ``RaceSearch`` sets it
    random_state: Any = 0

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        error_score: Any = float("nan"),
        return_train_score: bool = False,
        client: Client | None = None,
        time_budget: float | None = None,
    ) -> None:
        super().__init__(
            estimator,
            param_grid,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.client = client
        self.time_budget = time_budget

    @fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Search, then fit the best candidate on all rows; see ``GridSearchCV.fit``."""
        self._warn_without_client(stacklevel=4)
        if self.client is None:
            return self._search(X, y, params, None)
        from cluster_setup.workers import describe_workers, threads_per_task

        n_threads = threads_per_task(describe_workers(self.client))
        return self._search(X, y, params, OnCluster(self.client), n_threads=n_threads)

    def _search(
        self,
        X: Any,
        y: Any,
        params: Mapping[str, Any],
        runner: Runner | None,
        shared_fits: Sequence[SharedFit] = (),
        n_threads: int | None = None,
        cv: Any = None,
    ) -> Self:
        """Search as scikit-learn does, with the fits taken over by a ``SearchExecutor``.

        Parameters
        ----------
        X, y
            As ``fit`` takes them.
        params : dict
            Metadata of ``fit``.
        runner : Runner or None
            Runs the tasks; None for joblib, as ``n_jobs`` says.
        shared_fits : sequence of SharedFit
            Ways of sharing that are tried before the usual ones.
        n_threads : int, optional
            Threads of a task; by default those that BLAS uses, or that the worker has.
        cv : splitter, optional
            Used in place of ``self.cv``.
        """
        executor = SearchExecutor(
            runner,
            self.verbose,
            shared_fits,
            n_threads,
            self.n_jobs,
            self.pre_dispatch,
            strategy=None if self.margin is None else partial(Race, margin=self.margin),
            metric=self.refit if isinstance(self.refit, str) else None,
            seed=_seed_of(self.random_state),
            time_budget=self.time_budget,
        )
        splitter = self.cv  # type: ignore[has-type]
        # Checked here: a generator of splits may itself call joblib, whose calls must not be taken
        # for the fits of this search.
        self.cv = (
            check_cv(splitter, y, classifier=is_classifier(self.estimator)) if cv is None else cv
        )
        try:
            context = parallel_config(SearchBackend(executor))
            executor.leave = context.unregister
            with context:
                # Unwrapped: ``fit`` is decorated here already, and parameters are to be validated
                # and callbacks called once.
                inspect.unwrap(GridSearchCV.fit)(self, X, y, **params)
            if not executor.is_called:
                message = "joblib did not hand over the fits, so that they shared nothing"
                warnings.warn(message, stacklevel=3)
            if executor.n_untried:
                warnings.warn(self._untried_message(executor), stacklevel=3)
            return self
        finally:
            if runner is not None:
                runner.close()
            self.cv = splitter
            fits = executor.fits
            self._fits = Fits(len(fits), sum(fit.n_fits for fit in fits))
            self._implementations = {fit.implementation for fit in fits}
            self._n_iterations = sum(fit.n_iterations or 0 for fit in fits)
            if executor.n_at_limit:
                limit = getattr(self.estimator, "max_iter", None)
                warnings.warn(
                    f"{executor.n_at_limit} of {len(fits)} fits did not converge within max_iter"
                    f"{'' if limit is None else f'={limit}'}; raise it or tol, or scale the data",
                    ConvergenceWarning,
                    stacklevel=3,
                )

    def _format_results(
        self, candidate_params: Any, n_splits: int, out: Any, more_results: Any = None
    ) -> dict[str, Any]:
        """scikit-learn's ``cv_results_``; candidates without all splits have means over theirs."""
        if self.margin is None and self.time_budget is None:
            return super()._format_results(candidate_params, n_splits, out, more_results)
        times = {name: np.reshape([fit[name] for fit in out], (-1, n_splits)) for name in TIMES}
        is_made = ~np.isnan(times["fit_time"])
        self.n_splits_done_ = is_made.sum(axis=1)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "One or more of the .* scores are non-finite")
            results = super()._format_results(candidate_params, n_splits, out, more_results)
        results["n_splits_done"] = self.n_splits_done_
        for name, values in times.items():
            _put_statistics(results, name, values, is_made)
        for name in [name.removeprefix("mean_") for name in results if name.startswith("mean_t")]:
            values = np.stack([results[f"split{i}_{name}"] for i in range(n_splits)], axis=1)
            _put_statistics(results, name, values, is_made)
            if f"rank_{name}" in results:
                results[f"rank_{name}"] = _ranks(results[f"mean_{name}"], self.n_splits_done_)
        return results

    def _untried_message(self, executor: SearchExecutor) -> str:
        """The warning about fits that there was no time for."""
        text = (
            f"{executor.n_untried} fits were not made, as they would not have ended within "
            f"time_budget={self.time_budget:g} s; their scores are NaN"
        )
        most = int(self.n_splits_done_.max())
        if executor.fraction < 1 or most < self.n_splits_:
            of_rows = "" if executor.fraction == 1 else f" of {executor.fraction:.0%} of the rows"
            text += (
                f", and the best candidate is by {most} of {self.n_splits_} splits{of_rows}; raise "
                f"time_budget, or take fewer rows"
            )
        return text

    @property
    def fits(self) -> Fits:
        """Number of candidate fits that were asked for and computed; needs a fitted search."""
        check_is_fitted(self, "_fits")
        return self._fits


def _seed_of(random_state: Any) -> int:
    """The integer seed for a ``random_state`` of any form that scikit-learn accepts."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


def _put_statistics(results: dict[str, Any], name: str, values: Any, is_made: Any) -> None:
    """Write the mean and standard deviation of candidates that lack splits into ``results``.

    Parameters
    ----------
    results : dict of arrays
        ``cv_results_``, changed in place.
    name : str
        Name of a score or a time; the entries are ``mean_<name>`` and ``std_<name>``.
    values : float array of shape (n_candidates, n_splits)
    is_made : bool array of shape (n_candidates, n_splits)
        Whether the fit was made; only such values count.
    """
    lacks_splits = ~is_made.all(axis=1)
    masked_values = np.ma.array(values[lacks_splits], mask=~is_made[lacks_splits])
    results[f"mean_{name}"][lacks_splits] = masked_values.mean(axis=1).filled(np.nan)
    results[f"std_{name}"][lacks_splits] = masked_values.std(axis=1).filled(np.nan)


def _ranks(means: Any, n_splits_done: Any) -> Any:
    """Ranks from 1: candidates with the most splits first, then by the best mean, NaN last."""
    keys = np.where(np.isnan(means), np.inf, np.stack([-n_splits_done, -means]))
    _, positions = np.unique(keys, axis=1, return_inverse=True)
    return rankdata(positions.ravel(), method="min").astype(np.int32)
