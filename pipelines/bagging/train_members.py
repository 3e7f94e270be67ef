"""Train the members of a run: its remaining tasks, each written to disk as soon as it is done."""

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
    """What a run has trained so far.

    Attributes
    ----------
    rows : mapping of CellKey to row
        The rows of candidates.
    refits : mapping of str to row
        The row of each member's refit, by the stage of its search.
    extended : mapping of CellKey to row
        Rows taken from a run that this one extends.
    entries : mapping
        Entries for ``run.json``.
    """

    rows: Mapping[CellKey, Row]
    refits: Mapping[str, Row]
    extended: Mapping[CellKey, Row] = field(default_factory=dict)
    entries: Mapping[str, Any] = field(default_factory=dict)

    def members(self, plan: Trainings) -> dict[int, Row]:
        """The rows of refits that gave a member, by its number; a diverged refit gave none."""
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
    """Run the remaining tasks, and write ``cv_results``.

    Parameters
    ----------
    session : Session
        The session of the run's folder.
    cluster : Cluster
    problem : Problem
        From ``Trainings.problem``.
    plan : Trainings
    done : TrainedMembers
        What earlier sessions trained.
    classes : array of shape (n_classes,)
        The labels, which are stored with each member; empty in a regression.
    seconds : float, optional
        The time budget of the run.
    rates : mapping of WorkType to Rates
        Measured speeds, by which the budget predicts the time of tasks.

    Raises
    ------
    RunStopped
        No member could be trained.
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
        """Store the members of a refit, and return the paths of their files."""
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
    rows = feed.rows  # without cells that a strategy asked for ahead and then did not use
    trained = TrainedMembers(rows=rows, refits=refits)
    if feed.without_best:
        in_time = budget is not None and budget.held_back
        why_lost.append(f"{NO_BEST} in the time it had" if in_time else NO_BEST)
    # Without a search, the rows of refits, which are scored on out-of-bag rows.
    cells = [row for row in rows.values() if row["fold"] >= 0]
    results = tabulate_cells(cells or (refits[stage] for stage in plan.stages if stage in refits))
    names.write_table(results, session.path / names.CELLS)
    lost = [row["status"] for row in refits.values() if row["status"] != OK]
    why = next(iter(why_lost), "") or "; ".join(sorted(set(map(str, lost))))
    if not trained.members(plan):
        # A refit says only that it had no candidate; the rows of candidates say why.
        failed = results["status"][results["status"].str.startswith(FAILED)]
        why = str(failed.mode().iloc[0]) if len(failed) else why
        raise RunStopped(f"no member could be trained: {why}")
    missing = np.setdiff1d(np.arange(len(plan.seeds)), list(trained.members(plan))).tolist()
    entries = failures(results, CELL) | {"lost_members": missing, "why_lost": why}
    return replace(trained, entries=entries | member_strategy_entries(plan, feed, results))


def member_strategy_entries(
    plan: Trainings, feed: MemberFeed, cells: pd.DataFrame
) -> dict[str, Any]:
    """What a strategy tried and dropped, see ``StrategyMetadata``.

    Empty for a random search without a time budget.
    """
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
    """What earlier sessions trained; what failed in them is tried again."""
    rows, refits = dict[CellKey, Row](), dict[str, Row]()
    for row in (row for record in session.journal.records for row in record["rows"]):
        if row["status"].startswith(FAILED):
            continue
        row = upgrade_row(row)
        stage = row["stage"]
        if not stage.endswith(WHOLE):
            rows[cell_key_of(row)] = row
            continue
        # Files that had changed were removed when the folder was opened.
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
    """The accuracy of the vote on outer folds, which the ensembles trained for them did not see.

    For a regression, it is the r2 of the members' mean.

    Parameters
    ----------
    path : Path
        The run's folder.
    plan : Trainings
    trained : TrainedMembers
    y : array of shape (n_rows,)
        Class codes or numbers of the training rows.

    Returns
    -------
    dict, or None if no outer fold has a score
        Mean and standard deviation over the outer folds, and their number. Folds without a member,
        or of a single row, which has no r2, are left out.
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
    """The row with today's columns, for a run that an older version began."""
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
