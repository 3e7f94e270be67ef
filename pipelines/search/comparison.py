"""``cross_validate_many``: several algorithms on the same folds, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_consistent_length

from cluster_setup.on_this_machine.devices import available_cores
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.errors import InputError, opt
from pipelines.run.outcomes import Outcome
from pipelines.run.progress import show_progress
from pipelines.run.tasks import InProcess, OnCluster, Runner
from pipelines.search.answer import compare_algorithms
from pipelines.search.candidate_scorer import CandidateScorer
from pipelines.search.candidates import Candidate, candidates_of
from pipelines.search.fitting import group_candidates
from pipelines.search.ranking import best_of_each, rank, tabulate
from pipelines.search.running import run_tasks, tasks_for_workers
from pipelines.search.scoring import DEFAULT_SCORING
from pipelines.search.tasks import SEARCH, Problem

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

Algorithms = Mapping[str, Any]


def cross_validate_many(
    algorithms: Algorithms, X: ArrayLike, y: ArrayLike, *, cv: Any = 5,
    scoring: str | Sequence[str] = (),
    groups: Any = None, client: Client | None = None, verbose: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """Cross-validate several estimators on the same folds; candidates that share work do so.

    Parameters
    ----------
    algorithms : mapping of a name to an estimator, or to (estimator, {parameter: values})
        Unfitted; pipelines are told ``step__parameter``.
    X : array-like or DataFrame of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    cv : int, splitter or iterable of splits, default 5
        As scikit-learn's ``cross_validate`` takes it; an int is at least 2.
    scoring : str or sequence of str, default ()
        Names of scorers; by default accuracy, or r2.
    groups : array-like of shape (n_samples,), optional
        For splitters that need them.
    client : distributed.Client, optional
        Where to fit; by default on threads of this process, one after the other.
    verbose : int, default 0
        Above 0 shows the progress.

    Returns
    -------
    DataFrame with a row for each candidate on each fold, by candidate and fold: ``algorithm``,
    ``candidate``, ``params`` (JSON), ``fold``, ``n_train``, ``n_validation``, ``score`` (of the
    first scorer), ``score_NAME`` (of others), ``family`` (what was shared), ``n_fits`` (1 where a
    fit was made for it), ``fit_seconds``, ``score_seconds``, ``status``. ``rank_candidates``
    and ``compare_estimators`` say what follows from it.

    Raises
    ------
    InputError
        There is no algorithm, or a parameter is not known.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> knn = KNeighborsClassifier(), {"n_neighbors": [1, 5, 15]}
    >>> table = cross_validate_many({"knn": knn, "tree": DecisionTreeClassifier()}, X, y)
    >>> len(table), int(table["n_fits"].sum())
    (20, 10)
    """
    if not algorithms:
        raise InputError(f"{opt('algorithms')} must name at least one estimator, got none")
    check_consistent_length(X, y, groups)
    candidates = []
    for name, given in algorithms.items():
        estimator, grid = given if isinstance(given, tuple) else (given, {})
        for parameters in candidates_of({key: list(values) for key, values in grid.items()}):
            try:
                made = clone(estimator).set_params(**parameters)
            except ValueError as error:
                why = str(error).splitlines()[0]
                raise InputError(f"{opt('algorithms')} of {name!r}: {why}") from None
            candidates.append(Candidate(name, parameters, made))
    of_classes = is_classifier(candidates[0].estimator)
    names = (scoring,) if isinstance(scoring, str) else tuple(scoring)
    names = names or (DEFAULT_SCORING["classification" if of_classes else "regression"],)
    rows: Any = X if hasattr(X, "iloc") else np.asarray(X)
    y = np.asarray(y)
    splits = list(check_cv(cv, y, classifier=of_classes).split(rows, y, groups))
    scorer = CandidateScorer(names)
    groups = group_candidates([one.estimator for one in candidates], scorer)
    data = FoldedData(rows, y, rows[:0], y[:0], (), Scaling("none"))
    problem = Problem(data, tuple(candidates), {(SEARCH, 1.0): splits}, scorer, tuple(groups))
    # Limits of BLAS are those of a process: here tasks take turns, each with all its cores.
    runner: Runner = InProcess(1)
    n_threads = available_cores()
    if client is not None:
        from cluster_setup.workers import describe_workers, threads_per_task

        runner, n_threads = OnCluster(client), threads_per_task(describe_workers(client))
    tasks, rows = tasks_for_workers(problem, [(SEARCH, 1.0)], runner.n_workers), []
    cost = sum(task.cost for task in tasks)
    with show_progress(len(tasks), cost, not verbose, lambda: runner.n_workers) as shown:
        for event, found in run_tasks(runner, problem, tasks, n_threads):
            rows += found
            if isinstance(event, Outcome):
                shown.advance(event.task, event.error is not None)
    return tabulate(rows).drop(columns=["stage", "split", "share"])


def rank_candidates(table: pd.DataFrame) -> pd.DataFrame:
    """Return the candidates of such a table with their means over the folds, best first."""
    return rank(table, table["fold"].nunique())


def compare_estimators(table: pd.DataFrame, rope: float = 0.01) -> pd.DataFrame:
    """Return the best candidates of all algorithms, pair by pair and fold by fold.

    Parameters
    ----------
    table : what ``cross_validate_many`` gave
    rope : a difference up to this is none in practice

    Returns
    -------
    DataFrame with the columns of ``pipelines.search.statistics.compare_all``
    """
    ratio = float((table["n_validation"] / table["n_train"]).mean())
    return compare_algorithms(table, best_of_each(rank_candidates(table)), ratio, rope)
