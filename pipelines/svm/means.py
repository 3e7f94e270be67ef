"""What fits the candidates of ``SVMGridSearch``, where, and with how many threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cluster_setup.on_this_machine.devices import available_cores, visible_gpus
from cluster_setup.workers import describe_workers, threads_per_task
from pipelines.run.tasks import InProcess, OnCluster, Runner
from pipelines.svm.kernel import PRECOMPUTED
from pipelines.svm.solvers import load_solver, resolve_solver


@dataclass(frozen=True)
class Means:
    """What fits, and where.

    Attributes
    ----------
    solver : str, a name in ``SOLVERS``
    device : {"cpu", "gpu"}
    runner : of units
    n_threads : int, for each unit
    """

    solver: str
    device: str
    runner: Runner
    n_threads: int

    @property
    def is_path_svc(self) -> bool:
        """Whether its fits are those of ``PathSVC``."""
        return (self.solver, self.device) == ("path", "cpu")


def means_of(search: Any, weights: np.ndarray | None) -> Means:
    """Those of a ``SVMGridSearch`` whose rows have weights, or none.

    Raises
    ------
    ValueError
        The solver does not fit them, or there are no such threads.
    """
    needs_path = search.kernel == PRECOMPUTED or callable(search.kernel) or weights is not None
    device = "cpu" if needs_path and search.device == "auto" else _device(search)
    solver = resolve_solver(search.solver, device)
    if needs_path and (solver, device) != ("path", "cpu"):
        what = f"kernel={search.kernel!r}" if weights is None else "sample_weight"
        raise ValueError(
            f"solver must be 'path' on a CPU for {what}, got {solver!r} on a {device.upper()}"
        )
    if search.client is not None:
        threads = threads_per_task(describe_workers(search.client))
        return Means(solver, device, OnCluster(search.client), threads)
    cores = _threads(search.n_jobs)
    # A solver that shares work fills the cores from one unit, another from many.
    shares = load_solver(solver, device).shares_c
    return Means(solver, device, InProcess(1 if shares else cores), cores if shares else 1)


def _device(search: Any) -> str:
    if search.device != "auto":
        return str(search.device)
    if search.client is None:
        return "gpu" if visible_gpus() else "cpu"
    return "gpu" if all(worker["gpu"] for worker in describe_workers(search.client)) else "cpu"


def _threads(n_jobs: int | None) -> int:
    """``n_jobs`` as joblib takes it, but for None: all cores."""
    cores = available_cores()
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; leave it out for all cores")
    return cores if n_jobs is None else n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)
