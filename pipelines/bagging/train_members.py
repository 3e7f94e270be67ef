"""Run the remaining tasks of a run, each written to disk as soon as it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipelines.bagging.members import MemberFiles
from pipelines.bagging.work import PLACE, BaggingTask, Trainings, bag, tabulate, tasks_left
from pipelines.data.placement import FoldedData
from pipelines.nn.tasks import CandidateTask, Row
from pipelines.run.cluster import Cluster
from pipelines.run.errors import RunStopped
from pipelines.run.job import Done
from pipelines.run.lifecycle import Session
from pipelines.run_folder import names
from pipelines.run_folder.digests import digests_of
from pipelines.run_folder.names import FAILED, OK
from pipelines.search.ranking import BestSoFar, failures

DIVERGED = "diverged"


@dataclass(frozen=True, eq=False, kw_only=True)
class Trained(Done):
    """What was trained, of this session or before it.

    Attributes
    ----------
    rows : of candidates, by the names of their tasks
    refits : the row of the refit of each member
    entries : for ``run.json``
    """

    rows: Mapping[str, list[Row]]
    refits: Mapping[int, Row]
    entries: Mapping[str, Any] = field(default_factory=dict)

    @property
    def members(self) -> dict[int, Row]:
        """The refits that gave a member; one that diverged is done, and gave none."""
        return {member: row for member, row in self.refits.items() if row["status"] == OK}


def train_members(
    session: Session,
    cluster: Cluster,
    data: FoldedData,
    plan: Trainings,
    done: Trained,
    classes: np.ndarray,
) -> Trained:
    """Run the tasks that are left; write ``cv_results``.

    Parameters
    ----------
    done : what ``done_before`` gave
    classes : labels of shape (n_classes,)

    Raises
    ------
    RunStopped
        There is no member.
    """
    rows, refits = dict(done.rows), dict(done.refits)
    files = MemberFiles(session.path)
    refitted = {member: row["candidate"] for member, row in refits.items()}
    todo: list[BaggingTask] = []
    for left in tasks_left(plan, rows, refitted):
        todo += [left] if isinstance(left, CandidateTask) else left.each
    if rows:
        session.echo(
            f"resumed    {len(rows):,} search tasks and {len(refits):,} refits were already "
            f"finished, {len(todo):,} tasks remain"
        )
    why_lost = ""
    best = BestSoFar(("member", "candidate"))
    best.add(row for own in rows.values() for row in own)
    with session.journal_writer(cluster, todo) as journal_writer:
        journal_writer.best(best.text)
        for outcome, new_rows, made in bag(
            cluster.runner, data, plan, dict(rows), refitted, journal_writer.update
        ):
            task = outcome.task
            if made is not None and made.test is not None:
                files.save(task.member, made, classes)
            if isinstance(task, CandidateTask):
                best.add(new_rows)
                journal_writer.best(best.text)
            # After the member's files: what the journal calls done is on disk.
            paths = [] if made is None else files.paths(task.member)
            journal_writer.record(outcome, new_rows, digests_of(session.path, paths))
            if isinstance(task, CandidateTask):
                rows[task.name] = new_rows
            elif new_rows:
                refits[task.member] = new_rows[0]
                why_lost = why_lost if made is not None else str(new_rows[0]["status"])
            elif outcome.error is not None:
                why_lost = outcome.error
    # Without a search, the rows that each member left out.
    results = tabulate([row for own in rows.values() for row in own] or refits.values())
    names.write_table(results, session.path / names.CELLS)
    lost = [row["status"] for row in refits.values() if row["status"] != OK]
    why_lost = why_lost or "; ".join(sorted(set(map(str, lost))))
    trained = Trained(rows=rows, refits=refits)
    if not trained.members:
        # Refits say no more than that there is no candidate; what the candidates say is why.
        failed = results["status"][results["status"].str.startswith(FAILED)]
        why_lost = str(failed.mode().iloc[0]) if len(failed) else why_lost
        raise RunStopped(f"no member could be trained: {why_lost}")
    members = [one.member for task in plan.members for one in task.each]
    missing = np.setdiff1d(members, list(trained.members)).tolist()
    lost_members = {"lost_members": missing, "why_lost": why_lost}
    return replace(trained, entries=failures(results, PLACE) | lost_members)


def done_before(session: Session, plan: Trainings) -> Trained:
    """Return what earlier sessions trained; what failed gets another try."""
    files = MemberFiles(session.path)
    n_folds = {task.name: task.n_folds for task in plan.candidates}
    rows: dict[str, list[Row]] = {}
    refits: dict[int, Row] = {}
    for record in session.journal.records:
        own = record["rows"]
        if not own or any(str(row["status"]).startswith(FAILED) for row in own):
            continue
        if len(own) == n_folds.get(record["task"]):
            rows[record["task"]] = own
        elif own[0]["fold"] == -1:
            member = own[0]["member"]
            # Files that are not as the run left them are gone since the folder was opened.
            whole = all(path.is_file() for path in files.paths(member))
            if whole or own[0]["status"] == DIVERGED:
                refits[member] = own[0]
    done = sum(len(own) for own in rows.values()) + len(refits)
    n_fits = done, sum(task.n_folds for task in plan.candidates) + len(plan.members)
    return Trained(n_fits=n_fits, rows=rows, refits=refits)
