"""The search of ``svm_grid``: every candidate of a grid of SVMs, and the machine of the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data import Dataset
from pipelines.data.dataset import REGRESSION, rows_of
from pipelines.data.placement import FoldedData
from pipelines.data.preparation import Preparation
from pipelines.run.errors import RunStopped
from pipelines.run.tasks import OnCluster
from pipelines.run_folder import names
from pipelines.search.candidate_scorer import CandidateScorer
from pipelines.search.candidates import Candidate, candidates_of
from pipelines.search.fitting import group_candidates
from pipelines.search.predictions import write_predictions
from pipelines.search.ranking import reduce_scores, result_of
from pipelines.search.shared.svm import SVCs, SVMParameters, SVRs
from pipelines.search.tasks import Problem, Refit, Splits
from pipelines.svm.backends import Backend, Settings, load_backend
from pipelines.svm.backends.base import CellFit, Work
from pipelines.svm.calibration import (
    Calibration,
    expected_calibration_error,
    fit_sigmoids,
    log_loss,
)
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.multiclass import codes_of, margins

CORES_PER_WORKER = 8  # for a backend that fills several cores from one process
MEANS = ("error_mean", "error_std", "score_mean", "score_std")


def workers_for(solver: str, cores: int) -> int:
    """Return worker processes that fill the cores of one machine without a GPU.

    A backend that shares arrays between fits holds them once for several cores.
    """
    shares = load_backend(solver, "cpu").shares_C
    return max(1, cores // CORES_PER_WORKER) if shares else cores


def grid_problem(
    data: FoldedData,
    splits: Splits,
    axes: Mapping[str, Sequence[float]],
    solver: str,
    settings: Settings,
    scorer: CandidateScorer,
) -> Problem:
    """Return the search of every C and gamma, of a regression of every epsilon too, in that order.

    Parameters
    ----------
    splits : for each stage and share of the training rows
    axes : values of C, of gamma and, of a regression, of epsilon
    solver : a name in ``BACKENDS``; a regression has the path solver on a CPU
    """
    candidates = [
        Candidate("svm", point, SVMParameters(settings=settings, **point))
        for point in candidates_of(axes)
    ]
    kind = SVRs() if "epsilon" in axes else SVCs(solver, settings.device)
    if not isinstance(data.scaling, Preparation):  # of which each split has rows of its own
        place = FoldedData.unscaled if data.scaling.learns else FoldedData.scaled
        device = load_backend(solver, settings.device).device
        data = replace(data, placement=partial(place, device=device))
    groups = group_candidates([one.estimator for one in candidates], scorer, kinds=(kind,))
    return Problem(
        data, tuple(candidates), splits, scorer, tuple(groups), tuple(axes), settings.device
    )


def refit_and_test(
    problem: Problem, refit: Refit, solver: str, probability: bool = False
) -> dict[str, Any]:
    """Fit the best candidate on all training rows and ask it about the test rows; a task.

    Parameters
    ----------
    probability : whether to calibrate it on the splits of the search, a fit of each besides

    Returns
    -------
    dict
        ``machine``: KernelMachine or KernelRegressor; ``predicted``: int array of shape (n_test,),
        class codes, the machine's own whether it is calibrated or not, or float64 of a regression;
        of classes ``margin``, float64 of shape (n_test,), and, if they are wanted,
        ``probabilities``, float64 of shape (n_test, n_classes)
    """
    data, best = problem.data, problem.candidates[refit.member].estimator
    settings, scaling = best.settings, data.scaling_for(None)
    if best.epsilon is not None:
        svr = best.as_estimator().set_params(
            tol=settings.tol, max_iter=settings.max_iter, n_jobs=settings.n_threads,
            memory_bytes=settings.memory_bytes,
        )  # fmt: skip
        svr.fit(data.scaled("cpu"), data.y)
        support = scaling.transform(rows_of(data.X, svr.support_))
        regressor = replace(svr.machine_, support_vectors=support, scaling=scaling)
        return {"machine": regressor, "predicted": regressor.predict(data.X_test)}
    classes, backend = problem.scorer.labels, load_backend(solver, settings.device)
    assert classes is not None
    support, coefficients, intercepts = backend.fit_parts(
        data.scaled(backend.device), data.y, best.C, best.gamma, settings
    )
    machine = KernelMachine(
        scaling.transform(rows_of(data.X, support)), coefficients, intercepts, settings.at(),
        best.gamma, scaling, classes, settings.decision,
    )  # fmt: skip
    values, form = machine.decision_values(data.X_test), (len(classes), settings.decision)
    codes = codes_of(values, *form)
    tested = {"predicted": codes, "margin": margins(values, codes, *form)}
    if probability:
        machine = replace(machine, calibration=_calibrate(problem, best, backend))
        tested["probabilities"] = machine.predict_proba(data.X_test)
    return {"machine": machine, **tested}


def _calibrate(problem: Problem, best: SVMParameters, backend: Backend) -> Calibration:
    """Fit sigmoids to the decision values of rows that a fit has not seen.

    Without an ensemble: one model remains, the same as without calibration, so that predictions
    and stored size do not change. The scaling is learned within each split, so nothing of its
    validation rows leaks into their decision values.
    """
    data, splits, decisions = problem.data, problem.splits["search", 1.0], list[np.ndarray]()
    fits: dict[int, CellFit] = {}  # splits end in no special order

    def on_split(g: int, split: int, found: list[CellFit]) -> None:
        fits[split] = found[0]

    # Where the scaling learns, every split has rows of its own.
    for some in [[split] for split in splits] if data.scaling.learns else [splits]:
        X = data.scaled(backend.device, rows=some[0][0] if data.scaling.learns else None)
        numbers, what = range(len(some)), ([best.gamma], [best.C], best.settings)
        backend.fit_cells(Work(X, data.y, some, numbers, *what, on_split, decisions=True))
        for split in numbers:
            values = fits[split].decisions
            if values is None:
                why = fits[split].status
                raise RuntimeError(f"split {len(decisions)} of the calibration {why}")
            decisions.append(values)
    rows = np.concatenate([validation for _, validation in splits])
    return fit_sigmoids(np.concatenate(decisions), data.y[rows])


def answer(
    path: Path, runner: OnCluster, problem: Problem, dataset: Dataset, solver: str,
    probability: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Rank the candidates, refit the best on a worker, test it once; entries for ``run.json``.

    Raises
    ------
    RunStopped
        Every candidate failed, or the refit did.
    """
    import pandas as pd

    cells, n_splits = pd.read_parquet(path / names.CELLS), len(problem.splits["search", 1.0])
    candidates = reduce_scores(cells, problem.columns, n_splits, runner.client)
    candidates.to_parquet(path / names.CANDIDATES)
    first = candidates.iloc[0]
    if np.isnan(first.score_mean):
        raise RunStopped("every candidate failed, none can be called best")
    known = {name: float(first[name]) for name in (*problem.columns, *MEANS)}
    (member,) = (
        i for i, one in enumerate(problem.candidates)
        if all(known[name] == value for name, value in one.parameters.items())
    )  # fmt: skip
    refit = Refit(member, f"refit-gamma={first.gamma:.6g} C={first.C:.6g}")
    tested = result_of(
        runner, partial(refit_and_test, solver=solver, probability=probability), problem, refit,
        f"the refit of C={first.C:.3g} gamma={first.gamma:.3g} failed",
    )  # fmt: skip
    machine, predicted = tested["machine"], tested["predicted"]
    machine.save(path / names.MODEL)
    metadata = {
        "best": {name: value for name, value in known.items() if not math.isnan(value)},
        "n_support": len(machine.support_vectors),
    }
    if dataset.task == REGRESSION:
        from sklearn import metrics

        write_predictions(path, dataset, predicted)
        truth = dataset.y_test
        root = float(metrics.root_mean_squared_error(truth, predicted))
        return metadata | {
            "test_scores": {
                "r2": float(metrics.r2_score(truth, predicted)) if len(truth) > 1 else None,
                "neg_mean_absolute_error": -float(metrics.mean_absolute_error(truth, predicted)),
                "neg_root_mean_squared_error": -root,
            }
        }
    metadata |= write_predictions(path, dataset, predicted, margin=tested["margin"])
    if probability:
        probabilities = tested["probabilities"]
        table = pd.DataFrame({"row": np.arange(len(probabilities)), "true": dataset.y_test})
        for label, column in zip(dataset.classes, probabilities.T, strict=True):
            table[f"probability_{label}"] = column
        table.to_parquet(path / names.PROBABILITIES)
        metadata["test_log_loss"] = log_loss(probabilities, dataset.y_test)
        error = expected_calibration_error(probabilities, dataset.y_test)
        metadata["test_calibration_error"] = error
    return metadata
