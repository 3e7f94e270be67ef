"""The page of a run of ``nn_bagging``: its tables, its figures, its answers, its words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.report.bagging_figures import (
    Deferred,
    ExplainedSample,
    calibration,
    certainty_panels,
    describe_prediction,
    ensemble_size,
    member_losses,
    member_searches,
    parallel_coordinates,
    selective_prediction,
)
from pipelines.report.charts import BOX_PLOT
from pipelines.report.classification import test_section
from pipelines.report.figures import Made, of_any_run
from pipelines.report.kind import Answer, Chart, Columns, Kind, Listing, Part, Section, Text
from pipelines.report.table import table_of
from pipelines.report.wording import count, percent, wrong_of
from pipelines.run_folder import names
from pipelines.run_folder.arrays import DAMAGE, read_arrays
from pipelines.run_folder.columns import (
    BAGGING_CANDIDATE,
    BAGGING_CELL,
    BaggingCandidate,
    MemberErrors,
    SubsetErrors,
    VotedPrediction,
)
from pipelines.run_folder.reading import Run, as_pictures, read_run
from pipelines.run_folder.records.nn_bagging import BaggingRecord
from pipelines.run_folder.schema import damaged, one_line
from pipelines.run_folder.tables import read_table

EXPLAINED = ("name", "group", "X", "true", "probabilities", "vote", "deferred")


@dataclass(frozen=True)
class BaggingRun(Run[BaggingRecord]):
    """A run of ``nn_bagging``: ``candidates`` has one row per member and candidate.

    ``members`` is the table of the members, ``sizes`` the errors of subsets of
    them; ``explained`` has the samples of each group (disagreement, chosen, own).
    """

    members: pd.DataFrame | None
    sizes: pd.DataFrame | None
    explained: Mapping[str, list[ExplainedSample]]


def read_bagging_run(folder: Path) -> BaggingRun:
    """Read the folder of a run of ``nn_bagging``; raises what ``read_run`` raises."""
    run = read_run(
        folder, candidate=BaggingCandidate, prediction=VotedPrediction, place=BAGGING_CELL,
        candidates_of=_candidates_of,
    )  # fmt: skip
    return BaggingRun(
        **vars(run),
        members=read_table(run.path / names.MEMBERS, MemberErrors),
        sizes=read_table(run.path / names.SIZES, SubsetErrors),
        explained=_read_explained(run.path / names.EXPLAINED, run.image_shape),
    )


def _candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Return mean loss and error of each candidate; none is chosen yet."""
    if cells.empty:
        return pd.DataFrame(columns=list(BaggingCandidate.columns()), dtype=float)
    by_candidate = cells.groupby(list(BAGGING_CANDIDATE))[["loss", "error"]]
    means = by_candidate.mean().where(by_candidate.count() >= n_folds)
    return means.add_suffix("_mean").assign(is_best=False).reset_index()


def _read_explained(path: Path, shape: tuple[int, ...] | None) -> dict[str, list[ExplainedSample]]:
    if not path.is_file():
        return {}
    try:
        name, group, X, true, probabilities, vote, deferred = read_arrays(path, EXPLAINED)
        n_samples = len(name)
        if not all(len(one) == n_samples for one in (group, X, true, vote, deferred)):
            raise ValueError("arrays of different lengths")
        n_members, n_known, n_classes = probabilities.shape
        if n_known != n_samples or not n_members or not ((vote >= 0) & (vote < n_classes)).all():
            raise ValueError("probabilities of other samples or classes")
        if not ((probabilities >= 0) & (probabilities <= 1.0001)).all():
            raise ValueError("probabilities outside 0 and 1")
        images = None if shape is None else as_pictures(X, shape)
        groups: dict[str, list[ExplainedSample]] = {}
        for i in range(n_samples):
            sample = ExplainedSample(
                str(name[i]),
                int(true[i]) if true[i] >= 0 else None,
                None if images is None else images[i],
                probabilities[:, i],
                int(vote[i]),
                bool(deferred[i]),
            )
            groups.setdefault(str(group[i]), []).append(sample)
    except DAMAGE as error:
        raise damaged(path, f"an .npz file of {', '.join(EXPLAINED)}", one_line(error)) from None
    return groups


ERRORS = ("training_error", "test_error", "cv_error", "out_of_bag_error")
MOST_POINTS = 40  # of a group, each with a panel
GROUPS = {
    "disagreement": "the test samples on which the members disagree most",
    "chosen": "the test samples that were chosen with --explain",
    "own": "the images that were given with --image",
}


def _certainty(run: BaggingRun, group: str) -> Made:
    samples = run.explained.get(group, [])[:MOST_POINTS]
    if not samples:
        return None
    words = "; ".join(
        f"{sample.name}: {describe_prediction(sample, run.classes)}" for sample in samples
    )
    alt = f"Box plots of every member's certainty of every class, for {GROUPS[group]}. {words}."
    return certainty_panels(samples, run.classes), alt


def _ensemble_size(run: BaggingRun) -> Made:
    if run.sizes is None or run.sizes.empty:
        return None
    by_size = run.sizes.groupby("size")["vote_error"].mean()
    alt = (
        f"Test error of the vote against the number of members: {percent(by_size.iloc[0])} with "
        f"{count(int(by_size.index[0]), 'member')}, {percent(by_size.iloc[-1])} with "
        f"{int(by_size.index[-1])}, means over subsets."
    )
    return ensemble_size(run.sizes, run.record.vote_test_error), alt


def _calibration(run: BaggingRun) -> Made:
    table = run.predictions
    if table is None or table.empty:
        return None
    error = run.record.test_calibration_error
    is_right = (table["true"] == table["predicted_by_mean"]).to_numpy()
    alt = "Share of right answers against the certainty of the mean probability"
    alt += "." if error is None else f"; the expected calibration error is {percent(error)}."
    return calibration(table["certainty_of_mean"].to_numpy(dtype=float), is_right, error), alt


def _selective_prediction(run: BaggingRun) -> Made:
    table = run.predictions
    if table is None or table.empty:
        return None
    is_right = (table["true"] == table["predicted"]).to_numpy()
    rule = _deferred(run)
    alt = "Error among the predictions kept against their share, the least certain deferred first"
    if rule is not None:
        alt += f"; the rule keeps {percent(rule.kept)}, of which {percent(rule.error)} are wrong"
    certainty = table["certainty"].to_numpy(dtype=float)
    return selective_prediction(certainty, is_right, rule, "the rule"), alt + "."


def _deferred(run: BaggingRun) -> Deferred | None:
    n_test, rule = run.record.dataset.n_test, run.record.selective_prediction
    if not n_test or rule is None or not rule.n_kept or rule.n_wrong_kept is None:
        return None
    return Deferred(rule.n_kept / n_test, rule.n_wrong_kept / rule.n_kept)


def _member_searches(run: BaggingRun) -> Made:
    if run.candidates.empty or not np.isfinite(run.candidates["error_mean"]).any():
        return None
    n_members = run.candidates["member"].nunique()
    alt = (
        f"Validation error of {count(len(run.candidates), 'candidate')} of "
        f"{count(n_members, 'member')}; the table of the members says what was chosen."
    )
    return member_searches(run.candidates, run.members), alt


PARAMETERS = ("n_conv_layer", "kernel_size", "n_hidden_layer", "learning_rate", "momentum")


def _losses_of(run: BaggingRun) -> dict[int, list[float]]:
    """Return losses of each member that was refitted; runs of before have none."""
    found = {}
    for row in (row for task in run.tasks for row in task.rows if row.get("fold") == -1):
        with suppress(ValueError, TypeError):
            losses = [float(loss) for loss in json.loads(row.get("losses", ""))]
            if losses and all(map(math.isfinite, losses)):
                found[int(row["member"])] = losses
    return dict(sorted(found.items()))


def _member_losses(run: BaggingRun) -> Made:
    if not (losses := _losses_of(run)):
        return None
    best = None
    if run.members is not None and len(run.members):
        best = int(run.members.sort_values("test_error", kind="stable")["member"].iloc[0])
    longest = max(map(len, losses.values()))
    alt = (
        f"Mean training loss of {count(len(losses), 'member')} after each of up to "
        f"{count(longest, 'epoch')}."
    )
    return member_losses(losses, best), alt


def _parallel_coordinates(run: BaggingRun) -> Made:
    scored = run.candidates[run.candidates["error_mean"].notna()]
    names = [name for name in PARAMETERS if name in scored and scored[name].nunique() > 1]
    if len(scored) < 2 or not names:
        return None
    alt = (
        f"A line for each of {count(len(scored), 'candidate')} through its "
        f"{', '.join(names)} to its validation error; the table of the candidates has the numbers."
    )
    return parallel_coordinates(scored, names), alt


def _size(run: BaggingRun) -> str:
    n_bootstrap, n_tuning = run.record.options.n_bootstrap, run.record.options.n_tuning
    if n_bootstrap is None or n_tuning is None:
        return "An ensemble"
    return f"{count(n_bootstrap, 'member')}, each the best of {count(n_tuning, 'candidate')}"


def _answers(run: BaggingRun) -> list[Answer]:
    answers, record = [], run.record
    for label, error, n_wrong in (
        ("test error of the vote", record.vote_test_error, record.n_vote_errors),
        ("of the mean probability", record.mean_test_error, record.n_mean_errors),
    ):
        if error is not None:
            note = wrong_of(n_wrong, record.dataset.n_test)
            answers.append(Answer(label, percent(error), note))
    if (mean := record.members_mean_test_error) is not None:
        best = record.members_best_test_error
        answers.append(Answer("of a single member", percent(mean), f"mean; best {percent(best)}"))
    if (error := record.test_calibration_error) is not None:
        answers.append(Answer("calibration error", percent(error), "expected, 15 bins"))
    if (rule := _deferred(run)) is not None:
        note = f"of the {percent(rule.kept)} not deferred to a human"
        answers.append(Answer("error when referring", percent(rule.error), note))
    if (proved := record.risk_control) is not None and proved.threshold is not None:
        kept, wrong = proved.n_kept_test, proved.n_wrong_kept_test
        share = percent(kept / record.dataset.n_test) if record.dataset.n_test else "none"
        note = f"of the {share} whose certainty is at least {proved.threshold:.3f}"
        answers.append(
            Answer("error with guarantee", percent(wrong / kept) if kept else "none", note)
        )
    return answers


def _answer(run: BaggingRun) -> list[Part]:
    rule = "" if run.record.selective_prediction is None else run.record.selective_prediction.rule
    none = "No member has been refitted on all its data and tested yet."
    boxes = f"Every dot is one member's certainty of a class; {BOX_PLOT}. The vote is orange"
    boxes += ", and so is the title where the rule defers the sample to a human." if rule else "."
    captions = {
        "own": "Your own images, as the members see them.",
        "chosen": "The samples you chose.",
        "disagreement": "The test samples on which the members disagree most.",
    }
    return [
        *([Text(none)] if run.members is None else []),
        *(Chart(f"certainty_{group}", f"{what} {boxes}", True) for group, what in captions.items()),
        *(Text(sentence) for sentence in (rule, *_guarantee_words(run)) if sentence),
    ]


def _sections(run: BaggingRun) -> list[Section]:
    ordered = run.candidates
    if "error_mean" in ordered:
        ordered = ordered.sort_values("error_mean", kind="stable")
    ensemble = {
        "ensemble_size": "Test error of the vote of so many members; the band goes from the best "
        "to the worst subset that was drawn.",
        "selective_prediction": "Error among the predictions that are kept when the least certain "
        "are deferred to a human; the orange sample is the rule of this page.",
        "calibration": "Share of right answers among the test samples of about equal certainty, in "
        "15 bins, and its 95 % interval; the lower part counts the samples.",
    }
    searches = (
        "Mean validation error of every candidate over its folds; the one of the smallest "
        "validation loss was refitted on the whole bootstrap sample."
    )
    losses = (
        "Mean cross-entropy of a member on its bootstrap sample in each epoch of its refit, while "
        "the weights moved; it ends when the loss falls by less than a fifth."
    )
    lines = (
        "Every candidate is a line through its hyper-parameters to its mean validation error at "
        "the right; those that a member chose are orange."
    )
    members = None if run.members is None else table_of(run.members, ERRORS)
    candidates = table_of(ordered, ("error_mean", "error_std"))
    return [
        Section(
            "ensemble", "The ensemble",
            [Columns([Chart(name, caption) for name, caption in ensemble.items()])],
        ),
        Section(
            "members", "Members",
            [
                Chart("member_searches", searches, wide=True),
                Listing("Members", members),
                Chart("member_losses", losses),
            ],
        ),
        Section(
            "candidates", "Candidates",
            [Chart("parallel_coordinates", lines, wide=True), Listing("Candidates", candidates)],
        ),
        test_section(run),
    ]  # fmt: skip


def _guarantee_words(run: BaggingRun) -> list[str]:
    """Return sentences on the guarantee, the prediction sets and the novel samples."""
    record, words = run.record, []
    if (proved := record.risk_control) is not None:
        words += [f"{proved.line[:1].upper()}{proved.line[1:]}. {proved.assumption}"]
    if (sets := record.prediction_sets) is not None and sets.coverage is not None:
        words.append(
            f"The prediction set that a sample may have holds {sets.mean_size or 0:.2f} on average "
            f"and the true one for {percent(sets.coverage)} of the test samples, "
            f"{percent(sets.least_coverage or 0)} of the class that fares worst; "
            f"{percent(sets.confidence)} of each class were asked for."
        )
    if (novelty := record.novelty) is not None:
        words.append(
            f"{count(novelty.n_named, 'test sample')} "
            f"{'is' if novelty.n_named == 1 else 'are'} named as unlike all training rows, "
            f"where at most {percent(novelty.rate)} of those named would be by chance."
        )
    return words


BAGGING = Kind(
    title="Bagging of neural networks",
    read=read_bagging_run,
    figures={
        **{f"certainty_{group}": partial(_certainty, group=group) for group in GROUPS},
        "ensemble_size": _ensemble_size,
        "calibration": _calibration,
        "selective_prediction": _selective_prediction,
        "member_searches": _member_searches,
        "member_losses": _member_losses,
        "parallel_coordinates": _parallel_coordinates,
        **of_any_run(),
    },
    size=_size,
    sizes=("n_bootstrap", "n_tuning", "folds"),
    answers=_answers,
    place=BAGGING_CELL,
    answer=_answer,
    sections=_sections,
)
