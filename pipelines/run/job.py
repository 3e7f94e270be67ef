"""The base class of every command, and the function that runs it.

A command's own file holds its job: its options, its plan, its work, its answer.
What all commands do is here: read the command line, choose the cluster, take the
folder, load, plan, show a dry run, open the workers, record, finish, report.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from pydantic import ValidationError

from cluster_setup import ClusterError, ClusterOptions, render
from cluster_setup.on_this_machine.devices import visible_gpus
from cluster_setup.shutdown import threads_left
from pipelines.console import (
    echo,
    end_process,
    flush_and_exit,
    phase,
    print_error,
    quiet_echo,
    take_any_terminal,
)
from pipelines.errors import InputError, opt, program
from pipelines.run import predict
from pipelines.run.cluster import Cluster, Workers, choose_cluster, opened, planned_kind
from pipelines.run.config import with_config
from pipelines.run.dry_run import contact_lines, first_rows, plan_workers, resume_line
from pipelines.run.errors import NO_MEMORY, RunStopped, is_out_of_memory
from pipelines.run.function import as_function
from pipelines.run.groups import Chosen, options_of_resumed_run
from pipelines.run.identity import identity_of
from pipelines.run.lifecycle import Data, FolderContents, Session, open_session
from pipelines.run.options import parse_options
from pipelines.run.outcomes import TaskDescription
from pipelines.run.predict import ModelAnswer, PredictOptions
from pipelines.run.result import Run
from pipelines.run.signals import interrupted_once
from pipelines.run.tracking import loggers_of
from pipelines.run_folder import names
from pipelines.run_folder.digests import digests_read_again
from pipelines.run_folder.folder import RunFolder
from pipelines.run_folder.journal import FolderLost
from pipelines.run_folder.record import Answer, recycled_in_words
from pipelines.run_folder.schema import one_line

if TYPE_CHECKING:
    from pipelines.run.new_rows import NewRows

PACKAGES: tuple[str, ...] = ("numpy", "scipy", "scikit-learn")


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan(ABC, Generic[Chosen]):
    """All that a run is to do, decided before it has a cluster.

    Attributes
    ----------
    options : RunOptions
        Those of the run, with what the data decide filled in.
    data : Data
        As ``Job.load`` returned them.
    record : mapping
        ``run.json`` of the run to resume; empty for a new run.
    entries : mapping
        Entries of ``run.json`` to write before the first task, once there are workers.
    """

    options: Chosen
    data: Any
    record: Mapping[str, Any] = field(default_factory=dict)
    entries: Mapping[str, Any] = field(default_factory=dict)

    @property
    @abstractmethod
    def lines(self) -> list[str]:
        """The lines that describe the plan on the terminal."""

    def describe_backend(self, kind: str) -> str:
        """What a dry run adds to its line on the cluster."""
        return ""

    def runs_in_process(self) -> bool:
        """Whether the fits end sooner than worker processes would start."""
        return False

    def tasks_for(self, kind: str, n_workers: int) -> Sequence[TaskDescription]:
        """All tasks of the run as ``n_workers`` workers would get them.

        Empty if the command does not know its tasks before it has a cluster.
        """
        return ()

    def n_workers(self, kind: str) -> int | None:
        """The number of workers to open; None for as many as the cluster has GPUs or cores."""
        n_workers: int | None = self.options.workers
        return n_workers

    def too_small(self, n_bytes: int) -> str:
        """Why a GPU with ``n_bytes`` of memory cannot hold what a task needs; empty if it can.

        Also empty if that is not known before a task runs.
        """
        return ""

    def timed(self, workers: Workers, done: Any) -> tuple[Self, Sequence[str]]:
        """The plan with timings of its tasks, and lines that forecast what the run still takes.

        ``done`` is what ``Job.restore`` returned. A short run has no such lines.
        """
        return self, ()

    def on(self, cluster: Cluster) -> Self:
        """The plan with its entries, and with what depends on the workers decided."""
        return self


@dataclass(frozen=True, eq=False, kw_only=True)
class Done:
    """What was computed before this session.

    Attributes
    ----------
    n_fits : (int, int) or None
        The number of fits done, and of all fits; None if that is not known.
    at_most : bool
        Whether fewer fits may be needed, as their scores decide what is tried.
    ended_early : bool
        Whether the time limit ended the run before everything was tried.
    accepted : sequence of mappings
        Changes that were accepted in the run that this one extends.
    """

    n_fits: tuple[int, int] | None = None
    at_most: bool = False
    ended_early: bool = False
    accepted: Sequence[Mapping[str, Any]] = ()


class Job(FolderContents, ABC, Generic[Chosen]):
    """A command: what it declares, and its steps, each of which takes what the one before returned.

    A job has no state: ``load`` returns the data, ``plan`` the plan, ``restore`` what is done,
    ``execute`` the results, and ``answer`` the answer.

    Attributes
    ----------
    description : str
        The beginning of ``--help``.
    examples : tuple of str
        Options of the example calls that ``--help`` ends with.
    options_class : type
        The dataclass of the options, a subclass of ``RunOptions``.
    reusable : bool
        Whether a finished run may be asked for another answer when it is resumed: ``answer`` then
        takes what is done in place of the results of ``execute``.
    lasting : tuple of str
        Names of options whose files may not change, even if changes are accepted.
    page : str
        ``module:class`` of the page, which is imported when it is drawn; a command without one
        has the page that any run has.
    cells_file : str
        The name of the table of cells.
    predict_options_class : type, optional
        The dataclass of the options of ``predict``; None for a command without ``predict``.
    run : function of options as keywords
        Returns a ``Run``.
    """

    description: ClassVar[str]
    examples: ClassVar[tuple[str, ...]] = ()
    options_class: ClassVar[type[Any]]
    reusable: ClassVar[bool] = False
    lasting: ClassVar[tuple[str, ...]] = ()
    page: ClassVar[str] = ""
    cells_file: ClassVar[str] = names.CELLS
    predict_options_class: ClassVar[type[PredictOptions] | None] = None
    run: ClassVar[Callable[..., Run]]

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> int:
        """Run the command; the exit status is 0, 1 (not finished) or 2 (bad input)."""
        words = list(sys.argv[1:] if argv is None else argv)
        if (options_class := cls.predict_options_class) is not None and words[:1] == ["predict"]:
            predict_rows = partial(predict.main, cls.command, options_class, cls.predict_rows)
            status = exit_status(cls.command, partial(predict_rows, words[1:]))
        else:
            status = exit_status(cls.command, partial(cls._run_typed, words))
        if argv is None:
            if (
                threads_left()
            ):  # Python would wait for them at its end, without a way to interrupt it
                os._exit(status)
            end_process(status)
        return status

    @classmethod
    def _run_typed(cls, words: Sequence[str]) -> Path:
        """Run the command as it is typed, with ``--config`` replaced by the options in the file."""
        return run_job(cls, cls.argv(with_config(cls.options_class, cls.command, words)))

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "command" in vars(cls):
            # The command from Python: its flags are keywords, ``n_c=12`` for ``--n-c 12``.
            run = partial(run_job, cls)
            cls.run = staticmethod(as_function(run, cls.options_class, cls.description))

    @staticmethod
    def load_model(run: Path) -> Any:
        """The model in a run's folder, whose ``model_files`` are checked to be unchanged."""
        raise NotImplementedError

    @staticmethod
    def predict_rows(rows: NewRows, options: Any) -> ModelAnswer:
        """Predict new rows with the model of the run ``options.run``."""
        raise NotImplementedError

    @staticmethod
    def argv(argv: Sequence[str]) -> list[str]:
        """The command-line arguments as they are parsed and recorded."""
        return list(argv)

    def packages(self, options: Chosen, record: Mapping[str, Any]) -> tuple[str, ...]:
        """The distributions whose versions decide results; those not installed do not count."""
        return PACKAGES

    @abstractmethod
    def load(self, options: Chosen, kind: str) -> Data:
        """Load the data of the run into host memory, for the given kind of cluster."""

    @abstractmethod
    def plan(self, options: Chosen, data: Any, record: Mapping[str, Any]) -> Plan[Chosen]:
        """Decide all that is to be done."""

    def restore(self, plan: Any, session: Session) -> Any:
        """What was done before, a ``Done``, from the folder and its journal."""
        return Done()

    @abstractmethod
    def execute(self, plan: Any, done: Any, session: Session, cluster: Cluster) -> Any:
        """Compute the tasks that the journal lacks.

        Parameters
        ----------
        plan : Plan
        done : Done
            What ``restore`` returned.
        session : Session
        cluster : Cluster

        Returns
        -------
        object
            The results of all tasks, as ``answer`` takes them.
        """

    @abstractmethod
    def answer(self, plan: Any, computed: Any, session: Session, cluster: Cluster | None) -> Answer:
        """Reduce the results to the answer, and write its files.

        Parameters
        ----------
        plan : Plan
        computed : object
            What ``execute`` returned; for a finished run of a ``reusable`` command, what
            ``restore`` did.
        session : Session
        cluster : Cluster or None
            None for such a finished run.
        """

    @abstractmethod
    def summary_lines(self, record: Mapping[str, Any], path: Path) -> list[str]:
        """The lines that sum up the finished run in a folder."""

    def is_whole(self, record: Mapping[str, Any], plan: Any, done: Any) -> bool:
        """Whether a run is finished and none of its tasks is to be tried, or tried again."""
        is_finished = record.get("status") == "finished" and not record.get("n_failed")
        return is_finished and not done.ended_early


def run_job(job_class: type[Job[Any]], argv: Sequence[str]) -> Path:
    """Carry out a run, new or resumed.

    Parameters
    ----------
    job_class : type
        The command.
    argv : sequence of str
        Its options as they are typed.

    Returns
    -------
    Path
        The folder of the run; after a dry run, where it would be.

    Raises
    ------
    InputError, ClusterError
        Nothing was begun; the message says what to put right.
    RunStopped
        The run ended early; what was computed is in its folder.
    """
    job = job_class()
    description = job.description
    if job.predict_options_class is not None:
        help_command = f"{program(job.command)} predict --help"
        description += f" To predict with a finished run: {help_command}."
    options, typed_options = parse_options(
        job.options_class, job.command, description, argv, job.examples
    )
    record: Mapping[str, Any] = {}
    if options.resume:
        path = Path(options.resume)
        record = RunFolder.open(path, job.command, record_class=job.record).record
        options = options_of_resumed_run(
            job.options_class, record["options"], typed_options, path, "identity" in record
        )
    identity = identity_of(options, job.packages(options, record))
    write_line = quiet_echo if options.quiet else echo
    cluster_options = choose_cluster(options, write_line)
    with phase(write_line, "log        asking the trackers of experiments"):
        loggers = loggers_of(options, typed_options, write_line)
    with (
        interrupted_once(),
        open_session(job, options, write_line, identity, loggers) as session,
    ):
        with phase(write_line, "load       reading the data"):
            data = job.load(options, cluster_options.kind)
            plan = job.plan(options, data, record)
            lines = plan.lines
        for line in lines:
            write_line(line)
        recorded_fingerprint = session.record.get("dataset", {}).get("fingerprint")
        if recorded_fingerprint not in (None, data.fingerprint):
            raise InputError(
                f"{opt('resume')} {session.path} needs the data of the original run, but "
                f"{data.name} has changed; start a new run with {opt('results')}"
            )
        if options.dry_run:
            show_dry_run(job, plan, session, cluster_options)
            return session.path
        done = job.restore(plan, session)
        has_to_compute = bool(session.folder.changed) or not job.is_whole(
            session.record, plan, done
        )
        accepted = [*record.get("accepted", ()), *done.accepted]
        if options.resume and has_to_compute:
            recorded_session = session.record
            accepted += session.accept(
                f"--resume {session.path}", recorded_session, options, job.lasting
            )
        elif options.resume:
            session.say_changed()
        for name, change in session.folder.changed.items():
            write_line(f"warning    {name} is made again: {change}")
        if has_to_compute:
            kind = planned_kind(options, cluster_options.kind, plan.runs_in_process)
            n_workers = plan.n_workers(kind)
            cluster_options = replace(
                cluster_options, kind=kind, workers=n_workers, too_small=plan.too_small
            )
            with ExitStack() as stack:
                waiting_for = "waiting for an answer" if "://" in kind else "starting workers"
                with phase(write_line, f"cluster    {kind}: {waiting_for}"):
                    tasks_per_worker = getattr(options, "tasks_per_worker", "never")
                    cluster = stack.enter_context(
                        opened(
                            cluster_options,
                            session.path,
                            options.performance_report,
                            tasks_per_worker,
                        )
                    )
                plan = plan.on(cluster)
                entries = {**plan.entries, "identity": identity, "accepted": accepted}
                session.begin(plan.options, argv, data, cluster, entries)
                if cluster.recycling.is_on:  # so that the record has it however the session ends
                    recycled = session.folder.record.setdefault("recycled", [])
                    cluster.runner.recycler.recycled = recycled
                with phase(write_line, "forecast   timing a few fits"):
                    plan, forecast_lines = plan.timed(cluster.all_workers, done)
                for line in forecast_lines:
                    write_line(line)
                computed = job.execute(plan, done, session, cluster)
                try:
                    session.finish(job.answer(plan, computed, session, cluster).entries)
                except ValidationError as error:
                    raise RunStopped(f"the answer cannot be recorded: {one_line(error)}") from None
        elif job.reusable:
            answer = job.answer(plan, done, session, None).entries
            session.folder.update(files=digests_read_again(session.path, job.files), **answer)
        if not has_to_compute:  # a log that an earlier session could not end, or a new one
            session.tracking.begin(job.options_class)
        from pipelines.report import write_report

        for line in job.summary_lines(session.record, session.path):
            write_line(line)
        if words := recycled_in_words(session.record):
            write_line(f"recycled   {words}")
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


def show_dry_run(
    job: Job[Any], plan: Plan[Any], session: Session, cluster_options: ClusterOptions
) -> None:
    """Print what a run would do after its plan; raise the errors with which it would begin."""
    options, kind = plan.options, cluster_options.kind
    # Only this machine can be asked now; workers elsewhere are asked once they run.
    if options.device == "gpu" and kind in ("local", "threads") and not visible_gpus():
        raise InputError(
            f"{opt('device', 'gpu')} needs a GPU, and this machine has none; use "
            f"{opt('device', 'cpu')}, or a {opt('cluster')} that has GPUs"
        )
    lines = [*first_rows(plan.data), *contact_lines(plan.data)]
    if options.pilot:
        lines += plan_workers(job.command, job.row, options, partial(plan.tasks_for, kind))
    if options.resume:
        done = job.restore(plan, session)
        if not job.is_whole(session.record, plan, done):
            session.accept(f"--resume {session.path}", session.record, options, job.lasting)
        else:
            session.say_changed()
        cost = sum(task.cost for task in plan.tasks_for(kind, 1))
        lines.append(resume_line(session, done.n_fits, cost, done.at_most, done.ended_early))
    for line in lines:
        session.echo(line)
    kind = planned_kind(options, kind, plan.runs_in_process)
    if not (options.resume or options.pilot or options.quiet):
        workers = Workers.expected(kind, plan.n_workers(kind), options.device)
        with phase(session.echo, "forecast   timing a few fits"):
            _, forecast_lines = plan.timed(workers, Done())
        for line in forecast_lines:
            session.echo(line)
    script = render(replace(cluster_options, kind=kind))
    backend_note = f", {backend}" if (backend := plan.describe_backend(kind)) else ""
    # What was asked for is printed with --quiet too.
    echo(f"dry run    nothing was run; this run would use cluster {kind}{backend_note}")
    if script:
        echo(f"job script of each worker:\n{script}")


def exit_status(command: str, action: Callable[[], object]) -> int:
    """Run ``action``; an error of the user's or an early end becomes one line and an exit status.

    The status is 0 or the int that ``action`` returns, 2 for bad input, 1 for an early end.
    """
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
