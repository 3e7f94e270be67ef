"""Reduce the members' rows to the answer: vote, test, and write the results."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipelines.bagging.explain import Asked, explained
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.quality import describe_quality, size_errors
from pipelines.bagging.reductions import (
    EnsemblePrediction,
    as_dask_array,
    chunk_of,
    reduce_members,
)
from pipelines.bagging.risk_control import CONFIDENCE
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
    kept : what workers hold of members' probabilities; of the others they are read from files
    defer_error, confidence : float, see ``SelectivePrediction``
    """
    truth, numbers = dataset.y_test, sorted(refits)
    files = MemberFiles(path)
    answers, probabilities = _reduced(
        client, files, numbers, (len(asked.after(dataset.X_test)), len(dataset.classes)), kept
    )
    on_test = probabilities[:, : len(truth)]
    of_test, of_own = _cut(answers, slice(len(truth))), _cut(answers, slice(len(truth), None))
    np.savez(path / names.MEMBER_PROBABILITIES, member=numbers, probabilities=on_test)
    selective = _selective_prediction(path, files, numbers, dataset, defer_error, confidence, seed)
    assessed = None if selective is None else selective.assess(of_test, dataset.X_test)
    write_predictions(
        path, dataset, of_test.vote, certainty=of_test.certainty,
        predicted_by_mean=of_test.by_mean, certainty_of_mean=of_test.mean.max(axis=1),
        disagreement=of_test.disagreement, deferred=of_test.deferred,
        **({} if assessed is None else assessed.columns),
    )  # fmt: skip
    size_errors(on_test, truth, seed).to_parquet(path / names.SIZES)
    deferred, of_referral = [of_test.deferred, of_own.deferred], dict[str, Any]()
    if selective is not None and assessed is not None:
        deferred[0] = assessed.deferred(of_test)
        of_referral = metadata_of(selective, assessed, of_test, truth)
        if asked.own is not None:
            deferred[1] = selective.assess(of_own, asked.own).deferred(of_own)
    arrays = explained(
        answers, probabilities, asked.after(dataset.X_test), truth, asked, np.concatenate(deferred)
    )
    np.savez_compressed(path / names.EXPLAINED, **arrays)
    candidates = reduce_candidates(pd.read_parquet(path / names.CELLS), n_folds, client)
    candidates.to_parquet(path / names.CANDIDATES)
    errors = np.mean(on_test.argmax(axis=2) != truth, axis=1)
    table = tabulate_members(candidates, refits, dict(zip(numbers, errors.tolist(), strict=True)))
    table.to_csv(path / names.MEMBERS, index=False)
    return {
        **describe_quality(of_test, truth),
        **of_referral,
        "members_mean_test_error": float(errors.mean()),
        "members_best_test_error": float(errors.min()),
        "members": table.astype(object).to_dict("records"),
    }


def _reduced(
    client: Client | None, files: MemberFiles, numbers: Sequence[int], shape: tuple[int, int],
    kept: Mapping[int, Future],
) -> tuple[EnsemblePrediction, np.ndarray]:  # fmt: skip
    """Reduce members where their probabilities lie; return these too, for what looks at each."""

    def chunk(number: int) -> Any:
        future = kept.get(number)
        there = future is not None and future.status == "finished"
        return chunk_of(future, shape) if there else files.probabilities(number)

    if client is not None:
        # What a worker takes with it while they are reduced is in files, too.
        with suppress(Exception, CancelledError):
            stacked = as_dask_array([chunk(number) for number in numbers])
            return reduce_members(stacked, client), stacked.compute(scheduler=client)
    stacked = as_dask_array([files.probabilities(number) for number in numbers])
    return reduce_members(stacked), stacked.compute(scheduler="threads")


def _selective_prediction(
    path: Path,
    files: MemberFiles,
    numbers: Sequence[int],
    dataset: Dataset,
    defer_error: float | None,
    confidence: float,
    seed: int,
) -> SelectivePrediction | None:
    """Fit and store selective prediction; None without the members' out-of-bag predictions."""
    out_of_bag = [one for number in numbers if (one := files.out_of_bag(number)) is not None]
    if not out_of_bag:
        return None
    selective = SelectivePrediction.of(
        out_of_bag, dataset.X_train, dataset.y_train, len(dataset.classes), error=defer_error,
        confidence=confidence, seed=seed,
        scaling=None if dataset.image_shape else dataset.scaling.fit(dataset.X_train),
    )  # fmt: skip
    selective.save(path / names.SELECTIVE_PREDICTION)
    return selective


def _cut(answers: EnsemblePrediction, some: slice) -> EnsemblePrediction:
    """Return the answers of some samples: the test samples come first, then one's own images."""
    return EnsemblePrediction(*(getattr(answers, one.name)[some] for one in fields(answers)))
