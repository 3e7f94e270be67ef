"""``pleasingly sbatch``: the whole program, scheduler included, as one Slurm job."""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import sys
from collections.abc import Sequence

from cluster_setup.errors import ClusterError
from cluster_setup.kinds.srun import gpus_per_task
from cluster_setup.options import ClusterOptions
from cluster_setup.profiles import Profile, load_profile
from cluster_setup.queue.jobs import wants_gpu

PACKAGE = "pipelines"  # where a command without a dot is looked for
SECONDS_TO_STOP = 120  # before the walltime: what is finished is on disk, and how to go on is said


def script(
    command: str, arguments: Sequence[str], *, profile: str | None, workers: int | None, device: str
) -> str:
    """Return the text of a job that runs ``python -m pipelines.COMMAND`` inside its own allocation.

    Raises
    ------
    ClusterError
        There is no such command, or it refuses its arguments.
    """
    module = command if "." in command else f"{PACKAGE}.{command.replace('-', '_')}"
    try:
        named = all(part.isidentifier() for part in module.split("."))
        found = named and importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if not found:
        raise ClusterError(f"sbatch needs a command such as svm-grid, got {command!r}")
    for flag in ("--cluster", "--profile", "--workers", "--device"):
        if any(word == flag or word.startswith(f"{flag}=") for word in arguments):
            raise ClusterError(f"{flag} must stand before {command}; the script says the rest")
    site = load_profile(profile, "slurm")
    gpu = wants_gpu(ClusterOptions("srun", workers, device=device), site)
    n_workers = site.workers if workers is None else workers
    header = _header(site, gpu, n_workers, command.rpartition(".")[2])
    words = ["--cluster", "srun", "--workers", str(n_workers), "--device", device]
    words += [] if profile is None else ["--profile", profile]
    words += arguments
    if module.startswith(f"{PACKAGE}."):
        # Its options are read now: after hours in a queue is late for a mistake.
        check = getattr(importlib.import_module(module), "check", None)
        if check is None:
            raise ClusterError(f"sbatch needs a command such as svm-grid, got {module!r}")
        try:
            check(words)
        except ValueError as error:
            raise ClusterError(str(error)) from None
    run = [site.python or shlex.quote(sys.executable), "-m", module, *map(shlex.quote, words)]
    lines = [
        "#!/usr/bin/env bash",
        *(f"#SBATCH {line}" for line in header),
        *site.prologue,
        # In the shell's place, so that Slurm's warning before the walltime reaches the program.
        f"exec {' '.join(run)}",
    ]
    return "\n".join(lines) + "\n"


def _header(site: Profile, gpu: bool, n_workers: int, name: str) -> list[str]:
    from dask.utils import parse_bytes

    megabytes = -(-parse_bytes(site.memory) // (site.cores * 2**20))
    partition = site.partition_for(gpu)
    lines = [
        f"--job-name={name}",
        f"--output={name}-%j.log",
        f"--ntasks={n_workers}",
        f"--cpus-per-task={site.cores}",
        f"--time={site.walltime}",
        f"--signal=B:TERM@{SECONDS_TO_STOP}",
    ]
    lines += [gpus_per_task(site)] if gpu else []
    lines += [f"--partition={partition}"] if partition else []
    lines += [f"--account={site.account}"] if site.account else []
    if not any(skip in "--mem=" for skip in site.skip_directives):
        lines.append(f"--mem-per-cpu={megabytes}M")
    return [*lines, *site.directives]
