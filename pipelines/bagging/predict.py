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
    SelectivePrediction,
    stored_selective_prediction,
)
from pipelines.console import echo, print_error
from pipelines.data.image_files import ImageFormat
from pipelines.data.tables.words import counted
from pipelines.errors import InputError, opt, program
from pipelines.nn.member import Ensemble, Prediction
from pipelines.nn.settings import need_torch
from pipelines.report.charts import ExplainedSample, certainty_panels
from pipelines.report.style import figure_style, save
from pipelines.run.new_rows import SHOWN, NewRows, check_output, class_columns, record_of
from pipelines.run_folder.digests import refuse_changed
from pipelines.run_folder.reading import as_pictures


def predict(
    run: Path,
    table: Path | None,
    image: Sequence[Path],
    output: Path | None,
    copies: int = 0,
    network: str | None = None,
    augment: str | None = None,
) -> int:
    """Write the vote on rows of a table or on images, and how certain it is.

    Of the first images, what the ensemble says is printed, and its certainty drawn. An image that
    cannot be read is named on stderr, and the others are answered.

    Returns
    -------
    int
        Exit status: 0, 1 (an image has no answer) or 2 (none has one).

    Raises
    ------
    InputError
        There is no such ensemble, the table cannot be read or answered, or what is asked for
        cannot be written.
    """
    need_torch()
    import dask

    record = record_of(run, "nn_bagging")
    refuse_changed(run, record.files, *READ)
    form: ImageFormat | None = None
    if table is not None:
        rows, to_file = NewRows.read(run, record, table), True
    elif record.image_form is None:
        raise InputError(
            f"RUN must hold an ensemble of images, got {run}, whose data are a table; "
            "give the table in place of the images"
        )
    else:
        form = ImageFormat(**record.image_form.model_dump())
        rows = NewRows.of_images(form, image)
        to_file = output is not None and output.suffix in (".csv", ".parquet")
    for why in rows.unreadable or ():
        print_error("nn_bagging", why)
    if rows.unreadable is not None and not rows.images:
        return 2
    asked, classes = ask_members(run, rows.X, copies, network, augment)
    # Rows by rows: all at once would take seven times the probabilities' memory.
    answers: EnsemblePrediction
    (answers,) = dask.compute(
        reduce_members(as_dask_array(list(asked.probabilities))), scheduler="threads"
    )
    selective = stored_selective_prediction(run)
    assessed = None if selective is None else selective.assess(answers, asked.distance)
    deferred = answers.deferred if assessed is None else assessed.deferred(answers)
    file = output
    if form is not None:
        folder = (output.parent if to_file else output) if output else Path()
        file = output if to_file else folder / f"{rows.path.stem}-predictions.csv"
        shape = (form.height, form.width) if form.channels == 1 else (3, form.height, form.width)
        pictures = as_pictures(rows.X, shape)
        for number, path in enumerate(rows.images[:SHOWN]):
            sample = ExplainedSample(
                path.name,
                None,
                pictures[number],
                asked.probabilities[:, number],
                int(answers.vote[number]),
                bool(deferred[number]),
            )
            n_members = len(asked.probabilities)
            lines = _lines(path, answers, number, n_members, classes, selective, assessed)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with figure_style():
                    panels = certainty_panels([sample], classes)
                    figure = save(panels, folder, f"{path.stem}-certainty")
            except OSError as error:
                raise InputError(
                    f"{opt('output')} must be a folder that can be written, got {folder}: "
                    f"{error.strerror}; name another folder"
                ) from None
            for line in (*lines, f"figure     {figure}"):
                echo(line)
    more = {
        "certainty": answers.certainty,
        "deferred": deferred,
        **({} if assessed is None else assessed.columns),
        **class_columns("probability", classes, answers.mean),
    }
    lines = rows.write(np.array(classes), answers.vote, check_output(file), more)
    if form is None:
        if n_deferred := int(np.sum(answers.deferred)):
            lines.append(f"warning    {counted(n_deferred, 'row')}: {RULE[0].lower()}{RULE[1:]}")
        if selective is not None and assessed is not None and assessed.kept is not None:
            n_kept, n_rows = int(assessed.kept.sum()), len(assessed.kept)
            guarantee = selective.risk_control and selective.risk_control.line
            lines.append(f"guarantee  {n_kept:,} of {n_rows:,} rows are kept: {guarantee}")
        if assessed is not None and (n := int(assessed.is_novel.sum())):
            found = "row is a novel sample" if n == 1 else "rows are novel samples"
            lines.append(f"warning    {n:,} {found}, unlike all training rows")
    for line in lines:
        echo(line)
    return 1 if rows.unreadable else 0


def ask_members(
    run: Path,
    rows: Any,
    copies: int = 0,
    network: str | None = None,
    augment: str | None = None,
) -> tuple[Prediction, list[str]]:
    """Predict unscaled rows by every stored member, with one member in memory at a time.

    Returns what ``Ensemble.predict`` does, and the names of the classes.

    With ``copies`` certainties and distances are the means over so many copies of the rows,
    augmented as in the run's training. ``network`` and ``augment`` name code of the user's own
    that was trained with: what the folder names is not imported.

    Raises
    ------
    InputError
        The run has no member, or a file is damaged; copies of a run that augmented nothing; or
        code that the folder names was not named again.
    """
    recorded = record_of(run, "nn_bagging").augment if copies else "none"
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
    numbers = files.numbers()
    if not numbers:
        raise InputError(
            f"RUN must hold a trained member, but none in {run} is finished; resume with "
            f"{program('nn_bagging')} --resume {shlex.quote(str(run))}"
        )
    said, classes = list[Prediction](), np.empty(0)
    for number in numbers:
        ensemble = Ensemble.load(files.weights(number), network)
        others = number != numbers[0] and not np.array_equal(ensemble.classes_, classes)
        member = ensemble.members[0]
        width = len(getattr(member.scaling, "layout", ())) or rows.shape[1]
        if others or member.inputs.n_features != width:
            raise InputError(
                f"RUN must hold members of the same data, got {files.weights(number)}, which was "
                "trained on others; remove it"
            )
        of_copies = [
            member.predict(member.augmented(rows, augment, seed)) for seed in range(copies)
        ] or [member.predict(rows)]
        said.append(Prediction(*(np.mean(one, axis=0) for one in zip(*of_copies, strict=True))))
        classes = ensemble.classes_
    probabilities = np.stack([one.probabilities for one in said])
    distance = np.mean([one.distance for one in said], axis=0)
    return Prediction(probabilities, distance), [str(label) for label in classes]


def _lines(
    image: Path,
    answers: EnsemblePrediction,
    number: int,
    n_members: int,
    classes: list[str],
    selective: SelectivePrediction | None,
    assessed: Assessment | None,
) -> list[str]:
    """Return what is said of one image: vote, certainty, prediction set, guarantee, novelty."""
    vote, certainty = int(answers.vote[number]), answers.certainty[number]
    votes = answers.votes[number]
    others = [
        f"{votes[code]} for {classes[code]}"
        for code in np.argsort(-votes, kind="stable")
        if votes[code] and code != vote
    ]
    least, _, middle, _, most = answers.quantiles[number, vote]
    lines = [
        f"image      {image}",
        f"class      {classes[vote]}",
        f"vote       {votes[vote]} of {n_members} members"
        + (f" ({', '.join(others)})" if others else ""),
        f"certainty  {certainty:.2f} on average, from {least:.2f} to {most:.2f}, "
        f"median {middle:.2f}",
    ]
    if answers.deferred[number]:
        lines.append(f"warning    {RULE[0].lower()}{RULE[1:]}")
    if selective is None or assessed is None:
        return lines
    inside = [name for name, one in zip(classes, assessed.sets[number], strict=True) if one]
    lines.append(
        f"set        {', '.join(inside) or 'no class'} ({100 * selective.confidence:.4g} % "
        "prediction set, for each class)"
    )
    proved = selective.risk_control
    if assessed.is_novel[number]:  # nothing is promised of it
        lines.append(
            f"warning    novel sample (p = {assessed.p[number]:.2g}), unlike all training rows: "
            "do not use its answer"
        )
    elif proved is not None and proved.threshold is None:
        lines.append(f"warning    {proved.line}")
    elif proved is not None and proved.keeps(certainty):
        lines.append(
            f"guarantee  certainty {certainty:.4f} reaches {proved.threshold:.4f}: of "
            f"such answers at most {100 * proved.error:.4g} % are wrong"
        )
    elif proved is not None:
        lines.append(
            f"warning    defer to a human: certainty {certainty:.4f} is below "
            f"{proved.threshold:.4f}, from which on at most {100 * proved.error:.4g} % are wrong"
        )
    return lines
