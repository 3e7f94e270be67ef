"""Run the remaining tasks of a run, each written to disk as soon as it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.bagging.members import MemberFiles
from pipelines.bagging.record import CANDIDATE, CELL
from pipelines.bagging.reductions import reduce_members
from pipelines.bagging.work import (
    NO_BEST,
    REFIT,
    WHOLE,
    MemberFeed,
    Refits,
    Trainings,
    refitted_of,
    run_member_task,
    tabulate_cells,
)
from pipelines.run.cluster import Cluster
from pipelines.run.errors import RunStopped
from pipelines.run.job import Done
from pipelines.run.lifecycle import Session
from pipelines.run.outcomes import Outcome
from pipelines.run_folder import names
from pipelines.run_folder.names import DIVERGED, FAILED, OK
from pipelines.search.answer import number_scores
from pipelines.search.budget import Budget
from pipelines.search.command import journal_tasks, run_tasks
from pipelines.search.forecast import Pace, Rates, WorkType
from pipelines.search.ranking import BestSoFar, failures
from pipelines.search.summary import untried_in_words
from pipelines.search.tasks import CellKey, Problem, Row, cell_key_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedMembers(Done):
    """What was trained, of this session or before it.

    Attributes
    ----------
    rows : of candidates, by their places
    refits : the row of the refit of each member, by the name of its search
    extended : rows of a run that is extended
    entries : for ``run.json``
    """

    rows: Mapping[CellKey, Row]
    refits: Mapping[str, Row]
    extended: Mapping[CellKey, Row] = field(default_factory=dict)
    entries: Mapping[str, Any] = field(default_factory=dict)

    def members(self, plan: Trainings) -> dict[int, Row]:
        """The refits that gave a member; one that diverged is done, and gave none."""
        rows = (self.refits.get(stage) for stage in plan.stages)
        return {row["member"]: row for row in rows if row is not None and row["status"] == OK}


def train_members(
    session: Session,
    cluster: Cluster,
    problem: Problem,
    plan: Trainings,
    done: TrainedMembers,
    classes: np.ndarray,
    seconds: float | None = None,
    rates: Mapping[WorkType, Rates] = MappingProxyType({}),
) -> TrainedMembers:
    """Run the tasks that are left; write ``cv_results``.

    Raises
    ------
    RunStopped
        There is no member.
    """
    rows, refits, why_lost = dict(done.rows), dict(done.refits), list[str]()
    refitted = {stage: row["candidate"] for stage, row in refits.items()}
    budget = None
    if seconds is not None:
        budget = Budget(seconds, session.began, Pace(problem, rates), REFIT)
    feed = plan.feed(problem, cluster.runner.n_workers, rows, refitted, budget)
    todo = feed(0)
    if rows:
        session.echo(
            f"resumed    {len(rows):,} fits and {len(refits):,} refits were already finished, "
            f"{len(todo) + len(feed.waiting):,} tasks remain"
        )

    def keep(outcome: Outcome[Any]) -> list[Path]:
        """Write the members that a refit gave."""
        paths = list[Path]()
        if isinstance(outcome.task, Refits) and outcome.error is not None:
            why_lost.append(outcome.error)
        for row, refitted in refitted_of(outcome):
            if refitted is None or refitted.member is None:
                why_lost.append(row["status"])
                continue
            files = MemberFiles.of_stage(session.path, row["stage"])
            files.save(row["member"], refitted, classes)
            paths += files.paths(row["member"])
        return paths

    run = partial(run_tasks, work=partial(run_member_task, shared_fit=plan.shared_fit))
    best = BestSoFar(CANDIDATE, problem.scorer.names[0])
    new_rows = journal_tasks(run, problem, todo, rows, best, session, cluster, keep, feed)
    for cell, row in new_rows.items():
        if cell[0].endswith(WHOLE):
            refits[cell[0].removesuffix(WHOLE)] = row
    rows = feed.rows  # without what was asked for ahead, and not wanted in the end
    trained = TrainedMembers(rows=rows, refits=refits)
    if feed.without_best:
        in_time = budget is not None and budget.held_back
        why_lost.append(f"{NO_BEST} in the time it had" if in_time else NO_BEST)
    # Without a search, the rows that each member left out.
    cells = [row for row in rows.values() if row["fold"] >= 0]
    results = tabulate_cells(cells or (refits[stage] for stage in plan.stages if stage in refits))
    names.write_table(results, session.path / names.CELLS)
    lost = [row["status"] for row in refits.values() if row["status"] != OK]
    why = next(iter(why_lost), "") or "; ".join(sorted(set(map(str, lost))))
    if not trained.members(plan):
        # Refits say no more than that there is no candidate; what the candidates say is why.
        failed = results["status"][results["status"].str.startswith(FAILED)]
        why = str(failed.mode().iloc[0]) if len(failed) else why
        raise RunStopped(f"no member could be trained: {why}")
    missing = np.setdiff1d(np.arange(len(plan.seeds)), list(trained.members(plan))).tolist()
    entries = failures(results, CELL) | {"lost_members": missing, "why_lost": why}
    return replace(trained, entries=entries | member_strategy_entries(plan, feed, results))


def member_strategy_entries(
    plan: Trainings, feed: MemberFeed, cells: pd.DataFrame
) -> dict[str, Any]:
    """What a strategy tried and gave up, ``StrategyMetadata``; nothing of a random search."""
    if not plan.searches or (plan.strategy == "random" and feed.budget is None):
        return {}
    n, seconds = sum(map(len, plan.candidates)), cells[["fit_seconds", "score_seconds"]]
    folds, stopped = (
        cells.groupby(list(CANDIDATE)).size(),
        sum(len(feed.stopped(stage)) for stage in plan.stages),
    )
    entries = {
        "name": plan.strategy,
        "n_candidates": n,
        "fits": len(cells),
        "share_fits": 0,
        "grid_fits": n * plan.n_folds,
        "n_stopped": stopped,
        "n_out_of_time": int((folds < plan.n_folds).sum()) - stopped,
        "n_not_tried": n - len(folds),
        "parts": [{"share": 1.0, "fits": len(cells), "seconds": float(seconds.sum().sum())}],
    }
    return {"strategy": entries}


def done_before(session: Session, plan: Trainings) -> TrainedMembers:
    """What earlier sessions trained; what failed gets another try."""
    rows, refits = dict[CellKey, Row](), dict[str, Row]()
    for row in (row for record in session.journal.records for row in record["rows"]):
        if row["status"].startswith(FAILED):
            continue
        row = upgrade_row(row)
        stage = row["stage"]
        if not stage.endswith(WHOLE):
            rows[cell_key_of(row)] = row
            continue
        # Files that are not as the run left them are gone since the folder was opened.
        paths = MemberFiles.of_stage(session.path, stage).paths(row["member"])
        if row["status"] == DIVERGED or all(path.is_file() for path in paths):
            refits[stage.removesuffix(WHOLE)] = row
    n_ensembles, n_members = 1 + len(plan.nested), len(plan.seeds)
    n_searched = plan.n_folds * sum(map(len, plan.candidates)) if plan.searches else 0
    n_fits = len(rows) + len(refits), n_ensembles * (n_searched + n_members)
    ended_early = untried_in_words(session.record) != ""
    return TrainedMembers(n_fits=n_fits, rows=rows, refits=refits, ended_early=ended_early)


def nested_vote_estimate(
    path: Path, plan: Trainings, trained: TrainedMembers, y: np.ndarray
) -> dict[str, Any] | None:
    """The accuracy of the votes of ensembles on the outer folds, which they did not see.

    Of a regression it is the r2 of the members' mean.

    Parameters
    ----------
    path : the run's folder
    y : array of shape (n_rows,), classes or numbers of the training rows

    Returns
    -------
    dict of the mean over outer folds, the deviation, and their number; those without a member, or
    of one row, whose r2 is none, are left out, and None is of no other
    """
    scores = []
    for nested_plan in plan.nested:
        if nested_plan.outer is None or not (members := trained.members(nested_plan)):
            continue
        files = MemberFiles.of_stage(path, nested_plan.stages[0])
        outputs = np.stack([files.predictions(member)[0].outputs for member in members])
        truth = y[nested_plan.outer[1][1]]
        if not plan.inputs.is_regression:
            scores.append(float(np.mean(reduce_members(outputs).vote == truth)))
        elif (r2 := number_scores(truth, outputs[:, :, 0].mean(axis=0))["r2"]) is not None:
            scores.append(r2)
    if not scores:
        return None
    estimate = {"score_mean": float(np.mean(scores)), "score_std": float(np.std(scores))}
    return estimate | {"n_outer": len(scores)}


def upgrade_row(row: Row) -> Row:
    """Return a row of a run that was begun before its candidates were those of any search."""
    if "stage" in row:
        return row
    fold, loss, stage = row["fold"], row["loss"], f"member={row['member']}"
    stage += WHOLE if fold == -1 else ""
    new_columns = {"stage": stage, "split": max(fold, 0), "share": 1.0, "algorithm": row["network"]}
    new_columns |= {
        "params": "{}",
        "family": "",
        "n_fits": 1,
        "score": None if loss is None else -loss,
    }
    new_columns |= {"n_support": None, "n_iterations": row.get("n_epochs"), "n_steps": 0}
    return row | new_columns | {"n_steps_made": 0, "implementation": "", "reason": ""}
