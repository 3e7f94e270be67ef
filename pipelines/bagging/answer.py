"""Reduce the members' rows to the answer: vote, test, and write the results."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipelines.bagging.explain import Asked, explained
from pipelines.bagging.guarantees import CONFIDENCE
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.quality import describe_quality, size_errors
from pipelines.bagging.reductions import (
    EnsemblePrediction,
    as_dask_array,
    chunk_of,
    reduce_members,
)
from pipelines.bagging.selective_prediction import SelectivePrediction, metadata_of
from pipelines.bagging.tables import reduce_candidates, tabulate_members
from pipelines.data import Dataset
from pipelines.run_folder import names
from pipelines.search.predictions import write_predictions

if TYPE_CHECKING:
    from distributed import Client, Future


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
    of_test, of_own = _cut(answers, slice(len(truth))), _cut(answers, slice(len(truth), None))
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
    if client is not None:
        with suppress(Exception, CancelledError):  # a worker took its own with it
            return reduce_members(
                as_dask_array([
                    chunk_of(kept[number], one.shape)
                    if number in kept and kept[number].status == "finished"
                    else one
                    for number, one in members.items()
                ]),
                client,
            )  # fmt: skip
    return reduce_members(as_dask_array(list(members.values())))


def _cut(answers: EnsemblePrediction, some: slice) -> EnsemblePrediction:
    """Return the answers of some samples: the test samples come first, then one's own images."""
    return EnsemblePrediction(*(getattr(answers, one.name)[some] for one in fields(answers)))
