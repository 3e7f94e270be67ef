"""Predictions of a stored ensemble for images or rows, and how far to trust them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.bagging.intervals import RunIntervals
from pipelines.bagging.members import READ, MemberFiles
from pipelines.bagging.record import BaggingRecord
from pipelines.bagging.reductions import RULE, EnsemblePrediction, as_dask_array, reduce_members
from pipelines.bagging.selective_prediction import (
    Assessment,
    SelectivePrediction,
    stored_selective_prediction,
)
from pipelines.data.dataset import REGRESSION
from pipelines.data.tables.words import counted
from pipelines.errors import InputError, opt, program
from pipelines.nn.member import Ensemble, Prediction
from pipelines.nn.settings import need_torch
from pipelines.run.new_rows import NewRows, class_columns, record_of
from pipelines.run.predict import SHOWN, ModelAnswer
from pipelines.run_folder.digests import refuse_changed
from pipelines.run_folder.reading import as_pictures


def predict_with_ensemble(
    rows: NewRows,
    run: Path,
    draw: Callable[..., Path],
    copies: int = 0,
    network: str | None = None,
    augment: str | None = None,
) -> ModelAnswer:
    """The vote of a run's ensemble on new rows or images, or its mean in a regression.

    Also returns certainties and the rows to defer or, for a regression, intervals.

    Parameters
    ----------
    rows : NewRows
    run : Path
        The run's folder.
    draw : function of path, pixels, class names, probabilities, vote and deferral of an image
        Plots the certainty for one of the first images, and returns the figure's path.
    copies, network, augment
        As for ``ask_members``.
    """
    need_torch()
    record = record_of(run, "nn_bagging", BaggingRecord)
    refuse_changed(run, record.files, *READ)
    prediction, classes = ask_members(run, rows.X, copies, network, augment)
    if record.dataset.task == REGRESSION:
        return _numbers(run, rows, prediction.outputs[:, :, 0])
    # In chunks of rows: all at once would take seven times the memory of the probabilities.
    reduced = reduce_members(as_dask_array(list(prediction.outputs)))
    answers: EnsemblePrediction = reduced.compute(scheduler="threads")
    selective = stored_selective_prediction(run)
    assessment = None if selective is None else selective.assess(answers, prediction.distance)
    deferred = answers.deferred if assessment is None else assessment.deferred(answers)
    columns = {"certainty": answers.certainty, "deferred": deferred}
    columns |= {} if assessment is None else assessment.columns
    columns |= class_columns("probability", classes, answers.mean)
    result = ModelAnswer(np.array(classes), answers.vote, columns)
    if rows.unreadable is not None:
        form, lines = record.image_form, list[str]()
        assert form is not None
        pixels = as_pictures(rows.X, (form.channels, form.height, form.width)[form.channels == 1 :])
        for number, path in enumerate(rows.images[:SHOWN]):
            details = (
                prediction.outputs[:, number],
                int(answers.vote[number]),
                bool(deferred[number]),
            )
            lines += [
                f"image      {path}",
                *_lines(answers, number, classes, selective, assessment),
            ]
            lines.append(f"figure     {draw(path, pixels[number], classes, *details)}")
        return replace(result, of_images=lines)
    remarks = []
    if n_deferred := int(np.sum(answers.deferred)):
        remarks.append(f"warning    {counted(n_deferred, 'row')}: {RULE[0].lower()}{RULE[1:]}")
    if selective is not None and assessment is not None and assessment.kept is not None:
        n_kept, n_rows = int(assessment.kept.sum()), len(assessment.kept)
        guarantee = selective.risk_control and selective.risk_control.line
        remarks.append(f"guarantee  {n_kept:,} of {n_rows:,} rows are kept: {guarantee}")
    if assessment is not None and (n := int(assessment.is_novel.sum())):
        novel = "row is a novel sample" if n == 1 else "rows are novel samples"
        remarks.append(f"warning    {n:,} {novel}, unlike all training rows")
    return replace(result, remarks=remarks)


def _numbers(run: Path, rows: NewRows, of_members: np.ndarray) -> ModelAnswer:
    """The mean of the members' numbers, (n_members, n_rows), intervals, and rows to defer."""
    mean, remarks = of_members.mean(axis=0), list[str]()
    if (intervals := RunIntervals.of_run(run)) is None:
        remarks = ["warning    the run ended before it set intervals; resume it"]
        return ModelAnswer(None, mean, remarks=remarks)
    columns, percent = intervals.columns(of_members), f"{100 * intervals.confidence:.4g} %"
    lower, upper = columns["lower"], columns["upper"]
    if len(lower):
        width = (upper - lower).mean()
        remarks.append(f"intervals  lower and upper, of {percent}, mean width {width:.4g}")
    truth = rows.numbers
    if truth is not None and (is_known := np.isfinite(truth)).any():
        n_held, n = int(np.sum((lower <= truth) & (truth <= upper))), int(is_known.sum())
        remarks.append(
            f"coverage   {100 * n_held / n:.2f} % ({n_held:,} of {n:,}; target {percent})"
        )
    if "kept" in columns and (n_deferred := int(np.sum(~columns["kept"]))):
        remarks.append(
            f"warning    {counted(n_deferred, 'row')}: defer to a human, as the interval is wider "
            f"than {intervals.defer_width:.6g}"
        )
    return ModelAnswer(None, mean, columns, remarks=remarks)


def ask_members(
    run: Path, rows: Any, copies: int = 0, network: str | None = None, augment: str | None = None
) -> tuple[Prediction, list[str]]:
    """Predict unscaled rows with every stored member, one member in memory at a time.

    Parameters
    ----------
    run : Path
        The run's folder.
    rows : array or DataFrame of shape (n_rows, n_features)
    copies : int, default 0
        Copies of each row, augmented as in the run's training, over which outputs and distances are
        averaged; 0 predicts the rows themselves.
    network, augment : str, optional
        The user's own code that the run was trained with, named again: code that the folder names
        is not imported.

    Returns
    -------
    Prediction
        As for ``Ensemble.predict``.
    list of str
        The names of the classes.

    Raises
    ------
    InputError
        The run has no member, a file is damaged, copies are wanted for a run without augmentation,
        or code that the folder names was not named again.
    """
    recorded = record_of(run, "nn_bagging", BaggingRecord).augment if copies else "none"
    if augment is not None and ":" not in recorded:
        raise InputError(
            f"{opt('augment')} is for {opt('copies')} of a run with a function of your own, got "
            f"{run}, which has none; leave it out"
        )
    if augment is None and ":" in recorded:
        raise InputError(
            f"{opt('augment')} must be named again, as the folder that names {recorded} may be "
            f"anybody's, got none; look at it, then give {opt('augment', recorded)}"
        )
    augment = augment or recorded
    if copies and augment == "none":
        raise InputError(
            f"--copies must go with a run that had --augment, got {run}, which had not; leave it "
            "out"
        )
    files = MemberFiles(run)
    if not (numbers := files.numbers()):
        raise InputError(
            f"RUN must hold a trained member, but none in {run} is finished; resume with "
            f"{program('nn_bagging')} --resume {shlex.quote(str(run))}"
        )
    predictions, classes = list[Prediction](), np.empty(0)
    for number in numbers:
        ensemble = Ensemble.load(files.weights(number), network)
        has_other_classes = number != numbers[0] and not np.array_equal(ensemble.classes_, classes)
        member = ensemble.members[0]
        width = len(getattr(member.scaling, "layout", ())) or rows.shape[1]
        if has_other_classes or member.inputs.n_features != width:
            raise InputError(
                f"RUN must hold members of the same data, got {files.weights(number)}, which was "
                "trained on others; remove it"
            )
        of_copies = [
            member.predict(member.augmented(rows, augment, seed)) for seed in range(copies)
        ] or [member.predict(rows)]
        predictions.append(
            Prediction(*(np.mean(arrays, axis=0) for arrays in zip(*of_copies, strict=True)))
        )
        classes = ensemble.classes_
    probabilities = np.stack([prediction.outputs for prediction in predictions])
    distance = np.mean([prediction.distance for prediction in predictions], axis=0)
    return Prediction(probabilities, distance), [str(label) for label in classes]


def _lines(
    answers: EnsemblePrediction,
    number: int,
    classes: list[str],
    selective: SelectivePrediction | None,
    assessment: Assessment | None,
) -> list[str]:
    """Lines about one image: vote, certainty, prediction set, guarantee, novelty."""
    vote, certainty = int(answers.vote[number]), answers.certainty[number]
    votes = answers.votes[number]
    other_votes = [
        f"{votes[code]} for {classes[code]}"
        for code in np.argsort(-votes, kind="stable")
        if votes[code] and code != vote
    ]
    least, _, middle, _, most = answers.quantiles[number, vote]
    lines = [
        f"class      {classes[vote]}",
        f"vote       {votes[vote]} of {votes.sum()} members"
        + (f" ({', '.join(other_votes)})" if other_votes else ""),
        f"certainty  {certainty:.2f} on average, from {least:.2f} to {most:.2f}, "
        f"median {middle:.2f}",
    ]
    if answers.deferred[number]:
        lines.append(f"warning    {RULE[0].lower()}{RULE[1:]}")
    if selective is None or assessment is None:
        return lines
    set_classes = [
        name for name, is_inside in zip(classes, assessment.sets[number], strict=True) if is_inside
    ]
    lines.append(
        f"set        {', '.join(set_classes) or 'no class'} ({100 * selective.confidence:.4g} % "
        "prediction set, for each class)"
    )
    control = selective.risk_control
    if assessment.is_novel[number]:  # the guarantee does not cover novel samples
        lines.append(
            f"warning    novel sample (p = {assessment.p[number]:.2g}), unlike all training rows: "
            "do not use its answer"
        )
    elif control is not None and control.threshold is None:
        lines.append(f"warning    {control.line}")
    elif control is not None and control.keeps(certainty):
        lines.append(
            f"guarantee  certainty {certainty:.4f} reaches {control.threshold:.4f}: of "
            f"such answers at most {100 * control.error:.4g} % are wrong"
        )
    elif control is not None:
        lines.append(
            f"warning    defer to a human: certainty {certainty:.4f} is below "
            f"{control.threshold:.4f}, from which on at most {100 * control.error:.4g} % are wrong"
        )
    return lines
