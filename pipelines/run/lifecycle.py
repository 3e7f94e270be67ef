"""The life of a run: a session from its start, or its resumption, to its end.

A run that was stopped and resumed has several. Whatever ends a session early,
its folder says so, and what was computed is in the journal.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cluster_setup.errors import ClusterError
from cluster_setup.workers import how_to_watch
from pipelines.console import Echo, quiet_echo
from pipelines.errors import InputError, opt
from pipelines.run.environment import commit, machine, versions
from pipelines.run.errors import RunStopped
from pipelines.run.groups import RunOptions, deciding_results
from pipelines.run.journal_writer import JournalWriter, open_journal_writer
from pipelines.run.outcomes import Task
from pipelines.run.signals import is_interrupt
from pipelines.run_folder.folder import RunFolder, iso_now, refuse_taken
from pipelines.run_folder.journal import Journal

if TYPE_CHECKING:
    from pipelines.run.cluster import Cluster


class Data(Protocol):
    """The data of a run: a data set, several of them, or a graph."""

    @property
    def name(self) -> str:
        """The name of the data, for messages."""

    @property
    def fingerprint(self) -> str:
        """Changes with the content; a run is resumed on the same alone."""

    def describe(self) -> dict[str, Any]:
        """Return the JSON-serialisable metadata of the data."""


@dataclass(frozen=True)
class Session:
    """A run's folder that no other process writes.

    Attributes
    ----------
    folder : RunFolder
    journal : Journal
    echo : function of one line
    """

    folder: RunFolder
    journal: Journal
    echo: Echo

    @property
    def path(self) -> Path:
        """The path of the run folder."""
        return self.folder.path

    @property
    def record(self) -> Mapping[str, Any]:
        """The current content of ``run.json``."""
        return self.folder.record

    def refuse_other_data(self, data: Data) -> None:
        """Check the data of a resumed run against those it began with.

        Raises
        ------
        InputError
            Their content has changed.
        """
        recorded = self.record.get("dataset", {}).get("fingerprint")
        if recorded not in (None, data.fingerprint):
            raise InputError(
                f"{opt('resume')} {self.path} needs the data it began with, but the content of "
                f"{data.name} has changed since; start a new run with {opt('results')}"
            )

    def begin(
        self,
        options: RunOptions,
        argv: Sequence[str],
        data: Data,
        cluster: Cluster,
        metadata: Mapping[str, Any],
    ) -> None:
        """Write what is known of the run before its first task, and say how to watch it."""
        workers, record = cluster.workers, self.record
        counted = f"{len(workers)} worker" + "s" * (len(workers) != 1)
        if cluster.threads > 1:
            counted += f", {cluster.threads} threads" + " each" * (len(workers) != 1)
        gpus = sorted({worker["gpu"] for worker in workers if worker["gpu"]})
        with_gpus = f" with {', '.join(gpus)}" if gpus else ""
        solver = f", solver {metadata['solver']}" if "solver" in metadata else ""
        self.echo(f"cluster    {cluster.kind}, {counted}{with_gpus}{solver}")
        # Threads of this process have a dashboard only where it is asked for, and need not say so.
        in_process = cluster.kind == "threads"
        watched = options.dashboard != "off" and not (in_process and options.dashboard is None)
        if watched:
            for line in how_to_watch(cluster.client):
                self.echo(line)
        elif not in_process:
            self.echo("dashboard  off")
        if self.journal.n_foreign:
            self.echo(
                f"attention  {self.journal.n_foreign} records of the journal are of another run "
                "and are not used"
            )
        deciding = deciding_results(options)
        self.folder.sign(
            self.journal, data=data.fingerprint, options=deciding, metadata=dict(metadata)
        )
        self.folder.update(
            # A resumed run is reproduced by the command that began it.
            argv=record.get("argv", ["python", "-m", f"pipelines.{record['command']}", *argv]),
            status="running",
            started=record.get("started", self.folder.session_started),
            session_began=time.time(),
            wall_seconds=self.folder.wall_seconds,
            finished=None,
            options=asdict(options),
            seed=options.seed,
            dataset=data.describe(),
            versions=versions(),
            commit=commit(),
            machine=machine(),
            cluster={
                "kind": cluster.kind,
                "n_workers": len(workers),
                "workers": workers + _earlier_workers(record, workers),
                "dashboard": cluster.client.dashboard_link if watched else None,
            },
            **metadata,
        )

    def journal_writer(
        self, cluster: Cluster, todo: Sequence[Task]
    ) -> AbstractContextManager[JournalWriter]:
        """See ``open_journal_writer``: where the tasks ``todo`` are entered as they come back."""
        return open_journal_writer(self.journal, cluster.runner, todo, self.echo is quiet_echo)

    def finish(self, metadata: Mapping[str, Any]) -> None:
        """Write the answer."""
        self.folder.record.pop("reason", None)  # why an earlier session was stopped
        wall = self.folder.wall_seconds
        self.folder.update(
            status="finished",
            finished=iso_now(),
            wall_seconds=wall,
            **self._of_workers(),
            **metadata,
        )

    def _of_workers(self) -> dict[str, float | None]:
        """Return the work time of all workers in the whole journal, as the page counts it."""
        from pipelines.run_folder.reading import tasks_of
        from pipelines.run_folder.work_time import busy_share, compile_seconds, workers_of

        with self.folder.journal(write=False) as journal:
            tasks = tasks_of(journal.records)
        workers = self.record.get("cluster", {}).get("workers", [])
        known = [worker["address"] for worker in workers]
        return {
            "busy_share": busy_share(tasks, workers_of(tasks, known)),
            "compile_seconds": compile_seconds(tasks),
        }


def _earlier_workers(
    record: Mapping[str, Any], workers: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    known = {worker["address"] for worker in workers}
    earlier = record.get("cluster", {}).get("workers", [])
    return [worker for worker in earlier if worker["address"] not in known]


@contextmanager
def locked(command: str, options: RunOptions, echo: Echo) -> Iterator[Session]:
    """Take hold of a run's folder, before anything else is done, until the session ends.

    Raises
    ------
    InputError, ClusterError
        Nothing was begun, and a folder that was made for it is gone again; or the folder
        is another's.
    RunStopped
        The session ended early, for the reason the message gives.
    """
    if options.resume:
        folder = RunFolder.open(Path(options.resume), command)
    else:
        folder = RunFolder.create(options.results, command)
    with _journal_of(folder) as journal:
        # As the process left it that had it open until now.
        if options.resume:
            folder = RunFolder.open(folder.path, command)
        else:
            refuse_taken(folder.path)
        with _stopped_cleanly(folder, journal):
            yield Session(folder, journal, echo)


def _journal_of(folder: RunFolder) -> Journal:
    try:
        return folder.journal()
    except OSError as error:
        raise InputError(
            f"the folder of a run must be one that can be written, got {folder.path}: "
            f"{error.strerror}; name another folder with {opt('results')}"
        ) from None


def _remove_unless_begun(folder: RunFolder) -> None:
    """Remove a folder that was made in vain; only by who holds it."""
    if folder.has_begun:
        return
    with suppress(OSError):
        folder.journal_path.unlink(missing_ok=True)
        folder.path.rmdir()
        if folder.path.parent == Path("results"):
            folder.path.parent.rmdir()  # where there is nothing else in it


@contextmanager
def _stopped_cleanly(folder: RunFolder, journal: Journal) -> Iterator[None]:
    """Yield whatever ends the run early: say so in ``run.json`` and how to go on, in one line."""
    folder.start_clock(journal.records)
    try:
        yield
    except (InputError, ClusterError):
        _remove_unless_begun(folder)
        raise
    except (KeyboardInterrupt, ImportError) as error:
        if not is_interrupt(error):
            raise
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
    if folder.record.get("status") == "finished":
        raise RunStopped(f"{reason}; {folder.path} holds the finished run as it was")
    # On a full disk this fails too: the journal stands, and that is what counts.
    with suppress(OSError):
        folder.update(status="stopped", reason=reason, wall_seconds=folder.wall_seconds)
    kept = "finished rows are in" if journal.is_filled else "nothing finished yet in"
    raise RunStopped(
        f"{reason}; {kept} {folder.path}, go on with "
        f"python -m pipelines.{folder.record['command']} --resume {shlex.quote(str(folder.path))}"
    )
