"""Options on where tasks run, for every command and for scripts, which load their own data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pipelines.data.user_code import named_code
from pipelines.run.options import at_least, option

session_option = partial(option, changes_results=False)  # where and how a run is carried out


def _commands_of(profile: str | None) -> list[str]:
    """The prologue of a profile that is a file, as code to confirm.

    Profiles that go by a name are shipped with the program or are the user's own.
    """
    is_file = profile is not None and (profile.endswith((".yaml", ".yml")) or os.sep in profile)
    return [f"{profile}:prologue"] if is_file else []


@dataclass(frozen=True)
class PlaceOptions:
    """Options that choose the cluster and the device of a run."""

    group: ClassVar[str] = "cluster"

    cluster: str = session_option(
        "auto",
        "auto, threads (of this process), local, cuda, slurm, pbs, sge, mpi, or the "
        "address of a running scheduler: tls://host:port",
        metavar="KIND",
        code=named_code,
    )
    workers: int | None = session_option(
        None,
        "number of worker processes (default: one for each GPU, else for each core, or for each 8 "
        "cores if a solver uses them with threads: of two cores 1 worker, 2 threads)",
        parse=int,
        rule=at_least(1, 100_000),
        metavar="N",
    )
    adaptive: tuple[int, int] | None = session_option(
        None,
        "instead of --workers: minimum and maximum number of queued jobs",
        parse=int,
        nargs=2,
        metavar=("MIN", "MAX"),
    )
    profile: str | None = session_option(
        None,
        "settings of your site's queue: a name such as generic-slurm, or a YAML file",
        metavar="NAME|FILE",
        code=_commands_of,
    )
    rmm_pool: str | None = session_option(
        None,
        "one RMM memory pool per GPU for cupy, torch and RAPIDS: its size, such as 8GB, or a "
        "fraction of the GPU's memory, such as 0.8 (default: each has its own)",
        metavar="SIZE",
    )
    no_tls: bool = session_option(
        False, "switch off encryption: anyone who reaches the ports can run code as you"
    )
    device: str = session_option(
        "auto",
        "where a worker computes: auto takes the GPU if the workers have one",
        choices=("auto", "cpu", "gpu"),
    )
    dashboard: str | None = session_option(
        None,
        "address of Dask's dashboard: a port of this host, host:port, or off",
        metavar="PORT|off",
    )
    performance_report: bool = session_option(
        False, "keep Dask's performance report in the run's folder, as performance.html"
    )
