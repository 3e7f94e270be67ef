"""Reduce the members' rows to the answer: vote, test, and write the results."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from itertools import combinations
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipelines.bagging.explain import Asked, explained
from pipelines.bagging.guarantees import CONFIDENCE
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.reductions import (
    RULE,
    EnsemblePrediction,
    as_dask_array,
    chunk_of,
    reduce_members,
)
from pipelines.bagging.selective_prediction import SelectivePrediction, metadata_of
from pipelines.bagging.tables import reduce_candidates, tabulate_members
from pipelines.data import Dataset
from pipelines.run_folder import names
from pipelines.search.answer import write_predictions
from pipelines.svm.calibration import expected_calibration_error, log_loss

if TYPE_CHECKING:
    from distributed import Client, Future

SUBSETS = 60  # of members drawn for each size; all of them where there are no more


def answer(
    client: Client | None,
    path: Path,
    dataset: Dataset,
    refits: Mapping[int, Mapping[str, Any]],
    asked: Asked,
    *,
    kept: Mapping[int, Future],
    n_folds: int,
    seed: int,
    defer_error: float | None = None,
    confidence: float = CONFIDENCE,
) -> dict[str, Any]:
    """Reduce the stored members' probabilities and write the answer; entries for ``run.json``.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the reductions run on threads of this process.
    path : the run's folder; it holds ``cv_results`` and the members
    refits : row of the refit of every member that is stored
    asked : Asked, samples to explain
    kept : members' probabilities that workers hold, which are reduced there
    defer_error, confidence : float, see ``SelectivePrediction``
    """
    truth, numbers = dataset.y_test, sorted(refits)
    files = MemberFiles(path)
    of_members, out_of_bag = zip(*map(files.predictions, numbers), strict=True)
    probabilities = np.stack([one.probabilities for one in of_members])
    answers = _reduced(client, dict(zip(numbers, probabilities, strict=True)), kept)
    distance = np.mean([one.distance for one in of_members], axis=0)
    on_test = probabilities[:, : len(truth)]
    of_test, of_own = (  # one's own images come after the test samples
        EnsemblePrediction(*(getattr(answers, one.name)[some] for one in fields(answers)))
        for some in (slice(len(truth)), slice(len(truth), None))
    )
    np.savez(path / names.MEMBER_PROBABILITIES, member=numbers, probabilities=on_test)
    selective = SelectivePrediction.of(
        out_of_bag, dataset.y_train, len(dataset.classes), error=defer_error, confidence=confidence
    )
    selective.save(path / names.SELECTIVE_PREDICTION)
    assessed = selective.assess(of_test, distance[: len(truth)])
    own = selective.assess(of_own, distance[len(truth) :])
    deferred = np.concatenate([assessed.deferred(of_test), own.deferred(of_own)])
    write_predictions(
        path, dataset, of_test.vote, certainty=of_test.certainty,
        predicted_by_mean=of_test.by_mean, certainty_of_mean=of_test.mean.max(axis=1),
        disagreement=of_test.disagreement, deferred=of_test.deferred,
        **assessed.columns,
    )  # fmt: skip
    size_errors(on_test, truth, seed).to_parquet(path / names.SIZES)
    arrays = explained(answers, probabilities, asked.after(dataset.X_test), truth, asked, deferred)
    np.savez_compressed(path / names.EXPLAINED, **arrays)
    candidates = reduce_candidates(pd.read_parquet(path / names.CELLS), n_folds, client)
    candidates.to_parquet(path / names.CANDIDATES)
    errors = np.mean(on_test.argmax(axis=2) != truth, axis=1)
    table = tabulate_members(candidates, refits, dict(zip(numbers, errors.tolist(), strict=True)))
    table.to_csv(path / names.MEMBERS, index=False)
    return {
        **describe_quality(of_test, truth),
        **metadata_of(selective, assessed, of_test, truth),
        "members_mean_test_error": float(errors.mean()),
        "members_best_test_error": float(errors.min()),
        "members": table.astype(object).to_dict("records"),
    }


def _reduced(
    client: Client | None, members: Mapping[int, np.ndarray], kept: Mapping[int, Future]
) -> EnsemblePrediction:
    """Reduce members where their probabilities lie."""
    chunks = [
        chunk_of(kept[number], one.shape)
        if number in kept and kept[number].status == "finished"
        else one
        for number, one in members.items()
    ]
    if client is not None:
        with suppress(Exception, CancelledError):  # a worker took its own with it
            return reduce_members(as_dask_array(chunks), client)
    return reduce_members(as_dask_array(list(members.values())))


def describe_quality(answers: EnsemblePrediction, truth: np.ndarray) -> dict[str, Any]:
    """Return errors, calibration and selective prediction on test samples, for ``run.json``.

    Parameters
    ----------
    truth : int array of shape (n_samples,), class codes
    """
    n_vote = int(np.sum(answers.vote != truth))
    n_mean = int(np.sum(answers.by_mean != truth))
    kept = ~answers.deferred
    # Sums of single-precision numbers are one to six digits only.
    mean = answers.mean / answers.mean.sum(axis=1, keepdims=True)
    return {
        "test_error": n_vote / len(truth),
        "n_test_errors": n_vote,
        "vote_test_error": n_vote / len(truth),
        "n_vote_errors": n_vote,
        "mean_test_error": n_mean / len(truth),
        "n_mean_errors": n_mean,
        "test_log_loss": log_loss(mean, truth),
        "test_calibration_error": expected_calibration_error(mean, truth),
        "selective_prediction": {
            "rule": RULE,
            "n_kept": int(kept.sum()),
            "n_wrong_kept": int(np.sum(kept & (answers.vote != truth))),
        },
    }


def size_errors(probabilities: np.ndarray, truth: np.ndarray, seed: int) -> pd.DataFrame:
    """Return errors of the vote and of the mean probability, for subsets of every size.

    Parameters
    ----------
    probabilities : float array of shape (n_members, n_samples, n_classes)
    truth : int array of shape (n_samples,)
    seed : draws the subsets, where there are more than ``SUBSETS`` of a size

    Returns
    -------
    table with a row for each subset: size, vote_error, mean_error (fractions)
    """
    n_members, _, n_classes = probabilities.shape
    votes = probabilities.argmax(axis=2)[:, :, None] == np.arange(n_classes)
    rows, rng = [], np.random.default_rng(seed)
    for size in range(1, n_members + 1):
        if comb(n_members, size) <= SUBSETS:
            subsets = list(map(list, combinations(range(n_members), size)))
        else:
            subsets = [
                sorted(rng.choice(n_members, size, replace=False).tolist()) for _ in range(SUBSETS)
            ]
        for some in subsets:
            mean = probabilities[some].mean(axis=0, dtype=np.float64)
            vote = (votes[some].sum(axis=0) + mean / 2).argmax(axis=1)
            vote_error, mean_error = (
                float(np.mean(found != truth)) for found in (vote, mean.argmax(axis=1))
            )
            rows.append({"size": size, "vote_error": vote_error, "mean_error": mean_error})
    return pd.DataFrame(rows)
