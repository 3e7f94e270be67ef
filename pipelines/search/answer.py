"""The best of any estimators on the test rows, and what is written of them."""

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

MOST_VALUES = 5_000_000  # test rows times classes, whose values are kept: 40 MB


def refit_and_test(
    problem: Problem, refit: Refit, n_threads: int = 1, **model_fields: Any
) -> dict[str, Any]:
    """Fit the best candidate on all rows and score it on the test rows.

    Parameters
    ----------
    about : of a ``FittedEstimator`` all but the estimator

    Returns
    -------
    dict of ``predicted`` (array of shape (n_test,)), ``scores`` by name, ``of_classes``, see
    ``values_of_classes``, and of ``dump_model`` the content of the ``model``'s file, or why it is
    ``not_kept``; ``fitted``, the estimator as ``refit_with_importances`` asks it
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
        # What runs in this process beside it sees the same rows, and some estimators write.
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
    """Write the model of a refit if it is kept; ``not_kept`` for ``run.json``, None if it is."""
    file = path / FITTED
    if test_results["model"] is None:
        file.unlink(missing_ok=True)  # of an earlier session
    else:
        with names.replacing(file) as unfinished:
            unfinished.write_bytes(test_results["model"])
    return {"not_kept": test_results["not_kept"] or None}


def check_predictions(predicted: np.ndarray, truth: np.ndarray, y: np.ndarray) -> None:
    """Refuse predictions of another shape than the truth, or that are no targets, as ``y`` are."""
    if predicted.shape != truth.shape:
        raise ValueError(
            f"predict must give an array of shape {truth.shape}, and gives {predicted.shape}"
        )
    if y.dtype.kind not in "iu":
        predicted.astype(float)  # says what is none
    elif len(unknown_codes := np.setdiff1d(predicted, np.arange(y.max() + 1))):
        raise ValueError(
            f"predict must give class codes from 0 to {y.max()}, and gives {unknown_codes[0]}"
        )


def write_predictions(
    path: Path, dataset: Dataset, predicted: np.ndarray, **extra_columns: Any
) -> dict[str, Any]:
    """Write the table of predictions and, of images, those that are wrong.

    Parameters
    ----------
    path : the run's folder
    predicted : int array of shape (n_test,), class codes; floats of a target of numbers
    more : further columns

    Returns
    -------
    ``test_error`` and ``n_test_errors`` for ``run.json``; None where the target is numbers
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
    """Write what is said of each class of the test rows, see ``values_of_classes``.

    A file of an earlier session, perhaps of another best candidate, is gone. Beyond ``MOST_VALUES``
    nothing is written.
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
    """Return scores of predicted numbers by the names of scorers; one row alone has no r2."""
    from sklearn import metrics

    error, root = (
        float(measure(truth, predicted))
        for measure in (metrics.mean_absolute_error, metrics.root_mean_squared_error)
    )
    r2 = float(metrics.r2_score(truth, predicted)) if len(truth) > 1 else None
    return {"r2": r2, "neg_mean_absolute_error": -error, "neg_root_mean_squared_error": -root}


def candidate_entry(candidate: Any, *means: str) -> dict[str, Any]:
    """Return a ranked candidate with some of its means as ``run.json`` has it."""
    return {
        "algorithm": candidate["algorithm"],
        "candidate": int(candidate["candidate"]),
        "parameters": json.loads(candidate["params"]),
        **{name: finite(candidate[name]) for name in means},
    }


def fit_counts(rows: Iterable[Row]) -> dict[str, Any]:
    """Count the fits asked for and made, of last and of earlier steps, by shared work."""
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
