"""The base class of every command, and the function that runs it.

A command's own file holds the job: its options, its plan, its work, its answer.
What they have in common is here: read the command line, choose the cluster, take the
folder, load, plan, show a dry run, open the workers, record, finish, report.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from cluster_setup import KINDS, ClusterError, ClusterOptions, render
from cluster_setup.on_this_machine.devices import visible_gpus
from cluster_setup.shutdown import threads_left
from pipelines.console import (
    Echo,
    echo,
    flush_and_exit,
    phase,
    print_error,
    quiet_echo,
    take_any_terminal,
)
from pipelines.errors import InputError, opt, program
from pipelines.run import predict
from pipelines.run.cluster import Cluster, choose_cluster, opened, where
from pipelines.run.dry_run import contact_lines, first_rows, plan_workers, what_is_left
from pipelines.run.errors import NO_MEMORY, RunStopped, is_out_of_memory
from pipelines.run.function import as_function
from pipelines.run.groups import Chosen, options_of_resumed_run
from pipelines.run.identity import differences, identity_of, in_words, recorded_identity
from pipelines.run.lifecycle import Data, Session, open_session
from pipelines.run.options import parse_options
from pipelines.run.outcomes import Task
from pipelines.run.predict import Predicted, PredictOptions
from pipelines.run.result import Run
from pipelines.run.signals import interrupted_once
from pipelines.run_folder.digests import digests_of
from pipelines.run_folder.folder import RunFolder, iso_now
from pipelines.run_folder.journal import FolderLost

if TYPE_CHECKING:
    from pipelines.run.new_rows import NewRows


class Job(ABC, Generic[Chosen]):
    """One run of a command; from ``load`` on, methods are called in the order of this file.

    Attributes
    ----------
    command : str
        The module's name.
    description : str
        What ``--help`` begins with.
    examples : options of the uses that it ends with
    kind_of_options : dataclass, a ``RunOptions``
    reusable : bool
        Whether a finished run may be asked for another answer when it is resumed.
    lasting : names of options whose files may not change, even if that is accepted
    kind_of_predict : dataclass of the options of ``predict``; None where a command has none
    model_files : patterns of the files in a run's folder that its model is read from
    run : function of options as keywords, returns a ``Run``
    options : of that kind
    record : dict
        ``run.json`` of the run to resume; empty for a new one.
    identity : of ``pipelines.run.identity``
    accepted : list of dict
        Changes that ``--accept-changed`` let pass, those of earlier sessions first.
    """

    command: ClassVar[str]
    description: ClassVar[str]
    examples: ClassVar[tuple[str, ...]] = ()
    kind_of_options: ClassVar[type[Any]]
    reusable: ClassVar[bool] = False
    lasting: ClassVar[tuple[str, ...]] = ()
    kind_of_predict: ClassVar[type[PredictOptions] | None] = None
    model_files: ClassVar[tuple[str, ...]] = ()
    run: ClassVar[Callable[..., Run]]

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> int:
        """Run the command; give its exit status: 0, 1 (not finished) or 2 (bad input)."""
        words = cls.argv(sys.argv[1:] if argv is None else argv)
        if cls.kind_of_predict is not None and words[:1] == ["predict"]:
            return exit_status(cls.command, partial(predict.main, cls, words[1:]))
        status = exit_status(cls.command, partial(run_job, cls, words))
        if argv is None and threads_left():
            os._exit(status)  # at its end Python would wait for them, which nothing can interrupt
        return status

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "command" in vars(cls):
            # The command from Python: its flags are keywords, ``n_c=12`` for ``--n-c 12``.
            cls.run = staticmethod(
                as_function(
                    lambda words: Run(run_job(cls, words)),
                    cls.kind_of_options,
                    cls.description,
                    Run,
                )
            )

    @staticmethod
    def load_model(run: Path) -> Any:
        """Return the model in a run's folder, whose ``model_files`` are as the run left them."""
        raise NotImplementedError

    @staticmethod
    def predict_rows(rows: NewRows, options: Any) -> Predicted:
        """Ask the model of the run ``options.run`` about new rows.

        Parameters
        ----------
        rows : of a table, or the pixels of images
        options : a ``kind_of_predict``
        """
        raise NotImplementedError

    @staticmethod
    def argv(argv: Sequence[str]) -> list[str]:
        """Return the command-line arguments as they are parsed and recorded."""
        return list(argv)

    def __init__(self, options: Chosen, record: Mapping[str, Any]) -> None:
        self.options = options
        self.record = record
        self.identity = identity_of(options, self.packages())
        self.accepted: list[dict[str, Any]] = list(record.get("accepted", ()))

    def packages(self) -> tuple[str, ...]:
        """Return the distributions whose versions decide results, those that are installed."""
        return ("numpy", "scipy", "scikit-learn")

    def accept(
        self, what: str, was: Mapping[str, Any], echo: Echo, candidates: Iterable[str] = ()
    ) -> None:
        """Compare what decided an earlier run's results with what does now; say what is accepted.

        Parameters
        ----------
        what : the option that names the run, and its folder
        was : ``run.json`` of that run
        candidates : options that may name others

        Raises
        ------
        InputError
            Something has changed, and that was not accepted.
        """
        identity, is_whole = recorded_identity(was, self.identity)
        changes = differences(identity, self.identity, candidates)
        words = in_words(changes)
        sides = identity["inputs"], self.identity["inputs"]
        lasting = any(sides[0].get(name) != sides[1].get(name) for name in self.lasting)
        if not is_whole:
            more = f"; {words}" if words else ""
            echo(
                f"warning    {what} does not say which files, code and packages it began with: "
                f"they are not checked{more}"
            )
        elif changes and (lasting or not self.options.accept_changed):
            way_out = "" if lasting else f", or accept it with {opt('accept_changed')}"
            raise InputError(
                f"{what} must go on with what it began with, but {words}: its rows would be of "
                f"both; restore that, start a new run with {opt('results')}{way_out}"
            )
        elif changes:
            echo(f"accepted   of {what}: {words}")
        else:
            return
        self.accepted.append({"time": iso_now(), "run": what, "changed": changes})

    @abstractmethod
    def load(self, kind: str) -> Data:
        """Load the data of the run into host memory, for that kind of cluster."""

    @abstractmethod
    def plan(self, data: Any) -> list[str]:
        """Decide all that is to be done; the lines that say it.

        Raises
        ------
        InputError
            The options and the data do not go together.
        """

    def describe_backend(self, kind: str) -> str:
        """Return what a dry run adds to the line on the cluster."""
        return ""

    def restore(self, session: Session) -> None:
        """Take what was done before from the folder and its journal."""

    def n_fits(self) -> tuple[int, int] | None:
        """Return the fits done before, and all there are, after ``restore``; None if not known."""
        return None

    def runs_in_process(self) -> bool:
        """Return whether the fits end sooner than worker processes would start; after ``plan``."""
        return False

    def tasks_for(self, kind: str, n_workers: int) -> Sequence[Task]:
        """Return all tasks of the run as ``n_workers`` workers would get them; after ``plan``.

        Empty where the command cannot tell before there is a cluster.
        """
        return ()

    def n_workers(self, kind: str) -> int | None:
        """Return workers to open; None for as many as the cluster has GPUs or cores."""
        n_workers: int | None = self.options.workers
        return n_workers

    def configure(self, cluster: Cluster) -> dict[str, Any]:
        """Decide what depends on the workers; entries for ``run.json`` before the first task."""
        return {}

    @abstractmethod
    def execute(self, session: Session, cluster: Cluster) -> dict[str, Any]:
        """Compute the tasks that the journal lacks; entries for ``run.json``."""

    def unfinished(self, path: Path) -> str:
        """Return what the run's folder has of a task that did not finish; empty for nothing."""
        return ""

    @abstractmethod
    def summarize(self, session: Session, cluster: Cluster | None) -> dict[str, Any]:
        """Reduce what was computed to the answer, and write it; entries for ``run.json``.

        ``cluster`` is None where a finished run ``reusable``.
        """

    @abstractmethod
    def summary_lines(self, record: Mapping[str, Any]) -> list[str]:
        """Return the lines that sum up the finished run."""

    def is_whole(self, record: Mapping[str, Any]) -> bool:
        """Return whether a run is finished and none of its tasks is to be tried again."""
        return record.get("status") == "finished" and not record.get("n_failed")


def run_job(kind_of_job: type[Job[Any]], argv: Sequence[str]) -> Path:
    """Carry out a run, new or resumed; give its folder, or after a dry run where it would be.

    Raises
    ------
    InputError, ClusterError
        Nothing was begun; the message says what to put right.
    RunStopped
        The run ended early; what was computed is in its folder.
    """
    description = kind_of_job.description
    if kind_of_job.kind_of_predict is not None:
        way = f"{program(kind_of_job.command)} predict --help"
        description += f" To predict with a finished run: {way}."
    options, given = parse_options(
        kind_of_job.kind_of_options, kind_of_job.command, description, argv, kind_of_job.examples
    )
    record: Mapping[str, Any] = {}
    if options.resume:
        path = Path(options.resume)
        record = RunFolder.open(path, kind_of_job.command).record
        options = options_of_resumed_run(
            kind_of_job.kind_of_options, record["options"], given, path, "identity" in record
        )
    job = kind_of_job(options, record)
    write_line = quiet_echo if options.quiet else echo
    asked = choose_cluster(options, write_line)
    kind = asked.kind
    with (
        interrupted_once(),
        open_session(job.command, options, write_line, job.unfinished) as session,
    ):
        with phase(write_line, "load       reading the data"):
            data = job.load(kind)
            lines = job.plan(data)
        for line in lines:
            write_line(line)
        recorded = session.record.get("dataset", {}).get("fingerprint")
        if recorded not in (None, data.fingerprint):
            raise InputError(
                f"{opt('resume')} {session.path} needs the data of the original run, but "
                f"{data.name} has changed; start a new run with {opt('results')}"
            )
        if options.dry_run:
            show_dry_run(job, session, data, asked)
            return session.path
        job.restore(session)
        computes = bool(session.folder.changed) or not job.is_whole(session.record)
        if options.resume and computes:
            job.accept(f"--resume {session.path}", session.record, write_line)
        for name, change in session.folder.changed.items():
            write_line(f"warning    {name} is made again: {change}")
        if computes:
            kind = where(options, kind, job.runs_in_process)
            asked = replace(asked, kind=kind, workers=job.n_workers(kind))
            with ExitStack() as stack:
                waits = "starting workers" if kind in KINDS else "waiting for an answer"
                with phase(write_line, f"cluster    {kind}: {waits}"):
                    cluster = stack.enter_context(
                        opened(asked, session.path, options.performance_report)
                    )
                metadata = job.configure(cluster)
                metadata |= {"identity": job.identity, "accepted": job.accepted}
                session.begin(job.options, argv, data, cluster, metadata)
                metadata = job.execute(session, cluster)
                session.finish(metadata | job.summarize(session, cluster))
        elif job.reusable:
            metadata = job.summarize(session, None)
            session.folder.update(files=digests_of(session.path), **metadata)
        from pipelines.report import write_report

        for line in job.summary_lines(session.record):
            write_line(line)
        try:
            with phase(write_line, "page       drawing the figures"):
                page = write_report(session.path)
        except FolderLost:
            raise
        except (OSError, ImportError, MemoryError) as error:
            raise RunStopped(
                f"the run is finished, but its page could not be drawn: {error}; "
                f"retry with {program('report')} {session.path}"
            ) from None
        write_line(f"report     {page}")
        if options.quiet:
            echo(str(session.path))
    return session.folder.path


def show_dry_run(job: Job[Any], session: Session, data: Data, asked: ClusterOptions) -> None:
    """Print what a run would do after its plan, and refuse what it would refuse."""
    options, kind = job.options, asked.kind
    # As far as this machine can tell: workers elsewhere say it when they are there.
    if options.device == "gpu" and kind in ("local", "threads") and not visible_gpus():
        raise InputError(
            f"{opt('device', 'gpu')} needs a GPU, and this machine has none; use "
            f"{opt('device', 'cpu')}, or a {opt('cluster')} that has GPUs"
        )
    lines = [*first_rows(data), *contact_lines(data)]
    if options.pilot:
        lines += plan_workers(job.command, options, partial(job.tasks_for, kind))
    if options.resume:
        job.restore(session)
        if not job.is_whole(session.record):
            job.accept(f"--resume {session.path}", session.record, session.echo)
        cost = sum(task.cost for task in job.tasks_for(kind, 1))
        lines.append(what_is_left(session, job.n_fits(), cost))
    for line in lines:
        session.echo(line)
    kind = where(options, kind, job.runs_in_process)
    script = render(replace(asked, kind=kind))
    also = f", {backend}" if (backend := job.describe_backend(kind)) else ""
    # What was asked for is printed with --quiet too.
    echo(f"dry run    nothing was run; this run would use cluster {kind}{also}")
    if script:
        echo(f"job script of each worker:\n{script}")


def exit_status(command: str, action: Callable[[], object]) -> int:
    """Run ``action``, which may give a status; an error of the user's or an early end is a line."""
    take_any_terminal()
    try:
        try:
            Path.cwd()
        except FileNotFoundError:
            raise InputError(
                "the working directory no longer exists; change to another one"
            ) from None
        status = action()
        return status if isinstance(status, int) else 0
    except (InputError, ClusterError) as error:
        print_error(command, error.flagged() if isinstance(error, InputError) else str(error))
        return 2
    except (KeyboardInterrupt, RunStopped) as error:
        print_error(command, str(error) or "stopped on request")
        return 1
    except (ImportError, MemoryError, OSError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print_error(command, NO_MEMORY)
        return 1
    finally:
        flush_and_exit()
