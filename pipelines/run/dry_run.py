"""``--dry-run``: some rows as the solver will see them, what the run takes or lacks, and where."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipelines.data.contact_sheet import MOST_CLASSES, contact_sheet
from pipelines.data.dataset import Dataset, rows_of
from pipelines.errors import InputError, opt
from pipelines.run.chunking import makespan
from pipelines.run.progress import clock
from pipelines.run_folder.folder import RunFolder
from pipelines.run_folder.names import replacing
from pipelines.run_folder.rows import Row

if TYPE_CHECKING:
    from pipelines.run.groups import RunOptions
    from pipelines.run.job import Done
    from pipelines.run.lifecycle import Data, Session
    from pipelines.run.outcomes import Task

ROWS_SHOWN, COLUMNS_SHOWN = 5, 8
BUSY = 0.9  # the share of their time that workers worth asking for are at work
WAYS_TRIED = 100  # numbers of workers
# What a job's walltime has beyond the plan: a slower node, its start, compilation.
MARGIN, MINUTES = 1.5, 5


def first_rows(dataset: Data) -> Iterator[str]:
    """Yield lines with the first rows of a table as the solver will see them."""
    if not isinstance(dataset, Dataset) or dataset.feature_names is None:
        return
    import pandas as pd

    some = rows_of(dataset.X_train, slice(ROWS_SHOWN))
    matrix = dataset.scaling.fit(dataset.X_train).transform(some)
    names = getattr(dataset.scaling, "layout", None) or dataset.feature_names
    shown = pd.DataFrame(matrix[:, :COLUMNS_SHOWN], columns=list(names)[:COLUMNS_SHOWN])
    targets, name = dataset.y_train[:ROWS_SHOWN], "target"
    if len(dataset.classes):
        targets, name = dataset.classes[targets], "class"
    shown.insert(0, name, targets, allow_duplicates=True)
    left = matrix.shape[1] - COLUMNS_SHOWN
    more = f" (and {left} more column{'s' * (left != 1)})" if left > 0 else ""
    yield f"rows       the first ones, as the solver will see them{more}"
    for line in shown.to_string(index=False, float_format="%.3g", max_colwidth=24).splitlines():
        yield f"           {line}"


def contact_lines(dataset: Data) -> Iterator[str]:
    """Draw some images of each class of a folder beside what is kept of it; yield where."""
    if not isinstance(dataset, Dataset) or dataset.folder is None:
        return
    path, n_classes = dataset.folder.decoded / "contact.png", dataset.n_classes
    try:
        with replacing(path) as file:
            contact_sheet(dataset.pictures or dataset).save(file, "PNG")
    except OSError as error:
        yield f"contact    not drawn: '{path}' cannot be written ({error.strerror or error})"
        return
    few = f", of {MOST_CLASSES} of {n_classes:,} classes" if n_classes > MOST_CLASSES else ""
    yield f"contact    {path}: some images of each class, as the model will see them{few}"


def plan_workers(
    command: str, row: type[Row], options: RunOptions, tasks_for: Callable[[int], Sequence[Task]]
) -> Iterator[str]:
    """Yield how many workers are worth asking for, and their time, by a finished smaller run.

    ``tasks_for`` gives the tasks of the run as so many workers would get them.
    """
    # They read tables: --help does not wait for that.
    from pipelines.run_folder.reading import tasks_of
    from pipelines.run_folder.work_time import shown_seconds

    n_tasks = len(tasks_for(1))
    if not n_tasks:
        raise InputError(
            f"{opt('pilot')} must go with a command that knows its tasks before it has workers, "
            f"got {command}; remove it"
        )
    folder = RunFolder.open(Path(options.pilot or ""), command, "--pilot")
    with folder.journal(row, write=False) as journal:
        done = tasks_of(journal.records)
    measured = [task for task in done if task.cost and not task.n_failed]
    if not measured:
        raise InputError(
            f"{opt('pilot')} needs a run with finished tasks and their costs, got {folder.path}; "
            "make a new small run"
        )
    busy = sum(max(0.0, task.seconds - task.compile_seconds) for task in measured)
    pace = busy / sum(task.cost or 0.0 for task in measured)  # seconds of a unit of cost
    limit, best = min(options.workers or n_tasks, n_tasks), ("", 0.0)
    for n_workers in np.unique(np.geomspace(1, limit, WAYS_TRIED).round().astype(int)).tolist():
        costs = [task.cost for task in tasks_for(n_workers)]
        seconds, work = pace * makespan(costs, n_workers), pace * sum(costs)
        share = work / (n_workers * seconds) if seconds else 1.0
        if share < BUSY / 2:
            break
        if share >= BUSY:
            many = "1 worker" if n_workers == 1 else f"{n_workers:,} workers"
            line = (
                f"plan       {len(costs):,} tasks, {clock(work)} of work: {many} would be busy "
                f"{share:.0%} of the time (target {BUSY:.0%})"
            )
            best = line, seconds
    line, seconds = best
    around = max(0.0, (folder.record.get("wall_seconds") or 0.0) - shown_seconds(done))
    minutes = (MARGIN * seconds + around) / 60
    hours, minutes = divmod(MINUTES * math.ceil(1 + minutes / MINUTES), 60)
    yield line
    yield (
        f"           {clock(seconds + around)} in total; request a walltime of "
        f"{hours}:{minutes:02d}:00"
    )


def what_is_left(session: Session, found: Done, cost: float) -> str:
    """Return a line on a run to resume: its folder, what is done, what is left and its duration.

    Parameters
    ----------
    session : of the run
    found : what is done; where fewer fits may be needed, how long they take is not known
    cost : of all tasks
    """
    spent, path, tasks = session.folder.wall_before, session.path, session.journal.records
    if session.record.get("status") == "finished" and not found.ended_early:
        return f"resume     {path} is finished; it took {clock(spent)}"
    if found.n_fits is None:
        return f"resume     {path}: {len(tasks)} tasks done in {clock(spent)}"
    done, total = found.n_fits
    if not done:
        return f"resume     {path}: no fit is finished yet, {total:,} to do"
    left = f"{total - done:,} left"
    if found.at_most:
        return f"resume     {path}: {done:,} fits done in {clock(spent)}, at most {left}"
    if done < total:
        # What was under way when the run was stopped is in its wall time, but not in its journal.
        busy = sum(task["seconds"] for task in tasks)
        n_workers = session.record.get("cluster", {}).get("n_workers") or 1
        costs = [task.get("cost") for task in tasks]
        done_cost = sum(one or 0.0 for one in costs)
        # Where nothing was predicted every fit is taken for as long as the others.
        if None in costs or not 0 < done_cost < cost:
            done_cost, cost = done, total
        seconds = busy / n_workers * (cost - done_cost) / done_cost
        left += f", about {clock(seconds)} with the same number of workers"
    return f"resume     {path}: {done:,} of {total:,} fits done in {clock(spent)}, {left}"
