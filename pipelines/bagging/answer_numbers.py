"""Reduce the members of a regression to the answer: their mean, intervals, test; write both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.bagging.answer import subsets_of
from pipelines.bagging.intervals import JackknifeIntervals, RunIntervals, describe_intervals
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.record import INTERVALS, MEMBER_PREDICTIONS, MEMBERS, SIZES
from pipelines.bagging.work import reduce_candidates, tabulate_members
from pipelines.data import Dataset
from pipelines.data.baseline import baseline_of, remarks_on
from pipelines.run_folder import names
from pipelines.search.answer import number_scores, write_predictions

METRIC = "mean absolute error"  # by which the mean is held against the baseline


def answer_numbers(
    path: Path,
    refits: Mapping[int, Mapping[str, Any]],
    dataset: Dataset,
    *,
    n_folds: int,
    seed: int,
    confidence: float,
    defer_width: float | None = None,
) -> dict[str, Any]:
    """Write the answer of a regression, and give its entries for ``run.json``.

    A member says one number of a row, so that all is computed here, from the members' files.

    Parameters
    ----------
    path : the run's folder; it holds ``cv_results`` and the members
    refits : row of the refit of every member that is stored
    n_folds : of a member's search
    seed : draws subsets of members
    confidence, defer_width : see ``RunIntervals``

    Raises
    ------
    InputError
        There are too few out-of-bag rows for intervals of that confidence.
    """
    truth, numbers, files = dataset.y_test, sorted(refits), MemberFiles(path)
    of_test, out_of_bag = zip(*map(files.predictions, numbers), strict=True)
    of_members = np.stack([test.probabilities[:, 0] for test in of_test])
    mean = of_members.mean(axis=0)
    jackknife = JackknifeIntervals.of(out_of_bag, dataset.y_train)
    intervals = RunIntervals(jackknife, confidence, defer_width)
    columns = intervals.columns(of_members)
    with names.replacing(path / INTERVALS) as unfinished:
        intervals.save(unfinished)
    arrays = {"member": numbers, "predictions": of_members}
    names.write_arrays(path / MEMBER_PREDICTIONS, arrays, compressed=False)
    write_predictions(path, dataset, mean, **columns)
    names.write_table(size_errors(of_members, truth, seed), path / SIZES)
    candidates = reduce_candidates(pd.read_parquet(path / names.CELLS), n_folds)
    names.write_table(candidates, path / names.CANDIDATES)
    rmse = [root_mean_square(predicted - truth) for predicted in of_members]
    of_number = dict(zip(numbers, rmse, strict=True))
    table = tabulate_members(candidates, refits, of_number, is_regression=True)
    with names.replacing(path / MEMBERS) as unfinished:
        table.to_csv(unfinished, index=False)
    scores, distance = number_scores(truth, mean), np.abs(mean - truth)
    described = describe_intervals(truth, columns["lower"], columns["upper"], confidence)
    described |= {"n_rows": len(jackknife.truth), "n_drawn_by_all": jackknife.n_drawn_by_all}
    baseline = baseline_of(dataset)
    baseline["test_metric"] = float(np.abs(truth - dataset.y_train.mean()).mean())
    remarks = remarks_on(dataset, baseline)
    if float(distance.mean()) >= baseline["test_metric"]:
        remarks.insert(0, f"on the test rows the mean is no better than {baseline['words']}")
    deferral = None
    if defer_width is not None:
        kept = columns["kept"]
        error = float(distance[kept].mean()) if kept.any() else None
        deferral = {"width": defer_width, "n_kept": int(kept.sum()), "mean_absolute_error": error}
        if error is not None and not kept.all() and error >= distance.mean():
            remarks.append(
                "widths of intervals do not tell hard samples from easy ones here: test samples "
                f"that are kept are off by {error:.4g} on average, all by {distance.mean():.4g}"
            )
    return {
        "test_scores": scores,
        "members_mean_test_rmse": float(np.mean(rmse)),
        "members_best_test_rmse": float(np.min(rmse)),
        "intervals": described,
        "deferral": deferral,
        "metric": METRIC,
        "baseline": baseline,
        "remarks": remarks,
        "members": table.astype(object).to_dict("records"),
    }


def root_mean_square(residuals: np.ndarray) -> float:
    """Return the root of the mean of the squares."""
    return float(np.sqrt(np.mean(residuals**2)))


def size_errors(of_members: np.ndarray, truth: np.ndarray, seed: int) -> pd.DataFrame:
    """Return root mean squared errors of the mean, for subsets of members of every size.

    Parameters
    ----------
    of_members : float array of shape (n_members, n_samples)
    truth : float array of shape (n_samples,)
    seed : see ``subsets_of``

    Returns
    -------
    table with a row for each subset: size, rmse (in units of the target)
    """
    return pd.DataFrame(
        {"size": len(subset), "rmse": root_mean_square(of_members[subset].mean(axis=0) - truth)}
        for subset in subsets_of(len(of_members), seed)
    )
