"""The units of a run that are still to be done, each on disk as soon as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipelines.bagging.bagging import bag, units_left
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.tables import failures, tabulate
from pipelines.bagging.work import Plan
from pipelines.data import Dataset
from pipelines.data.placement import FoldedData
from pipelines.nn.units import CandidateUnit, Row
from pipelines.run.ledger import ledger
from pipelines.run.say import Say, silent
from pipelines.run.session import Session
from pipelines.run.tasks import OnCluster
from pipelines.run_folder import names

DIVERGED = "diverged"


def train_members(
    session: Session, data: FoldedData, plan: Plan, dataset: Dataset, say: Say
) -> tuple[dict[str, Any], dict[int, Row]]:
    """Run the units that the journal lacks; write ``cv_results``.

    Returns
    -------
    facts for ``run.json``, and the row of the refit of every member that is stored
    """
    runner, files = OnCluster(session.client), MemberFiles(session.folder.path)
    rows, refits = done_before(session.journal.records, plan, files)
    refitted = {member: row["candidate"] for member, row in refits.items()}
    todo = units_left(plan, rows, refitted)
    if rows:
        say(
            f"resumed    {len(rows):,} units of the search and {len(refits)} refits were done "
            f"before, {len(todo)} units are left"
        )
    why_lost, facts = "", dict[str, Any]()
    with ledger(session.journal, runner, todo, say is silent, facts) as books:
        for outcome, new_rows, made in bag(runner, data, plan, rows, refitted):
            unit = outcome.unit
            if made is not None:
                files.save(unit.member, *made, dataset.classes)
            # After the member's files: what the journal calls done is on disk.
            books.enter(outcome, new_rows)
            if isinstance(unit, CandidateUnit):
                rows = {**rows, unit.name: new_rows}
            elif new_rows:
                refits[unit.member] = new_rows[0]
                why_lost = why_lost if made is not None else str(new_rows[0]["status"])
            elif outcome.error is not None:
                why_lost = outcome.error
    results = tabulate(row for own in rows.values() for row in own)
    results.to_parquet(session.folder.path / names.CELLS)
    in_ensemble = stored(refits)
    lost = [row["status"] for row in refits.values() if row["status"] != "ok"]
    facts |= failures(results, len(plan.members), in_ensemble)
    facts["why_lost"] = why_lost or "; ".join(sorted(set(map(str, lost))))
    return facts, in_ensemble


def stored(refits: dict[int, Row]) -> dict[int, Row]:
    """The refits that gave a member; one that diverged is done, and gave none."""
    return {member: row for member, row in refits.items() if row["status"] == "ok"}


def done_before(
    records: Iterable[dict[str, Any]], plan: Plan, files: MemberFiles
) -> tuple[dict[str, list[Row]], dict[int, Row]]:
    """Rows of candidates by unit, and of refits by member; what failed gets another try."""
    n_folds = {unit.name: unit.n_folds for unit in plan.candidates}
    rows: dict[str, list[Row]] = {}
    refits: dict[int, Row] = {}
    for record in records:
        own = record["rows"]
        if not own or any(str(row["status"]).startswith("failed") for row in own):
            continue
        if len(own) == n_folds.get(record["unit"]):
            rows[record["unit"]] = own
        elif own[0]["fold"] == -1 and (own[0]["status"] == DIVERGED or files.has(own[0]["member"])):
            refits[own[0]["member"]] = own[0]
    return rows, refits
