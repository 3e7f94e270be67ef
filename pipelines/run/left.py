"""What a run that is to be resumed has done, and what it leaves: for a dry run."""

from __future__ import annotations

from pipelines.run.counts import clock
from pipelines.run.lifecycle import Session


def line_of_what_is_left(session: Session, fits: tuple[int, int] | None, cost: float = 0.0) -> str:
    """One line: the folder, what is done, what is left, and how long that takes.

    Parameters
    ----------
    session : Session, of the folder as it lies
    fits : how many are done and how many there are, None where the command cannot tell
    cost : predicted, of all units of the run; 0 where the command cannot tell, and then every fit
        is taken for as long as the others
    """
    session.folder.start_clock(session.journal.records)
    spent, path = session.folder.wall_before, session.path
    if session.record.get("status") == "finished":
        return f"resume     {path} holds a finished run, {clock(spent)}"
    if fits is None:
        return f"resume     {path}: {len(session.journal.records)} units done in {clock(spent)}"
    done, total = fits
    if not done:
        return f"resume     {path}: nothing finished yet, {total:,} fits left"
    left = f"{total - done:,} left"
    if done < total:
        # What was under way when the run was stopped is in its wall time, but not in its journal.
        busy = sum(record["seconds"] for record in session.journal.records)
        n_workers = session.record.get("cluster", {}).get("n_workers") or 1
        costs = [record.get("cost") for record in session.journal.records]
        done_cost = sum(one or 0.0 for one in costs)
        if None in costs or not 0 < done_cost < cost:
            done_cost, cost = done, total
        seconds = busy / n_workers * (cost - done_cost) / done_cost
        left += f", about {clock(seconds)} on as many workers"
    return f"resume     {path}: {done:,} of {total:,} fits done in {clock(spent)}, {left}"
