"""Every line of the grid search benchmark: warmed up, then timed in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from benchmarks.grid_search import lines
from benchmarks.grid_search.lines import Errors, Problem
from benchmarks.timing import Timed, in_turn
from cluster_setup import open_cluster
from pipelines.svm.backends import resolve_backend
from pipelines.svm_search.problem import workers_for

Echo = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """What the benchmark found.

    Attributes
    ----------
    ours, peers : lists of Timed
        The result of each is the errors of every cell.
    missing : dict
        Peer -> why it was not timed.
    warm_up : dict
        Name of a line, or of opening its cluster -> seconds.
    where : str
        What our lines ran on.
    """

    ours: list[Timed[Errors]]
    peers: list[Timed[Errors]]
    missing: dict[str, str]
    warm_up: dict[str, float]
    where: str


def measure(
    problem: Problem,
    warm_up_problem: Problem,
    solvers: Sequence[str] = ("auto",),
    runner: str = "cluster",
    repeats: int = 3,
    echo: Echo = print,
) -> Measured:
    """Time our search with each of ``solvers``, and every peer that is installed.

    Parameters
    ----------
    problem, warm_up_problem : Problem
    solvers : names as ``--solver`` takes them
    runner : {"cluster", "threads"}
        Worker processes of a local cluster, or threads of this process; as many
        as the peers' ``n_jobs=-1`` means.
    repeats : int
    echo : function
        Told of every step.

    Raises
    ------
    InputError
        A solver is unknown, not installed, or not for the CPU.
    """
    from joblib import effective_n_jobs

    cores: int = effective_n_jobs(-1)
    chosen = {f"pleasingly ({name})": name for name in (resolve_backend(s, "cpu") for s in solvers)}
    peers = {name: lines.peer_class(name) for name in lines.PEERS}
    missing = {name: reason for name, reason in peers.items() if isinstance(reason, str)}
    for name, reason in missing.items():
        echo(f"{name}: not timed, {reason}")
    X, X_warm_up = (workload.data().scaled("cpu") for workload in (problem, warm_up_problem))
    seconds: dict[str, float] = {}
    todo: dict[str, Callable[[], Errors]] = {}
    with ExitStack() as stack:
        for name, solver in chosen.items():
            client = None
            if runner == "cluster":
                with _clocked(seconds, f"{name}: open the cluster", echo):
                    workers = workers_for(solver, cores)
                    client = stack.enter_context(open_cluster("local", workers))
            todo[name] = partial(lines.search_with_us, problem, solver, cores, client)
            with _clocked(seconds, name, echo):
                lines.search_with_us(warm_up_problem, solver, cores, client)
                if client is not None:
                    lines.warm_up_workers(warm_up_problem, solver, client)
        for name, svc in peers.items():
            if isinstance(svc, type):
                todo[name] = partial(lines.search_with_peer, problem, X, svc)
                with _clocked(seconds, name, echo):
                    lines.search_with_peer(warm_up_problem, X_warm_up, svc)
        timed = in_turn(todo, repeats, echo)
    where = f"{cores} cores, " + ("threads" if runner == "threads" else "a local cluster")
    return Measured(timed[: len(chosen)], timed[len(chosen) :], missing, seconds, where)


@contextmanager
def _clocked(seconds: dict[str, float], name: str, echo: Echo) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - started
    echo(f"warm-up, not counted  {name}: {seconds[name]:.2f} s")
