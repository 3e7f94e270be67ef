"""``RaceSearch``: a grid search that drops candidates that are clearly behind."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from pipelines.search.grid_search import GridSearch
from pipelines.search.strategies.race import MARGIN
from pipelines.sklearn_private import Interval

if TYPE_CHECKING:
    from distributed import Client


class RaceSearch(GridSearch):
    """Search over a parameter grid that drops candidates as the splits come in.

    This is ``GridSearch`` in rounds: after two splits, and after each further one, every candidate
    is dropped whose scores are clearly behind those of the best one on the same splits. The best
    candidate, and all within one standard error of it, are tried on all splits. Candidates that
    share work are dropped together, judged by the best of them. If splits share work, as those of
    ``SVC`` do, and there are at least 3,000 rows, all candidates are first tried on a third of the
    rows.

    Which candidates are dropped depends on scores alone: the results are the same for any
    ``n_jobs`` and any workers of ``client``.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Unfitted; it is cloned for each fit.
    param_grid : dict of parameter to values, or list of them
        Every combination is a candidate.
    margin : float, default 3.0
        How many standard errors of the paired difference a candidate may be behind the best; at
        least 1. A wider margin means more fits, and a surer winner of the whole grid.
    random_state : int, RandomState instance or None, default 0
        Decides the order in which splits are taken, and the rows of a third.
    refit : bool, str or callable, default True
        Whether to fit the best candidate on all rows. With several scorers, the name of the one
        that chooses it and by which candidates are dropped; with False or a function of
        ``cv_results_``, they are dropped by the first scorer.
    cv : int, splitter or iterable of splits, optional
        An int, at least 2, is the number of folds, stratified for a classifier; by default 5. With
        two splits nothing is dropped.
    error_score : "raise" or number, default nan
        The score of a fit that fails; "raise" ends the search. With NaN a candidate whose fit
        fails on all rows of a split is dropped.
    scoring : str, callable, list, tuple or dict, optional
        How predictions are scored; by default by the estimator's own ``score``.
    n_jobs : int, optional
        Processes of joblib if there is no ``client``: None means 1, -1 all cores.
    verbose : int, default 0
        Above 0 shows the progress: a bar on a terminal, a widget in a notebook.
    pre_dispatch : int or str, default "2*n_jobs"
        Number of tasks that joblib dispatches ahead.
    return_train_score : bool, default False
        Whether to score the training rows as well.
    client : distributed.Client, optional
        Dask client whose workers fit; by default joblib does, as ``n_jobs`` says. Clones and
        copies of the search share it; a pickle does not contain it, so an unpickled search has
        None and warns when it is fitted without one.
    time_budget : float, optional
        Seconds, at least 1, by which the search and the refit should end. By default there is no
        limit.

    Attributes
    ----------
    n_splits_done_ : array of int of shape (n_candidates,)
        Number of splits on which each candidate was tried on all rows: 0 for one that was dropped
        on a third of them. Also ``cv_results_["n_splits_done"]``.
    cv_results_ : dict of arrays
        As in ``GridSearchCV``. Scores of fits that were not made are NaN. Means and standard
        deviations are over the splits that were done, and NaN if there are none. Ranks go by the
        number of splits done, then by the mean.
    fits : Fits
        Numbers of candidate fits that were asked for, and computed, fits on a third of the rows
        included; the refit does not count.

    and the attributes of ``GridSearchCV``.

    Warns
    -----
    UserWarning
        Fits were not made, as they would not have ended within ``time_budget``.
    ConvergenceWarning
        Shared fits ended at a limit of iterations; one warning with their number.

    See Also
    --------
    GridSearch : Tries every candidate on every split.

    References
    ----------
    Maron and Moore, Hoeffding races, NIPS 6, 1994. Kuhn, Futility analysis in the
    cross-validation of machine learning models, 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> tree = DecisionTreeClassifier(random_state=0)
    >>> search = RaceSearch(tree, {"max_depth": [1, 2, 3, 4]}, cv=10).fit(X, y)
    >>> search.best_params_, search.n_splits_done_.tolist()
    ({'max_depth': 3}, [3, 10, 10, 10])
    """

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        **GridSearch._parameter_constraints,
        "margin": [Interval(Real, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        margin: float = MARGIN,
        random_state: Any = 0,
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
            client=client,
            time_budget=time_budget,
        )
        self.margin = margin
        self.random_state = random_state
