"""Sessions of a run: each lasts from the start of the run, or its resumption, to an end.

A run that was stopped and resumed has several. Whatever ends a session early, the run
folder has the reason, and what was computed is in the journal.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from cluster_setup.errors import ClusterError
from cluster_setup.workers import how_to_watch
from pipelines.console import Echo, quiet_echo
from pipelines.errors import InputError, opt, program
from pipelines.run.environment import commit, machine, versions
from pipelines.run.errors import NO_MEMORY, RunStopped, is_out_of_memory
from pipelines.run.events import ProgressEvent
from pipelines.run.groups import RunOptions, deciding_results, resume_words
from pipelines.run.identity import Identity, describe_changes, differences, recorded_identity
from pipelines.run.outcomes import Outcome, TaskDescription
from pipelines.run.progress import RunProgress, show_progress
from pipelines.run.signals import is_interrupt
from pipelines.run.tracking.engine import Tracking
from pipelines.run.tracking.logger import RunLogger
from pipelines.run_folder.digests import digests_read_again
from pipelines.run_folder.folder import RunFolder, hold, iso_now
from pipelines.run_folder.journal import FolderLost, Journal
from pipelines.run_folder.names import FAILED, JOURNAL
from pipelines.run_folder.record import Record
from pipelines.run_folder.rows import Row

if TYPE_CHECKING:
    from pipelines.run.cluster import Cluster


class Data(Protocol):
    """The data of a run: a data set, several of them, or a graph."""

    @property
    def name(self) -> str:
        """The name of the data, for messages."""

    @property
    def fingerprint(self) -> str:
        """A digest of the content; a run is resumed only on data with the same one."""

    def describe(self) -> dict[str, Any]:
        """The metadata of the data, as JSON can hold them."""


class FolderContents:
    """What a command declares about the contents of its run folders.

    Attributes
    ----------
    command : str
        The name of the command's module.
    row : type
        Schema of the rows in its journal, and of its table of cells.
    record : type
        Schema of its ``run.json``.
    files : tuple of str
        Patterns of its own files that are read again later, beside those of every command.
    model_files : tuple of str
        Patterns of the files that its model is read from.
    """

    command: ClassVar[str]
    row: ClassVar[type[Row]] = Row
    record: ClassVar[type[Record]] = Record
    files: ClassVar[tuple[str, ...]] = ()
    model_files: ClassVar[tuple[str, ...]] = ()

    def unfinished(self, path: Path, done: Collection[str]) -> str:
        """What a run's folder holds of tasks that are not done, in words; empty for nothing."""
        return ""


class JournalWriter:
    """Writes the tasks of a session to the journal as they end, and shows the progress.

    Parameters
    ----------
    journal : Journal
    progress : RunProgress
    todo : sequence of tasks
        Those that are known at the beginning.
    tracking : Tracking, optional
    """

    def __init__(
        self,
        journal: Journal,
        progress: RunProgress,
        todo: Sequence[TaskDescription],
        tracking: Tracking | None = None,
    ) -> None:
        self._journal, self._progress, self._tracking = journal, progress, tracking
        self._tasks = {task.name: task for task in todo}
        self._cost = sum(task.cost for task in todo)

    def record(
        self,
        outcome: Outcome[Any],
        rows: Sequence[dict[str, Any]],
        files: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Write a task that has ended to the journal; those of a batch are stored together.

        Parameters
        ----------
        outcome : Outcome
        rows : sequence of dict
            None where the task failed as a whole.
        files : mapping, optional
            Digests of the files that the task left, by name.
        """
        name = outcome.task.name if outcome.part is None else outcome.part
        if name:
            self._write(name, outcome, rows=rows, **({"files": files} if files else {}))
        elif not outcome.has_next:
            self._journal.store()
        self._progress.advance(outcome.task, outcome.error is not None)

    def update(self, event: ProgressEvent, rows: Sequence[dict[str, Any]] = ()) -> None:
        """Show how far a running task is, and write down the rows it has completed."""
        if rows:
            self._write(event.part, event, rows=rows)
        else:
            self._journal.check()
        if event.task in self._tasks:
            task = self._tasks[event.task]
            self._progress.update(task, event.share, event.compiled, event.note)

    def add(
        self,
        tasks: Sequence[TaskDescription],
        waiting: Sequence[TaskDescription] = (),
        seconds_left: float = inf,
        *,
        at_least: bool = False,
    ) -> None:
        """Take up further tasks.

        Parameters
        ----------
        tasks : sequence of tasks
            Those that are taken up.
        waiting : sequence of tasks, optional
            Known tasks that are taken up later; the progress counts them already.
        seconds_left : float, default inf
            Time that all of them have.
        at_least : bool, default False
            Whether there may be more tasks that are not known yet.
        """
        self._tasks.update((task.name, task) for task in tasks)
        self._cost += sum(task.cost for task in tasks)
        cost = self._cost + sum(task.cost for task in waiting)
        self._progress.expect(len(self._tasks) + len(waiting), cost, seconds_left, at_least)

    def best(self, text: str) -> None:
        """Show the best candidate so far."""
        self._progress.best(text)

    def _write(self, name: str, event: Outcome[Any] | ProgressEvent, **entries: Any) -> None:
        cost = event.cost
        if cost is None and isinstance(event, Outcome):
            cost = event.task.cost
        if event.compile_seconds:
            entries["compile_seconds"] = event.compile_seconds
        times = {"worker": event.worker, "started": event.started, "seconds": event.seconds}
        has_next = isinstance(event, Outcome) and event.has_next
        write = self._journal.add if has_next else self._journal.append
        write({"task": name, **times, "cost": cost, **event.memory, **entries})
        if self._tracking is not None:
            self._tracking.keep()


@dataclass(frozen=True)
class Session:
    """A session of a run, which holds the run's folder: no other process writes to it.

    Attributes
    ----------
    folder : RunFolder
    journal : Journal
    echo : function of one line of text
    identity : Identity
        What decides the results of this session; see ``pipelines.run.identity``.
    tracking : Tracking
        The loggers of the run.
    files : tuple of str
        As in ``FolderContents``.
    began : float
        When the session began, by ``time.monotonic``.
    """

    folder: RunFolder
    journal: Journal
    echo: Echo
    identity: Identity
    tracking: Tracking
    files: tuple[str, ...] = ()
    began: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> Path:
        """The path of the run folder; raises FolderLost if something else may be there by now."""
        self.journal.check()
        return self.folder.path

    @property
    def record(self) -> Mapping[str, Any]:
        """The current content of ``run.json``."""
        return self.folder.record

    def accept(
        self,
        option: str,
        earlier_record: Mapping[str, Any],
        options: RunOptions,
        lasting: Iterable[str] = (),
        candidates: Iterable[str] = (),
    ) -> list[dict[str, Any]]:
        """Compare what decided an earlier run's results with what decides them now.

        Parameters
        ----------
        option : str
            The option that names the earlier run, with its folder, for messages.
        earlier_record : mapping
            ``run.json`` of that run.
        options : RunOptions
        lasting : iterable of str
            Options whose files may not change, even if changes are accepted.
        candidates : iterable of str
            Options that may name other candidates than before.

        Returns
        -------
        list of dict
            The changes that were accepted, for ``run.json``.

        Raises
        ------
        InputError
            There are changes, and they are not accepted or cannot be.
        """
        identity, is_whole = recorded_identity(earlier_record, self.identity)
        changes = differences(identity, self.identity, candidates)
        words = describe_changes(changes)
        old_and_new_inputs = identity["inputs"], self.identity["inputs"]
        must_last = any(
            old_and_new_inputs[0].get(name) != old_and_new_inputs[1].get(name) for name in lasting
        )
        if not is_whole:
            changes_note = f"; {words}" if words else ""
            self.echo(
                f"warning    {option} does not say which files, code and packages it began with: "
                f"they are not checked{changes_note}"
            )
        elif changes and (must_last or not options.accept_changed):
            way_out = "" if must_last else f", or accept it with {opt('accept_changed')}"
            raise InputError(
                f"{option} must go on with what it began with, but {words}: its rows would be of "
                f"both; restore that, start a new run with {opt('results')}{way_out}"
            )
        elif changes:
            self.echo(f"accepted   of {option}: {words}")
        else:
            return []
        return [{"time": iso_now(), "run": option, "changed": changes}]

    def say_changed(self) -> None:
        """Warn of changes since a run was finished: its answer is from before them."""
        identity, _ = recorded_identity(self.record, self.identity)
        if words := describe_changes(differences(identity, self.identity)):
            self.echo(
                f"warning    the run is finished, and its answer is of before: {words}; "
                f"for an answer of now start a new run with {opt('results')}"
            )

    def begin(
        self,
        options: RunOptions,
        argv: Sequence[str],
        data: Data,
        cluster: Cluster,
        metadata: Mapping[str, Any],
    ) -> None:
        """Write what is known of the run before its first task, and say how to watch it.

        Parameters
        ----------
        options : RunOptions
        argv : sequence of str
            The options as they were typed.
        data : Data
        cluster : Cluster
        metadata : mapping
            Further entries of ``run.json``.
        """
        self.journal.check()
        workers, record = cluster.workers, self.record
        worker_count = f"{len(workers)} worker" + "s" * (len(workers) != 1)
        if cluster.threads > 1:
            worker_count += f", {cluster.threads} threads" + " each" * (len(workers) != 1)
        gpus = sorted({worker["gpu"] for worker in workers if worker["gpu"]})
        with_gpus = f" with {', '.join(gpus)}" if gpus else ""
        solver = f", solver {metadata['solver']}" if "solver" in metadata else ""
        self.echo(f"cluster    {cluster.kind}, {worker_count}{with_gpus}{solver}")
        # Threads of this process have a dashboard only where it is asked for, and need not say so.
        in_process = cluster.kind == "threads"
        has_dashboard = options.dashboard != "off" and not (
            in_process and options.dashboard is None
        )
        if has_dashboard:
            for line in how_to_watch(cluster.client):
                self.echo(line)
        elif not in_process:
            self.echo("dashboard  off")
        if self.journal.n_foreign:
            self.echo(
                f"warning    {self.journal.n_foreign} journal records belong to another run "
                "and are ignored"
            )
        addresses = {worker["address"] for worker in workers}
        earlier_workers = record.get("cluster", {}).get("workers", [])
        earlier_workers = [
            worker for worker in earlier_workers if worker["address"] not in addresses
        ]
        deciding_options = deciding_results(options)
        self.folder.sign(
            self.journal, data=data.fingerprint, options=deciding_options, metadata=dict(metadata)
        )
        self.folder.update(
            # A resumed run is reproduced by the command that began it.
            argv=record.get("argv", ["python", "-m", f"pipelines.{record['command']}", *argv]),
            status="running",
            started=record.get("started", self.folder.session_started),
            session_began=time.time(),
            wall_seconds=self.folder.wall_seconds,
            finished=None,
            files={},  # until this session ends
            options=asdict(options),
            seed=options.seed,
            dataset=data.describe(),
            versions=versions(),
            commit=commit(),
            machine=machine(),
            cluster={
                "kind": cluster.kind,
                "n_workers": len(workers),
                "workers": workers + earlier_workers,
                "dashboard": cluster.client.dashboard_link if has_dashboard else None,
            },
            **metadata,
        )
        self.tracking.begin(type(options))

    @contextmanager
    def journal_writer(
        self, cluster: Cluster, todo: Sequence[TaskDescription]
    ) -> Iterator[JournalWriter]:
        """The writer for outcomes of the tasks ``todo``, while their progress is shown."""
        runner, cost = cluster.runner, sum(task.cost for task in todo)
        quiet = self.echo is quiet_echo
        with show_progress(len(todo), cost, quiet, runner.presence) as progress:
            yield JournalWriter(self.journal, progress, todo, self.tracking)

    def finish(self, metadata: Mapping[str, Any]) -> None:
        """Write the answer to ``run.json``, with times, memory and digests of the whole run."""
        from pipelines.run_folder.reading import recorded_tasks
        from pipelines.run_folder.work_time import busy_fraction, compile_seconds, peaks, workers_of

        self.folder.record.pop("reason", None)  # why an earlier session was stopped
        tasks = recorded_tasks(self.journal.records)
        cluster = self.record.get("cluster", {})
        workers, memory = cluster.get("workers", []), peaks(tasks)
        workers = [worker | memory.get(worker["address"], {}) for worker in workers]
        addresses = [worker["address"] for worker in workers]
        self.folder.update(
            status="finished",
            finished=iso_now(),
            wall_seconds=self.folder.wall_seconds,
            busy_share=busy_fraction(tasks, workers_of(tasks, addresses)),
            compile_seconds=compile_seconds(tasks),
            cluster=cluster | {"workers": workers},
            files=digests_read_again(self.path, self.files),
            **metadata,
        )


@contextmanager
def open_session(
    job: FolderContents,
    options: RunOptions,
    echo: Echo,
    identity: Identity = MappingProxyType({"inputs": {}, "versions": {}}),
    loggers: Mapping[str, RunLogger] = MappingProxyType({}),
) -> Iterator[Session]:
    """Hold a run's folder until the session ends; a dry run only looks at it.

    If the session ends early, ``run.json`` has the reason, and the error says what is saved and
    how to resume.

    Parameters
    ----------
    job : FolderContents
    options : RunOptions
    echo : function of one line of text
    identity : Identity
        What decides the results of this session.
    loggers : mapping of str to RunLogger
        By their names and targets.

    Yields
    ------
    Session

    Raises
    ------
    InputError, ClusterError
        Nothing was begun, and a folder that was made for the run is removed again; or the folder
        belongs to another run.
    RunStopped
        The session ended early, for the reason in the message.
    """
    held_folder = hold(
        job.command, options.results, options.resume, not options.dry_run, job.row, job.record
    )
    with (
        held_folder as (folder, journal),
        Tracking(
            job.row, job.model_files, folder, journal, loggers, echo, options.mlflow_candidates
        ) as tracking,
    ):
        try:
            yield Session(folder, journal, echo, identity, tracking, job.files)
            return
        except (InputError, ClusterError):
            raise
        except RunStopped as error:
            reason = str(error)
        except (KeyboardInterrupt, ImportError, MemoryError, OSError, RuntimeError) as error:
            if is_out_of_memory(error):
                reason = NO_MEMORY
            elif isinstance(error, OSError):
                file_error = (
                    error.filename and f"{error.filename} cannot be written: {error.strerror}"
                )
                reason = (
                    str(file_error or error)
                    or f"the cluster did not answer ({type(error).__name__})"
                )
            elif options.dry_run or not is_interrupt(error):
                raise
            else:
                reason = "stopped on request"
        try:
            journal.check()
        except FolderLost as loss:
            reason = str(loss)
            if loss.now is None:
                raise RunStopped(
                    f"{reason}; what it had computed is lost; start it again with --results"
                ) from None
            folder.path = loss.now
        if not folder.has_begun:
            raise RunStopped(f"{reason}; nothing was computed")
        if folder.record.get("status") == "finished":
            draw = f"{program('report')} {shlex.quote(str(folder.path))}"
            raise RunStopped(
                f"{reason}; the run in {folder.path} is finished; if its page is missing, draw it "
                f"with {draw}"
            )
        # On a full disk this fails too: the journal stands, and that is what counts.
        with suppress(OSError):
            files = digests_read_again(folder.path, job.files)
            files.pop(JOURNAL, None)  # it needs no digest: a damaged line costs its own task only
            folder.update(
                status="stopped", reason=reason, wall_seconds=folder.wall_seconds, files=files
            )
        has_finished_fits = any(
            not all(str(row.get("status", "")).startswith(FAILED) for row in record["rows"])
            or not record["rows"]  # a task that found nothing to do
            for record in journal.records
        )
        done_tasks = [record["task"] for record in journal.records]
        saved_parts = [
            "finished fits" if has_finished_fits else "",
            job.unfinished(folder.path, done_tasks),
        ]
        saved_text = " and ".join(filter(None, saved_parts))
        state = f"{saved_text} are saved in" if saved_text else "nothing has finished yet in"
        raise RunStopped(
            f"{reason}; {state} {folder.path}; resume with "
            f"{resume_words(job.command, folder.path, options)}"
        )
