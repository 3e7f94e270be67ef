"""One grid search done in several ways, each giving the errors of every cell."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.dataset import Dataset
from pipelines.data.folds import make_folds
from pipelines.data.load import load_dataset
from pipelines.data.placement import Fold, FoldedData
from pipelines.run.runners import InProcess, OnCluster
from pipelines.search.candidates import grid_candidates
from pipelines.search.command import run_tasks
from pipelines.search.ranking import reduce_scores, tabulate
from pipelines.search.scoring import CandidateScorer
from pipelines.search.task_feed import cut_for_workers
from pipelines.search.tasks import SEARCH, make_tasks, task_rows
from pipelines.search.tasks import Problem as Search
from pipelines.svm.settings import Settings
from pipelines.svm_search.problem import svm_problem, workers_for
from pipelines.svm_search.record import CANDIDATE

if TYPE_CHECKING:
    from distributed import Client

# (C, gamma, fold) -> wrong rows of the fold; None where the fit failed.
Errors = dict[tuple[float, float, int], int | None]

# What is timed beside us: a name, where its SVC is, the extra that installs it.
PEERS = {
    "GridSearchCV(sklearn)": ("sklearn.svm", None),
    "GridSearchCV(sklearnex)": ("sklearnex.svm", "intel"),
}


@dataclass(frozen=True)
class Problem:
    """A data set, its folds and a grid: the same for every line.

    Attributes
    ----------
    dataset : Dataset, of images: scaled by constants
    folds : sequence of (training rows, validation rows)
    Cs, gammas : tuples of float
    """

    dataset: Dataset
    folds: Sequence[Fold]
    Cs: tuple[float, ...]
    gammas: tuple[float, ...]

    def data(self) -> FoldedData:
        """New at each call, so that no worker has kept anything of the turn before."""
        return FoldedData.of(self.dataset, self.folds)

    def search(self, solver: str, settings: Settings) -> Search:
        """The search of the grid, on new data."""
        splits, axes = {(SEARCH, 1.0): self.folds}, {"C": self.Cs, "gamma": self.gammas}
        return svm_problem(
            self.data(), splits, grid_candidates(axes), solver, settings, CandidateScorer()
        )

    @property
    def n_fits(self) -> int:
        return len(self.Cs) * len(self.gammas) * len(self.folds)


def make_problem(
    name: str,
    *,
    Cs: Sequence[float],
    gammas: Sequence[float],
    n_folds: int,
    limit: int | None = None,
    data_dir: str = "data",
    seed: int = 0,
) -> Problem:
    """Load a data set and cut its folds, as ``pipelines.svm_grid`` does.

    Raises
    ------
    InputError
        The data set cannot be had, or not be cut so.
    """
    dataset = load_dataset(name, data_dir=data_dir, limit=limit, seed=seed)
    folds = make_folds(dataset.y_train, n_folds, seed, dataset.classes)
    return Problem(dataset, folds, tuple(Cs), tuple(gammas))


def search_with_us(
    problem: Problem, solver: str, cores: int, client: Client | None = None
) -> Errors:
    """Our search, from unscaled arrays to ranked candidates.

    Parameters
    ----------
    problem : Problem
    solver : str
        A name in ``pipelines.svm.backends.BACKENDS``.
    cores : int
        To fill, by the workers of ``client`` or the threads of this process.
    client : distributed.Client, optional
        Of a cluster of ``workers_for(solver, cores)`` workers.
    """
    n_workers = workers_for(solver, cores)
    runner = InProcess(n_workers) if client is None else OnCluster(client)
    grid = problem.search(solver, Settings(n_threads=cores // n_workers))
    tasks = cut_for_workers(grid, make_tasks(grid), runner.n_workers)
    rows = [row for _, rows in run_tasks(runner, grid, tasks) for row in rows]
    # GridSearchCV, too, ends with its candidates ranked.
    table = tabulate(rows, grid.columns)
    reduce_scores(table, CANDIDATE, len(problem.folds), client)
    return {(row["C"], row["gamma"], row["fold"]): row["n_errors"] for row in rows}


def search_with_peer(problem: Problem, X: np.ndarray, svc: type, n_jobs: int = -1) -> Errors:
    """``GridSearchCV`` of an SVC on the same folds.

    Parameters
    ----------
    problem : Problem
    X : array of shape (n_samples, n_features)
        The training rows, scaled.
    svc : type
        ``sklearn.svm.SVC``, or a class that behaves so.
    n_jobs : int
    """
    from sklearn.model_selection import GridSearchCV

    grid = {"C": list(problem.Cs), "gamma": list(problem.gammas)}
    peer = GridSearchCV(svc(), grid, cv=list(problem.folds), n_jobs=n_jobs, refit=False)
    results = peer.fit(X, problem.dataset.y_train).cv_results_
    errors: Errors = {}
    for fold, (_, validation) in enumerate(problem.folds):
        scores = results[f"split{fold}_test_score"]
        for params, score in zip(results["params"], scores, strict=True):
            wrong = None if np.isnan(score) else round((1 - score) * len(validation))
            errors[params["C"], params["gamma"], fold] = wrong
    return errors


def peer_class(name: str) -> type | str:
    """The peer's SVC, or the reason why there is none."""
    module, extra = PEERS[name]
    try:
        svc_class: type = importlib.import_module(module).SVC
    except ImportError:
        package = module.split(".")[0]
        return f"{package} is not installed here; the extra {extra!r} brings it"
    return svc_class


def warm_up_workers(problem: Problem, solver: str, client: Client) -> None:
    """Have every worker import, and where it must compile, what the search will use."""
    few = replace(problem, Cs=problem.Cs[:2], gammas=problem.gammas[:1])
    grid = few.search(solver, Settings(n_threads=2))
    client.run(task_rows, grid, make_tasks(grid)[0])


def compare(ours: Errors, other: Errors) -> dict[str, Any]:
    """In how many cells two lines differ, and by how many rows at most.

    Cells that failed in either are left out and counted.
    """
    if ours.keys() != other.keys():
        raise ValueError("two lines of one benchmark must have the same cells")
    pairs = [(ours[cell], other[cell]) for cell in ours]
    differences = [abs(a - b) for a, b in pairs if a is not None and b is not None]
    return {
        "n_cells": len(pairs),
        "n_cells_failed": len(pairs) - len(differences),
        "n_cells_that_differ": sum(difference > 0 for difference in differences),
        "largest_difference_rows": max(differences, default=None),
    }
