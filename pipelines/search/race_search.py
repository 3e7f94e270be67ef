"""``RaceSearch``: a grid search that drops what is clearly behind before it has all splits."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from pipelines.search.grid_search import GridSearch
from pipelines.search.strategies.race import MARGIN
from pipelines.sklearn_private import Interval

if TYPE_CHECKING:
    from distributed import Client


class RaceSearch(GridSearch):
    """Search over values of parameters that drops candidates as the splits come.

    ``GridSearch``, in rounds: after two splits, and after each further one, a candidate is dropped
    whose scores are clearly behind those of the best on the same splits. The best, and all
    within one standard error of it, have all splits. Candidates that share work are dropped
    together, by the best of them; where splits share work, as those of ``SVC`` do, and there are
    at least 3,000 rows, all are tried on a third of the rows first.

    What is dropped depends on scores alone: the results are the same whatever ``n_jobs`` or the
    workers of ``client``.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Unfitted; it is cloned for each fit.
    param_grid : dict of parameter to values, or list of them
        Every combination is a candidate.
    margin : float, default 3.0
        Standard errors of the paired difference that a candidate may be behind the best; at
        least 1. The wider, the more fits, and the surer the winner of the whole grid.
    random_state : int, RandomState instance or None, default 0
        Decides in which order the splits are taken, and the rows of a share.
    refit : bool, str or callable, default True
        Whether to fit the best candidate on all rows; of several scorers the name of the one
        that chooses, and by which candidates are dropped. With False or a function of
        ``cv_results_``, these are dropped by the first scorer.
    cv : int, splitter or iterable of splits, optional
        An int, at least 2, means folds, stratified for a classifier; by default 5. With two
        splits nothing is dropped.
    error_score : "raise" or number, default nan
        The score of a fit that fails; "raise" ends the search. With NaN a candidate is dropped
        whose fit fails on all rows of a split.
    scoring : str, callable, list, tuple or dict, optional
        How predictions are scored; by default by the estimator's own ``score``.
    n_jobs : int, optional
        Processes of joblib, where there is no ``client``: None means 1, -1 all cores.
    verbose : int, default 0
        Above 0 shows the progress: a bar on a terminal, a widget in a notebook.
    pre_dispatch : int or str, default "2*n_jobs"
        Tasks that joblib is given ahead.
    return_train_score : bool, default False
        Whether to score the training rows, too.
    client : distributed.Client, optional
        Where to fit; by default as ``n_jobs`` says, in this process or in others.
        Clones and copies share it, pickles leave it behind: an unpickled search has None, and
        warns when it is fitted without.
    time_budget : float, optional
        Seconds, at least 1, by which the search and the refit are to end. By default as long as
        it takes.

    Attributes
    ----------
    n_splits_done_ : array of int of shape (n_candidates,)
        Splits on which each candidate was tried, with all their rows: 0 of one that was dropped
        on a third of them. Also ``cv_results_["n_splits_done"]``.
    cv_results_ : dict of arrays
        As ``GridSearchCV`` has it. Scores of fits that were not made are NaN; means and
        deviations are those of the splits that were done, and NaN where there are none. Ranks
        are by the number of splits done, then by the mean.
    fits : Fits
        How many fits of candidates were asked for, and made, those on a share of the rows
        among them; the refit is none of them.

    and those of ``GridSearchCV``.

    Warns
    -----
    UserWarning
        Fits were not made, as they would not have ended within ``time_budget``.
    ConvergenceWarning
        Fits that share work ended at a limit of iterations; said once, with their number.

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
