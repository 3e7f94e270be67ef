"""Ask a stored ensemble about images or rows, and how far it is to be trusted."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.bagging.members import READ, MemberFiles
from pipelines.bagging.reductions import RULE, EnsemblePrediction, as_dask_array, reduce_members
from pipelines.bagging.selective_prediction import (
    Assessment,
    lines_of,
    lines_of_all,
    stored_selective_prediction,
)
from pipelines.console import echo, print_error
from pipelines.data.image_files import ImageFormat
from pipelines.data.tables.words import counted
from pipelines.errors import InputError, opt, program
from pipelines.nn.member import Ensemble
from pipelines.nn.settings import need_torch
from pipelines.report.bagging_figures import ExplainedSample, certainty_panels
from pipelines.report.style import figure_style, save
from pipelines.run_folder.digests import refuse_changed
from pipelines.run_folder.reading import as_pictures
from pipelines.run_folder.records.nn_bagging import BaggingRecord
from pipelines.search.new_rows import SHOWN, NewRows, check_output, class_columns, record_of


def predict(
    run: Path, table: Path | None, image: Sequence[Path], output: Path | None, copies: int = 0
) -> int:
    """Print what the ensemble says of every image, and draw its certainty; or ask of a table.

    An image that cannot be read is named on stderr, and the others are answered. The parameters
    are those of the command line, see ``parse_predict``.

    Returns
    -------
    int
        Exit status: 0, 1 (an image has no answer) or 2 (none has one).

    Raises
    ------
    InputError
        There is no such ensemble, or a figure cannot be written.
    """
    need_torch()
    if table is not None:
        for line in predict_table(run, table, output):
            echo(line)
        return 0
    record = record_of(run, BaggingRecord, "nn_bagging")
    refuse_changed(run, record.files, *READ)
    form = _form(run, record)
    rows = NewRows.of_images(form, image)
    for why in rows.unreadable or ():
        print_error("nn_bagging", why)
    read = rows.images
    if not read:
        return 2
    member_proba, classes = ask_members(run, rows.X, copies)
    answers = reduce_members(as_dask_array(list(member_proba)))
    selective = stored_selective_prediction(run)
    assessed = None if selective is None else selective.assess(answers, rows.X)
    deferred = answers.deferred if assessed is None else assessed.deferred(answers)
    to_file = output is not None and output.suffix in (".csv", ".parquet")
    figures = None if to_file else output
    shape = (form.height, form.width) if form.channels == 1 else (3, form.height, form.width)
    pictures = as_pictures(rows.X, shape)
    for number, path in enumerate(read[:SHOWN]):
        sample = ExplainedSample(
            path.name, None, pictures[number], member_proba[:, number],
            int(answers.vote[number]), bool(deferred[number]),
        )  # fmt: skip
        lines = _lines(path, answers, number, len(member_proba), classes)
        if selective is not None and assessed is not None:
            lines += lines_of(
                selective, assessed, number, float(answers.certainty[number]), classes
            )
        for line in lines:
            echo(line)
        echo(f"figure     {_draw(sample, classes, figures or path.parent, path.stem)}")
    table = output if to_file else figures and figures / "image-predictions.csv"
    more = _columns(answers, assessed, deferred, classes)
    for line in rows.write(np.array(classes), answers.vote, check_output(table), more):
        echo(line)
    return 1 if rows.unreadable else 0


def _columns(
    answers: EnsemblePrediction, assessed: Assessment | None, deferred: np.ndarray,
    classes: list[str],
) -> dict[str, Any]:  # fmt: skip
    """Return what a table of answers has beside the vote."""
    return {
        "certainty": answers.certainty,
        "deferred": deferred,
        **({} if assessed is None else assessed.columns),
        **class_columns("probability", classes, answers.mean),
    }


def predict_table(run: Path, table: Path, output: Path | None = None) -> list[str]:
    """Write the vote on every row of a table, and how certain it is; the lines that say it.

    Raises
    ------
    InputError
        There is no such ensemble, or the table cannot be read or answered.
    """
    record = record_of(run, BaggingRecord, "nn_bagging")
    refuse_changed(run, record.files, *READ)
    rows = NewRows.read(run, record, table)
    member_proba, classes = ask_members(run, rows.X)
    answers = reduce_members(as_dask_array(list(member_proba)))
    selective = stored_selective_prediction(run)
    assessed = None if selective is None else selective.assess(answers, rows.X)
    deferred = answers.deferred if assessed is None else assessed.deferred(answers)
    more = _columns(answers, assessed, deferred, classes)
    lines = rows.write(np.array(classes), answers.vote, check_output(output), more)
    if n_deferred := int(np.sum(answers.deferred)):
        lines.append(f"warning    {counted(n_deferred, 'row')}: {RULE[0].lower()}{RULE[1:]}")
    return (
        lines
        if selective is None or assessed is None
        else lines + lines_of_all(selective, assessed)
    )


def ask_members(run: Path, rows: Any, copies: int = 0) -> tuple[np.ndarray, list[str]]:
    """Predict unscaled rows by every stored member, with one member in memory at a time.

    With ``copies`` each certainty is the mean over so many copies of the rows, augmented as in
    the run's training.

    Returns
    -------
    float32 array of shape (n_members, n_rows, n_classes), and the names of the classes

    Raises
    ------
    InputError
        The run has no member, or a file is damaged; copies of a run that augmented nothing.
    """
    augment = record_of(run, BaggingRecord, "nn_bagging").augment if copies else "none"
    if copies and augment == "none":
        raise InputError(
            f"--copies must go with a run that had --augment, got {run}, which had not; leave it "
            "out"
        )
    files = MemberFiles(run)
    numbers = files.numbers()
    if not numbers:
        raise InputError(
            f"RUN must hold a trained member, but none in {run} is finished; resume with "
            f"{program('nn_bagging')} --resume {shlex.quote(str(run))}"
        )
    member_proba, classes = [], np.empty(0)
    for number in numbers:
        ensemble = Ensemble.load(files.weights(number))
        others = number != numbers[0] and not np.array_equal(ensemble.classes_, classes)
        member = ensemble.members[0]
        width = len(getattr(member.scaling, "layout", ())) or rows.shape[1]
        if others or member.inputs.n_features != width:
            raise InputError(
                f"RUN must hold members of the same data, got {files.weights(number)}, which was "
                "trained on others; remove it"
            )
        asked = [rows] if not copies else (
            member.augmented(rows, augment, seed) for seed in range(copies)
        )  # fmt: skip
        proba = [member.predict_proba(one) for one in asked]
        member_proba.append(np.mean(proba, axis=0) if copies else proba[0])
        classes = ensemble.classes_
    return np.stack(member_proba), [str(label) for label in classes]


def _form(run: Path, record: BaggingRecord) -> ImageFormat:
    if record.image_form is None:
        raise InputError(
            f"RUN must hold an ensemble of images, got {run}, whose data are a table; "
            "give the table in place of the images"
        )
    return ImageFormat(**record.image_form.model_dump())


def _lines(
    image: Path, answers: EnsemblePrediction, number: int, n_members: int, classes: list[str]
) -> list[str]:
    vote = int(answers.vote[number])
    least, _, middle, _, most = answers.quantiles[number, vote]
    lines = [
        f"image      {image}",
        f"class      {classes[vote]}",
        f"vote       {answers.votes[number, vote]} of {n_members} members"
        + _others(answers.votes[number], vote, classes),
        f"certainty  {answers.certainty[number]:.2f} on average, from {least:.2f} to {most:.2f}, "
        f"median {middle:.2f}",
    ]
    return (
        [*lines, f"warning    {RULE[0].lower()}{RULE[1:]}"] if answers.deferred[number] else lines
    )


def _others(votes: np.ndarray, vote: int, classes: list[str]) -> str:
    others = [
        f"{votes[code]} for {classes[code]}"
        for code in np.argsort(-votes, kind="stable")
        if votes[code] and code != vote
    ]
    return f" ({', '.join(others)})" if others else ""


def _draw(sample: ExplainedSample, classes: list[str], folder: Path, stem: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with figure_style():
            return save(certainty_panels([sample], classes), folder, f"{stem}-certainty")
    except OSError as error:
        raise InputError(
            f"{opt('output')} must be a folder that can be written, got {folder}: "
            f"{error.strerror}; name another folder"
        ) from None
