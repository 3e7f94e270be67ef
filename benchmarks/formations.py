"""The study's formations, nodes x workers of each: ``python -m benchmarks.formations``.

Both jobs of the study, by its static cuts and by the program's queue. The study cuts the grid, in
order, into a piece for each node; the workers of a node share a queue of its piece, and wait for
each other after every fold. Of an ensemble it cuts the list of members. The program has one queue
for all workers. Either way the fits are the same, each timed once on this machine.

On the workers of a formation a task sleeps as long as its fits took, scaled to ``--seconds``: the
scheduler, the journal, where the data go and the nodes' queues are real, the arithmetic is
replayed, so that more workers than cores can be measured. With ``--fits`` they compute. Nodes are
addresses of this machine (Linux), or hosts of a cluster by ``--profile``. A task costs the program
some milliseconds, so the shorter they sleep, the more its queue is idle. A small form, of two
minutes: ``--limit 600 --folds 3 --n-c 8 --n-gamma 8 --n-tuning 4 --seconds 10``.
"""

from __future__ import annotations

import argparse
import heapq
import math
import re
import shutil
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.command import add_count, add_grid, add_limit, base_parser, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

if TYPE_CHECKING:
    from distributed import Client

COMMAND = "benchmarks.formations"
GRID, ENSEMBLE = "svm_grid", "nn_bagging"
# Nodes and workers of each, of the study's two figures; that of four H100s is left out.
STUDY = {
    GRID: ((1, 1), (1, 2), (1, 3), (3, 1), (2, 3), (3, 3), (4, 3)),
    ENSEMBLE: ((2, 3), (3, 2), (3, 3), (4, 3)),
}
WAYS = ("static", "queue")
DECIDING = (
    "solver",
    "seconds",
    "dataset",
    "limit",
    "folds",
    "n_c",
    "n_gamma",
    "n_bootstrap",
    "n_tuning",
)
ONCE: dict[str, Any] = {"pure": False, "retries": 0}  # how a task is submitted

Formation = tuple[int, int]
Span = tuple[float, float]  # start in Unix seconds, seconds
Shared = tuple[Any, Callable[..., Any] | None]  # a problem and what runs its tasks; or data, None


@dataclass(frozen=True)
class Unit:
    """What a worker does at once: a task of the program, a fit of the grid, or a member.

    Attributes
    ----------
    seconds : that it takes
    cost : predicted, in any unit of time
    needs : names of those that must have ended
    parts : tasks of the engine
    """

    name: str
    seconds: float
    cost: float = 0.0
    needs: tuple[str, ...] = ()
    parts: tuple[Any, ...] = ()

    @property
    def is_urgent(self) -> bool:
        """Whether it goes before all that waits, as a refit does."""
        return bool(self.needs)

    def asleep(self, factor: float) -> Unit:
        """The same, of other seconds and nothing to compute."""
        return replace(self, seconds=factor * self.seconds, parts=())


def total(rounds: Sequence[Sequence[Unit]]) -> float:
    """Seconds of all units."""
    return sum(unit.seconds for units in rounds for unit in units)


@dataclass(frozen=True)
class Workload:
    """A job whose fits were timed.

    Attributes
    ----------
    problem, run : of the engine: ``run(problem, task)``
    rounds : units of the study's cut; workers of a node wait for each other after each round
    queue : units of the program's queue for so many workers
    """

    problem: Any
    run: Callable[..., Iterator[Any]]
    rounds: Sequence[Sequence[Unit]]
    queue: Callable[[int], Sequence[Unit]]


def static_cut(units: Sequence[Unit], n_nodes: int) -> list[Sequence[Unit]]:
    """The study's: the list in order, cut at ``round(linspace(0, n, n_nodes + 1))``."""
    cuts = np.round(np.linspace(0, len(units), n_nodes + 1)).astype(int).tolist()
    return [units[a:b] for a, b in pairwise(cuts)]


def queue_order(units: Sequence[Unit]) -> list[Unit]:
    """The program's: what is urgent, then the most costly first."""
    return sorted(units, key=lambda unit: (not unit.is_urgent, -unit.cost))


def list_schedule(units: Sequence[Unit], n_workers: int) -> float:
    """Makespan if whoever is free takes the first unit that may begin (Graham 1969)."""
    ends, free, waiting = dict[str, float](), [0.0] * n_workers, list(units)
    while waiting:
        now = free[0]
        ready = (
            position
            for position, unit in enumerate(waiting)
            if all(ends.get(name, math.inf) <= now for name in unit.needs)
        )
        position = next(ready, None)
        if position is None:
            heapq.heapreplace(free, min(end for end in ends.values() if end > now))
            continue
        unit = waiting.pop(position)
        ends[unit.name] = now + unit.seconds
        heapq.heapreplace(free, ends[unit.name])
    return max(ends.values(), default=0.0)


def static_schedule(rounds: Sequence[Sequence[Unit]], workers_of_nodes: Sequence[int]) -> float:
    """Makespan of the study's cut: the node that ends last, each round a barrier of its node."""
    pieces = [static_cut(units, len(workers_of_nodes)) for units in rounds]
    return max(
        sum(list_schedule(piece[node], n_workers) for piece in pieces)
        for node, n_workers in enumerate(workers_of_nodes)
    )


def span(tasks: Sequence[Span]) -> float:
    """Seconds from the first task's start to the last one's end."""
    return max(start + seconds for start, seconds in tasks) - min(start for start, _ in tasks)


def figures(tasks: Sequence[Span], n_workers: int, seconds: float) -> dict[str, float]:
    """Makespan in seconds, efficiency and idle share of what ran.

    Parameters
    ----------
    seconds : that all fits take on one worker, of which efficiency is the share of
        ``n_workers`` times the makespan; idle is a worker without a task
    """
    makespan = span(tasks)
    idle = 1 - sum(taken for _, taken in tasks) / (n_workers * makespan)
    return {
        "makespan": makespan,
        "efficiency": seconds / (n_workers * makespan),
        "idle": max(0.0, idle),
    }


def carry_out(shared: Shared, unit: Unit, report: Any = None) -> Span:
    """Compute the fits of a unit, or sleep as long; give when, and how long it took."""
    problem, run = shared
    started, clock = time.time(), time.perf_counter()
    if run is None:
        time.sleep(unit.seconds)
    else:
        for part in unit.parts:
            deque(run(problem, part), maxlen=0)
    return started, time.perf_counter() - clock


def take(counter: Path) -> int:
    """Count up, for all processes of a host: its file grows by a byte, and says where."""
    with counter.open("ab", buffering=0) as file:
        file.write(b".")
        return file.tell() - 1


def meet(counter: Path, n_workers: int) -> None:
    """Wait until all workers of a node are here."""
    take(counter)
    while counter.stat().st_size < n_workers:
        time.sleep(0.0005)


def work_off(placed: Any, rounds: Sequence[Sequence[Unit]], folder: str, n: int) -> list[Span]:
    """Be one of the ``n`` workers of a node that share the queue of its piece, fold by fold."""
    counters, spans = Path(gettempdir(), folder), list[Span]()
    counters.mkdir(exist_ok=True)
    meet(counters / "begin", n)
    for number, units in enumerate(rounds):
        while (position := take(counters / f"queue-{number}")) < len(units):
            spans.append(carry_out(placed.shared, units[position]))
        meet(counters / f"barrier-{number}", n)
    return spans


def forget(folders: str) -> None:
    """Remove what counters there were on a host."""
    for folder in Path(gettempdir()).glob(folders):
        shutil.rmtree(folder, ignore_errors=True)  # another worker of the host does so, too


def time_grid(options: argparse.Namespace) -> Workload:
    """Time every fit of the grid; the queue's tasks are those that the program makes of it.

    Of the path solver all C of a gamma, on some folds; of scikit-learn's SVC a fit each.
    """
    from benchmarks.forecast import make_plan
    from pipelines.run.runners import InProcess
    from pipelines.search.command import run_tasks
    from pipelines.search.tasks import SEARCH, cell_key_of, run_task

    argv = ["--n-c", str(options.n_c), "--n-gamma", str(options.n_gamma), *_of_data(options)]
    plan = make_plan(GRID, [*argv, "--solver", options.solver])
    problem, fits = plan.make_problem("cpu", 1), plan.tasks_for("local", 1)
    deque(run_task(problem, fits[0]), maxlen=0)  # the first imports and compiles
    rows = [row for _, rows in run_tasks(InProcess(1), problem, fits) for row in rows]
    seconds = {cell_key_of(row): row["fit_seconds"] + row["score_seconds"] for row in rows}
    costs = {cell_key: fit.cost / len(fit.cell_keys) for fit in fits for cell_key in fit.cell_keys}
    points = [candidate.parameters for candidate in problem.candidates]
    in_order = sorted(range(len(points)), key=lambda i: (points[i]["gamma"], points[i]["C"]))

    def unit(task: Any) -> Unit:
        taken, cost = (sum(of[cell_key] for cell_key in task.cell_keys) for of in (seconds, costs))
        return Unit(task.name, taken, cost, parts=(task,))

    rounds = [
        [unit(replace(fits[0], members=(i,), splits=(fold,))) for i in in_order]
        for fold in range(len(plan.splits[SEARCH, 1.0]))
    ]
    return Workload(problem, run_task, rounds, lambda n: [*map(unit, plan.tasks_for("local", n))])


def time_ensemble(options: argparse.Namespace) -> Workload:
    """Time every candidate, with its folds, and every refit of an ensemble of networks."""
    from benchmarks.forecast import make_plan
    from pipelines.bagging.work import run_member_task, run_trainings
    from pipelines.data.placement import FoldedData
    from pipelines.run.runners import InProcess, Outcome

    argv = ["--n-bootstrap", str(options.n_bootstrap), "--n-tuning", str(options.n_tuning)]
    plan = make_plan(ENSEMBLE, [*argv, "--max-epochs", "3", *_of_data(options)])
    trainings = plan.trainings_on("cpu")
    problem = trainings.problem(FoldedData.of(plan.data), plan.scoring)
    members: dict[str, list[Unit]] = {stage: [] for stage in trainings.stages}
    run = partial(run_member_task, shared_fit=trainings.shared_fit)
    deque(run(problem, plan.tasks_for("local", 1)[0]), maxlen=0)  # the first loads torch
    feed = trainings.feed(problem)
    for event, _ in run_trainings(trainings.shared_fit, InProcess(1), problem, feed):
        if isinstance(event, Outcome):
            task = event.task
            refits = getattr(task, "stages", ())
            units = members[refits[0] if refits else task.stage]
            needs = tuple(unit.name for unit in units) if refits else ()
            units.append(Unit(task.name, event.seconds, task.cost, needs, (task,)))
    whole = [
        Unit(member, total([units]), parts=tuple(chain(*(unit.parts for unit in units))))
        for member, units in members.items()
    ]
    return Workload(problem, run, [whole], lambda n: [*chain(*members.values())])


def _of_data(options: argparse.Namespace) -> list[str]:
    limit = ["--limit", str(options.limit)] if options.limit else []
    folds = ["--folds", str(options.folds), "--quiet"]
    return ["--dataset", options.dataset, "--data-dir", options.data_dir, *limit, *folds]


@contextmanager
def formed(n_nodes: int, n_each: int, profile: str | None) -> Iterator[Client]:
    """A client of so many workers on each of so many nodes: of a queue, or of this machine."""
    import dask
    from distributed import Client, Nanny, Scheduler, SpecCluster

    from cluster_setup import open_cluster
    from cluster_setup.dask_settings import LOOPBACK, NO_LOGS, SETTINGS
    from cluster_setup.on_this_machine import leave_main_module_alone

    with ExitStack() as stack:
        if profile:
            opened = open_cluster("auto", n_nodes * n_each, profile=profile, dashboard="off")
            client = stack.enter_context(opened)
        else:
            leave_main_module_alone()
            stack.enter_context(dask.config.set(SETTINGS))
            quiet = {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
            scheduler = {"cls": Scheduler, "options": {"host": LOOPBACK, **quiet}}
            hosts = [f"127.0.0.{1 + node}" for node in range(n_nodes) for _ in range(n_each)]
            worker_options = {"nthreads": 1, "dashboard": False, "silence_logs": NO_LOGS}
            workers = {
                number: {"cls": Nanny, "options": {"host": host, **worker_options}}
                for number, host in enumerate(hosts)
            }
            cluster = SpecCluster(workers, scheduler, silence_logs=NO_LOGS)
            client = stack.enter_context(Client(stack.enter_context(cluster)))
        client.wait_for_workers(n_nodes * n_each)
        yield client


def run_queue(runner: Any, shared: Shared, units: Sequence[Unit]) -> list[Span]:
    """Have the program's scheduler hand out units, and its journal keep them."""
    from pipelines.run.runners import Outcome
    from pipelines.run_folder.journal import Journal

    done, waiting, spans = set[str](), [unit for unit in units if unit.needs], list[Span]()

    def ready(n_left: int) -> list[Unit]:
        begun = [unit for unit in waiting if done.issuperset(unit.needs)]
        for unit in begun:
            waiting.remove(unit)
        return begun

    first = [unit for unit in units if not unit.needs]
    with TemporaryDirectory() as name, Journal(Path(name, "journal")) as journal:
        for event in runner.outcomes_and_events(carry_out, shared, first, ready):
            if isinstance(event, Outcome):
                if event.error:
                    raise event.exception or RuntimeError(event.error)
                done.add(event.task.name)
                spans.append(event.result)
                of_task = {"task": event.task.name, "worker": event.worker, "rows": []}
                journal.append(of_task | dict(zip(("started", "seconds"), spans[-1], strict=True)))
    return spans


def run_static(
    client: Client, placed: Any, rounds: Sequence[Sequence[Unit]], nodes: Sequence[Sequence[str]]
) -> list[Span]:
    """Have each node work off its piece: the workers of a node share its queue."""
    pieces = [static_cut(units, len(nodes)) for units in rounds]
    token, futures = uuid.uuid4().hex[:8], []
    for node, workers in enumerate(nodes):
        of_node = [piece[node] for piece in pieces], f"formation-{token}-{node}", len(workers)
        futures += [
            client.submit(work_off, placed, *of_node, workers=[address], **ONCE)
            for address in workers
        ]
    spans = [taken for spans in client.gather(futures) for taken in spans]
    client.run(forget, f"formation-{token}-*")
    return spans


def measure(client: Client, job: Workload, options: argparse.Namespace) -> dict[str, Any]:
    """Both ways of a job on the workers of a client, measured and by the schedule."""
    from distributed.comm import get_address_host

    from pipelines.run.outcomes import run_measured
    from pipelines.run.runners import OnCluster

    addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
    nodes = [list(node) for _, node in groupby(addresses, get_address_host)]
    sizes, n = [len(node) for node in nodes], len(addresses)
    rounds, queue, runner = job.rounds, queue_order(job.queue(n)), OnCluster(client)
    shared: Shared = job.problem, job.run
    if not options.fits:
        factor = options.seconds / total(rounds)
        rounds = [[unit.asleep(factor) for unit in units] for units in rounds]
        queue = [unit.asleep(factor) for unit in queue]
        shared = replace(job.problem.data, place=None), None
    # Data that travel, and what a worker imports before its first task, are no scheduling.
    deque(runner.outcomes(carry_out, shared, [Unit("first", 0.0)]), maxlen=0)
    first = run_measured, carry_out, runner.scattered, Unit("first of a worker", 0.0)
    client.gather([client.submit(*first, workers=[address], **ONCE) for address in addresses])
    by_queue = run_queue(runner, shared, queue)
    by_cut = run_static(client, runner.scattered, rounds, nodes)
    runner.close()
    return {
        "workers_of_nodes": sizes,
        "static": figures(by_cut, n, total(rounds)),
        "queue": figures(by_queue, n, total(rounds)),
        "static_by_schedule": static_schedule(rounds, sizes),
        "queue_by_schedule": list_schedule(queue, n),
    }


JOBS = {GRID: time_grid, ENSEMBLE: time_ensemble}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = base_parser(COMMAND, __doc__, dataset="digits", folds=5)
    add_limit(parser)
    add_grid(parser, 12)
    help = "sklearn (default): each fit by itself, as the study's; path: all C of a gamma"
    parser.add_argument("--solver", choices=("sklearn", "path"), default="sklearn", help=help)
    add_count(parser, "--n-bootstrap", 12, "members")
    add_count(parser, "--n-tuning", 12, "candidates of a member")
    add_count(parser, "--seconds", 60, "that all fits of a job sleep together")
    parser.add_argument("--fits", action="store_true", help="compute the fits instead of sleeping")
    help = "nodes x workers of each, such as 2x3; may be given again (default: the study's)"
    parser.add_argument("--formation", type=formation, action="append", metavar="NxM", help=help)
    help = "a site's profile: workers are jobs of its queue, nodes the hosts they come to"
    parser.add_argument("--profile", metavar="FILE", help=help)
    return parser


def formation(text: str) -> Formation:
    """Nodes and workers of each."""
    if not re.fullmatch(r"[1-9]\d?x[1-9]\d?", text):
        raise argparse.ArgumentTypeError(f"must be nodes x workers, such as 2x3, got {text!r}")
    n_nodes, n_each = map(int, text.split("x"))
    return n_nodes, n_each


def _run(options: argparse.Namespace) -> None:
    from cluster_setup.on_this_machine.devices import available_cores
    from pipelines.errors import InputError

    wanted = {name: options.formation or STUDY[name] for name in JOBS}
    formations = sorted({pair for pairs in wanted.values() for pair in pairs}, key=math.prod)
    most = math.prod(formations[-1])
    if options.fits and not options.profile and most > available_cores():
        raise InputError(
            f"--fits must have a core for each worker, got {most} workers on {available_cores()} "
            "cores; name smaller ones with --formation, or leave it out"
        )
    jobs = {name: time_job(options) for name, time_job in JOBS.items()}
    lines: dict[str, list[Any]] = {name: [] for name in jobs}
    for n_nodes, n_each in formations:
        with formed(n_nodes, n_each, options.profile) as client:
            for name in jobs:
                if (n_nodes, n_each) in wanted[name]:
                    print(f"{name} on {n_nodes}x{n_each}", flush=True)
                    line = measure(client, jobs[name], options)
                    lines[name].append({"nodes": n_nodes, "workers_of_each": n_each, **line})
    settings = {name: getattr(options, name) for name in (*DECIDING, "fits")}
    seconds = {name: total(job.rounds) for name, job in jobs.items()}
    record = stamped("formations", options=settings, seconds=seconds, lines=lines)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'formations', record, text)}")


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    options = record["options"]
    how = "The fits are computed on the workers."
    if not options["fits"]:
        how = (
            "Scheduling is measured, arithmetic replayed: a task sleeps as long as its fits took, "
            f"scaled to {options['seconds']} seconds for all fits of a job."
        )
    header = ["formation", "workers"]
    header += [title for way in WAYS for title in (f"{way}, s", "efficiency", "idle")]
    header += [f"{way} by the schedule, s" for way in WAYS]
    parts = [
        f"# Formations, {record['date']}\n\n{options['dataset']}. Static: the study's cut, a piece "
        "for each node, a queue within it, after each fold a barrier of the node. Queue: the "
        f"program's, of all workers. {how}"
    ]
    for name, lines in record["lines"].items():
        parts.append(f"## {name}\n\n{markdown_table(header, list(map(_cells, lines)))}")
    words = " ".join(f"--{name.replace('_', '-')} {options[name]}" for name in DECIDING)
    words = words.replace(" --limit None", "") + " --fits" * options["fits"]
    parts.append(f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND} {words}`.\n")
    return "\n\n".join(parts)


def _cells(line: dict[str, Any]) -> list[str]:
    """A line of the table; it says where a queue gave its hosts other numbers of workers."""
    sizes, n_nodes, n_each = line["workers_of_nodes"], line["nodes"], line["workers_of_each"]
    came = "" if sizes == [n_each] * n_nodes else f" (came: {'+'.join(map(str, sizes))})"
    cells = [f"{n_nodes}x{n_each}{came}", str(sum(sizes))]
    for way in WAYS:
        shares = [f"{line[way][share]:.1%}" for share in ("efficiency", "idle")]
        cells += [f"{line[way]['makespan']:.2f}", *shares]
    return cells + [f"{line[f'{way}_by_schedule']:.2f}" for way in WAYS]


if __name__ == "__main__":
    sys.exit(main())
