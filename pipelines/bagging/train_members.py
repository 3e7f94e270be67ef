"""Run the remaining tasks of a run, each written to disk as soon as it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipelines.bagging.members import MemberFiles
from pipelines.bagging.record import CANDIDATE, CELL
from pipelines.bagging.work import Trainings, bag, stage_of, tabulate_cells
from pipelines.run.cluster import Cluster
from pipelines.run.errors import RunStopped
from pipelines.run.events import ProgressEvent
from pipelines.run.job import Done
from pipelines.run.lifecycle import Session
from pipelines.run_folder import names
from pipelines.run_folder.digests import digests_of
from pipelines.run_folder.names import DIVERGED, FAILED, OK
from pipelines.search.ranking import BestSoFar, failures
from pipelines.search.tasks import REFIT, Place, Problem, Row, Task, place_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Trained(Done):
    """What was trained, of this session or before it.

    Attributes
    ----------
    rows : of candidates, by their places
    extended : those of a run that is extended
    refits : the row of the refit of each member
    entries : for ``run.json``
    """

    rows: Mapping[Place, Row]
    refits: Mapping[int, Row]
    extended: Mapping[Place, Row] = field(default_factory=dict)
    entries: Mapping[str, Any] = field(default_factory=dict)

    @property
    def members(self) -> dict[int, Row]:
        """The refits that gave a member; one that diverged is done, and gave none."""
        return {member: row for member, row in self.refits.items() if row["status"] == OK}


def train_members(
    session: Session,
    cluster: Cluster,
    problem: Problem,
    plan: Trainings,
    done: Trained,
    classes: np.ndarray,
) -> Trained:
    """Run the tasks that are left; write ``cv_results``.

    Parameters
    ----------
    problem : of the plan
    done : what ``done_before`` gave
    classes : labels of shape (n_classes,)

    Raises
    ------
    RunStopped
        There is no member.
    """
    rows, refits = dict(done.rows), dict(done.refits)
    files = MemberFiles(session.path)
    todo = plan.tasks(problem, rows, {member: row["candidate"] for member, row in refits.items()})
    if rows:
        session.echo(
            f"resumed    {len(rows):,} fits and {len(refits):,} refits were already finished, "
            f"{len(todo):,} tasks remain"
        )
    why_lost = ""
    best = BestSoFar(CANDIDATE, problem.scorer.names[0])
    best.add(rows.values())
    with session.journal_writer(cluster, todo) as journal_writer:
        journal_writer.best(best.text)
        for event, new_rows, made in bag(cluster.runner, problem, plan.kind, todo, rows):
            if isinstance(event, ProgressEvent):
                best.add(new_rows)
                journal_writer.update(event, new_rows)
            else:
                paths = []
                for member, refitted in made.items():
                    if refitted is not None and refitted.member is not None:
                        files.save(member, refitted, classes)
                        paths += files.paths(member)
                # After the members' files: what the journal calls done is on disk.
                journal_writer.record(event, new_rows, digests_of(session.path, paths))
                if isinstance(event.task, Task):
                    best.add(new_rows)
                else:
                    refits |= {row["member"]: row for row in new_rows}
                    bad = [str(row["status"]) for row in new_rows if row["status"] != OK]
                    why_lost = next(iter(bad), event.error or why_lost)
                    new_rows = []
            journal_writer.best(best.text)
            rows |= {place_of(row): row for row in new_rows}
    # Without a search, the rows that each member left out.
    results = tabulate_cells(rows.values() or refits.values())
    names.write_table(results, session.path / names.CELLS)
    lost = [row["status"] for row in refits.values() if row["status"] != OK]
    why_lost = why_lost or "; ".join(sorted(set(map(str, lost))))
    trained = Trained(rows=rows, refits=refits)
    if not trained.members:
        # Refits say no more than that there is no candidate; what the candidates say is why.
        failed = results["status"][results["status"].str.startswith(FAILED)]
        why_lost = str(failed.mode().iloc[0]) if len(failed) else why_lost
        raise RunStopped(f"no member could be trained: {why_lost}")
    missing = np.setdiff1d(np.arange(len(plan.seeds)), list(trained.members)).tolist()
    lost_members = {"lost_members": missing, "why_lost": why_lost}
    return replace(trained, entries=failures(results, CELL) | lost_members)


def done_before(session: Session, plan: Trainings) -> Trained:
    """Return what earlier sessions trained; what failed gets another try."""
    files = MemberFiles(session.path)
    rows, refits = dict[Place, Row](), dict[int, Row]()
    for row in (row for record in session.journal.records for row in record["rows"]):
        if row["status"].startswith(FAILED):
            continue
        row = as_now(row)
        if row["stage"] != REFIT:
            rows[place_of(row)] = row
            continue
        # Files that are not as the run left them are gone since the folder was opened.
        whole = all(path.is_file() for path in files.paths(row["member"]))
        if whole or row["status"] == DIVERGED:
            refits[row["member"]] = row
    n_fits = plan.n_folds * sum(map(len, plan.candidates)) if plan.searches else 0
    n_done = len(rows) + len(refits)
    return Trained(n_fits=(n_done, n_fits + len(plan.seeds)), rows=rows, refits=refits)


def as_now(row: Row) -> Row:
    """Return a row of a run that was begun before its candidates were those of any search."""
    if "stage" in row:
        return row
    fold, loss = row["fold"], row["loss"]
    stage = REFIT if fold == -1 else stage_of(row["member"])
    now = {"stage": stage, "split": max(fold, 0), "share": 1.0, "algorithm": row["network"]}
    now |= {"params": "{}", "family": "", "n_fits": 1, "score": None if loss is None else -loss}
    now |= {"n_support": None, "n_iterations": row.get("n_epochs"), "n_steps": 0}
    return row | now | {"n_steps_made": 0, "implementation": "", "reason": ""}
