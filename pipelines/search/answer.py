"""The best candidate on the test rows: its refit, its predictions and the files of both."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.data.dataset import REGRESSION, Dataset, copy_of
from pipelines.data.generators import seed_generators
from pipelines.run_folder import names
from pipelines.run_folder.names import FAILED
from pipelines.search.fitting import limited, with_jobs
from pipelines.search.record import FITTED
from pipelines.search.scoring import predictions_as
from pipelines.search.substitutes import substitute
from pipelines.search.tasks import Problem, Refit, Row, finite

MOST_VALUES = 5_000_000  # test rows times classes: above this (40 MB), no class values are written


def refit_and_test(
    problem: Problem, refit: Refit, n_threads: int = 1, **model_fields: Any
) -> dict[str, Any]:
    """Fit the best candidate on all training rows and score it on the test rows.

    Parameters
    ----------
    problem : Problem
        The search, with its test rows.
    refit : Refit
        Task that names the best candidate.
    n_threads : int, default 1
        Threads of BLAS, OpenMP and joblib.
    **model_fields
        Fields of ``FittedEstimator`` other than the estimator.

    Returns
    -------
    dict
        ``predicted``, array of shape (n_test,); ``scores`` by name, None where there is none;
        ``of_classes``, see ``values_of_classes``; ``model``, bytes of the model file, and
        ``not_kept``, why there are none, see ``dump_model``; ``fitted``, the estimator, which
        ``refit_with_importances`` takes out.
    """
    from sklearn.base import clone

    from pipelines.search.model import FittedEstimator, dump_model, values_of_classes

    data = problem.data
    with limited(n_threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        candidate = problem.candidates[refit.member].estimator
        estimator = clone(substitute(candidate, problem.device).estimator)
        estimator = with_jobs(estimator, n_threads)
        seed_generators(problem.seed, "refit")
        # Copies: other tasks of this process see the same rows, and some estimators write to them.
        estimator.fit(copy_of(data.X), copy_of(data.y))
        raw_scores = problem.scorer.by_name(estimator, copy_of(data.X_test), data.y_test)
        predicted = predictions_as(data.y.dtype, estimator.predict(copy_of(data.X_test)))
        of_classes = values_of_classes(estimator, copy_of(data.X_test))
    check_predictions(predicted, data.y_test, data.y)
    scores = {name: finite(score) for name, score in raw_scores.items()}
    model, not_kept = dump_model(FittedEstimator(estimator, **model_fields))
    test_results = {"predicted": predicted, "scores": scores, "of_classes": of_classes}
    return {**test_results, "model": model, "not_kept": not_kept, "fitted": estimator}


def keep_model(path: Path, test_results: dict[str, Any]) -> dict[str, Any]:
    """Write the model file of a refit; the entry ``not_kept`` of ``run.json``, None if written."""
    file = path / FITTED
    if test_results["model"] is None:
        file.unlink(missing_ok=True)  # of an earlier session
    else:
        with names.replacing(file) as unfinished:
            unfinished.write_bytes(test_results["model"])
    return {"not_kept": test_results["not_kept"] or None}


def check_predictions(predicted: np.ndarray, truth: np.ndarray, y: np.ndarray) -> None:
    """Refuse predictions of a wrong shape, and values that cannot be targets.

    Parameters
    ----------
    predicted : array
        What the estimator's ``predict`` returned.
    truth : array of shape (n_test,)
        Targets of the test rows.
    y : array of shape (n_samples,)
        Targets of the training rows: class codes or numbers.

    Raises
    ------
    ValueError
        The shape is wrong, a value is not a number, or a class code is unknown.
    """
    if predicted.shape != truth.shape:
        raise ValueError(
            f"predict must give an array of shape {truth.shape}, and gives {predicted.shape}"
        )
    if y.dtype.kind not in "iu":
        predicted.astype(float)  # raises ValueError for a value that is no number
    elif len(unknown_codes := np.setdiff1d(predicted, np.arange(y.max() + 1))):
        raise ValueError(
            f"predict must give class codes from 0 to {y.max()}, and gives {unknown_codes[0]}"
        )


def write_predictions(
    path: Path, dataset: Dataset, predicted: np.ndarray, **extra_columns: Any
) -> dict[str, Any]:
    """Write the table of predictions and, for images, the misclassified ones.

    Parameters
    ----------
    path : Path
        The run folder.
    dataset : Dataset
    predicted : array of shape (n_test,)
        Class codes, or floats for a regression.
    **extra_columns
        Further columns, each of length n_test.

    Returns
    -------
    dict
        ``test_error``, a fraction, and ``n_test_errors`` for ``run.json``; both None for a
        regression.
    """
    truth = dataset.y_test
    table: dict[str, Any] = {"row": np.arange(len(truth)), "true": truth}
    if dataset.task == REGRESSION:
        table |= {"predicted": predicted.astype(float), **extra_columns}
        names.write_table(pd.DataFrame(table), path / names.RESIDUALS)
        return {"test_error": None, "n_test_errors": None}
    table |= {"predicted": predicted, **extra_columns}
    names.write_table(pd.DataFrame(table), path / names.PREDICTIONS)
    wrong_rows = np.flatnonzero(predicted != truth)
    images = dataset.pictures or dataset
    if images.image_shape is not None:
        arrays = {"true": truth, "predicted": predicted, "X": images.X_test}
        wrong_arrays = {name: array[wrong_rows] for name, array in arrays.items()}
        names.write_arrays(path / names.WRONG, {"row": wrong_rows, **wrong_arrays})
    return {"test_error": len(wrong_rows) / len(truth), "n_test_errors": len(wrong_rows)}


def write_class_values(
    path: Path, dataset: Dataset, values: tuple[str, np.ndarray, np.ndarray] | str
) -> None:
    """Write the probabilities or decision values of the test rows; see ``values_of_classes``.

    The file of an earlier session, perhaps of another best candidate, is removed first. Above
    ``MOST_VALUES`` values, nothing is written.
    """
    from pipelines.run.new_rows import class_columns

    files = {"probability": path / names.PROBABILITIES, "decision": path / names.DECISION_VALUES}
    for file in files.values():
        file.unlink(missing_ok=True)
    if isinstance(values, str) or values[2].size > MOST_VALUES or not len(dataset.y_test):
        return
    value_type, codes, array = values
    table = {"row": np.arange(len(dataset.y_test)), "true": dataset.y_test}
    table |= class_columns(value_type, dataset.classes[codes], array)
    names.write_table(pd.DataFrame(table), files[value_type])


def number_scores(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float | None]:
    """Scores of a regression by scorer name; R² is None for a single row."""
    from sklearn import metrics

    error, root = (
        float(measure(truth, predicted))
        for measure in (metrics.mean_absolute_error, metrics.root_mean_squared_error)
    )
    r2 = float(metrics.r2_score(truth, predicted)) if len(truth) > 1 else None
    return {"r2": r2, "neg_mean_absolute_error": -error, "neg_root_mean_squared_error": -root}


def candidate_entry(candidate: Any, *means: str) -> dict[str, Any]:
    """The entry of a ranked candidate in ``run.json``, with the means that are named."""
    return {
        "algorithm": candidate["algorithm"],
        "candidate": int(candidate["candidate"]),
        "parameters": json.loads(candidate["params"]),
        **{name: finite(candidate[name]) for name in means},
    }


def fit_counts(rows: Iterable[Row]) -> dict[str, Any]:
    """Count the fits and first steps that were asked for and computed, by kind of shared work."""
    table = pd.DataFrame([row for row in rows if not row["status"].startswith(FAILED)])
    if table.empty:
        return {}
    by_family = table.groupby("family")["n_fits"].agg(["size", "sum"])
    return {
        "fits_asked": len(table),
        "fits_made": int(table["n_fits"].sum()),
        "steps_asked": int(table["n_steps"].sum()),
        "steps_made": int(table["n_steps_made"].sum()),
        "families": [
            {"family": str(counts[0]), "asked": int(counts[1]), "made": int(counts[2])}
            for counts in by_family.itertuples()
        ],
    }
