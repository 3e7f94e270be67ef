"""The parts of a search that are special to ``svm_grid``: grid, model and summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data import Dataset
from pipelines.data.dataset import REGRESSION
from pipelines.data.placement import FoldedData
from pipelines.errors import InputError, opt
from pipelines.run.errors import RunStopped
from pipelines.run.summary import baseline_lines, failed_fits, wall_time
from pipelines.run.tasks import OnCluster
from pipelines.run_folder import columns, names
from pipelines.run_folder.measures import measure_of
from pipelines.run_folder.statistics import (
    interval,
    on_grid_boundary,
    widen,
    within_one_standard_error,
)
from pipelines.search.candidate_scorer import CandidateScorer
from pipelines.search.candidates import Candidate, candidates_of
from pipelines.search.fitting import group_candidates
from pipelines.search.predictions import write_predictions, write_residuals
from pipelines.search.ranking import reduce_scores, result_of
from pipelines.search.shared.svm import SVCs, SVMParameters, SVRs
from pipelines.search.summary import cv_line, nested_lines, scores_line
from pipelines.search.tasks import Problem, Splits
from pipelines.svm.backends import Settings, load_backend
from pipelines.svm.calibration import expected_calibration_error, log_loss
from pipelines.svm.options import SVMOptions
from pipelines.svm.refit import Refit, Tested, refit_and_test

if TYPE_CHECKING:
    import pandas as pd

CORES_PER_WORKER = 8  # for a backend that fills several cores from one process
PARAMETERS = ("C", "gamma")
MEANS = ("error_mean", "error_std", "score_mean", "score_std")


def workers_for(solver: str, cores: int) -> int:
    """Return worker processes that fill the cores of one machine without a GPU.

    A backend that shares arrays between fits holds them once for several cores.
    """
    shares = load_backend(solver, "cpu").shares_C
    return max(1, cores // CORES_PER_WORKER) if shares else cores


def default_bounds(
    variance: float, images: bool
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return bounds of log10 C and of log10 gamma where none were asked for.

    Gamma lies around the one that scikit-learn calls "scale", 1 / (features × variance); of
    images in whole decades, which for MNIST are those of the study.

    Parameters
    ----------
    variance : of all features together: their number, where they are standardised
    """
    scale = -math.log10(variance)
    if images:
        return (-3.0, 6.0), (round(scale) - 3.0, round(scale) + 1.0)
    return (-2.0, 4.0), (round(scale, 2) - 2, round(scale, 2) + 1)


def axis(name: str, n: int, log_bounds: tuple[float, float]) -> tuple[float, ...]:
    """Return values of an axis, ``"c"`` or ``"gamma"``, at equal distances of their logarithms.

    Raises
    ------
    InputError
        Several values between equal bounds.
    """
    if n > 1 and log_bounds[0] == log_bounds[1]:
        raise InputError(
            f"{opt(f'n_{name}')} must be 1 where {opt(f'log_{name}')} is one value, got {n}; "
            f"make the bounds of {opt(f'log_{name}')} differ"
        )
    return tuple(np.logspace(*log_bounds, n).tolist())


def refuse_for_numbers(options: SVMOptions) -> None:
    """Raise an error for options that have no meaning for regression.

    Raises
    ------
    InputError
    """
    if options.solver not in ("auto", "path"):
        raise InputError(
            f"{opt('solver')} must be auto or path for a target of numbers, got "
            f"{options.solver!r}; leave it out"
        )
    for name in ("class_weight", "probability"):
        if (value := getattr(options, name)) not in ("none", False):
            raise InputError(
                f"{opt(name)} is for classes, and the target is numbers, got {value!r}; leave it "
                f"out, or say {opt('task', 'classification')}"
            )


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
    groups = group_candidates([one.estimator for one in candidates], scorer, kinds=(kind,))
    return Problem(
        data, tuple(candidates), splits, scorer, tuple(groups), tuple(axes), settings.device
    )


def answer(
    path: Path, runner: OnCluster, problem: Problem, dataset: Dataset, solver: str,
    settings: Settings, probability: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Rank the candidates, refit the best on a worker, test it once; entries for ``run.json``.

    Raises
    ------
    RunStopped
        Every candidate failed, or the refit did.
    """
    import pandas as pd

    cells, splits = pd.read_parquet(path / names.CELLS), problem.splits["search", 1.0]
    candidates = reduce_scores(cells, problem.columns, len(splits), runner.client)
    candidates.to_parquet(path / names.CANDIDATES)
    best = candidates.iloc[0]
    if np.isnan(best.score_mean):
        raise RunStopped("every candidate failed, none can be called best")
    epsilon = float(best.epsilon) if "epsilon" in problem.columns else None
    refit = Refit(
        float(best.C), float(best.gamma), dataset.classes, splits if probability else (), epsilon
    )
    tested: Tested = result_of(
        runner, partial(_refit, solver=solver, settings=settings), problem, refit,
        f"the refit of C={refit.C:.3g} gamma={refit.gamma:.3g} failed",
    )  # fmt: skip
    tested.machine.save(path / names.MODEL)
    known = {name: float(best[name]) for name in (*problem.columns, *MEANS)}
    metadata: dict[str, Any] = {
        "best": {name: value for name, value in known.items() if not math.isnan(value)},
        "n_support": len(tested.machine.support_vectors),
    }
    if dataset.task == REGRESSION:
        write_residuals(path, dataset, tested.predicted)
        return metadata | {"test_scores": scores_of_numbers(dataset.y_test, tested.predicted)}
    write_predictions(path, dataset, tested.predicted, margin=tested.margin)
    n_wrong = int(np.sum(tested.predicted != dataset.y_test))
    metadata |= {"test_error": n_wrong / len(tested.predicted), "n_test_errors": n_wrong}
    if tested.probabilities is not None:
        metadata |= _write_probabilities(path, dataset, tested.probabilities)
    return metadata


def _refit(problem: Problem, refit: Refit, solver: str, settings: Settings) -> Tested:
    """Return the task of the refit."""
    return refit_and_test(problem.data, refit, solver, settings)


def _write_probabilities(
    path: Path, dataset: Dataset, probabilities: np.ndarray
) -> dict[str, float]:
    """Write the probabilities of the test rows, a column for each label; how good they are."""
    import pandas as pd

    table = pd.DataFrame({"row": np.arange(len(probabilities)), "true": dataset.y_test})
    for label, column in zip(dataset.classes, probabilities.T, strict=True):
        table[f"probability_{label}"] = column
    table.to_parquet(path / names.PROBABILITIES)
    return {
        "test_log_loss": log_loss(probabilities, dataset.y_test),
        "test_calibration_error": expected_calibration_error(probabilities, dataset.y_test),
    }


def scores_of_numbers(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float | None]:
    """Compute the regression scores of predictions for test rows."""
    from sklearn import metrics

    return {
        "r2": float(metrics.r2_score(truth, predicted)) if len(truth) > 1 else None,
        "neg_mean_absolute_error": -float(metrics.mean_absolute_error(truth, predicted)),
        "neg_root_mean_squared_error": -float(metrics.root_mean_squared_error(truth, predicted)),
    }


def candidates_in(path: Path) -> pd.DataFrame:
    """Return the candidates of a finished run, best first."""
    from pipelines.run_folder.tables import read_table

    found = read_table(path / names.CANDIDATES, columns.SvmCandidate)
    assert found is not None
    return found


def grid_line(
    axes: Mapping[str, Sequence[float]], n_splits: int, decision: str, scoring: str
) -> str:
    """Return a line on the size of the search."""
    shape = " x ".join(f"{len(values)} {name}" for name, values in axes.items())
    n_fits = math.prod(map(len, axes.values())) * n_splits
    return f"grid       {shape} x {n_splits} folds = {n_fits:,} fits, {decision}" + (
        "" if scoring == "accuracy" else f", the best by {scoring}"
    )


def summary_lines(record: Mapping[str, Any], candidates: pd.DataFrame) -> list[str]:
    """Return the answer, how sure it is, the time, and what failed."""
    best, n_folds = record["best"], record["options"]["folds"]
    scoring = record["options"].get("scoring") or "accuracy"
    found = [f"{name} = {best[name]:.3g}" for name in (*PARAMETERS, "epsilon") if name in best]
    lines = [
        f"best       {', '.join(found)}",
        *_edge_lines(record, candidates),
        *_rival_lines(candidates, n_folds),
    ]
    if scoring != "accuracy":
        lines.append(
            cv_line(measure_of(scoring), best["score_mean"], best["score_std"])
            + ("" if "error_mean" in best else f" (standard deviation of {n_folds} folds)")
        )
    if "error_mean" in best:
        lines.append(
            f"cv error   {best['error_mean'] * 100:.2f} % ± {best['error_std'] * 100:.2f} % "
            f"(standard deviation of {n_folds} folds)"
        )
    lines += nested_lines(record, measure_of(scoring))
    if "test_error" in record:
        n_test = record["dataset"]["n_test"]
        lines.append(
            f"test error {record['test_error'] * 100:.2f} % ({record['n_test_errors']:,} of "
            f"{n_test:,}, {interval(record['n_test_errors'], n_test)})"
        )
    else:
        lines.append(f"test score {scores_line(record['test_scores'])}")
    return [
        *lines,
        *_probability_lines(record),
        *baseline_lines(record),
        wall_time(record),
        *failed_fits(record, columns.SVM_CELL),
    ]


def _edge_lines(record: Mapping[str, Any], candidates: pd.DataFrame) -> list[str]:
    """Return a warning and the command that widens the grid if the best is on its boundary."""
    found = on_grid_boundary(candidates, record["options"]["folds"])
    if not found:
        return []
    return [
        f"           {' and '.join(map(str, found))} of the grid: a better one may lie beyond",
        f"           {widen(record['argv'], record['options'], found)}",
    ]


def _rival_lines(candidates: pd.DataFrame, n_folds: int) -> list[str]:
    """Return a line on the candidates that tie with the best, and the simplest of them."""
    found = within_one_standard_error(candidates, n_folds, columns.SVM_CANDIDATE)
    if found is None or (n := int(found.within.sum())) == 1:
        return []
    tied = f", {more} of them tied with it" if (more := int(found.tied.sum()) - 1) else ""
    others = "1 other is" if n == 2 else f"{n - 1:,} others are"
    lines = [f"           {others} within one standard error{tied}"]
    if found.has_simpler:
        C, gamma = found.simplest["C"], found.simplest["gamma"]
        lines.append(f"simplest   of all these: C = {C:.3g}, gamma = {gamma:.3g}")
    return lines


def _probability_lines(record: Mapping[str, Any]) -> list[str]:
    if "test_log_loss" not in record:
        return []
    return [
        f"test proba log loss {record['test_log_loss']:.4f}, "
        f"calibration error {record['test_calibration_error'] * 100:.2f} %"
    ]
