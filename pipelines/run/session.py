"""One session of a run: from its start, or its resumption, to its end.

A run that was stopped and resumed has several. Whatever ends a session early,
its folder says so, and what was computed is in the journal.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_setup import join, open_cluster, render, resolve_kind
from cluster_setup.errors import ClusterError
from cluster_setup.workers import describe_workers, how_to_watch
from pipelines.data.errors import InputError
from pipelines.run.environment import commit, machine, versions
from pipelines.run.errors import RunStopped
from pipelines.run.options import deciding_results
from pipelines.run.say import Say, aloud, silent
from pipelines.run.signals import interrupted_once
from pipelines.run_folder.folder import RunFolder, iso_now
from pipelines.run_folder.journal import Journal

if TYPE_CHECKING:
    from distributed import Client

    from pipelines.data import Dataset
    from pipelines.run.options import RunOptions


@dataclass(frozen=True)
class Session:
    """An open cluster and a run folder that no other process writes."""

    folder: RunFolder
    journal: Journal
    client: Client
    kind: str
    workers: list[dict[str, Any]]
    device: str

    def begin(
        self, options: RunOptions, argv: list[str], dataset: Dataset, say: Say, **facts: Any
    ) -> None:
        """Write what is known of the run before its first unit, and say how to watch it."""
        counted = f"{len(self.workers)} worker" + "s" * (len(self.workers) != 1)
        gpus = sorted({worker["gpu"] for worker in self.workers if worker["gpu"]})
        with_gpus = f" with {', '.join(gpus)}" if gpus else ""
        solver = f", solver {facts['solver']}" if "solver" in facts else ""
        say(f"cluster    {self.kind}, {counted}{with_gpus}{solver}")
        watched = options.dashboard != "off"
        for line in how_to_watch(self.client) if watched else ["dashboard  off"]:
            say(line)
        if self.journal.n_foreign:
            say(f"attention  {self.journal.n_foreign} records of the journal are of another run: "
                "they are not used")  # fmt: skip
        self.folder.sign(
            self.journal, data=dataset.fingerprint, options=deciding_results(options), facts=facts
        )
        record, command = self.folder.record, self.folder.record["command"]
        self.folder.update(
            # A resumed run is reproduced by the command that began it.
            argv=record.get("argv", ["python", "-m", f"pipelines.{command}", *argv]),
            status="running",
            started=record.get("started", self.folder.session_started),
            session_began=time.time(),
            wall_seconds=self.folder.wall_seconds,
            finished=None,
            options=asdict(options),
            seed=options.seed,
            dataset=dataset.describe(),
            versions=versions(),
            commit=commit(),
            machine=machine(),
            cluster={
                "kind": self.kind,
                "n_workers": len(self.workers),
                "workers": self.workers + _earlier_workers(record, self.workers),
                "dashboard": self.client.dashboard_link if watched else None,
            },
            **facts,
        )

    def finish(self, **facts: Any) -> None:
        """Write the answer."""
        wall = self.folder.wall_seconds
        self.folder.update(status="finished", finished=iso_now(), wall_seconds=wall, **facts)


def _earlier_workers(record: dict[str, Any], workers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = {worker["address"] for worker in workers}
    earlier = record.get("cluster", {}).get("workers", [])
    return [worker for worker in earlier if worker["address"] not in known]


def choose_cluster(options: RunOptions) -> str:
    """The kind of cluster the options mean; to be called before anything that happens once.

    Where the program was started on several ranks, one alone comes back from here.

    Raises
    ------
    ClusterError
        There is no such kind, or the program was not started as it needs.
    """
    kind = resolve_kind(options.cluster, options.profile)
    _job_script(options, kind)  # whatever is wrong with the options is said before data are read
    if not options.dry_run:
        join(
            kind,
            profile=options.profile,
            tls=not options.no_tls,
            dashboard=options.dashboard,
        )
    return kind


def show_dry_run(options: RunOptions, kind: str, more: str = "") -> None:
    """Say where a run would be carried out, with the job script where there is one."""
    script = _job_script(options, kind)
    also = f", {more}" if more else ""
    aloud(f"dry run    nothing was run; the cluster would be {kind}{also}")
    if script:
        aloud(f"job script of each worker:\n{script}")


def _job_script(options: RunOptions, kind: str) -> str | None:
    return render(
        kind,
        options.workers,
        device=options.device,
        profile=options.profile,
        adaptive=options.adaptive,
        tls=not options.no_tls,
        dashboard=options.dashboard,
    )


@contextmanager
def open_session(
    folder: RunFolder, options: RunOptions, kind: str, n_workers: int | None, say: Say
) -> Iterator[Session]:
    """Take hold of a run's folder, then open its cluster; close both at the end.

    Raises
    ------
    InputError, ClusterError
        Nothing was begun, and a folder that was made for it is gone again.
    RunStopped
        The session ended early, for the reason the message gives.
    """
    with (
        _leave_no_empty_folder(folder),
        folder.journal() as journal,
        _stopped_cleanly(folder, journal),
        interrupted_once(),
        open_cluster(
            kind,
            n_workers,
            device=options.device,
            profile=options.profile,
            adaptive=options.adaptive,
            tls=not options.no_tls,
            dashboard=options.dashboard,
            say=say,
        ) as client,
        _performance_report(client, folder, options.performance_report),
    ):
        workers = describe_workers(client)
        yield Session(folder, journal, client, kind, workers, _device(options.device, workers))


@contextmanager
def _performance_report(client: Client, folder: RunFolder, wanted: bool) -> Iterator[None]:
    """Keep Dask's own page of the session, with all it needs inside."""
    if not wanted:
        yield
        return
    from distributed import performance_report

    page = str(_unused(folder.path / "performance.html"))
    with client.as_current(), performance_report(page, mode="inline"):
        yield


def _unused(path: Path) -> Path:
    """``path``, with a number where an earlier session has taken the name."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
    return next(name for name in itertools.chain([path], numbered) if not name.exists())


def refuse_other_data(earlier: RunFolder | None, dataset: Dataset) -> None:
    """Hold the data of a resumed run against those it began with.

    Raises
    ------
    InputError
        Their content has changed.
    """
    if earlier is None:
        return
    recorded = earlier.record.get("dataset", {}).get("fingerprint")
    if recorded not in (None, dataset.fingerprint):
        raise InputError(
            f"--resume {earlier.path} needs the data it began with, but the content of "
            f"{dataset.name} has changed since; start a new run with --results"
        )


def conclude(
    folder: RunFolder, lines: Iterable[str], write_report: Callable[[Path], Path], say: Say
) -> None:
    """Say the answer of a finished run, draw its report, and say where it is.

    Raises
    ------
    RunStopped
        The report cannot be written.
    """
    for line in lines:
        say(line)
    try:
        say(f"report     {write_report(folder.path)}")
    except OSError as error:
        raise RunStopped(
            f"the run is finished, its report is not: {error}; "
            f"draw it with python -m pipelines.report {folder.path}"
        ) from None
    if say is silent:
        aloud(str(folder.path))


def _device(asked: str, workers: list[dict[str, Any]]) -> str:
    have_gpus = all(worker["gpu"] for worker in workers)
    if asked == "gpu" and not have_gpus:
        raise InputError(
            "--device gpu needs workers with a GPU, and at least one has none; "
            "use --device cpu, or --cluster cuda on a machine with a GPU"
        )
    if asked == "auto":
        return "gpu" if have_gpus else "cpu"
    return asked


@contextmanager
def _leave_no_empty_folder(folder: RunFolder) -> Iterator[None]:
    try:
        yield
    except (InputError, ClusterError):
        _remove_unless_begun(folder)
        raise


def _remove_unless_begun(folder: RunFolder) -> None:
    if folder.has_begun:
        return
    with suppress(OSError):
        folder.journal_path.unlink(missing_ok=True)
        folder.path.rmdir()


@contextmanager
def _stopped_cleanly(folder: RunFolder, journal: Journal) -> Iterator[None]:
    """Whatever ends the run early: say so in ``run.json`` and how to go on, in one line."""
    folder.start_clock(journal.records)
    try:
        yield
    except KeyboardInterrupt:
        reason = "stopped on request"
    except RunStopped as error:
        reason = str(error)
    except OSError as error:
        named = error.filename and f"{error.filename} cannot be written: {error.strerror}"
        reason = str(named or error) or f"the cluster did not answer ({type(error).__name__})"
    else:
        return
    if not folder.has_begun:
        _remove_unless_begun(folder)
        raise RunStopped(f"{reason}; nothing was computed")
    # On a full disk this fails too: the journal stands, and that is what counts.
    with suppress(OSError):
        folder.update(status="stopped", reason=reason, wall_seconds=folder.wall_seconds)
    raise RunStopped(
        f"{reason}; finished rows are in {folder.path}, go on with "
        f"python -m pipelines.{folder.record['command']} --resume {folder.path}"
    )
