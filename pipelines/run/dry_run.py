"""``--dry-run``: some rows as the solver will see them, what the run takes or lacks, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_setup import ClusterOptions, render
from cluster_setup.on_this_machine.devices import visible_gpus
from pipelines.console import echo
from pipelines.data.dataset import Dataset, rows_of
from pipelines.errors import InputError, opt
from pipelines.run.cluster import where
from pipelines.run.progress import clock

if TYPE_CHECKING:
    from pipelines.run.job import Job
    from pipelines.run.lifecycle import Data, Session

ROWS_SHOWN, COLUMNS_SHOWN = 5, 8


def show_dry_run(job: Job[Any], session: Session, data: Data, asked: ClusterOptions) -> None:
    """Print what a run would do after its plan, and refuse what it would refuse.

    Parameters
    ----------
    job : Job, planned
    session : of the folder to resume as it lies; of one that is not there for a new run
    asked : the cluster that the options mean

    Raises
    ------
    InputError
    """
    options, kind = job.options, asked.kind
    # As far as this machine can tell: workers elsewhere say it when they are there.
    if options.device == "gpu" and kind in ("local", "threads") and not visible_gpus():
        raise InputError(
            f"{opt('device', 'gpu')} needs a GPU, and this machine has none; use "
            f"{opt('device', 'cpu')}, or a {opt('cluster')} that has GPUs"
        )
    for line in _first_rows(data):
        session.echo(line)
    if options.pilot:
        from pipelines.run import forecast  # reads tables: --help does not wait for that

        if not job.tasks_for(kind, 1):
            raise InputError(
                f"{opt('pilot')} must go with a command that knows its tasks before it has "
                f"workers, got {job.command}; remove it"
            )
        pilot = forecast.PilotRun.read(Path(options.pilot), job.command)
        best = forecast.most_workers(pilot, partial(job.tasks_for, kind), most=options.workers)
        for line in forecast.lines(best, forecast.EFFICIENCY):
            session.echo(line)
    if options.resume:
        job.restore(session)
        session.echo(_line_of_what_is_left(job, session, kind))
    kind = where(options, kind, job.runs_in_process)
    script = render(replace(asked, kind=kind))
    also = f", {backend}" if (backend := job.describe_backend(kind)) else ""
    # What was asked for is printed with --quiet too.
    echo(f"dry run    nothing was run; this run would use cluster {kind}{also}")
    if script:
        echo(f"job script of each worker:\n{script}")


def _first_rows(dataset: Data) -> Iterator[str]:
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


def _line_of_what_is_left(job: Job[Any], session: Session, kind: str) -> str:
    """Return a line on a run to resume: its folder, what is done, what is left and its duration."""
    spent, path, tasks = session.folder.wall_before, session.path, session.journal.records
    if session.record.get("status") == "finished":
        return f"resume     {path} is finished; it took {clock(spent)}"
    fits = job.n_fits()
    if fits is None:
        return f"resume     {path}: {len(tasks)} tasks done in {clock(spent)}"
    done, total = fits
    if not done:
        return f"resume     {path}: no fit is finished yet, {total:,} to do"
    left = f"{total - done:,} left"
    if done < total:
        # What was under way when the run was stopped is in its wall time, but not in its journal.
        busy = sum(task["seconds"] for task in tasks)
        n_workers = session.record.get("cluster", {}).get("n_workers") or 1
        costs = [task.get("cost") for task in tasks]
        cost = sum(task.cost for task in job.tasks_for(kind, 1))
        done_cost = sum(one or 0.0 for one in costs)
        # Where nothing was predicted every fit is taken for as long as the others.
        if None in costs or not 0 < done_cost < cost:
            done_cost, cost = done, total
        seconds = busy / n_workers * (cost - done_cost) / done_cost
        left += f", about {clock(seconds)} with the same number of workers"
    return f"resume     {path}: {done:,} of {total:,} fits done in {clock(spent)}, {left}"
