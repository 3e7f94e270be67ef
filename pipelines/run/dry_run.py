"""``--dry-run``: rows as the solver will see them, workers to ask for, and what is left to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipelines.data.contact_sheet import MOST_CLASSES, contact_sheet
from pipelines.data.dataset import Dataset, take_rows
from pipelines.errors import InputError, opt
from pipelines.run.chunking import makespan
from pipelines.run.progress import time_text
from pipelines.run_folder.folder import RunFolder
from pipelines.run_folder.names import replacing
from pipelines.run_folder.rows import Row

if TYPE_CHECKING:
    from pipelines.run.groups import RunOptions
    from pipelines.run.lifecycle import Data, Session
    from pipelines.run.outcomes import TaskDescription

ROWS_SHOWN, COLUMNS_SHOWN = 5, 8
BUSY = 0.9  # fraction of their time that workers must be at work to be worth asking for
WORKER_COUNTS_TRIED = 100  # at most, spaced geometrically
# The walltime to request is longer than the plan by this factor, for a slower node, its start and
# compilation, and is rounded up to a multiple of so many minutes.
MARGIN, MINUTES = 1.5, 5


def first_rows(dataset: Data) -> Iterator[str]:
    """Lines with the first rows of a table, scaled as the solver will see them."""
    if not isinstance(dataset, Dataset) or dataset.feature_names is None:
        return
    import pandas as pd

    rows = take_rows(dataset.X_train, slice(ROWS_SHOWN))
    matrix = dataset.scaling.fit(dataset.X_train).transform(rows)
    names = getattr(dataset.scaling, "layout", None) or dataset.feature_names
    table = pd.DataFrame(matrix[:, :COLUMNS_SHOWN], columns=list(names)[:COLUMNS_SHOWN])
    targets, name = dataset.y_train[:ROWS_SHOWN], "target"
    if len(dataset.classes):
        targets, name = dataset.classes[targets], "class"
    table.insert(0, name, targets, allow_duplicates=True)
    n_columns_left = matrix.shape[1] - COLUMNS_SHOWN
    columns_note = (
        f" (and {n_columns_left} more column{'s' * (n_columns_left != 1)})"
        if n_columns_left > 0
        else ""
    )
    yield f"rows       the first ones, as the solver will see them{columns_note}"
    for line in table.to_string(index=False, float_format="%.3g", max_colwidth=24).splitlines():
        yield f"           {line}"


def contact_lines(dataset: Data) -> Iterator[str]:
    """Draw some images of each class of an image folder; yields a line with the path."""
    if not isinstance(dataset, Dataset) or dataset.folder is None:
        return
    path, n_classes = dataset.folder.decoded / "contact.png", dataset.n_classes
    try:
        with replacing(path) as file:
            contact_sheet(dataset.pictures or dataset).save(file, "PNG")
    except OSError as error:
        yield f"contact    not drawn: '{path}' cannot be written ({error.strerror or error})"
        return
    classes_note = (
        f", of {MOST_CLASSES} of {n_classes:,} classes" if n_classes > MOST_CLASSES else ""
    )
    yield f"contact    {path}: some images of each class, as the model will see them{classes_note}"


def plan_workers(
    command: str,
    row: type[Row],
    options: RunOptions,
    tasks_for: Callable[[int], Sequence[TaskDescription]],
) -> Iterator[str]:
    """Lines on how many workers to ask for, and on their walltime, from a smaller run.

    The number is the largest of those tried with which workers are busy for ``BUSY`` of the time.

    Parameters
    ----------
    command : str
    row : type
        The schema of the rows in the journal of the smaller run.
    options : RunOptions
        ``pilot`` is the folder of the smaller run.
    tasks_for : function of a number of workers
        Returns the tasks of the run as so many workers would get them.

    Yields
    ------
    str

    Raises
    ------
    InputError
        The command does not know its tasks before it has workers, or the smaller run has no
        finished task with a cost.
    """
    # Imported here, as what reads tables takes long to import, and --help must not wait for it.
    from pipelines.run_folder.reading import recorded_tasks
    from pipelines.run_folder.work_time import shown_seconds

    n_tasks = len(tasks_for(1))
    if not n_tasks:
        raise InputError(
            f"{opt('pilot')} must go with a command that knows its tasks before it has workers, "
            f"got {command}; remove it"
        )
    folder = RunFolder.open(Path(options.pilot or ""), command, "--pilot")
    with folder.journal(row, write=False) as journal:
        tasks = recorded_tasks(journal.records)
    measured_tasks = [task for task in tasks if task.cost and not task.n_failed]
    if not measured_tasks:
        raise InputError(
            f"{opt('pilot')} needs a run with finished tasks and their costs, got {folder.path}; "
            "make a new small run"
        )
    busy = sum(max(0.0, task.seconds - task.compile_seconds) for task in measured_tasks)
    pace = busy / sum(task.cost or 0.0 for task in measured_tasks)  # seconds of a unit of cost
    limit, best = min(options.workers or n_tasks, n_tasks), ("", 0.0)
    for n_workers in np.unique(
        np.geomspace(1, limit, WORKER_COUNTS_TRIED).round().astype(int)
    ).tolist():
        costs = [task.cost for task in tasks_for(n_workers)]
        seconds, work = pace * makespan(costs, n_workers), pace * sum(costs)
        busy_fraction = work / (n_workers * seconds) if seconds else 1.0
        if busy_fraction < BUSY / 2:
            break
        if busy_fraction >= BUSY:
            workers = "1 worker" if n_workers == 1 else f"{n_workers:,} workers"
            line = (
                f"plan       {len(costs):,} tasks, {time_text(work)} of work: {workers} "
                f"would be busy {busy_fraction:.0%} of the time (target {BUSY:.0%})"
            )
            best = line, seconds
    line, seconds = best
    overhead = max(0.0, (folder.record.get("wall_seconds") or 0.0) - shown_seconds(tasks))
    minutes = (MARGIN * seconds + overhead) / 60
    hours, minutes = divmod(MINUTES * math.ceil(1 + minutes / MINUTES), 60)
    yield line
    yield (
        f"           {time_text(seconds + overhead)} in total; request a walltime of "
        f"{hours}:{minutes:02d}:00"
    )


def resume_line(
    session: Session,
    fits: tuple[int, int] | None,
    cost: float,
    at_most: bool = False,
    ended_early: bool = False,
) -> str:
    """A line on a run to resume: its folder, what is done, what is left and how long that takes.

    Parameters
    ----------
    session : Session
        Of the run.
    fits : (int, int) or None
        As ``n_fits`` of ``Done``.
    cost : float
        The predicted cost of all tasks, in their unit.
    at_most, ended_early : bool, default False
        As in ``Done``. Where fewer fits may be needed, their duration is not forecast.
    """
    spent, path, tasks = session.folder.wall_before, session.path, session.journal.records
    if session.record.get("status") == "finished" and not ended_early:
        return f"resume     {path} is finished; it took {time_text(spent)}"
    if fits is None:
        return f"resume     {path}: {len(tasks)} tasks done in {time_text(spent)}"
    n_done, n_total = fits
    if not n_done:
        return f"resume     {path}: no fit is finished yet, {n_total:,} to do"
    remaining = f"{n_total - n_done:,} left"
    if at_most:
        return f"resume     {path}: {n_done:,} fits done in {time_text(spent)}, at most {remaining}"
    if n_done < n_total:
        # What was under way when the run was stopped is in its wall time, but not in its journal.
        busy_seconds = sum(task["seconds"] for task in tasks)
        n_workers = session.record.get("cluster", {}).get("n_workers") or 1
        costs = [task.get("cost") for task in tasks]
        cost_done = sum(task_cost or 0.0 for task_cost in costs)
        # Without predicted costs every fit counts as one.
        if None in costs or not 0 < cost_done < cost:
            cost_done, cost = n_done, n_total
        seconds = busy_seconds / n_workers * (cost - cost_done) / cost_done
        remaining += f", about {time_text(seconds)} with the same number of workers"
    return (
        f"resume     {path}: {n_done:,} of {n_total:,} fits done in {time_text(spent)}, {remaining}"
    )
