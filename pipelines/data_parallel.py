"""The command ``pleasingly data-parallel``: train one network on many workers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pipelines.console import phase
from pipelines.errors import InputError, flag_of, opt
from pipelines.nn.augment import choose_augmentation
from pipelines.nn.settings import OF_NETWORKS, need_torch
from pipelines.parallel.options import HIDDEN, ROWS_OF_APPROXIMATOR, Formation, TrainingOptions
from pipelines.parallel.record import (
    CHECKPOINTS,
    EPOCHS,
    EpochRow,
    ParallelAnswer,
    ParallelRecord,
    training_name,
)
from pipelines.run import job
from pipelines.run.cluster import Cluster, Workers, refuse_unshared
from pipelines.run.errors import RunStopped, stop_if_lost
from pipelines.run.events import ProgressEvent
from pipelines.run.groups import OwnDataOptions, RunOptions, TestOptions
from pipelines.run.lifecycle import Session
from pipelines.run.summary import baseline_lines, wall_time

if TYPE_CHECKING:
    from pipelines.parallel.answer import Training
    from pipelines.parallel.problem import TrainingProblem

SECONDS_BETWEEN_LINES = 10  # on epochs, on the terminal


@dataclass(frozen=True)
class Options(TrainingOptions, RunOptions, TestOptions, OwnDataOptions):
    """Options of ``data_parallel``."""

    def check(self) -> None:
        """Refuse options that contradict each other or have no effect."""
        super().check()
        self.refuse_meaningless()
        ranks = (
            max(self.ranks or (1,))
            if self.stages == "auto"
            else max(self.stages, *self.ranks or (1,))
        )
        if self.workers is not None and ranks > self.workers and not self.resume:
            raise InputError(
                f"--workers must be at least {ranks}, the ranks that --stages or --ranks ask for, "
                f"got {self.workers}; take --workers {ranks}"
            )
        cache_folder = Path(self.cache_dir or "")
        if cache_folder.exists() and not cache_folder.is_dir():
            raise InputError(
                f"{opt('cache_dir')} must be a folder, got the file '{cache_folder}'; take another"
            )
        row_options = (*fields(OwnDataOptions), *fields(TestOptions))
        for field in row_options if self.network == "approximator" else ():
            if field.name != "data_dir" and getattr(self, field.name) != field.default:
                raise InputError(
                    f"{flag_of(field.name)} is for a network that learns from rows, such as "
                    "--network mlp, got --network approximator, which makes its own; leave it out"
                )


@dataclass(frozen=True, eq=False, kw_only=True)
class ParallelPlan(job.Plan[Options]):
    """Plan of the trainings of one network, each on one or more ranks.

    Attributes
    ----------
    ranks : tuple of int
        Numbers of ranks to train on; empty until there are workers.
    stages : int
        Stages that the network is cut into; 1 for a whole network.
    lines_on_workers : tuple of str
        Lines for the terminal once there are workers, on what depended on them.
    """

    ranks: tuple[int, ...] = ()
    stages: int = 1
    lines_on_workers: tuple[str, ...] = ()

    @property
    def trainings(self) -> list[Training]:
        """All trainings: each strategy on each number of ranks, with its repeats."""
        from pipelines.parallel.answer import Training

        options = self.options
        return [
            Training(strategy, n_ranks, repeat, options.epochs / n_ranks)
            for n_ranks in dict.fromkeys(self.ranks)
            for strategy in options.strategies()
            for repeat in range(options.repeats)
        ]

    @property
    def lines(self) -> list[str]:
        """Lines on the data, the network, the strategies and the number of repeats."""
        options, data = self.options, self.data
        lines = [
            *data.lines,
            f"data       {data.name}: {data.n_train:,} training rows, "
            f"{len(data.validation['y']):,} held out, {len(data.test['y']):,} test rows",
            f"training   {options.network}, {options.chosen_optimizer} at {options.base_rate:g}, "
            f"batches of {options.batch_size} on each rank, at most {options.epochs} epochs",
            f"strategies {', '.join(options.strategies())}; {options.repeats} of each",
        ]
        unused_names = [
            name for name in ("loader_workers", "cache_dir") if getattr(options, name) is not None
        ]
        if unused_names and not data.on_disk:
            flags = " and ".join(map(flag_of, unused_names))
            lines.append(f"note       {flags}: not used, as the rows are in memory")
        if options.stages == "auto":
            lines.append("stages     auto: as few as fit, once there are workers")
        if self.stages > 1:
            lines += self._stage_lines(self.stages)
        if options.open_ranks:
            lines.append(
                "warning    --open-ranks: whoever reaches the ranks' ports, or the network between "
                "their hosts, may read and disturb the training"
            )
        return lines

    def on(self, cluster: Cluster) -> Self:
        """The plan with the numbers of ranks and stages, which may depend on the workers.

        Raises
        ------
        InputError
            There are too few workers, or the number of ranks is no multiple of the stages.
        """
        from cluster_setup.workers import forecast_workers
        from pipelines.parallel.elastic import refuse_several_hosts

        options = self.options
        n_wanted = forecast_workers(cluster.client).wanted
        n_workers = max(len(cluster.workers), n_wanted, options.workers or 1)
        stages, lines = self.stages, list[str]()
        if options.stages == "auto":
            stages = self.record.get("stages") or self._stages_that_fit(cluster, n_workers)
            lines = self._stage_lines(stages)
        # A resumed run goes on with the numbers it began with.
        ranks = options.ranks or tuple(self.record.get("ranks", ()))
        if not ranks:
            if stages > n_workers:
                raise InputError(
                    f"--stages must be at most {n_workers}, the number of workers, got {stages}; "
                    f"take --workers {stages}"
                )
            ranks = (n_workers // stages * stages,)
            if ranks[0] < n_workers:
                lines.append(
                    f"ranks      {ranks[0]} of {n_workers} workers, a multiple of the stages"
                )
        if not options.ranks and max(ranks) > n_workers:
            raise InputError(
                f"--workers must be at least {max(ranks)}, the ranks that the run began with, got "
                f"{n_workers}; take --workers {max(ranks)}"
            )
        if max(ranks) > n_workers:
            raise InputError(
                f"--ranks must be at most {n_workers}, the number of workers, got {max(ranks)}; "
                f"take --workers {max(ranks)}"
            )
        for n_ranks in ranks:
            if n_ranks % stages:
                raise InputError(
                    f"--ranks must be a multiple of --stages, got {n_ranks} and {stages}; "
                    f"take {-(-n_ranks // stages) * stages}"
                )
        # torch does not encrypt what ranks send: several hosts only if the user allows it.
        if not (options.open_ranks or options.no_tls):
            addresses = sorted(worker["address"] for worker in cluster.workers)
            refuse_several_hosts(addresses[: max(ranks)])
        entries = {"ranks": list(ranks), "stages": stages}
        if stages > 1:
            entries["bubble"] = self._formation(stages).bubble
        changes: dict[str, Any] = {"ranks": ranks, "stages": stages, "entries": entries}
        return replace(self, **changes, lines_on_workers=tuple(lines))

    def timed(self, workers: Workers, done: Any) -> tuple[Self, Sequence[str]]:
        """The plan, and the lines on what depended on the workers."""
        return self, self.lines_on_workers

    def _stages_that_fit(self, cluster: Cluster, n_workers: int) -> int:
        from cluster_setup.workers import memory_of_workers
        from pipelines.parallel.stages import stages_that_fit

        n_bytes = min(memory_of_workers(cluster.client, cluster.workers))
        return stages_that_fit(self.data.network, self.options, n_bytes, n_workers)

    def _stage_lines(self, stages: int) -> list[str]:
        """Lines on the stages of the network; an error if it cannot be cut into so many."""
        if stages == 1:
            return ["stages     1: the network fits into the memory of a worker"]
        from pipelines.parallel.stages import staged

        formation = self._formation(stages)
        return staged(self.data.network, self.options, formation, 0).lines(formation)

    def _formation(self, stages: int) -> Formation:
        return Formation.of(replace(self.options, stages=stages), stages)


@dataclass(frozen=True, eq=False, kw_only=True)
class EndedTrainings(job.Done):
    """Rows of the epochs of each training that has ended, and restarts of process groups."""

    trainings: Mapping[str, list[dict[str, Any]]]
    restarts: Sequence[Mapping[str, Any]]


class DataParallel(job.Job[Options]):
    """Job of ``data_parallel``: train a network in a process group, in one or more ways."""

    command = "data_parallel"
    description = (
        "Train one network on many workers, one rank on each, synchronised as chosen; after a lost "
        "rank, training resumes from the last synchronised step."
    )
    options_class = Options
    row = EpochRow
    record = ParallelRecord
    files = (f"{CHECKPOINTS}/*.safetensors",)
    cells_file = EPOCHS
    page = "pipelines.pages.data_parallel:TrainingReport"
    examples = (
        "--network approximator --cluster local --workers 2",
        "--compare every-step,every-k=4,average,never --repeats 5",
        "--network bagging --dataset mnist --cluster slurm --workers 4 --open-ranks",
    )

    def packages(self, options: Options, record: Mapping[str, Any]) -> tuple[str, ...]:
        return (*job.PACKAGES, *OF_NETWORKS)

    def load(self, options: Options, kind: str) -> TrainingProblem:
        """Load the rows and the network."""
        if kind == "threads":
            raise InputError(
                f"{opt('cluster')} must use worker processes, one for each torch rank, got "
                f"threads; use {opt('cluster', 'local')}"
            )
        need_torch()
        from pipelines.parallel.problem import approximator, load_rows, refuse_unknown_network

        refuse_unknown_network(options.network)
        if options.network == "approximator":
            points = options.points or ROWS_OF_APPROXIMATOR
            return approximator(points, options.validation, options.seed)
        fractions = {"test_size": options.test_size, "validation": options.validation}
        settings = options.as_read() | fractions | {"seed": options.seed}
        settings["input"] = "memory" if options.stages != 1 else options.input
        settings["task"] = None if options.task == "auto" else options.task
        return load_rows(options.dataset, options.network, options.hidden or HIDDEN, **settings)

    def plan(
        self, options: Options, data: TrainingProblem, record: Mapping[str, Any]
    ) -> ParallelPlan:
        """The plan of the trainings, without the number of ranks, which depends on the workers."""
        if options.stages == 1:
            data.network.make(0)  # an error in the user's file shows here
        else:  # the network may be too large for this process
            from pipelines.parallel.deferred import DeferredNetwork

            DeferredNetwork(lambda: data.network.make(0))
        image_shape, ink = data.network.image_shape, data.network.ink
        augment = choose_augmentation(options.augment, image_shape is not None, ink)
        options = replace(options, augment=augment)
        if data.on_disk:  # a resumed run streams, too, even with more memory
            options = replace(options, input="stream")
        stages = 1 if options.stages == "auto" else options.stages
        return ParallelPlan(options=options, data=data, record=record, stages=stages)

    def restore(self, plan: ParallelPlan, session: Session) -> EndedTrainings:
        """Trainings that ended in earlier sessions. Failed ones are tried again."""
        ended_rows = {
            record["task"]: record["rows"]
            for record in session.journal.records
            if record["rows"] and not record["rows"][-1]["status"].startswith("failed")
        }
        return EndedTrainings(trainings=ended_rows, restarts=session.record.get("restarts", []))

    def execute(
        self, plan: ParallelPlan, done: EndedTrainings, session: Session, cluster: Cluster
    ) -> EndedTrainings:
        """Carry out the trainings that have not ended, one by one, each on all its ranks."""
        from cluster_setup.workers import peak_memory_since, samples_of_memory
        from pipelines.parallel.answer import Training
        from pipelines.run.outcomes import Outcome, describe

        (session.path / CHECKPOINTS).mkdir(exist_ok=True)
        refuse_unshared(cluster.client, session.path, opt("results"))
        # A training whose network was changed or lost on disk is carried out again.
        changed_files, ended_rows = session.folder.changed, dict(done.trainings)
        for file in changed_files:
            if file.startswith(f"{CHECKPOINTS}/"):
                ended_rows.pop(Training.of_file(Path(file).name).name, None)
        todo = [training for training in plan.trainings if training.name not in ended_rows]
        restarts, scheduler = list(done.restarts), cluster.client.scheduler.address
        with session.journal_writer(cluster, todo) as journal_writer:
            for training in todo:
                started, clock = time.time(), time.perf_counter()
                try:
                    memory_samples = cluster.client.run(samples_of_memory, on_error="ignore")
                    update = journal_writer.update
                    result = run_training(plan, training, restarts, session, cluster, update)
                    progress, members, seconds = result
                except (RunStopped, InputError):
                    raise
                except OSError as error:
                    stop_if_lost(cluster.client, scheduler)
                    raise RunStopped(f"the cluster no longer responds ({error})") from None
                except Exception as error:  # of the network or its rows: a failed training
                    stop_if_lost(cluster.client, scheduler)
                    seconds = time.perf_counter() - clock
                    table = training.rows([], f"failed: {describe(error)}")
                    outcome = Outcome(training, None, describe(error), "", started, seconds)
                else:
                    last = progress.epochs[-1]
                    diverged = last["validation_loss"] is None or last["loss"] is None
                    table = training.rows(progress.epochs, "diverged" if diverged else "ok")
                    peaks: dict[str, dict[str, int]] = {}
                    with suppress(OSError):  # the training has ended anyway
                        peaks = cluster.client.run(
                            peak_memory_since, memory_samples, workers=members, on_error="ignore"
                        )
                    # dict keeps the last value of a key: sorted, the largest peak of each memory.
                    memory = dict(
                        sorted(entry for peak in peaks.values() for entry in peak.items())
                    )
                    outcome = Outcome(
                        training, None, None, " ".join(members), started, seconds, memory=memory
                    )
                ended_rows[training.name] = table
                journal_writer.record(outcome, table)
        return EndedTrainings(trainings=ended_rows, restarts=restarts)

    def answer(
        self,
        plan: ParallelPlan,
        computed: EndedTrainings,
        session: Session,
        cluster: Cluster | None,
    ) -> ParallelAnswer:
        """Write the table of epochs and the best network, and test that."""
        from pipelines.parallel import answer

        ended_rows = {training: computed.trainings[training.name] for training in plan.trainings}
        with phase(session.echo, "test       testing the best network"):
            entries = answer.write_answer(session.path, plan.data, plan.options, ended_rows)
        if cluster is not None and plan.data.on_disk and (line := end_caches(plan, cluster)):
            session.echo(line)
        if "best" not in entries:
            raise RunStopped(f"no training gave a network: {entries['trainings'][0]['status']}")
        return ParallelAnswer.of({"restarts": computed.restarts, **entries})

    def unfinished(self, path: Path, done: Collection[str]) -> str:
        """The training that had begun, and the step of its checkpoint; empty if there is none."""
        from pipelines.parallel.answer import Training
        from pipelines.parallel.checkpoint import progress_of, read

        files = sorted((path / CHECKPOINTS).glob("*.safetensors"))
        for training in dict.fromkeys(Training.of_file(file.name) for file in files):
            name, content = training.name, read(path / CHECKPOINTS / training.file)
            if name not in done and content is not None:
                return f"{training.words} up to step {progress_of(content).step:,}"
        return ""

    def summary_lines(self, record: Mapping[str, Any], path: Path) -> list[str]:
        """Lines on the last epoch of each training, restarts, the test and the time."""
        lines = []
        for training in record["trainings"]:
            repeat = f", repeat {training['repeat'] + 1}" * (
                record["options"].get("repeats", 1) > 1
            )
            label = training_name(f"{training['strategy']} on {training['ranks']}{repeat}")
            if training["validation_loss"] is None:
                lines.append(f"warning    {label}: {training['status']}")
                continue
            lines.append(
                f"trained    {label}: loss {training['validation_loss']:.4g}, {record['metric']} "
                f"{training['validation_metric']:.4g} after {training['epochs']} epochs, "
                f"{training['steps']:,} steps, {training['seconds']:.1f} s"
            )
            if bubble := record.get("bubble"):
                lines.append(
                    f"idle       {100 * training['wait_share']:.0f} % of a step, by 1F1B's formula "
                    f"{100 * bubble:.0f} %"
                )
        if restarts := record.get("restarts"):
            n_steps_lost = sum(restart["steps_lost"] for restart in restarts)
            lines.append(f"restarts   {len(restarts)}, {n_steps_lost} steps repeated")
        if (error := record.get("test_error")) is not None:
            lines.append(
                f"test error {100 * error:.2f} % ({training_name(record['best']['training'])})"
            )
        elif (metric := record.get("test_metric")) is not None:
            lines.append(
                f"test       {record['metric']} {metric:.4g} "
                f"({training_name(record['best']['training'])})"
            )
        return [*lines, *baseline_lines(record), wall_time(record)]


def end_caches(plan: ParallelPlan, cluster: Cluster) -> str:
    """Remove caches of decoded rows, unless the user named their folder; a line on what is kept."""
    from pipelines.data.stream.cache import folder_of, forget, kept_bytes

    directory = plan.options.cache_dir
    folders = dict.fromkeys(str(folder_of(part.store, directory)) for part in plan.data.on_disk)
    if directory is not None:
        sizes = {}
        with suppress(OSError):
            sizes = cluster.client.run(kept_bytes, list(folders), on_error="ignore")
        n_bytes = max(sizes.values(), default=0)
        return f"cache      {n_bytes / 2**20:,.1f} MiB kept in '{directory}'" if n_bytes else ""
    with suppress(OSError):
        cluster.client.run(forget, list(folders), on_error="ignore")
    return "cache      removed"


def run_training(
    plan: ParallelPlan,
    training: Training,
    restarts: list[Mapping[str, Any]],
    session: Session,
    cluster: Cluster,
    update: Callable[[ProgressEvent], None],
) -> Any:
    """Carry out a training, with lines on the terminal and progress events.

    Parameters
    ----------
    plan : ParallelPlan
    training : Training
    restarts : list of mapping
        Restarts of process groups in this run; new ones are appended.
    session : Session
    cluster : Cluster
    update : callable
        Takes a ``ProgressEvent`` whenever an epoch has ended.

    Returns
    -------
    tuple
        Progress, addresses of the ranks' workers, and seconds; see ``train_on``.
    """
    from pipelines.nn.settings import torch_device
    from pipelines.parallel.elastic import train_on
    from pipelines.parallel.rank import TrainingPlan

    last_line = time.monotonic()
    update(ProgressEvent(training.name, 0.0, note="starting the ranks, which import torch"))

    def on_message(message: Mapping[str, Any]) -> None:
        nonlocal last_line
        session.journal.check()
        if message["kind"] == "epoch":
            session.tracking.tell(training.rows([dict(message)])[0])
        if message["kind"] in ("begun", "epoch"):
            fraction = message.get("epoch", 0) / plan.options.epochs
            update(ProgressEvent(training.name, min(1.0, fraction)))
        if message["kind"] == "epoch" and time.monotonic() - last_line > SECONDS_BETWEEN_LINES:
            last_line = time.monotonic()
            loss = message["validation_loss"]
            session.echo(
                f"epoch      {training.words}, epoch {message['epoch']:,}"
                + ("" if loss is None else f": validation loss {loss:.4g}")
            )
        if message["kind"] == "restart":
            entries = {name: value for name, value in message.items() if name != "kind"}
            restarts.append({"training": training.name, **entries})
            session.folder.update(restarts=restarts)
            session.echo(
                f"restart    {message['reason']}; {message['ranks_after']} ranks continue at "
                f"step {message['step']:,}, {message['steps_lost']} steps lost, after "
                f"{message['seconds']:.1f} s"
            )
        if message["kind"] == "note":
            session.echo(message["text"])

    checkpoint = session.path / CHECKPOINTS / training.file
    training_values = {
        field.name: getattr(plan.options, field.name) for field in fields(TrainingOptions)
    }
    training_values |= {"sync": training.strategy, "stages": plan.stages}
    options, seed = TrainingOptions(**training_values), training.seed(plan.options.seed)
    order = TrainingPlan(options, seed, None, str(checkpoint.resolve()))
    rank_options: dict[str, Any] = {
        "device": torch_device(cluster.device),
        "threads": cluster.threads,
    }
    rank_options["open_ranks"] = plan.options.open_ranks or plan.options.no_tls
    return train_on(cluster.client, plan.data, order, training.ranks, on_message, **rank_options)


JOB = DataParallel
main, run = JOB.main, JOB.run


def __dir__() -> list[str]:
    return ["main", "run"]


if __name__ == "__main__":
    sys.exit(main())
