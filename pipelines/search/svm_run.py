"""One run of ``svm_grid``: options -> data -> cluster -> rows -> answer -> run folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_setup import open_cluster, resolve_kind
from cluster_setup.errors import ClusterError
from cluster_setup.local import available_cores
from cluster_setup.workers import describe_workers, how_to_watch, threads_per_task
from pipelines.data import Dataset, InputError, load_dataset, make_folds
from pipelines.data.placement import FoldedData
from pipelines.report import write_report
from pipelines.run.environment import commit, machine, versions
from pipelines.run.errors import RunStopped
from pipelines.run.folder import RunFolder
from pipelines.run.journal import Journal
from pipelines.run.progress import show_progress
from pipelines.run.signals import terminate_as_interrupt
from pipelines.run.tasks import OnCluster
from pipelines.search import summary
from pipelines.search.answer import RESULTS, answer
from pipelines.search.grid import Grid, search, tabulate, workers_for
from pipelines.svm.path.kernels import Kernel
from pipelines.svm.scoring import Scoring, resolve_scoring
from pipelines.svm.solvers import Settings, resolve_solver
from pipelines.svm.units import Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client

    from pipelines.search.svm_options import Options

Say = Callable[[str], None]


def run(command: str, options: Options, earlier: RunFolder | None, argv: list[str]) -> int:
    """Carry out a run, new or resumed.

    Parameters
    ----------
    command : str
    options : Options
    earlier : RunFolder, optional
        The run to resume.
    argv : list of str
        As typed, for the record.

    Returns
    -------
    int
        Exit status: 0, or 1 when the run could not finish.

    Raises
    ------
    InputError, ClusterError
        Nothing was begun; the message says what to put right.
    RunStopped
        The run ended early; what was computed is in its folder.
    """
    say: Say = summary.silent if options.quiet else summary.aloud
    kind = resolve_kind(options.cluster)
    scoring = resolve_scoring(options.scoring)
    dataset = _load(options, kind)
    scoring = scoring.on(dataset.classes) if scoring else None
    data = _fold(dataset, options)
    Cs, gammas = _axis(options.n_c, options.log_c), _axis(options.n_gamma, options.log_gamma)
    say(summary.of_data(dataset))
    say(summary.of_grid(options))
    if options.dry_run:
        print(f"dry run    nothing was run; the cluster would be {kind}")
        return 0
    if earlier is not None:
        _refuse_other_data(earlier, dataset)
    folder = earlier or RunFolder.create(options.results, command)
    with (
        _leave_no_empty_folder(folder),
        _stopped_cleanly(folder, command),
        terminate_as_interrupt(),
        open_cluster(kind, _n_workers(options, kind, folder)) as client,
    ):
        workers = describe_workers(client)
        device = _device(options, workers)
        # A resumed run keeps the solver it began with.
        solver = resolve_solver(folder.record.get("solver", options.solver), device)
        grid = Grid(Cs, gammas, solver, _settings(options, workers, device, scoring))
        say(summary.of_cluster(kind, workers, grid.solver))
        for line in how_to_watch(client):
            say(line)
        cluster = {"kind": kind, "n_workers": len(workers), "workers": workers,
                   "dashboard": client.dashboard_link}  # fmt: skip
        _describe(folder, options, argv, grid, dataset, cluster)
        started, wall_before = time.perf_counter(), folder.record.get("wall_seconds", 0.0)
        with folder.journal() as journal:
            facts = _search(client, data, grid, journal, folder.path, say)
        facts |= answer(client, data, grid, folder.path, dataset, options.probability)
        wall = wall_before + time.perf_counter() - started
        folder.update(status="finished", finished=_now(), wall_seconds=wall, **facts)
    for line in summary.of_run(folder.record):
        say(line)
    try:
        say(f"report     {write_report(folder.path)}")
    except OSError as error:
        raise RunStopped(
            f"the run is finished, its report is not: {error}; "
            f"draw it with python -m pipelines.report {folder.path}"
        ) from None
    if options.quiet:
        print(folder.path)
    return 0


def _describe(
    folder: RunFolder,
    options: Options,
    argv: list[str],
    grid: Grid,
    dataset: Dataset,
    cluster: dict[str, Any],
) -> None:
    """Write what is known of a run before its first unit."""
    folder.update(
        # A resumed run is reproduced by the command that began it.
        argv=folder.record.get(
            "argv", ["python", "-m", f"pipelines.{folder.record['command']}", *argv]
        ),
        status="running",
        started=folder.record.get("started", _now()),
        finished=None,
        options=asdict(options),
        seed=options.seed,
        solver=grid.solver,
        dataset=dataset.describe(),
        versions=versions(),
        commit=commit(),
        machine=machine(),
        cluster=cluster,
    )


def _load(options: Options, kind: str) -> Dataset:
    device = "gpu" if kind == "cuda" and options.device != "cpu" else "cpu"
    return load_dataset(
        options.dataset,
        data_dir=options.data_dir,
        target=options.target,
        limit=options.limit,
        test_size=options.test_size,
        seed=options.seed,
        device=device,
    )


def _fold(dataset: Dataset, options: Options) -> FoldedData:
    folds = make_folds(dataset.y_train, options.folds, options.seed, dataset.classes)
    return FoldedData(
        dataset.X_train, dataset.y_train, dataset.X_test, dataset.y_test, folds, dataset.scaling
    )


def _axis(n: int, log_bounds: tuple[float, float]) -> tuple[float, ...]:
    return tuple(np.logspace(*log_bounds, n).tolist())


def _n_workers(options: Options, kind: str, folder: RunFolder) -> int | None:
    """Workers to open; None for as many as the cluster has GPUs or cores."""
    solver = folder.record.get("solver", options.solver)
    if options.workers is None and kind == "local" and solver in ("auto", "path"):
        return workers_for("path", available_cores())
    return options.workers


def _settings(
    options: Options, workers: list[dict[str, Any]], device: str, scoring: Scoring | None
) -> Settings:
    return Settings(
        options.decision,
        options.tol,
        options.max_iter,
        Kernel(options.kernel, options.degree, options.coef0),
        None if options.class_weight == "none" else options.class_weight,
        n_threads=threads_per_task(workers),
        memory_bytes=int(options.memory * 2**30),
        device=device,
        scoring=scoring,
    )


def _device(options: Options, workers: list[dict[str, Any]]) -> str:
    have_gpus = all(worker["gpu"] for worker in workers)
    if options.device == "gpu" and not have_gpus:
        raise InputError(
            "--device gpu needs workers with a GPU, and at least one has none; "
            "use --device cpu, or --cluster cuda on a machine with a GPU"
        )
    if options.device == "auto":
        return "gpu" if have_gpus else "cpu"
    return options.device


def _refuse_other_data(earlier: RunFolder, dataset: Dataset) -> None:
    recorded = earlier.record.get("dataset", {}).get("fingerprint")
    if recorded not in (None, dataset.fingerprint):
        raise InputError(
            f"--resume {earlier.path} needs the data it began with, but the content of "
            f"{dataset.name} has changed since; start a new run with --results"
        )


@contextmanager
def _leave_no_empty_folder(folder: RunFolder) -> Iterator[None]:
    try:
        yield
    except (InputError, ClusterError):
        if not any(folder.path.iterdir()):
            folder.path.rmdir()
        raise


@contextmanager
def _stopped_cleanly(folder: RunFolder, command: str) -> Iterator[None]:
    """Whatever ends the run early: say so in ``run.json`` and how to go on, in one line."""
    try:
        yield
    except KeyboardInterrupt:
        reason = "stopped on request"
    except RunStopped as error:
        reason = str(error)
    except OSError as error:
        named = error.filename and f"{error.filename} cannot be written: {error.strerror}"
        reason = str(named or error)
    else:
        return
    if "options" not in folder.record:  # the cluster was not open yet
        with suppress(OSError):
            folder.path.rmdir()
        raise RunStopped(f"{reason}; nothing was computed")
    # On a full disk this fails too: the journal stands, and that is what counts.
    with suppress(OSError):
        folder.update(status="stopped", reason=reason)
    raise RunStopped(
        f"{reason}; finished rows are in {folder.path}, "
        f"go on with python -m pipelines.{command} --resume {folder.path}"
    )


def _search(
    client: Client, data: FoldedData, grid: Grid, journal: Journal, path: Path, say: Say
) -> dict[str, Any]:
    """Compute the units that the journal lacks; write ``cv_results``; facts for ``run.json``."""
    runner = OnCluster(client)
    n_workers = runner.n_workers
    units = grid.units(data, n_workers)
    rows = {_cell(row): row for row in _scored(journal.records)}
    todo = [left for unit in units if (left := unit.without(rows)) is not None]
    if rows:
        say(f"resumed    {len(rows):,} fits were done before, {len(todo)} units are left")
    started, busy = time.perf_counter(), 0.0
    with show_progress(
        len(todo), sum(unit.cost for unit in todo), quiet=say is summary.silent
    ) as progress:
        for outcome, new_rows in search(runner, data, grid, todo):
            journal.append(_record(outcome.unit, new_rows, outcome))
            rows.update({_cell(row): row for row in new_rows})
            busy += outcome.seconds
            progress.advance(outcome.unit.cost, outcome.error is not None)
    wall = time.perf_counter() - started
    results = tabulate(list(rows.values()))
    results.to_parquet(path / RESULTS)
    facts = summary.failures(results)
    return facts | {"busy_share": min(1.0, busy / (n_workers * wall)) if todo else None}


def _scored(records: Iterable[dict[str, Any]]) -> Iterator[Row]:
    """Rows that need not be computed again: a failed fit gets another try."""
    for record in records:
        for row in record["rows"]:
            if not row["status"].startswith("failed"):
                # A run begun before there were other scorings has errors alone.
                yield {"score": 1 - row["error"], **row}


def _cell(row: Row) -> tuple[float, float, int]:
    return row["C"], row["gamma"], row["fold"]


def _record(unit: Unit, rows: list[Row], outcome: Any) -> dict[str, Any]:
    return {
        "unit": unit.name,
        "worker": outcome.worker,
        "started": outcome.started,
        "seconds": outcome.seconds,
        "rows": rows,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
