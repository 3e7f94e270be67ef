"""One run of ``svm_grid``: options -> data -> cluster -> rows -> answer -> run folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_setup.on_this_machine.devices import available_cores
from cluster_setup.workers import threads_per_task
from pipelines.data import Dataset, InputError, load_dataset, make_folds
from pipelines.data.placement import FoldedData
from pipelines.report import write_report
from pipelines.run.ledger import ledger
from pipelines.run.say import Say, aloud, silent
from pipelines.run.session import (
    Session,
    choose_cluster,
    conclude,
    open_session,
    refuse_other_data,
    show_dry_run,
)
from pipelines.run.summary import of_data
from pipelines.run.tasks import OnCluster
from pipelines.run_folder import names
from pipelines.run_folder.folder import RunFolder
from pipelines.search import summary
from pipelines.search.answer import answer
from pipelines.search.grid import Grid, search, tabulate, workers_for
from pipelines.svm.kernel import Kernel
from pipelines.svm.scoring import Scoring, resolve_scoring
from pipelines.svm.solvers import Settings, resolve_solver
from pipelines.svm.units import Row

if TYPE_CHECKING:
    from pipelines.search.svm_options import Options


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
        Exit status 0.

    Raises
    ------
    InputError, ClusterError
        Nothing was begun; the message says what to put right.
    RunStopped
        The run ended early; what was computed is in its folder.
    """
    say = silent if options.quiet else aloud
    kind = choose_cluster(options)
    scoring = resolve_scoring(options.scoring)
    dataset = _load(options, kind)
    scoring = scoring.on(dataset.classes) if scoring else None
    data = _fold(dataset, options)
    if options.kernel == "linear":  # it has no gamma
        options = dataclasses.replace(options, n_gamma=1)
    Cs, gammas = (
        _axis("c", options.n_c, options.log_c),
        _axis("gamma", options.n_gamma, options.log_gamma),
    )
    say(of_data(dataset, f"{dataset.X_train.shape[1]} features", options.limit))
    say(summary.of_grid(options))
    if options.dry_run:
        show_dry_run(options, kind, _known_solver(options, kind))
        return 0
    refuse_other_data(earlier, dataset)
    folder = earlier or RunFolder.create(options.results, command)
    if not _needs_nothing(folder):
        with open_session(folder, options, kind, _n_workers(options, kind, folder), say) as session:
            # A resumed run keeps the solver it began with.
            solver = resolve_solver(folder.record.get("solver", options.solver), session.device)
            grid = Grid(Cs, gammas, solver, _settings(options, session, scoring))
            session.begin(options, argv, dataset, say, solver=solver)
            runner = OnCluster(session.client)
            facts = _search(session, runner, data, grid, say)
            facts |= answer(runner, data, grid, folder.path, dataset, options.probability)
            session.finish(**facts)
    conclude(folder, summary.of_run(folder.record), write_report, say)
    return 0


def _known_solver(options: Options, kind: str) -> str:
    """The solver of a dry run; what the workers of a site have is not known here."""
    if kind not in ("local", "cuda"):
        return ""
    solver = resolve_solver(options.solver, "gpu" if kind == "cuda" else "cpu")
    return f"the solver {solver}"


def _needs_nothing(folder: RunFolder) -> bool:
    """Whether an earlier run is finished and no fit of it wants another try."""
    return folder.record.get("status") == "finished" and not folder.record.get("n_failed")


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


def _axis(name: str, n: int, log_bounds: tuple[float, float]) -> tuple[float, ...]:
    if n > 1 and log_bounds[0] == log_bounds[1]:
        raise InputError(
            f"--n-{name} must be 1 where --log-{name} is one value, got {n}; "
            f"make the bounds of --log-{name} differ"
        )
    return tuple(np.logspace(*log_bounds, n).tolist())


def _n_workers(options: Options, kind: str, folder: RunFolder) -> int | None:
    """Workers to open; None for as many as the cluster has GPUs or cores."""
    solver = folder.record.get("solver", options.solver)
    if options.workers is None and kind == "local" and solver in ("auto", "path"):
        return workers_for("path", available_cores())
    return options.workers


def _settings(options: Options, session: Session, scoring: Scoring | None) -> Settings:
    return Settings(
        options.decision,
        options.tol,
        options.max_iter,
        Kernel(options.kernel, options.degree, options.coef0),
        None if options.class_weight == "none" else options.class_weight,
        n_threads=threads_per_task(session.workers),
        memory_bytes=int(options.memory * 2**30),
        device=session.device,
        scoring=scoring,
    )


def _search(
    session: Session, runner: OnCluster, data: FoldedData, grid: Grid, say: Say
) -> dict[str, Any]:
    """Compute the units that the journal lacks; write ``cv_results``; facts for ``run.json``."""
    units = grid.units(data, runner.n_workers)
    rows = {_cell(row): row for row in _scored(session.journal.records)}
    todo = [left for unit in units if (left := unit.without(rows)) is not None]
    if rows:
        say(f"resumed    {len(rows):,} fits were done before, {len(todo)} units are left")
    facts: dict[str, Any] = {}
    with ledger(session.journal, runner, todo, say is silent, facts) as books:
        for outcome, new_rows in search(runner, data, grid, todo):
            books.enter(outcome, new_rows)
            rows.update({_cell(row): row for row in new_rows})
    results = tabulate(list(rows.values()))
    results.to_parquet(session.folder.path / names.CELLS)
    return facts | summary.failures(results)


def _scored(records: Iterable[dict[str, Any]]) -> Iterator[Row]:
    """Rows that need not be computed again: a failed fit gets another try."""
    for record in records:
        for row in record["rows"]:
            if not row["status"].startswith("failed"):
                # A run begun before there were other scorings has errors alone.
                yield {"score": 1 - row["error"], **row}


def _cell(row: Row) -> tuple[float, float, int]:
    return row["C"], row["gamma"], row["fold"]
