"""The page of a run of ``nn_bagging``: its figures, its answers, its words."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pipelines.report.bagging_figures import (
    Referred,
    calibration,
    ensemble_size,
    member_searches,
    referral,
)
from pipelines.report.bagging_folder import BaggingRun, read_bagging_run
from pipelines.report.candidate_table import Cell, number_cell
from pipelines.report.certainty import certainty_panels, said
from pipelines.report.figures import OF_ANY_RUN, Made
from pipelines.report.kind import Answer, Kind
from pipelines.report.wording import count, percent, significant
from pipelines.run_folder.columns import BAGGING_CELL

ERRORS = ("training_error", "test_error", "cv_error", "left_out_error")
GROUPS = {
    "disagreement": "the test points on which the members disagree most",
    "chosen": "the test points that were chosen with --explain",
    "own": "the images that were given with --image",
}


def _certainty(run: BaggingRun, group: str) -> Made:
    points = run.explained.get(group)
    if not points:
        return None
    words = "; ".join(f"{point.name}: {said(point, run.classes)}" for point in points)
    alt = f"Box plots of every member's certainty of every class, for {GROUPS[group]}. {words}."
    return certainty_panels(points, run.classes), alt


def _ensemble_size(run: BaggingRun) -> Made:
    if run.sizes is None or run.sizes.empty:
        return None
    by_size = run.sizes.groupby("size")["vote_error"].mean()
    alt = (
        f"Test error of the vote against the number of members: {percent(by_size.iloc[0])} with "
        f"{count(int(by_size.index[0]), 'member')}, {percent(by_size.iloc[-1])} with "
        f"{int(by_size.index[-1])}, means over subsets."
    )
    return ensemble_size(run.sizes, run.number("vote_test_error")), alt


def _calibration(run: BaggingRun) -> Made:
    table = run.predictions
    if table is None or table.empty:
        return None
    error = run.number("test_calibration_error")
    is_right = (table["true"] == table["predicted_by_mean"]).to_numpy()
    alt = "Share of right answers against the certainty of the mean probability"
    alt += "." if error is None else f"; the expected calibration error is {percent(error)}."
    return calibration(table["certainty_of_mean"].to_numpy(dtype=float), is_right, error), alt


def _referral(run: BaggingRun) -> Made:
    table = run.predictions
    if table is None or table.empty:
        return None
    is_right = (table["true"] == table["predicted"]).to_numpy()
    rule = _referred(run)
    alt = "Error among the predictions kept against their share, the least certain referred first"
    if rule is not None:
        alt += f"; the rule keeps {percent(rule.kept)}, of which {percent(rule.error)} are wrong"
    certainty = table["certainty"].to_numpy(dtype=float)
    return referral(certainty, is_right, rule, "the rule"), alt + "."


def _referred(run: BaggingRun) -> Referred | None:
    n_test, rule = run.part("dataset").get("n_test"), run.part("referral")
    n_kept, n_wrong = rule.get("n_kept"), rule.get("n_wrong_kept")
    if not (isinstance(n_test, int) and isinstance(n_kept, int) and isinstance(n_wrong, int)):
        return None
    return Referred(n_kept / n_test, n_wrong / n_kept) if n_test and n_kept else None


def _member_searches(run: BaggingRun) -> Made:
    if run.candidates.empty or not np.isfinite(run.candidates["error_mean"]).any():
        return None
    n_members = run.candidates["member"].nunique()
    alt = (
        f"Validation error of {count(len(run.candidates), 'candidate')} of "
        f"{count(n_members, 'member')}; the table of the members says what was chosen."
    )
    return member_searches(run.candidates, run.members), alt


def _size(run: BaggingRun) -> str:
    options = run.part("options")
    n_bootstrap, n_tuning = options.get("n_bootstrap"), options.get("n_tuning")
    if not (isinstance(n_bootstrap, int) and isinstance(n_tuning, int)):
        return "An ensemble"
    return f"{count(n_bootstrap, 'member')}, each the best of {count(n_tuning, 'candidate')}"


def _answers(run: BaggingRun) -> list[Answer]:
    answers = []
    n_test = run.part("dataset").get("n_test")
    for label, key, errors in (
        ("test error of the vote", "vote_test_error", "n_vote_errors"),
        ("of the mean probability", "mean_test_error", "n_mean_errors"),
    ):
        if (error := run.number(key)) is not None:
            answers.append(
                Answer(label, percent(error), f"{run.run.get(errors)} of {n_test} test points")
            )
    if (mean := run.number("members_mean_test_error")) is not None:
        best = run.number("members_best_test_error")
        answers.append(Answer("of a single member", percent(mean), f"mean; best {percent(best)}"))
    if (error := run.number("test_calibration_error")) is not None:
        answers.append(Answer("calibration error", percent(error), "expected, 15 bins"))
    if (rule := _referred(run)) is not None:
        note = f"of the {percent(rule.kept)} not referred to a person"
        answers.append(Answer("error when referring", percent(rule.error), note))
    return answers


def _cell_name(member: float, candidate: float, fold: float) -> str:
    return f"member {member:.0f}, candidate {candidate:.0f}, fold {fold:.0f}"


def _value(name: str, value: Any) -> Cell:
    if isinstance(value, str):
        return Cell(value, value)
    number = float(value)
    return number_cell(number, percent(number) if name in ERRORS else significant(number))


def _member_table(run: BaggingRun) -> tuple[list[tuple[str, str]], list[list[Cell]]]:
    if run.members is None:
        return [], []
    columns = [
        (str(name), "text" if run.members[name].dtype == object else "number")
        for name in run.members.columns
    ]
    rows = [
        [_value(str(name), value) for name, value in row.items()]
        for row in run.members.to_dict("records")
    ]
    return [(name.replace("_", " "), kind) for name, kind in columns], rows


def _content(run: BaggingRun) -> dict[str, Any]:
    columns, rows = _member_table(run)
    return {
        "member_columns": columns,
        "members": rows,
        "rule": str(run.part("referral").get("rule") or ""),
        "has_members": run.members is not None,
    }


BAGGING = Kind(
    title="Bagging of neural networks",
    template="nn_bagging.html",
    read=read_bagging_run,
    figures={
        "certainty_disagreement": partial(_certainty, group="disagreement"),
        "certainty_chosen": partial(_certainty, group="chosen"),
        "certainty_own": partial(_certainty, group="own"),
        "ensemble_size": _ensemble_size,
        "calibration": _calibration,
        "referral": _referral,
        "member_searches": _member_searches,
        **OF_ANY_RUN,
    },
    size=_size,
    sizes=("n_bootstrap", "n_tuning", "folds"),
    answers=_answers,
    place=BAGGING_CELL,
    cell_name=_cell_name,
    content=_content,
)
