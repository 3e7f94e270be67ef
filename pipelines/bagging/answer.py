"""The answer of a run: reduce the members' predictions, test the ensemble, write the results."""

from __future__ import annotations

import os
from asyncio import CancelledError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipelines.bagging.calibration import normalised
from pipelines.bagging.explain import SamplesToExplain, explained_arrays
from pipelines.bagging.intervals import JackknifeIntervals, RunIntervals, describe_intervals
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.record import (
    EXPLAINED,
    INTERVALS,
    MEMBER_PREDICTIONS,
    MEMBER_PROBABILITIES,
    MEMBERS,
    SELECTIVE_PREDICTION,
    SIZES,
)
from pipelines.bagging.reductions import (
    RULE,
    EnsemblePrediction,
    gather_predictions,
    reduce_members,
)
from pipelines.bagging.selective_prediction import (
    ASSUMPTION,
    FALSE_DISCOVERY_RATE,
    Assessment,
    SelectivePrediction,
)
from pipelines.bagging.work import reduce_candidates, tabulate_members
from pipelines.data.baseline import baseline_of, remarks_on
from pipelines.data.dataset import REGRESSION, Dataset
from pipelines.data.placement import to_host
from pipelines.errors import InputError, opt
from pipelines.run_folder import names
from pipelines.search.answer import number_scores, write_predictions
from pipelines.search.scoring import expected_calibration_error, log_loss

if TYPE_CHECKING:
    from distributed import Client, Future

METRIC = "mean absolute error"  # of a regression, which is compared with the baseline by it
SUBSETS = 60  # the most subsets of members for each size, drawn at random where there are more


@dataclass(frozen=True, eq=False)
class TrainedEnsemble:
    """An ensemble whose members are stored, and the options that its answer depends on.

    Attributes
    ----------
    path : Path
        The run's folder, with ``cv_results`` and the members.
    refits : mapping of int to row
        The row of each stored member's refit, by the member's number.
    dataset : Dataset
    samples : SamplesToExplain
    n_folds : int
        Folds of a member's search.
    seed : int
        Draws subsets of members.
    confidence : float
        For prediction sets and a guarantee, see ``SelectivePrediction``; in a regression,
        for intervals, see ``RunIntervals``.
    defer_error : float, optional
        See ``SelectivePrediction``.
    defer_width : float, optional
        For a regression, see ``RunIntervals``.
    """

    path: Path
    refits: Mapping[int, Mapping[str, Any]]
    dataset: Dataset
    samples: SamplesToExplain
    n_folds: int
    seed: int
    confidence: float
    defer_error: float | None = None
    defer_width: float | None = None


def answer(
    trained: TrainedEnsemble,
    client: Client | None = None,
    data: Future | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Write the answer of a classification.

    Workers that see the run's folder reduce the members' predictions on their own devices, and only
    the reduced arrays come back. Otherwise threads of this process do it, by the same graph.

    Parameters
    ----------
    trained : TrainedEnsemble
    client : distributed.Client, optional
    data : Future, optional
        The search's data on the workers, whose processes keep predictions of the members that they
        trained; without it the predictions are read from files.
    device : {"cpu", "gpu"}
        The workers' device.

    Returns
    -------
    dict
        Entries for ``run.json``.
    """
    if client is not None:
        from distributed import CancelledError as Cancelled
        from distributed import KilledWorker

        # A worker that does not see the newest file as it is here does not share the file system.
        newest = MemberFiles(trained.path.resolve()).weights(max(trained.refits))
        mtimes = client.run(os.path.getmtime, newest, on_error="return")
        if set(mtimes.values()) == {os.path.getmtime(newest)}:
            # A worker may die with its predictions, or run out of memory: then it is done here.
            with suppress(KilledWorker, Cancelled, CancelledError, OSError, MemoryError):
                return _answer(trained, client, data, device)
    return _answer(trained, None, None, "cpu")


def _answer(
    trained: TrainedEnsemble, client: Client | None, data: Future | None, device: str
) -> dict[str, Any]:
    import dask

    path, refits, dataset, samples = trained.path, trained.refits, trained.dataset, trained.samples
    truth, numbers, n_classes = dataset.y_test, sorted(refits), len(dataset.classes)
    n_test, files = len(truth), MemberFiles(path.resolve())
    compute = partial(dask.compute, scheduler=client or "threads")
    predictions = []
    for number in numbers:
        with dask.annotate(workers=refits[number]["worker"], allow_other_workers=True):
            predictions.append(
                dask.delayed(files.recall, nout=2)(data, dict(refits[number]), device)
            )
    predictions = predictions if client is None else client.persist(predictions)
    shape = (n_test + len(samples.images), n_classes)
    remote_probabilities, remote_distance = gather_predictions(
        [test for test, _ in predictions], shape
    )
    probabilities = remote_probabilities.map_blocks(to_host)
    on_test = probabilities[:, :n_test]
    out_of_bag, file = [rows for _, rows in predictions], path.resolve() / MEMBER_PROBABILITIES
    stored = {"member": numbers, "probabilities": on_test}
    bounds = {"error": trained.defer_error, "confidence": trained.confidence}
    reductions = (
        reduce_members(remote_probabilities),
        remote_distance,
        dask.delayed(SelectivePrediction.of)(out_of_bag, dataset.y_train, n_classes, **bounds),
        (on_test.argmax(axis=2) != truth).mean(axis=1),
        dask.delayed(size_errors)(on_test, truth, trained.seed),
        dask.delayed(names.write_arrays)(file, stored, compressed=False),
    )
    # All wrapped as Delayed: ``dask.compute`` mixes up the order of arrays and others.
    answers, distance, selective, errors, sizes, _ = compute(*map(dask.delayed, reductions))
    of_test, of_images = (  # the user's own images come after the test samples
        EnsemblePrediction(*(array[part] for array in vars(answers).values()))
        for part in (slice(n_test), slice(n_test, None))
    )
    with names.replacing(path / SELECTIVE_PREDICTION) as unfinished:
        selective.save(unfinished)
    test_assessment = selective.assess(of_test, distance[:n_test])
    image_assessment = selective.assess(of_images, distance[n_test:])
    deferred = np.concatenate(
        [test_assessment.deferred(of_test), image_assessment.deferred(of_images)]
    )
    by_mean = {"predicted_by_mean": of_test.by_mean, "certainty_of_mean": of_test.mean.max(axis=1)}
    doubt = {
        "disagreement": of_test.disagreement,
        "deferred": of_test.deferred,
        **test_assessment.columns,
    }
    write_predictions(path, dataset, of_test.vote, certainty=of_test.certainty, **by_mean, **doubt)
    names.write_table(sizes, path / SIZES)
    arrays = explained_arrays(
        answers, probabilities, samples.after(dataset.X_test), truth, samples, deferred
    )
    names.write_arrays(path / EXPLAINED, compute(arrays)[0])
    fit = selective.calibration
    # The temperature changes only these losses: thresholds, sets and novelty go by the mean itself.
    scaled = asdict(fit) | {"line": fit.line} | _losses(fit.scaled(of_test.mean), truth)
    return {
        **describe_quality(of_test, truth),
        **describe_selection(selective, test_assessment, of_test, truth),
        "calibration": scaled,
        **write_members(trained, errors, client),
    }


def answer_numbers(trained: TrainedEnsemble) -> dict[str, Any]:
    """Write the answer of a regression, and return its entries for ``run.json``.

    A member predicts one number for each row, so that everything is computed in this process, from
    the members' files.

    Raises
    ------
    InputError
        There are too few out-of-bag rows for intervals of that confidence.
    """
    path, dataset, confidence = trained.path, trained.dataset, trained.confidence
    defer_width = trained.defer_width
    truth, numbers, files = dataset.y_test, sorted(trained.refits), MemberFiles(path)
    of_test, out_of_bag = zip(*map(files.predictions, numbers), strict=True)
    predictions = np.stack([test.outputs[:, 0] for test in of_test])
    mean = predictions.mean(axis=0)
    jackknife = JackknifeIntervals.of(out_of_bag, dataset.y_train)
    intervals = RunIntervals(jackknife, confidence, defer_width)
    try:
        columns = intervals.columns(predictions)
    except InputError as refusal:
        way_on = f"the members are kept, go on with {opt('resume', path)}"
        raise InputError(f"{refusal.args[0]}; {way_on}") from None
    with names.replacing(path / INTERVALS) as unfinished:
        intervals.save(unfinished)
    arrays = {"member": numbers, "predictions": predictions}
    names.write_arrays(path / MEMBER_PREDICTIONS, arrays, compressed=False)
    write_predictions(path, dataset, mean, **columns)
    sizes = [
        (len(subset), _rmse(predictions[subset].mean(axis=0) - truth))
        for subset in subsets_of(len(numbers), trained.seed)
    ]
    names.write_table(pd.DataFrame(sizes, columns=["size", "rmse"]), path / SIZES)
    scores, distance = number_scores(truth, mean), np.abs(mean - truth)
    interval_entries = describe_intervals(truth, columns["lower"], columns["upper"], confidence)
    interval_entries |= {"n_rows": len(jackknife.truth), "n_drawn_by_all": jackknife.n_drawn_by_all}
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
        "intervals": interval_entries,
        "deferral": deferral,
        "metric": METRIC,
        "baseline": baseline,
        "remarks": remarks,
        **write_members(trained, [_rmse(prediction - truth) for prediction in predictions]),
    }


def write_members(
    trained: TrainedEnsemble, test_errors: Sequence[float], client: Client | None = None
) -> dict[str, Any]:
    """Write the tables of candidates and members, and return entries for ``run.json``.

    ``test_errors`` are the members' errors in their order: fractions, or root mean squared errors
    in a regression.
    """
    path, is_regression = trained.path, trained.dataset.task == REGRESSION
    candidates = reduce_candidates(pd.read_parquet(path / names.CELLS), trained.n_folds, client)
    names.write_table(candidates, path / names.CANDIDATES)
    of_member = dict(zip(sorted(trained.refits), map(float, test_errors), strict=True))
    table = tabulate_members(candidates, trained.refits, of_member, is_regression)
    with names.replacing(path / MEMBERS) as unfinished:
        table.to_csv(unfinished, index=False)
    measure = "rmse" if is_regression else "error"
    return {
        f"members_mean_test_{measure}": float(np.mean(test_errors)),
        f"members_best_test_{measure}": float(np.min(test_errors)),
        "members": table.astype(object).to_dict("records"),
    }


def describe_quality(answers: EnsemblePrediction, truth: np.ndarray) -> dict[str, Any]:
    """Errors, calibration and selective prediction on the test samples; ``truth`` are codes."""
    n_vote = int(np.sum(answers.vote != truth))
    n_mean = int(np.sum(answers.by_mean != truth))
    kept = ~answers.deferred
    return {
        "test_error": n_vote / len(truth),
        "n_test_errors": n_vote,
        "vote_test_error": n_vote / len(truth),
        "n_vote_errors": n_vote,
        "mean_test_error": n_mean / len(truth),
        "n_mean_errors": n_mean,
        **_losses(normalised(answers.mean), truth),
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
    """How the threshold, prediction sets and novelty detection do on the test samples.

    Parameters
    ----------
    selective : SelectivePrediction
    assessed : Assessment
        The assessment of the test samples.
    answers : EnsemblePrediction
        The predictions of the same samples.
    truth : int array of shape (n_test,)
        Class codes.

    Returns
    -------
    dict
        Entries for ``run.json``.
    """
    is_held = assessed.sets[np.arange(len(truth)), truth]
    by_class = [is_held[truth == code].mean() for code in np.unique(truth)]
    guarantee = None
    if selective.risk_control is not None and assessed.kept is not None:
        guarantee = asdict(selective.risk_control) | {
            "n_kept_test": int(assessed.kept.sum()),
            "n_wrong_kept_test": int(np.sum(assessed.kept & (answers.vote != truth))),
            "line": selective.risk_control.line,
            "assumption": ASSUMPTION,
        }
    return {
        "prediction_sets": {
            "confidence": selective.confidence,
            "mean_size": float(assessed.sets.sum(axis=1).mean()),
            "coverage": float(is_held.mean()),
            "least_coverage": float(min(by_class)),
        },
        "novelty": {"rate": FALSE_DISCOVERY_RATE, "n_named": int(assessed.is_novel.sum())},
        "risk_control": guarantee,
    }


def _losses(probabilities: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    return {
        "test_log_loss": log_loss(probabilities, truth),
        "test_calibration_error": expected_calibration_error(probabilities, truth),
    }


def size_errors(probabilities: np.ndarray, truth: np.ndarray, seed: int) -> pd.DataFrame:
    """Error rates of the vote and of the mean probability for subsets of members of every size.

    ``probabilities`` have the shape (n_members, n_samples, n_classes); ``truth`` are class codes.
    """
    n_members, _, n_classes = probabilities.shape
    votes = probabilities.argmax(axis=2)[:, :, None] == np.arange(n_classes)
    rows = []
    for subset in subsets_of(n_members, seed):
        mean = probabilities[subset].mean(axis=0, dtype=np.float64)
        vote = (votes[subset].sum(axis=0) + mean / 2).argmax(axis=1)
        errors = (float(np.mean(chosen != truth)) for chosen in (vote, mean.argmax(axis=1)))
        rows.append((len(subset), *errors))
    return pd.DataFrame(rows, columns=["size", "vote_error", "mean_error"])


def subsets_of(n_members: int, seed: int) -> Iterator[list[int]]:
    """Subsets of the members, of every size, the smallest first.

    All of a size, or ``SUBSETS`` of them, drawn with the seed, where there are more.
    """
    rng = np.random.default_rng(seed)
    for size in range(1, n_members + 1):
        if comb(n_members, size) <= SUBSETS:
            yield from map(list, combinations(range(n_members), size))
            continue
        for _ in range(SUBSETS):
            yield sorted(rng.choice(n_members, size, replace=False).tolist())


def _rmse(residuals: np.ndarray) -> float:
    return float(np.sqrt(np.mean(residuals**2)))
