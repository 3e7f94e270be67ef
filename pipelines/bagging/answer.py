"""Reduce the members' rows to the answer: vote, test, and write the results."""

from __future__ import annotations

import os
from asyncio import CancelledError
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import combinations
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipelines.bagging.explain import Asked, explained
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.record import (
    EXPLAINED,
    MEMBER_PROBABILITIES,
    MEMBERS,
    SELECTIVE_PREDICTION,
    SIZES,
)
from pipelines.bagging.reductions import (
    RULE,
    EnsemblePrediction,
    as_dask_array,
    chunk_of,
    mean_distance,
    reduce_members,
)
from pipelines.bagging.selective_prediction import (
    ASSUMPTION,
    CONFIDENCE,
    FALSE_DISCOVERY_RATE,
    Assessment,
    SelectivePrediction,
)
from pipelines.bagging.work import reduce_candidates, tabulate_members
from pipelines.data import Dataset
from pipelines.data.placement import to_host
from pipelines.run_folder import names
from pipelines.search.answer import write_predictions
from pipelines.search.scoring import expected_calibration_error, log_loss

if TYPE_CHECKING:
    from distributed import Client, Future

SUBSETS = 60  # of members drawn for each size; all of them where there are no more


@dataclass(frozen=True, eq=False)
class TrainedEnsemble:
    """An ensemble whose members are stored, and what is to be said of it.

    Attributes
    ----------
    path : the run's folder; it holds ``cv_results`` and the members
    refits : row of the refit of every member that is stored
    asked : Asked, samples to explain
    defer_error, confidence : float, see ``SelectivePrediction``
    """

    path: Path
    refits: Mapping[int, Mapping[str, Any]]
    dataset: Dataset
    asked: Asked
    n_folds: int
    seed: int
    defer_error: float | None = None
    confidence: float = CONFIDENCE


def answer(
    trained: TrainedEnsemble,
    client: Client | None = None,
    data: Future | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Reduce the members' probabilities and write the answer; entries for ``run.json``.

    Workers reduce what they said of the test samples, where they see the run's folder, else
    threads of this process, by the same graph of tasks; only what is reduced comes back.

    Parameters
    ----------
    client : distributed.Client, optional
    data : the data set on the workers, which keep with it what their members predict
    device : "cpu" or "gpu", on which the client's workers reduce
    """
    if client is not None:
        from distributed import CancelledError as Cancelled
        from distributed import KilledWorker

        # A worker that does not see the newest file, as it is here, does not share the file system.
        newest = MemberFiles(trained.path.resolve()).weights(max(trained.refits))
        seen = client.run(os.path.getmtime, newest, on_error="return")
        if set(seen.values()) == {os.path.getmtime(newest)}:
            # A worker took its own with it, or has too little memory.
            with suppress(KilledWorker, Cancelled, CancelledError, OSError, MemoryError):
                return _answer(trained, client, data, device)
    return _answer(trained, None, None, "cpu")


def _answer(
    trained: TrainedEnsemble, client: Client | None, data: Future | None, device: str
) -> dict[str, Any]:
    import dask

    path, refits, dataset, asked = trained.path, trained.refits, trained.dataset, trained.asked
    truth, numbers, n_classes = dataset.y_test, sorted(refits), len(dataset.classes)
    n_test, files = len(truth), MemberFiles(path.resolve())
    compute = partial(dask.compute, scheduler=client or "threads")
    said = []
    for number in numbers:
        with dask.annotate(workers=refits[number]["worker"], allow_other_workers=True):
            said.append(dask.delayed(files.recall, nout=2)(data, dict(refits[number]), device))
    said = said if client is None else client.persist(said)
    shape = (n_test + len(asked.images), n_classes)
    where_they_lie = as_dask_array([chunk_of(test[0], shape) for test, _ in said])
    probabilities = where_they_lie.map_blocks(to_host)
    on_test = probabilities[:, :n_test]
    out_of_bag, file = [rows for _, rows in said], path.resolve() / MEMBER_PROBABILITIES
    stored = {"member": numbers, "probabilities": on_test}
    bounds = {"error": trained.defer_error, "confidence": trained.confidence}
    reduced = (
        reduce_members(where_they_lie),
        dask.delayed(mean_distance)([test[1] for test, _ in said]),
        dask.delayed(SelectivePrediction.of)(out_of_bag, dataset.y_train, n_classes, **bounds),
        (on_test.argmax(axis=2) != truth).mean(axis=1),
        dask.delayed(size_errors)(on_test, truth, trained.seed),
        dask.delayed(names.write_arrays)(file, stored, compressed=False),
    )
    # All of one kind: ``dask.compute`` mixes up the order of arrays and others.
    answers, distance, selective, errors, sizes, _ = compute(*map(dask.delayed, reduced))
    of_test, of_own = (  # one's own images come after the test samples
        EnsemblePrediction(*(getattr(answers, one.name)[some] for one in fields(answers)))
        for some in (slice(n_test), slice(n_test, None))
    )
    with names.replacing(path / SELECTIVE_PREDICTION) as unfinished:
        selective.save(unfinished)
    assessed = selective.assess(of_test, distance[:n_test])
    own = selective.assess(of_own, distance[n_test:])
    deferred = np.concatenate([assessed.deferred(of_test), own.deferred(of_own)])
    by_mean = {"predicted_by_mean": of_test.by_mean, "certainty_of_mean": of_test.mean.max(axis=1)}
    doubt = {"disagreement": of_test.disagreement, "deferred": of_test.deferred, **assessed.columns}
    write_predictions(path, dataset, of_test.vote, certainty=of_test.certainty, **by_mean, **doubt)
    names.write_table(sizes, path / SIZES)
    arrays = explained(answers, probabilities, asked.after(dataset.X_test), truth, asked, deferred)
    names.write_arrays(path / EXPLAINED, compute(arrays)[0])
    candidates = reduce_candidates(pd.read_parquet(path / names.CELLS), trained.n_folds, client)
    names.write_table(candidates, path / names.CANDIDATES)
    table = tabulate_members(candidates, refits, dict(zip(numbers, errors.tolist(), strict=True)))
    with names.replacing(path / MEMBERS) as unfinished:
        table.to_csv(unfinished, index=False)
    return {
        **describe_quality(of_test, truth),
        **describe_selection(selective, assessed, of_test, truth),
        "calibration": describe_calibration(selective, of_test, truth),
        "members_mean_test_error": float(errors.mean()),
        "members_best_test_error": float(errors.min()),
        "members": table.astype(object).to_dict("records"),
    }


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


def describe_selection(
    selective: SelectivePrediction,
    assessed: Assessment,
    answers: EnsemblePrediction,
    truth: np.ndarray,
) -> dict[str, Any]:
    """Measure threshold, sets and novelty detection on test samples, for ``run.json``."""
    held = assessed.sets[np.arange(len(truth)), truth]
    by_class = [held[truth == code].mean() for code in np.unique(truth)]
    proved = None
    if selective.risk_control is not None and assessed.kept is not None:
        proved = asdict(selective.risk_control) | {
            "n_kept_test": int(assessed.kept.sum()),
            "n_wrong_kept_test": int(np.sum(assessed.kept & (answers.vote != truth))),
            "line": selective.risk_control.line,
            "assumption": ASSUMPTION,
        }
    return {
        "prediction_sets": {
            "confidence": selective.confidence,
            "mean_size": float(assessed.sets.sum(axis=1).mean()) if len(truth) else None,
            "coverage": float(held.mean()) if len(truth) else None,
            "least_coverage": float(min(by_class)) if by_class else None,
        },
        "novelty": {"rate": FALSE_DISCOVERY_RATE, "n_named": int(assessed.is_novel.sum())},
        "risk_control": proved,
    }


def describe_calibration(
    selective: SelectivePrediction, answers: EnsemblePrediction, truth: np.ndarray
) -> dict[str, Any]:
    """Measure what the temperature that out-of-bag rows set does on test samples.

    Certainties, thresholds and sets stay on the scale of the members' mean; ``BaggedNets.of_run``
    scales its ``predict_proba``.
    """
    fit = selective.calibration
    scaled = fit.scaled(answers.mean)
    return {
        **asdict(fit),
        "line": fit.line,
        "test_log_loss": log_loss(scaled, truth),
        "test_calibration_error": expected_calibration_error(scaled, truth),
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
    rows = []
    for subset in subsets_of(n_members, seed):
        mean = probabilities[subset].mean(axis=0, dtype=np.float64)
        vote = (votes[subset].sum(axis=0) + mean / 2).argmax(axis=1)
        vote_error, mean_error = (
            float(np.mean(found != truth)) for found in (vote, mean.argmax(axis=1))
        )
        rows.append({"size": len(subset), "vote_error": vote_error, "mean_error": mean_error})
    return pd.DataFrame(rows)


def subsets_of(n_members: int, seed: int) -> Iterator[list[int]]:
    """Give subsets of members of every size, the small ones first.

    Where there are more than ``SUBSETS`` of a size so many are drawn by the seed, else all.
    """
    rng = np.random.default_rng(seed)
    for size in range(1, n_members + 1):
        if comb(n_members, size) <= SUBSETS:
            yield from map(list, combinations(range(n_members), size))
            continue
        for _ in range(SUBSETS):
            yield sorted(rng.choice(n_members, size, replace=False).tolist())
